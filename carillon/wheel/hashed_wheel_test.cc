// SPDX-License-Identifier: Apache-2.0
// What is special about a HashedWheel: one ring, rounds, its slots' order. What every wheel does is
// in wheel_*_test.cc. Letters such as A6 refer to docs/internals/testing.md.
#include "carillon/wheel/hashed_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

// The drawing at the head of hashed_wheel.h, and of whoever explains a hashed wheel: 8 slots of 1
// s, the hand at 2.
TEST(HashedWheel, EightSlotsOfASecondHoldFiveThreeAndElevenSeconds) {
  HashedWheel wheel(2, 8);
  NumberedTimer a(0);
  NumberedTimer b(1);
  NumberedTimer c(2);
  wheel.schedule(a, wheel.now() + 5);
  wheel.schedule(b, wheel.now() + 3);
  wheel.schedule(c, wheel.now() + 11);
  EXPECT_EQ(wheel.slot_of(a.deadline()), 7U);
  EXPECT_EQ(wheel.slot_of(b.deadline()), 5U);
  EXPECT_EQ(wheel.slot_of(c.deadline()), 5U);
  EXPECT_EQ(wheel.rounds(a.deadline()), 0U);
  EXPECT_EQ(wheel.rounds(b.deadline()), 0U);
  EXPECT_EQ(wheel.rounds(c.deadline()), 1U);
  const WheelSnapshot snapshot = wheel.snapshot();
  ASSERT_EQ(snapshot.levels.size(), 1U);
  EXPECT_EQ(snapshot.levels[0].hand, 2);
  EXPECT_EQ(snapshot.levels[0].counts, (std::vector<std::size_t>{0, 0, 0, 0, 0, 2, 0, 1}));
  Expiries expired;
  for (Tick second = 3; second <= 20; ++second) {
    wheel.advance(second, [&](WheelHook& hook) { expired.emplace_back(second, number_of(hook)); });
    EXPECT_EQ(wheel.rounds(c.deadline()), second < 5 ? 1U : 0U) << "at " << second;
  }
  EXPECT_EQ(expired, (Expiries{{5, 1}, {7, 0}, {13, 2}}));
}

