// SPDX-License-Identifier: Apache-2.0
// When timers expire, and in which order. Letters such as A5 refer to docs/internals/testing.md.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <numeric>

#include "carillon/base/random.h"
#include "carillon/base/time.h"
#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class ExactWheelTest : public WheelFixture<Wheel> {};
TYPED_TEST_SUITE(ExactWheelTest, ExactWheels);

// A1: a task that re-arms itself keeps its period, also after the first full turn.
TYPED_TEST(ExactWheelTest, TimerThatRearmsItselfKeepsItsPeriodThroughFullTurns) {
  auto& wheel = this->wheel_;
  wheel.schedule(this->timer(0), 100);
  for (Tick tick = 1; tick <= 1230; ++tick) {
    wheel.advance(tick, [&](WheelHook& hook) {
      this->expired_.emplace_back(wheel.now(), 0);
      wheel.schedule(hook, wheel.now() + 100);
    });
  }
  ASSERT_EQ(this->expired_.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(this->expired_[i].first, 100 * (i + 1));
  }
}

// A2: the longest delays of every unit never expire early, and no sum wraps.
TYPED_TEST(ExactWheelTest, PracticallyNeverIsNotNow) {
  auto& wheel = this->wheel_;
  wheel.advance(1'000'000, this->record());
  constexpr Tick kLongest = std::numeric_limits<std::int64_t>::max();
  wheel.schedule(this->timer(0), kLastTick);
  wheel.schedule(this->timer(1), 1'000'000 + kLongest);
  wheel.schedule(this->timer(2), 1'000'000 + kLongest / 1'000'000);
  for (Tick tick = 1'000'001; tick < 1'005'000; ++tick) {
    wheel.advance(tick, this->record());
  }
  EXPECT_TRUE(this->expired_.empty());
  EXPECT_EQ(wheel.next_deadline(), 1'000'000 + kLongest / 1'000'000);
  EXPECT_EQ(this->drive(), 3);
  EXPECT_EQ(
      this->expired_,
      (Expiries{{1'000'000 + kLongest / 1'000'000, 2}, {1'000'000 + kLongest, 1}, {kLastTick, 0}}));
}

// A3: a delay of zero or less expires at the next tick, never after a turn, never at once.
TYPED_TEST(ExactWheelTest, ZeroAndNegativeDelaysExpireAtTheNextTick) {
  for (const Tick now : {Tick{1000}, Tick{1023}, Tick{1} << 40, kLastTick - 1}) {
    this->wheel_.advance(now, this->record());
    this->schedule(0, now);
    this->schedule(1, now - 46);
    this->schedule(2, 0);
    EXPECT_EQ(this->wheel_.next_deadline(), now + 1);
    EXPECT_EQ(this->timer(1).deadline(), now + 1);
    EXPECT_EQ(this->wheel_.advance(now, this->record()).expired, 0U);
    this->wheel_.advance(now + 1, this->record());
    EXPECT_EQ(this->expired_, (Expiries{{now + 1, 0}, {now + 1, 1}, {now + 1, 2}}));
    this->expired_.clear();
  }
}

// A5: one call catches up over a jump, in order.
TYPED_TEST(ExactWheelTest, OneAdvanceOverAJumpExpiresAllInOrder) {
  this->schedule(0, 500);
  this->schedule(1, 5);
  this->schedule(2, 50);
  EXPECT_EQ(this->wheel_.advance(1000, this->record()), (AdvanceResult{3, false}));
  EXPECT_EQ(this->expired_, (Expiries{{5, 1}, {50, 2}, {500, 0}}));
  EXPECT_EQ(this->wheel_.now(), 1000U);
}

// A6, A8: delays of whole turns and at the edges of levels, from many phases, tick by tick.
TYPED_TEST(ExactWheelTest, DelaysAtLevelBoundariesAreExactFromEveryPhase) {
  for (const Tick phase : {0, 1, 2, 62, 63, 64, 200, 254, 255, 256, 1000, 4095, 4096}) {
    typename TestFixture::Wheel wheel(phase);
    const std::vector<Tick> delays = {1,    2,    3,    4,    5,    63,   64,   65,   127,
                                      128,  192,  255,  256,  257,  511,  512,  513,  768,
                                      1023, 1024, 1025, 1029, 4095, 4096, 4097, 8192, 12288};
    std::deque<NumberedTimer> timers;
    for (const Tick delay : delays) {
      wheel.schedule(timers.emplace_back(static_cast<int>(delay)), phase + delay);
    }
    std::size_t expired = 0;
    for (Tick tick = phase + 1; tick <= phase + delays.back(); ++tick) {
      wheel.advance(tick, [&](WheelHook& hook) {
        EXPECT_EQ(tick - phase, static_cast<Tick>(number_of(hook)));
        ++expired;
      });
    }
    EXPECT_EQ(expired, delays.size()) << "from phase " << phase;
  }
}

