// SPDX-License-Identifier: Apache-2.0
// Cancelling, rescheduling, destroying: from outside, and by a sink in the middle of its tick.
// Letters such as B7 refer to docs/internals/testing.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class WheelCancelTest : public WheelFixture<Wheel> {};
TYPED_TEST_SUITE(WheelCancelTest, AllWheels);

TYPED_TEST(WheelCancelTest, CancelTellsTheTruth) {
  EXPECT_FALSE(this->cancel(0)) << "never scheduled";
  this->schedule(0, 10);
  EXPECT_TRUE(this->timer(0).scheduled());
  EXPECT_TRUE(this->cancel(0));
  EXPECT_FALSE(this->timer(0).scheduled());
  EXPECT_FALSE(this->cancel(0)) << "cancelled before";
  this->schedule(0, 20);
  this->wheel_.advance(this->told(0), this->record());
  EXPECT_FALSE(this->cancel(0)) << "expired";
  EXPECT_TRUE(this->expired_are({{20, 0}}));
}

// B5: eleven timers in a slot; while the first one's callback runs, the others are cancelled: the
// count is exact at once.
TYPED_TEST(WheelCancelTest, SizeIsExactInTheMiddleOfATick) {
  for (int i = 0; i < 11; ++i) {
    this->schedule(i, 200);
  }
  this->wheel_.advance(1200, [&](WheelHook& hook) {
    this->record()(hook);
    EXPECT_EQ(this->wheel_.size(), 10U);
    for (int i = 1; i < 11; ++i) {
      EXPECT_TRUE(this->cancel(i));
    }
    EXPECT_EQ(this->wheel_.size(), 0U);
  });
  EXPECT_TRUE(this->expired_are({{200, 0}}));
}