TEST(HashedWheel, SlotsAreRoundedUpToAPowerOfTwo) {
  EXPECT_EQ(HashedWheel(0, 1).slots(), 1U);
  EXPECT_EQ(HashedWheel(0, 3).slots(), 4U);
  EXPECT_EQ(HashedWheel(0, 64).slots(), 64U);
  EXPECT_EQ(HashedWheel(0, 1'000).slots(), 1'024U);
  EXPECT_EQ(HashedWheel().slots(), HashedWheel::kDefaultSlots);
}

TEST(HashedWheelDeathTest, NoSlotsIsABug) {
  EXPECT_DEATH(HashedWheel(0, 0), "a HashedWheel of 0 slots");
}

// A1, with Netty's numbers: 512 slots of 100 ms, a turn is 51.2 s; 10 s, re-armed, for 123 s.
TEST(HashedWheel, TimerThatRearmsItselfKeepsItsPeriodAfterTheFirstTurn) {
  HashedWheel wheel(0, 512);
  WheelHook hook;
  wheel.schedule(hook, 100);
  std::vector<Tick> expired;
  for (Tick tick = 1; tick <= 1'230; ++tick) {
    wheel.advance(tick, [&](WheelHook& h) {
      expired.push_back(tick);
      wheel.schedule(h, tick + 100);
    });
  }
  EXPECT_EQ(expired,
            (std::vector<Tick>{100, 200, 300, 400, 500, 600, 700, 800, 900, 1'000, 1'100, 1'200}));
}

// A3, Netty's: a negative or zero delay expires at the next tick, not when the hand comes round.
TEST(HashedWheel, NegativeDelayDoesNotWaitForAWholeTurn) {
  HashedWheel wheel(1'000, 512);
  WheelHook negative;
  WheelHook zero;
  wheel.schedule(negative, 1'000 - 46);
  wheel.schedule(zero, 1'000);
  EXPECT_EQ(wheel.next_deadline(), 1'001U);
  EXPECT_EQ(wheel.advance(1'001, [](WheelHook&) {}).expired, 2U);
}

// A6: exactly one, two, three turns, neither a turn early nor late; from every phase.
TEST(HashedWheel, DelaysOfWholeTurnsAreNeitherATurnEarlyNorLate) {
  for (Tick phase = 0; phase < 16; ++phase) {
    HashedWheel wheel(phase, 16);
    std::deque<NumberedTimer> timers;
    for (int turns = 1; turns <= 3; ++turns) {
      for (int offset = -1; offset <= 1; ++offset) {
        const int delay = 16 * turns + offset;
        wheel.schedule(timers.emplace_back(delay), phase + static_cast<Tick>(delay));
      }
    }
    for (Tick tick = phase + 1; tick <= phase + 50; ++tick) {
      wheel.advance(tick, [&](WheelHook& hook) {
        EXPECT_EQ(tick, phase + static_cast<Tick>(number_of(hook)));
      });
    }
    EXPECT_TRUE(wheel.empty()) << phase;
  }
}

// A jump over a million turns is one look at the ring, not a look a turn: else this would take
// 2^52 steps.
TEST(HashedWheel, JumpOverAnyNumberOfTurnsIsOneCall) {
  HashedWheel wheel(0, 4'096);
  NumberedTimer far(0);
  NumberedTimer farther(1);
  wheel.schedule(farther, kLastTick - 1);
  wheel.schedule(far, (Tick{1} << 60) + 5);
  EXPECT_EQ(wheel.next_deadline(), (Tick{1} << 60) + 5);
  EXPECT_EQ(wheel.advance(Tick{1} << 60, [](WheelHook&) {}).expired, 0U);
  EXPECT_EQ(wheel.advance(kLastTick, [](WheelHook&) {}), (AdvanceResult{2, false}));
}

// Deadlines of several turns in one slot, in all orders of scheduling; and over a jump in the order
// of turns, though the hand has only one ring to pass.
TEST(HashedWheel, TimersOfOneSlotExpireInTheirTurns) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    HashedWheel wheel(random.below(64), 8);
    std::deque<NumberedTimer> timers;
    const Tick begin = wheel.now();
    for (int i = 0; i < 60; ++i) {
      const Tick delay = 8 * random.below(6) + (random.below(3) == 0 ? random.below(8) : 3);
      wheel.schedule(timers.emplace_back(i), begin + 1 + delay);
    }
    Expiries expired;
    const auto record = [&](WheelHook& hook) {
      EXPECT_EQ(hook.deadline(), wheel.now());
      expired.emplace_back(wheel.now(), number_of(hook));
    };
    wheel.advance(begin + 12, record);
    wheel.advance(begin + 1'000, record);
    ASSERT_EQ(expired.size(), 60U);
    // First in, first out within a tick.
    EXPECT_TRUE(std::is_sorted(expired.begin(), expired.end()));
  }
}

// What Netty pays for rounds: a hand that looks at every timer of a slot in every turn. Looked at
// each turn, these would be 10^10 steps, and the test would not end before its time is out.
TEST(HashedWheel, TimersOfLaterTurnsAreNotVisitedEachTurn) {
  constexpr int kPending = 200'000;
  constexpr Tick kTimeout = 100 * 64;
  HashedWheel wheel(0, 64);
  std::deque<WheelHook> hooks(kPending);
  std::size_t expired = 0;
  for (int i = 0; i < 100; ++i) {
    wheel.advance(wheel.now() + 1, [&](WheelHook&) { ++expired; });
    for (int j = 0; j < kPending / 100; ++j) {
      wheel.schedule(hooks[static_cast<std::size_t>(i * (kPending / 100) + j)],
                     wheel.now() + kTimeout);
    }
  }
  for (int turn = 0; turn < 50'000; ++turn) {
    wheel.advance(wheel.now() + 64, [&](WheelHook& hook) {
      ++expired;
      wheel.schedule(hook, wheel.now() + 1'000 * kTimeout);
    });
  }
  EXPECT_EQ(expired, std::size_t{kPending});
  EXPECT_EQ(wheel.size(), std::size_t{kPending});
}

// Short timers come and go in slots that are full of far ones: they leave the far ones in order.
TEST(HashedWheel, ShortTimersAmongManyFarOnesCostNoSearch) {
  HashedWheel wheel(0, 2);
  std::deque<WheelHook> far(100'000);
  Tick deadline = Tick{1} << 40;
  for (WheelHook& hook : far) {
    wheel.schedule(hook, ++deadline);
  }
  WheelHook shorter;
  for (int i = 0; i < 100'000; ++i) {
    wheel.schedule(shorter, wheel.now() + 10);
    ASSERT_EQ(wheel.next_deadline(), wheel.now() + 10);
    wheel.cancel(shorter);
    ASSERT_EQ(wheel.next_deadline(), (Tick{1} << 40) + 1);
    wheel.advance(wheel.now() + 1, [](WheelHook&) {});
  }
}

}  // namespace
}  // namespace carillon