// The same, when time leaps to the tick before, the tick itself, or the tick after.
TYPED_TEST(ExactWheelTest, LeapsToTheEdgeOfEveryPowerOfTwoAreNeitherEarlyNorLate) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const Tick phase : {Tick{0}, Tick{1}, Tick{63}, Tick{4095}}) {
      for (int offset = -1; offset <= 1; ++offset) {
        const Tick deadline = (Tick{1} << bit) + static_cast<Tick>(offset);
        if (deadline <= phase + 1) {
          continue;
        }
        typename TestFixture::Wheel wheel(phase);
        NumberedTimer timer(0);
        wheel.schedule(timer, deadline);
        const auto ignore = [](WheelHook&) {};
        EXPECT_EQ(wheel.next_deadline(), deadline);
        EXPECT_EQ(wheel.advance(deadline - 1, ignore).expired, 0U) << deadline;
        EXPECT_EQ(wheel.next_deadline(), deadline);
        EXPECT_EQ(wheel.advance(deadline, ignore).expired, 1U) << deadline;
        wheel.schedule(timer, deadline + 2);
        EXPECT_EQ(wheel.advance(deadline + 3, ignore).expired, 1U) << deadline;
      }
    }
  }
}

// A ring that wraps must not mis-file short timers: long after the start, at every scale.
TYPED_TEST(ExactWheelTest, ShortTimersAreExactHoweverLongTheWheelHasTurned) {
  for (int bit = 5; bit < 64; ++bit) {
    const Tick wrap = Tick{1} << bit;
    for (Tick now = wrap - 3; now < wrap + 3; ++now) {
      typename TestFixture::Wheel wheel(now);
      NumberedTimer near(1);
      NumberedTimer far(2);
      wheel.schedule(near, now + 3);
      wheel.schedule(far, now + 70);
      for (Tick tick = now + 1; tick <= now + 70; ++tick) {
        wheel.advance(tick, [&](WheelHook& hook) {
          EXPECT_EQ(tick, now + (number_of(hook) == 1 ? 3 : 70)) << "turned for " << now;
        });
      }
      EXPECT_EQ(wheel.size(), 0U);
    }
  }
}

