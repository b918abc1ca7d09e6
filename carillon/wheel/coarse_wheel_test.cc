// SPDX-License-Identifier: Apache-2.0
// What is special about a CoarseWheel: its lateness, and that nothing cascades. What every wheel
// does is in wheel_*_test.cc. Letters such as A10 refer to docs/internals/testing.md.
#include "carillon/wheel/coarse_wheel.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <limits>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/base/time.h"
#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class CoarseWheelTest : public WheelFixture<Wheel> {};
using CoarseWheels =
    ::testing::Types<CoarseWheel, KernelWheel, TinyCoarseWheel, BasicCoarseWheel<3, 2>>;
TYPED_TEST_SUITE(CoarseWheelTest, CoarseWheels);

// The tables at the head of coarse_wheel.h.
TEST(CoarseWheel, LevelsAreAsTheTableSays) {
  EXPECT_EQ(CoarseWheel::kLevels, 30);
  EXPECT_EQ(CoarseWheel::granularity(5), 1'024U);
  EXPECT_EQ(CoarseWheel::granularity(29), Tick{1} << 58);
  EXPECT_EQ(KernelWheel::kLevels, 21);
  EXPECT_EQ(KernelWheel::granularity(5), 32'768U);
  EXPECT_EQ(KernelWheel::granularity(20), Tick{1} << 60);
}

// A delay of up to 64 slots of a level is rounded up to one slot, from wherever slots begin.
TEST(CoarseWheel, DelaysUpToTheEndOfALevelAreRoundedToItsSlots) {
  CoarseWheel wheel;
  WheelHook hook;
  const auto told = [&](Tick delay) {
    wheel.reschedule(hook, delay);
    return hook.deadline();
  };
  EXPECT_EQ(told(1), 1U);
  EXPECT_EQ(told(63), 63U);
  EXPECT_EQ(told(64), 64U);
  EXPECT_EQ(told(65), 68U);
  EXPECT_EQ(told(256), 256U);
  EXPECT_EQ(told(257), 272U);
  EXPECT_EQ(told(1'024), 1'024U);
  EXPECT_EQ(told(1'025), 1'088U);
  EXPECT_EQ(told(30'000), 30'720U);
}

TEST(CoarseWheel, DrawingOfTheHeader) {
  CoarseWheel wheel(1'000);
  WheelHook exact;
  WheelHook rounded;
  wheel.schedule(exact, 1'100);
  wheel.schedule(rounded, 1'101);
  EXPECT_EQ(exact.deadline(), 1'100U);
  EXPECT_EQ(rounded.deadline(), 1'104U);
  const WheelSnapshot snapshot = wheel.snapshot();
  EXPECT_EQ(snapshot.levels[1].hand, 250 % 64);
  EXPECT_EQ(snapshot.levels[1].counts[275 % 64], 1U);
  EXPECT_EQ(snapshot.levels[1].counts[276 % 64], 1U);
}

TEST(CoarseWheel, BoundIsTheStatedFraction) {
  // Less than 4/63 and 8/63 of the delay.
  EXPECT_EQ(CoarseWheel::lateness_bound(64), 0U);
  EXPECT_EQ(CoarseWheel::lateness_bound(65), 4U);
  EXPECT_EQ(CoarseWheel::lateness_bound(63'000), 3'999U);
  EXPECT_EQ(KernelWheel::lateness_bound(63'000), 7'999U);
  EXPECT_EQ(KernelWheel::lateness_bound(63'001), 8'000U);
  for (const Tick delay : {Tick{1} << 20, Tick{1} << 50, kLastTick}) {
    EXPECT_LT(CoarseWheel::lateness_bound(delay), delay / 15);
    EXPECT_LT(KernelWheel::lateness_bound(delay), delay / 7);
    EXPECT_LT(TinyCoarseWheel::lateness_bound(delay), delay);
  }
}

// Never early, and late by less than the fraction: any delay, from any tick, by each way to
// schedule. (The fixture compares with the bound.)
TYPED_TEST(CoarseWheelTest, NeverEarlyAndLateByLessThanTheFraction) {
  Random random(5);
  for (int round = 0; round < 200'000; ++round) {
    typename TestFixture::Wheel wheel(random() >> random.below(64));
    WheelHook hook;
    for (int step = 0; step < 3; ++step) {
      const Tick now = wheel.now();
      const Tick delay = std::min(random() >> random.below(64), kLastTick - now);
      const Tick deadline = now + delay;
      const int way = static_cast<int>(random.below(3));
      if (step == 0) {
        wheel.schedule(hook, deadline);
      } else if (way == 0) {
        wheel.reschedule(hook, deadline);
      } else {
        wheel.postpone(hook, deadline);
      }
      const Tick wanted = std::max(deadline, now == kLastTick ? now : now + 1);
      ASSERT_GE(hook.deadline(), wanted) << "early from " << now;
      ASSERT_LE(hook.deadline(), latest<TypeParam>(now, wanted)) << wanted << " from " << now;
      ASSERT_EQ(wheel.next_deadline(), hook.deadline());
      wheel.advance(now + random.below(hook.deadline() - now + 1), [](WheelHook&) {});
    }
    if (hook.scheduled()) {
      const Tick told = hook.deadline();
      if (told > wheel.now()) {
        EXPECT_EQ(wheel.advance(told - 1, [](WheelHook&) {}).expired, 0U);
      }
      EXPECT_EQ(wheel.advance(told, [](WheelHook&) {}).expired, 1U);
    }
  }
}

// As when a packet comes every 100 ms. What is not moved keeps its place before the other.
TEST(CoarseWheel, PostponedToWhatIsRoundedToTheSameTickStaysInItsPlace) {
  CoarseWheel wheel;
  WheelHook first;
  WheelHook second;
  wheel.schedule(first, 30'000);
  wheel.schedule(second, 30'000);
  ASSERT_EQ(first.deadline(), 30'720U);
  for (Tick now = 100; now <= 700; now += 100) {
    wheel.advance(now, [](WheelHook&) {});
    EXPECT_FALSE(wheel.postpone(first, now + 30'000));
    EXPECT_EQ(first.deadline(), 30'720U);
    EXPECT_EQ(wheel.next_deadline(), Tick{30'720});
  }
  std::vector<const WheelHook*> order;
  wheel.advance(30'720, [&](WheelHook& hook) { order.push_back(&hook); });
  EXPECT_EQ(order, (std::vector<const WheelHook*>{&first, &second}));
}

TEST(CoarseWheel, PostponedToWhatIsRoundedToAnEarlierTickComesThen) {
  CoarseWheel wheel;
  WheelHook hook;
  wheel.schedule(hook, 30'000);
  EXPECT_TRUE(wheel.postpone(hook, 29'696));
  EXPECT_EQ(hook.deadline(), 29'696U);
  EXPECT_EQ(wheel.advance(29'696, [](WheelHook&) {}).expired, 1U);
}

// The bound is no better than it must be: some delays come near it.
TYPED_TEST(CoarseWheelTest, SomeDelaysAreAlmostAsLateAsTheBound) {
  double worst = 0;
  for (Tick now = 0; now < 2'000; ++now) {
    typename TestFixture::Wheel wheel(now);
    WheelHook hook;
    for (Tick delay = 1; delay < 300; ++delay) {
      wheel.reschedule(hook, now + delay);
      const auto lateness = static_cast<double>(hook.deadline() - now - delay);
      worst = std::max(worst, lateness / static_cast<double>(delay));
    }
  }
  const double bound = static_cast<double>(TypeParam::lateness_bound(1'000'000'000)) / 1e9;
  EXPECT_LT(worst, bound);
  EXPECT_GT(worst, 0.7 * bound);
}

// That is what it is for: a timer is in one slot from schedule to expiry.
TYPED_TEST(CoarseWheelTest, NothingCascades) {
  auto& wheel = this->wheel_;
  this->schedule(0, 50'000);
  const auto where = [&] {
    const WheelSnapshot snapshot = wheel.snapshot();
    std::vector<std::pair<Tick, std::size_t>> slots;
    for (const auto& level : snapshot.levels) {
      for (std::size_t slot = 0; slot < level.counts.size(); ++slot) {
        if (level.counts[slot] > 0) {
          slots.emplace_back(level.granularity, slot);
        }
      }
    }
    return slots;
  };
  const auto at_first = where();
  ASSERT_EQ(at_first.size(), 1U);
  EXPECT_GT(at_first[0].first, 1U);
  while (wheel.now() < this->told(0) - 1) {
    wheel.advance(std::min(wheel.now() + 100, this->told(0) - 1), this->record());
    ASSERT_EQ(where(), at_first) << "at " << wheel.now();
  }
  wheel.advance(this->told(0), this->record());
  EXPECT_TRUE(this->expired_are({{50'000, 0}}));
}

// A1: the period is kept to within the rounding, also through full turns.
TYPED_TEST(CoarseWheelTest, TimerThatRearmsItselfIsNeverEarly) {
  auto& wheel = this->wheel_;
  this->schedule(0, 100);
  Tick armed_at = 0;
  int count = 0;
  for (Tick tick = 1; tick <= 12'300; ++tick) {
    wheel.advance(tick, [&](WheelHook&) {
      EXPECT_GE(tick, armed_at + 100);
      EXPECT_LE(tick, latest<TypeParam>(armed_at, armed_at + 100));
      armed_at = tick;
      ++count;
      this->schedule(0, tick + 100);
    });
  }
  EXPECT_GE(count, static_cast<int>(12'300 / (100 + TypeParam::lateness_bound(100))));
  EXPECT_LE(count, 123);
}

// A2: the longest delays never come early, and no sum wraps; a slot that would begin after the end
// of time is given out at the end.
TYPED_TEST(CoarseWheelTest, PracticallyNeverIsNotNow) {
  auto& wheel = this->wheel_;
  wheel.advance(1'000'000, this->record());
  constexpr Tick kLongest = std::numeric_limits<std::int64_t>::max();
  this->schedule(0, kLastTick);
  this->schedule(1, 1'000'000 + kLongest);
  this->schedule(2, 1'000'000 + kLongest / 1'000'000);
  this->schedule(3, kLastTick - 1);
  for (Tick tick = 1'000'001; tick < 1'005'000; ++tick) {
    wheel.advance(tick, this->record());
  }
  EXPECT_TRUE(this->expired_.empty());
  EXPECT_EQ(this->told(0), kLastTick);
  EXPECT_EQ(this->told(3), kLastTick);
  EXPECT_EQ(wheel.next_deadline(), this->told(2));
  EXPECT_EQ(this->drive(), 3);
  EXPECT_EQ(this->expired_.size(), 4U);
  EXPECT_TRUE(wheel.empty());
}

// A3: a delay of zero or less expires at the next tick.
TYPED_TEST(CoarseWheelTest, ZeroAndNegativeDelaysExpireAtTheNextTick) {
  for (const Tick now : {Tick{1000}, Tick{1023}, Tick{1} << 40, kLastTick - 1}) {
    this->wheel_.advance(now, this->record());
    this->schedule(0, now);
    this->schedule(1, now - 46);
    this->schedule(2, 0);
    EXPECT_EQ(this->wheel_.next_deadline(), now + 1);
    EXPECT_EQ(this->wheel_.advance(now, this->record()).expired, 0U);
    this->wheel_.advance(now + 1, this->record());
    EXPECT_EQ(this->expired_, (Expiries{{now + 1, 0}, {now + 1, 1}, {now + 1, 2}}));
    this->expired_.clear();
  }
}

// A5: one call catches up over a jump, in order.
TYPED_TEST(CoarseWheelTest, OneAdvanceOverAJumpExpiresAllInOrder) {
  this->schedule(0, 500);
  this->schedule(1, 5);
  this->schedule(2, 50);
  EXPECT_EQ(this->wheel_.advance(1'000, this->record()), (AdvanceResult{3, false}));
  EXPECT_TRUE(this->expired_are({{5, 1}, {50, 2}, {500, 0}}));
  EXPECT_EQ(this->wheel_.now(), 1'000U);
}

// A6, A8: at the edges of levels and of whole turns, from many phases, tick by tick: at the tick
// that was told, not a slot or a turn later.
TYPED_TEST(CoarseWheelTest, DelaysAtLevelBoundariesComeWhenToldFromEveryPhase) {
  for (const Tick phase : {0, 1, 2, 62, 63, 64, 200, 254, 255, 256, 1000, 4095, 4096}) {
    typename TestFixture::Wheel wheel(phase);
    std::deque<WheelHook> timers;
    for (const Tick delay : {1,   2,   3,   4,   5,   63,  64,   65,   127,  128,  252,  253,
                             255, 256, 257, 508, 512, 513, 1008, 1023, 1024, 1025, 4095, 4096}) {
      wheel.schedule(timers.emplace_back(), phase + delay);
      EXPECT_LE(timers.back().deadline(), latest<TypeParam>(phase, phase + delay));
    }
    std::size_t expired = 0;
    for (Tick tick = phase + 1; tick <= phase + 8'192; ++tick) {
      wheel.advance(tick, [&](WheelHook& hook) {
        EXPECT_EQ(tick, hook.deadline());
        ++expired;
      });
    }
    EXPECT_EQ(expired, timers.size()) << "from phase " << phase;
  }
}

// A10: ten thousand timers of 1 to 1000 ms at a random phase below the tick: none expires before
// its deadline on the clock it was armed with, none later than the bound and a tick.
TYPED_TEST(CoarseWheelTest, NeverEarlyWhenDeadlinesFallBetweenTicks) {
  constexpr int kTimers = 10'000;
  Random random(1);
  const Instant armed_at(std::chrono::nanoseconds(123'456'789'012'345));
  const auto begin = static_cast<Tick>(floor_ms(armed_at));
  this->wheel_.advance(begin, this->record());
  std::vector<Instant> due_at;
  for (int i = 0; i < kTimers; ++i) {
    due_at.push_back(armed_at + Span(random.between(1'000'000, 1'000'000'000)));
    this->schedule(i, static_cast<Tick>(ceil_ms(due_at.back())));
  }
  int expired = 0;
  for (Instant now = armed_at; now < armed_at + std::chrono::seconds(2);
       now += Span(random.between(1, 700'000))) {
    this->wheel_.advance(static_cast<Tick>(floor_ms(now)), [&](WheelHook& hook) {
      ++expired;
      const Instant due = due_at[static_cast<std::size_t>(number_of(hook))];
      const Tick delay = static_cast<Tick>(ceil_ms(due)) - begin;
      EXPECT_GE((now - due).count(), 0);
      EXPECT_LT((now - due).count(), static_cast<std::int64_t>(
                                         1'700'000 + 1'000'000 * TypeParam::lateness_bound(delay)));
    });
  }
  EXPECT_EQ(expired, kTimers);
}

// A13: a long timer is pending, the clock leaps past it, and a short one is armed before the wheel
// is told: the wheel does not sleep on for the long one.
TYPED_TEST(CoarseWheelTest, TimerArmedAfterALeapButBeforeTheAdvanceIsNotDelayed) {
  this->schedule(0, 60'000);
  const Tick resumed = 120'000;
  this->schedule(1, resumed + 10);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  this->wheel_.advance(resumed, this->record());
  EXPECT_EQ(this->expired_.size(), 1U);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(1));
  this->wheel_.advance(this->told(1), this->record());
  EXPECT_EQ(this->expired_.size(), 2U);
}

// A15: equal deadlines that were scheduled at one tick expire in the order scheduled.
TYPED_TEST(CoarseWheelTest, EqualDeadlinesOfOneTickExpireInTheOrderScheduled) {
  this->wheel_.advance(12'345, this->record());
  for (int i = 0; i < 1'000; ++i) {
    this->schedule(i, 17'000);
  }
  this->wheel_.advance(this->told(0), this->record());
  ASSERT_EQ(this->expired_.size(), 1'000U);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(this->expired_[static_cast<std::size_t>(i)].second, i);
  }
}

// At the end of time nothing wraps: what is scheduled there expires there, once an advance.
TYPED_TEST(CoarseWheelTest, EndOfTimeIsATickLikeAnyOther) {
  this->wheel_.advance(kLastTick - 3, this->record());
  this->schedule(0, kLastTick - 1);
  this->schedule(1, kLastTick);
  const auto rearm = [&](WheelHook& hook) {
    this->record()(hook);
    this->wheel_.schedule(hook, 7);
  };
  EXPECT_EQ(this->wheel_.advance(kLastTick, rearm).expired, 3U);
  EXPECT_EQ(this->expired_, (Expiries{{kLastTick - 1, 0}, {kLastTick, 1}, {kLastTick, 0}}));
  EXPECT_EQ(this->wheel_.next_deadline(), kLastTick);
  EXPECT_EQ(this->wheel_.advance(kLastTick, this->record()).expired, 2U);
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace carillon