// B7: five in a slot; the first cancels the other four and itself.
TYPED_TEST(WheelCancelTest, CancelInsideOwnSlotStopsNeighboursAndSelf) {
  for (int i = 0; i < 5; ++i) {
    this->schedule(i, 300);
  }
  this->wheel_.advance(this->told(0), [&](WheelHook& hook) {
    this->record()(hook);
    EXPECT_FALSE(this->wheel_.cancel(hook)) << "it has expired";
    for (int i = 1; i < 5; ++i) {
      this->cancel(i);
    }
  });
  EXPECT_EQ(this->wheel_.advance(10'000, this->record()).expired, 0U);
  EXPECT_TRUE(this->expired_are({{300, 0}}));
}

TYPED_TEST(WheelCancelTest, CancelInsideOwnSlotDoesNotSkipNeighbours) {
  for (int i = 0; i < 5; ++i) {
    this->schedule(i, 300);
  }
  this->wheel_.advance(this->told(0), [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->cancel(1);
    }
    if (number_of(hook) == 2) {
      this->cancel(4);
    }
  });
  EXPECT_TRUE(this->expired_are({{300, 0}, {300, 2}, {300, 3}}));
}

// A timer of a later tick of the same jump is still to come, so it can still be cancelled.
TYPED_TEST(WheelCancelTest, SinkCancelsWhatIsOverdueButHasNotExpired) {
  this->schedule(0, 10);
  this->schedule(1, this->told(0) + 1);
  this->schedule(2, 5'000);
  this->wheel_.advance(10'000, [&](WheelHook& hook) {
    this->record()(hook);
    EXPECT_TRUE(this->cancel(1));
    EXPECT_TRUE(this->cancel(2));
  });
  EXPECT_TRUE(this->expired_are({{10, 0}}));
}

// B9: re-armed for ten seconds in its own callback: ten seconds later, not at once.
TYPED_TEST(WheelCancelTest, RearmingInTheCallbackCountsFromTheExpiry) {
  this->schedule(0, 10'000);
  const Tick first = this->told(0);
  this->wheel_.advance(first, [&](WheelHook& hook) {
    this->record()(hook);
    this->schedule(0, this->wheel_.now() + 10'000);
  });
  EXPECT_GE(this->told(0), first + 10'000);
  EXPECT_EQ(this->wheel_.advance(this->told(0) - 1, this->record()).expired, 0U);
  EXPECT_EQ(this->wheel_.advance(this->told(0), this->record()).expired, 1U);
}

TYPED_TEST(WheelCancelTest, SinkReschedulesItsSlotMatesEarlierAndLater) {
  for (int i = 0; i < 4; ++i) {
    this->schedule(i, 100);
  }
  const Tick due = this->told(0);
  this->wheel_.advance(due, [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->reschedule(1, 0);
      this->reschedule(2, 5'000);
    }
  });
  EXPECT_TRUE(this->expired_are({{100, 0}, {100, 3}}));
  this->expired_.clear();
  this->wheel_.advance(this->told(2), this->record());
  EXPECT_TRUE(this->expired_are({{due + 1, 1}, {5'000, 2}}));
}

// B12: cancelled means that its memory may be freed. Run under the address sanitizer.
TYPED_TEST(WheelCancelTest, CancelledTimerMayBeFreedAtOnce) {
  std::vector<std::unique_ptr<NumberedTimer>> timers;
  for (int i = 0; i < 100; ++i) {
    timers.push_back(std::make_unique<NumberedTimer>(i));
    this->schedule(*timers.back(), static_cast<Tick>(1 + i % 10 * 60));
  }
  for (std::size_t i = 0; i < 100; i += 2) {
    this->wheel_.cancel(*timers[i]);
    timers[i].reset();
  }
  EXPECT_EQ(this->wheel_.advance(1'000, this->record()).expired, 50U);
}

TYPED_TEST(WheelCancelTest, DestroyedHookCancelsItself) {
  for (const Tick deadline : {Tick{1}, Tick{100}, Tick{1} << 50}) {
    {
      NumberedTimer gone(0);
      this->schedule(1, deadline);
      this->schedule(gone, deadline);
      this->schedule(2, deadline);
      EXPECT_EQ(this->wheel_.size(), 3U);
    }
    EXPECT_EQ(this->wheel_.size(), 2U);
    EXPECT_EQ(this->wheel_.next_deadline(), this->told(1));
    this->wheel_.clear();
  }
}

TYPED_TEST(WheelCancelTest, SinkDestroysItselfAndItsNeighbours) {
  std::vector<std::unique_ptr<NumberedTimer>> timers;
  for (int i = 0; i < 6; ++i) {
    timers.push_back(std::make_unique<NumberedTimer>(i));
    this->schedule(*timers.back(), 70);
  }
  this->wheel_.advance(timers[0]->deadline(), [&](WheelHook& hook) {
    const auto number = static_cast<std::size_t>(number_of(hook));
    this->record()(hook);
    if (number + 1 < timers.size()) {
      timers[number + 1].reset();
    }
    timers[number].reset();
  });
  EXPECT_TRUE(this->expired_are({{70, 0}, {70, 2}, {70, 4}}));
  EXPECT_EQ(this->wheel_.size(), 0U);
}

// B13: cancel all, then destroy: nothing is left, and nothing happens later.
TYPED_TEST(WheelCancelTest, ClearedWheelIsEmptyAndUsable) {
  for (int i = 0; i < 100; ++i) {
    this->schedule(i, Tick{1} << (i % 64));
  }
  EXPECT_NE(this->wheel_.next_deadline(), std::nullopt);
  this->wheel_.clear();
  EXPECT_EQ(this->wheel_.size(), 0U);
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(this->timer(i).scheduled());
  }
  this->schedule(0, 10);
  this->wheel_.advance(kLastTick, this->record());
  EXPECT_TRUE(this->expired_are({{10, 0}}));
}

TYPED_TEST(WheelCancelTest, SinkClearsTheWheel) {
  for (int i = 0; i < 10; ++i) {
    this->schedule(i, i < 5 ? 100 : 101);
  }
  EXPECT_EQ(this->wheel_.advance(1'000, [&](WheelHook&) { this->wheel_.clear(); }),
            (AdvanceResult{1, false}));
  EXPECT_EQ(this->wheel_.size(), 0U);
  EXPECT_EQ(this->wheel_.now(), 1'000U);
}

TYPED_TEST(WheelCancelTest, DestroyedWheelLeavesItsTimersUnscheduled) {
  typename TestFixture::Wheel other;
  {
    typename TestFixture::Wheel wheel;
    for (int i = 0; i < 10; ++i) {
      wheel.schedule(this->timer(i), Tick{1} << (6 * i));
    }
    EXPECT_TRUE(wheel.next_deadline());
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(this->timer(i).scheduled());
    other.schedule(this->timer(i), 7);
  }
  EXPECT_EQ(other.advance(this->told(0), [](WheelHook&) {}).expired, 10U);
}

TYPED_TEST(WheelCancelTest, SinkDestroysTheWheel) {
  auto wheel = std::make_unique<typename TestFixture::Wheel>();
  for (int i = 0; i < 5; ++i) {
    wheel->schedule(this->timer(i), i < 3 ? 10 : 20);
  }
  int calls = 0;
  EXPECT_EQ(wheel->advance(100,
                           [&](WheelHook&) {
                             ++calls;
                             wheel.reset();
                           }),
            (AdvanceResult{1, false}));
  EXPECT_EQ(calls, 1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(this->timer(i).scheduled());
  }
}

TYPED_TEST(WheelCancelTest, SinkOfAnInnerAdvanceDestroysTheWheel) {
  auto wheel = std::make_unique<typename TestFixture::Wheel>();
  for (int i = 0; i < 3; ++i) {
    wheel->schedule(this->timer(i), static_cast<Tick>(10 + i));
  }
  const auto destroy = [&](WheelHook&) { wheel.reset(); };
  const auto advance_more = [&](WheelHook&) { EXPECT_EQ(wheel->advance(50, destroy).expired, 1U); };
  EXPECT_EQ(wheel->advance(50, advance_more), (AdvanceResult{1, false}));
  EXPECT_EQ(wheel, nullptr);
}

TYPED_TEST(WheelCancelTest, SinkMayAdvanceFurther) {
  for (int i = 0; i < 4; ++i) {
    this->schedule(i, static_cast<Tick>(10 + i / 2 * 100));
  }
  const auto advance_more = [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->wheel_.advance(500, this->record());
    }
  };
  EXPECT_EQ(this->wheel_.advance(20, advance_more), (AdvanceResult{1, false}));
  EXPECT_TRUE(this->expired_are({{10, 0}, {10, 1}, {110, 2}, {110, 3}}));
  EXPECT_EQ(this->wheel_.now(), 500U);
}

TYPED_TEST(WheelCancelTest, ExceptionOfASinkLosesNobodyElse) {
  for (int i = 0; i < 3; ++i) {
    this->schedule(i, 40);
  }
  EXPECT_THROW(this->wheel_.advance(100, [](WheelHook&) { throw std::runtime_error("sink"); }),
               std::runtime_error);
  EXPECT_EQ(this->wheel_.size(), 2U);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(1));
  this->wheel_.advance(100, this->record());
  EXPECT_TRUE(this->expired_are({{40, 1}, {40, 2}}));
}

// Reset earlier and later after the slot has begun, and at the threshold of a level.
TYPED_TEST(WheelCancelTest, RescheduleMovesAcrossLevelsBothWays) {
  this->wheel_.advance(70, this->record());
  this->schedule(0, 4'095);
  this->schedule(1, 4'096);
  this->schedule(2, 127);
  this->wheel_.advance(100, this->record());
  this->reschedule(0, 101);
  this->reschedule(1, 127);
  this->reschedule(2, 4'096);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  this->cancel(2);
  this->schedule(2, 4'097);
  this->wheel_.advance(10'000, this->record());
  EXPECT_TRUE(this->expired_are({{101, 0}, {127, 1}, {4'097, 2}}));
}

TYPED_TEST(WheelCancelTest, RescheduleSchedulesWhatWasNot) {
  this->reschedule(0, 10);
  EXPECT_EQ(this->wheel_.size(), 1U);
  this->wheel_.advance(this->told(0), this->record());
  this->reschedule(0, 20);
  this->wheel_.advance(this->told(0), this->record());
  EXPECT_TRUE(this->expired_are({{10, 0}, {20, 0}}));
}

// The idle timeout that every packet pushes back: the store must not make it early or late, nor
// wake anybody at the old deadline.
TYPED_TEST(WheelCancelTest, PostponedTimerExpiresAtItsLastDeadlineOnly) {
  this->schedule(0, 30);
  this->schedule(1, 31);
  for (Tick now = 1; now <= 5'000; ++now) {
    this->wheel_.advance(now, this->record());
    this->postpone(0, now + 30);
    if (now % 5 == 0) {
      EXPECT_EQ(this->wheel_.next_deadline(),
                std::min(this->told(0), now < this->told(1) ? this->told(1) : kLastTick));
    }
  }
  EXPECT_TRUE(this->expired_are({{31, 1}}));
  const Tick last = this->told(0);
  EXPECT_EQ(this->drive(), 1);
  EXPECT_EQ(this->expired_.back(), std::pair(last, 0));
}

TYPED_TEST(WheelCancelTest, PostponingFarBeyondOthersDoesNotHideThem) {
  for (int i = 0; i < 30; ++i) {
    this->schedule(i, 5'000);
  }
  this->schedule(30, 70'000);
  for (int i = 0; i < 30; ++i) {
    this->postpone(i, 1'000'000);
  }
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(30));
  for (int i = 0; i < 5; ++i) {
    this->cancel(i);
  }
  EXPECT_EQ(this->wheel_.advance(2'000'000, this->record()).expired, 26U);
  EXPECT_EQ(this->expired_.front(), std::pair(this->told(30), 30));
  EXPECT_EQ(this->expired_.back().first, this->told(29));
}

TYPED_TEST(WheelCancelTest, PostponeToAnEarlierTickOrOfAnIdleTimerIsReschedule) {
  EXPECT_TRUE(this->postpone(0, 500));
  EXPECT_TRUE(this->postpone(0, 20));
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  this->wheel_.advance(1'000, this->record());
  EXPECT_TRUE(this->expired_are({{20, 0}}));
}

TYPED_TEST(WheelCancelTest, SinkPostponesItsSlotMates) {
  for (int i = 0; i < 5; ++i) {
    this->schedule(i, 100);
  }
  const auto postpone = [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->postpone(1, 100);
      this->postpone(2, 5'000);
      this->postpone(4, 101);
    }
  };
  EXPECT_EQ(this->wheel_.advance(this->told(0), postpone), (AdvanceResult{2, false}));
  EXPECT_EQ(this->wheel_.next_deadline(), this->wheel_.now() + 1);
  EXPECT_EQ(this->wheel_.advance(this->told(2), this->record()).expired, 3U);
  EXPECT_EQ(this->wheel_.size(), 0U);
}

// In every build: the library is compiled once, and used by programs with and without NDEBUG.
template <class Wheel>
class WheelDeathTest : public ::testing::Test {};
TYPED_TEST_SUITE(WheelDeathTest, AllWheels);

TYPED_TEST(WheelDeathTest, SchedulingTwiceIsABug) {
  TypeParam wheel;
  WheelHook hook;
  wheel.schedule(hook, 10);
  EXPECT_DEATH(wheel.schedule(hook, 20), "already scheduled for 1");
}

TYPED_TEST(WheelDeathTest, CancellingInAnotherWheelIsABug) {
  TypeParam wheel;
  TypeParam other;
  WheelHook hook;
  wheel.schedule(hook, 10);
  EXPECT_DEATH(other.cancel(hook), "waits in another wheel");
  EXPECT_DEATH(other.reschedule(hook, 20), "waits in another wheel");
  EXPECT_DEATH(other.postpone(hook, 20), "waits in another wheel");
  EXPECT_DEATH(other.schedule(hook, 20), "already scheduled for 1");
}

}  // namespace
}  // namespace carillon