// A10: ten thousand timers of 1 to 1000 ms at a random phase below the tick: rounded up, none
// expires before its deadline on the clock it was armed with, and none more than a tick late.
TYPED_TEST(ExactWheelTest, NeverEarlyWhenDeadlinesFallBetweenTicks) {
  constexpr Tick kTimers = 10'000;
  Random random(1);
  const Instant armed_at(std::chrono::nanoseconds(123'456'789'012'345));
  this->wheel_.advance(static_cast<Tick>(floor_ms(armed_at)), this->record());
  std::vector<Instant> due_at;
  for (Tick i = 0; i < kTimers; ++i) {
    due_at.push_back(armed_at + Span(random.between(1'000'000, 1'000'000'000)));
    this->schedule(static_cast<int>(i), static_cast<Tick>(ceil_ms(due_at[i])));
  }
  std::size_t expired = 0;
  for (Instant now = armed_at; now < armed_at + std::chrono::seconds(2);
       now += Span(random.between(1, 700'000))) {
    this->wheel_.advance(static_cast<Tick>(floor_ms(now)), [&](WheelHook& hook) {
      ++expired;
      const Span lateness = now - due_at[static_cast<std::size_t>(number_of(hook))];
      EXPECT_GE(lateness.count(), 0);
      EXPECT_LT(lateness.count(), 1'000'000 + 700'000);
    });
  }
  EXPECT_EQ(expired, kTimers);
}

// A13: a long timer is pending, the clock leaps past it, and a short one is armed before the wheel
// is told: the wheel does not sleep on for the long one.
TYPED_TEST(ExactWheelTest, TimerArmedAfterALeapButBeforeTheAdvanceIsNotDelayed) {
  this->schedule(0, 60'000);
  const Tick resumed = 100'000;
  this->schedule(1, resumed + 10);
  EXPECT_EQ(this->wheel_.next_deadline(), 60'000U);
  this->wheel_.advance(resumed, this->record());
  EXPECT_EQ(this->wheel_.next_deadline(), resumed + 10);
  this->wheel_.advance(resumed + 10, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{60'000, 0}, {resumed + 10, 1}}));
}

// A15: a thousand timers of one deadline expire in the order they were scheduled, though they were
// scheduled at different times and so came by different levels.
TYPED_TEST(ExactWheelTest, EqualDeadlinesExpireInTheOrderScheduled) {
  constexpr Tick kDeadline = 5000;
  for (int i = 0; i < 1000; ++i) {
    this->wheel_.advance(static_cast<Tick>(i) * 5, this->record());
    this->schedule(i, kDeadline);
    if (i % 7 == 0) {
      EXPECT_EQ(this->wheel_.next_deadline(), kDeadline);
    }
  }
  this->wheel_.advance(kDeadline, this->record());
  ASSERT_EQ(this->expired_.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(this->expired_[static_cast<std::size_t>(i)], std::pair(kDeadline, i));
  }
}

TYPED_TEST(ExactWheelTest, ReschedulingForTheSameTickGoesToTheEndOfTheQueue) {
  for (int i = 0; i < 4; ++i) {
    this->schedule(i, 300);
  }
  this->reschedule(1, 300);
  this->reschedule(0, 700);
  this->reschedule(0, 300);
  this->wheel_.advance(300, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{300, 2}, {300, 3}, {300, 1}, {300, 0}}));
}

// A jump over a timer that re-arms itself for the next tick fires it at each tick of the jump.
TYPED_TEST(ExactWheelTest, JumpOfAThousandTicksFiresATimerThatRearmsItselfAThousandTimes) {
  this->schedule(0, 1);
  Tick expected = 1;
  const AdvanceResult result = this->wheel_.advance(1000, [&](WheelHook& hook) {
    EXPECT_EQ(this->wheel_.now(), expected++);
    this->wheel_.schedule(hook, 0);
  });
  EXPECT_EQ(result, (AdvanceResult{1000, false}));
  EXPECT_EQ(this->timer(0).deadline(), 1001U);
}

// Self re-arming at delay 0 must not spin within one tick.
TYPED_TEST(ExactWheelTest, TimerThatRearmsItselfForNowFiresOnceATick) {
  this->schedule(0, 1);
  const auto rearm = [&](WheelHook& hook) { this->wheel_.schedule(hook, this->wheel_.now()); };
  EXPECT_EQ(this->wheel_.advance(1, rearm).expired, 1U);
  EXPECT_EQ(this->wheel_.advance(1, rearm).expired, 0U);
  EXPECT_EQ(this->wheel_.advance(2, rearm).expired, 1U);
}

TYPED_TEST(ExactWheelTest, TimeGoingBackwardsHasNoEffect) {
  this->wheel_.advance(1000, this->record());
  this->schedule(0, 1010);
  EXPECT_EQ(this->wheel_.advance(0, this->record()), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.advance(999, this->record()), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.now(), 1000U);
  EXPECT_EQ(this->wheel_.next_deadline(), 1010U);
  this->wheel_.advance(1010, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{1010, 0}}));
}

// Re-armed before it is due, again and again through every slot, a timer never fires.
TYPED_TEST(ExactWheelTest, TimerPushedBackThroughEverySlotNeverFires) {
  for (Tick tick = 0; tick < 10'000; ++tick) {
    this->wheel_.advance(tick, this->record());
    this->reschedule(0, tick + 1 + tick % 97);
    this->reschedule(0, tick + 2 + tick % 89);
  }
  EXPECT_TRUE(this->expired_.empty());
  EXPECT_EQ(this->wheel_.size(), 1U);
}

// Periods that are prime or share factors, turned in uneven steps: each fires as often as it
// must, at every multiple of its period.
TYPED_TEST(ExactWheelTest, PeriodicTimersFireAtEveryMultipleOfTheirPeriod) {
  const std::vector<Tick> periods = {1, 2, 3, 7, 12, 13, 18, 64, 97, 100, 256, 509, 1000};
  for (std::size_t i = 0; i < periods.size(); ++i) {
    this->schedule(static_cast<int>(i), periods[i]);
  }
  std::vector<Tick> fired(periods.size());
  Random random(2);
  for (Tick now = 0; now < 20'000; now += 1 + random.below(40)) {
    this->wheel_.advance(now, [&](WheelHook& hook) {
      const auto i = static_cast<std::size_t>(number_of(hook));
      EXPECT_EQ(this->wheel_.now(), ++fired[i] * periods[i]);
      this->wheel_.schedule(hook, this->wheel_.now() + periods[i]);
    });
  }
  for (std::size_t i = 0; i < periods.size(); ++i) {
    EXPECT_EQ(fired[i], this->wheel_.now() / periods[i]);
  }
}

// At the end of time nothing wraps: what is scheduled there expires there, once an advance.
TYPED_TEST(ExactWheelTest, EndOfTimeIsATickLikeAnyOther) {
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

TYPED_TEST(ExactWheelTest, BeginsAtAnyTick) {
  for (const Tick start : {Tick{1}, Tick{1} << 63, kLastTick - 1}) {
    typename TestFixture::Wheel wheel(start);
    EXPECT_EQ(wheel.now(), start);
    wheel.schedule(this->timer(0), start + 1);
    EXPECT_EQ(wheel.advance(start + 1, [](WheelHook&) {}).expired, 1U);
  }
}

}  // namespace
}  // namespace carillon
