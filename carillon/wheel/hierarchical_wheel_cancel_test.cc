// SPDX-License-Identifier: Apache-2.0
// Cancelling, rescheduling, destroying: from outside, and by a sink in the middle of its tick.
// Letters such as B7 refer to docs/internals/testing.md.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class HierarchicalWheelCancelTest : public WheelFixture<Wheel> {};
TYPED_TEST_SUITE(HierarchicalWheelCancelTest, AllGeometries);

TYPED_TEST(HierarchicalWheelCancelTest, CancelTellsTheTruth) {
  EXPECT_FALSE(this->wheel_.cancel(this->timer(0))) << "never scheduled";
  this->wheel_.schedule(this->timer(0), 10);
  EXPECT_TRUE(this->timer(0).scheduled());
  EXPECT_TRUE(this->wheel_.cancel(this->timer(0)));
  EXPECT_FALSE(this->timer(0).scheduled());
  EXPECT_FALSE(this->wheel_.cancel(this->timer(0))) << "cancelled before";
  this->wheel_.schedule(this->timer(0), 20);
  this->wheel_.advance(20, this->record());
  EXPECT_FALSE(this->wheel_.cancel(this->timer(0))) << "expired";
  EXPECT_EQ(this->expired_, (Expiries{{20, 0}}));
}

// B5: eleven timers in a slot; while the first one's callback runs, the others are cancelled: the
// count is exact at once.
TYPED_TEST(HierarchicalWheelCancelTest, SizeIsExactInTheMiddleOfATick) {
  for (int i = 0; i < 11; ++i) {
    this->wheel_.schedule(this->timer(i), 200);
  }
  this->wheel_.advance(1200, [&](WheelHook& hook) {
    this->record()(hook);
    EXPECT_EQ(this->wheel_.size(), 10U);
    for (int i = 1; i < 11; ++i) {
      EXPECT_TRUE(this->wheel_.cancel(this->timer(i)));
    }
    EXPECT_EQ(this->wheel_.size(), 0U);
  });
  EXPECT_EQ(this->expired_, (Expiries{{200, 0}}));
}

// B7: five in a slot; the first cancels the other four and itself.
TYPED_TEST(HierarchicalWheelCancelTest, CancelInsideOwnSlotStopsNeighboursAndSelf) {
  for (int i = 0; i < 5; ++i) {
    this->wheel_.schedule(this->timer(i), 300);
  }
  this->wheel_.advance(300, [&](WheelHook& hook) {
    this->record()(hook);
    EXPECT_FALSE(this->wheel_.cancel(hook)) << "it has expired";
    for (int i = 1; i < 5; ++i) {
      this->wheel_.cancel(this->timer(i));
    }
  });
  EXPECT_EQ(this->wheel_.advance(10'000, this->record()).expired, 0U);
  EXPECT_EQ(this->expired_, (Expiries{{300, 0}}));
}

TYPED_TEST(HierarchicalWheelCancelTest, CancelInsideOwnSlotDoesNotSkipNeighbours) {
  for (int i = 0; i < 5; ++i) {
    this->wheel_.schedule(this->timer(i), 300);
  }
  this->wheel_.advance(300, [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->wheel_.cancel(this->timer(1));
    }
    if (number_of(hook) == 2) {
      this->wheel_.cancel(this->timer(4));
    }
  });
  EXPECT_EQ(this->expired_, (Expiries{{300, 0}, {300, 2}, {300, 3}}));
}

// A timer of a later tick of the same jump is still to come, so it can still be cancelled.
TYPED_TEST(HierarchicalWheelCancelTest, SinkCancelsWhatIsOverdueButHasNotExpired) {
  this->wheel_.schedule(this->timer(0), 10);
  this->wheel_.schedule(this->timer(1), 11);
  this->wheel_.schedule(this->timer(2), 5'000);
  this->wheel_.advance(10'000, [&](WheelHook& hook) {
    this->record()(hook);
    EXPECT_TRUE(this->wheel_.cancel(this->timer(1)));
    EXPECT_TRUE(this->wheel_.cancel(this->timer(2)));
  });
  EXPECT_EQ(this->expired_, (Expiries{{10, 0}}));
}

// B9: re-armed for ten seconds in its own callback: ten seconds later, not at once.
TYPED_TEST(HierarchicalWheelCancelTest, RearmingInTheCallbackCountsFromTheExpiry) {
  this->wheel_.schedule(this->timer(0), 10'000);
  this->wheel_.advance(10'000, [&](WheelHook& hook) {
    this->record()(hook);
    this->wheel_.schedule(hook, this->wheel_.now() + 10'000);
  });
  EXPECT_EQ(this->wheel_.advance(19'999, this->record()).expired, 0U);
  EXPECT_EQ(this->wheel_.advance(20'000, this->record()).expired, 1U);
}

TYPED_TEST(HierarchicalWheelCancelTest, SinkReschedulesItsSlotMatesEarlierAndLater) {
  for (int i = 0; i < 4; ++i) {
    this->wheel_.schedule(this->timer(i), 100);
  }
  this->wheel_.advance(100, [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->wheel_.reschedule(this->timer(1), 0);
      this->wheel_.reschedule(this->timer(2), 5'000);
    }
  });
  EXPECT_EQ(this->expired_, (Expiries{{100, 0}, {100, 3}}));
  this->expired_.clear();
  this->wheel_.advance(5'000, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{101, 1}, {5'000, 2}}));
}

// B12: cancelled means that its memory may be freed. Run under the address sanitizer.
TYPED_TEST(HierarchicalWheelCancelTest, CancelledTimerMayBeFreedAtOnce) {
  std::vector<std::unique_ptr<NumberedTimer>> timers;
  for (int i = 0; i < 100; ++i) {
    timers.push_back(std::make_unique<NumberedTimer>(i));
    this->wheel_.schedule(*timers.back(), static_cast<Tick>(1 + i % 10 * 60));
  }
  for (std::size_t i = 0; i < 100; i += 2) {
    this->wheel_.cancel(*timers[i]);
    timers[i].reset();
  }
  EXPECT_EQ(this->wheel_.advance(1'000, this->record()).expired, 50U);
}

TYPED_TEST(HierarchicalWheelCancelTest, DestroyedHookCancelsItself) {
  for (const Tick deadline : {Tick{1}, Tick{100}, Tick{1} << 50}) {
    {
      NumberedTimer gone(0);
      this->wheel_.schedule(this->timer(1), deadline);
      this->wheel_.schedule(gone, deadline);
      this->wheel_.schedule(this->timer(2), deadline);
      EXPECT_EQ(this->wheel_.size(), 3U);
    }
    EXPECT_EQ(this->wheel_.size(), 2U);
    EXPECT_EQ(this->wheel_.next_deadline(), deadline);
    this->wheel_.clear();
  }
}

TYPED_TEST(HierarchicalWheelCancelTest, SinkDestroysItselfAndItsNeighbours) {
  std::vector<std::unique_ptr<NumberedTimer>> timers;
  for (int i = 0; i < 6; ++i) {
    timers.push_back(std::make_unique<NumberedTimer>(i));
    this->wheel_.schedule(*timers.back(), 70);
  }
  this->wheel_.advance(70, [&](WheelHook& hook) {
    const auto number = static_cast<std::size_t>(number_of(hook));
    this->record()(hook);
    if (number + 1 < timers.size()) {
      timers[number + 1].reset();
    }
    timers[number].reset();
  });
  EXPECT_EQ(this->expired_, (Expiries{{70, 0}, {70, 2}, {70, 4}}));
  EXPECT_EQ(this->wheel_.size(), 0U);
}

// B13: cancel all, then destroy: nothing is left, and nothing happens later.
TYPED_TEST(HierarchicalWheelCancelTest, ClearedWheelIsEmptyAndUsable) {
  for (int i = 0; i < 100; ++i) {
    this->wheel_.schedule(this->timer(i), Tick{1} << (i % 64));
  }
  EXPECT_NE(this->wheel_.next_deadline(), std::nullopt);
  this->wheel_.clear();
  EXPECT_EQ(this->wheel_.size(), 0U);
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(this->timer(i).scheduled());
  }
  this->wheel_.schedule(this->timer(0), 10);
  this->wheel_.advance(kLastTick, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{10, 0}}));
}

TYPED_TEST(HierarchicalWheelCancelTest, SinkClearsTheWheel) {
  for (int i = 0; i < 10; ++i) {
    this->wheel_.schedule(this->timer(i), i < 5 ? 100 : 101);
  }
  EXPECT_EQ(this->wheel_.advance(1'000, [&](WheelHook&) { this->wheel_.clear(); }),
            (AdvanceResult{1, false}));
  EXPECT_EQ(this->wheel_.size(), 0U);
  EXPECT_EQ(this->wheel_.now(), 1'000U);
}

TYPED_TEST(HierarchicalWheelCancelTest, DestroyedWheelLeavesItsTimersUnscheduled) {
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
  EXPECT_EQ(other.advance(7, [](WheelHook&) {}).expired, 10U);
}

TYPED_TEST(HierarchicalWheelCancelTest, SinkDestroysTheWheel) {
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

TYPED_TEST(HierarchicalWheelCancelTest, SinkOfAnInnerAdvanceDestroysTheWheel) {
  auto wheel = std::make_unique<typename TestFixture::Wheel>();
  for (int i = 0; i < 3; ++i) {
    wheel->schedule(this->timer(i), static_cast<Tick>(10 + i));
  }
  const auto destroy = [&](WheelHook&) { wheel.reset(); };
  const auto advance_more = [&](WheelHook&) { EXPECT_EQ(wheel->advance(50, destroy).expired, 1U); };
  EXPECT_EQ(wheel->advance(10, advance_more), (AdvanceResult{1, false}));
  EXPECT_EQ(wheel, nullptr);
}

TYPED_TEST(HierarchicalWheelCancelTest, SinkMayAdvanceFurther) {
  for (int i = 0; i < 4; ++i) {
    this->wheel_.schedule(this->timer(i), static_cast<Tick>(10 + i / 2 * 100));
  }
  const auto advance_more = [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->wheel_.advance(500, this->record());
    }
  };
  EXPECT_EQ(this->wheel_.advance(20, advance_more), (AdvanceResult{1, false}));
  EXPECT_EQ(this->expired_, (Expiries{{10, 0}, {10, 1}, {110, 2}, {110, 3}}));
  EXPECT_EQ(this->wheel_.now(), 500U);
}

TYPED_TEST(HierarchicalWheelCancelTest, ExceptionOfASinkLosesNobodyElse) {
  for (int i = 0; i < 3; ++i) {
    this->wheel_.schedule(this->timer(i), 40);
  }
  EXPECT_THROW(this->wheel_.advance(100, [](WheelHook&) { throw std::runtime_error("sink"); }),
               std::runtime_error);
  EXPECT_EQ(this->wheel_.size(), 2U);
  EXPECT_EQ(this->wheel_.next_deadline(), 40U);
  this->wheel_.advance(100, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{40, 1}, {40, 2}}));
}

// Reset earlier and later after the slot has begun, and at the threshold of a level.
TYPED_TEST(HierarchicalWheelCancelTest, RescheduleMovesAcrossLevelsBothWays) {
  this->wheel_.advance(70, this->record());
  this->wheel_.schedule(this->timer(0), 4'095);
  this->wheel_.schedule(this->timer(1), 4'096);
  this->wheel_.schedule(this->timer(2), 127);
  this->wheel_.advance(100, this->record());
  this->wheel_.reschedule(this->timer(0), 101);
  this->wheel_.reschedule(this->timer(1), 127);
  this->wheel_.reschedule(this->timer(2), 4'096);
  EXPECT_EQ(this->wheel_.next_deadline(), 101U);
  this->wheel_.cancel(this->timer(2));
  this->wheel_.schedule(this->timer(2), 4'097);
  this->wheel_.advance(10'000, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{101, 0}, {127, 1}, {4'097, 2}}));
}

TYPED_TEST(HierarchicalWheelCancelTest, RescheduleSchedulesWhatWasNot) {
  this->wheel_.reschedule(this->timer(0), 10);
  EXPECT_EQ(this->wheel_.size(), 1U);
  this->wheel_.advance(10, this->record());
  this->wheel_.reschedule(this->timer(0), 20);
  this->wheel_.advance(20, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{10, 0}, {20, 0}}));
}

// The idle timeout that every packet pushes back: the store must not make it early or late, nor
// wake anybody at the old deadline.
TYPED_TEST(HierarchicalWheelCancelTest, PostponedTimerExpiresAtItsLastDeadlineOnly) {
  this->wheel_.schedule(this->timer(0), 30);
  this->wheel_.schedule(this->timer(1), 31);
  for (Tick now = 1; now <= 5'000; ++now) {
    this->wheel_.advance(now, this->record());
    this->wheel_.postpone(this->timer(0), now + 30);
    if (now % 5 == 0) {
      EXPECT_EQ(this->wheel_.next_deadline(), now < 31 ? 31 : now + 30);
    }
  }
  EXPECT_EQ(this->expired_, (Expiries{{31, 1}}));
  EXPECT_EQ(this->drive(), 1);
  EXPECT_EQ(this->expired_.back(), std::pair(Tick{5'030}, 0));
}

TYPED_TEST(HierarchicalWheelCancelTest, PostponingFarBeyondOthersDoesNotHideThem) {
  for (int i = 0; i < 30; ++i) {
    this->wheel_.schedule(this->timer(i), 5'000);
  }
  this->wheel_.schedule(this->timer(30), 70'000);
  for (int i = 0; i < 30; ++i) {
    this->wheel_.postpone(this->timer(i), 1'000'000);
  }
  EXPECT_EQ(this->wheel_.next_deadline(), 70'000U);
  for (int i = 0; i < 5; ++i) {
    this->wheel_.cancel(this->timer(i));
  }
  EXPECT_EQ(this->wheel_.advance(2'000'000, this->record()).expired, 26U);
  EXPECT_EQ(this->expired_.front(), std::pair(Tick{70'000}, 30));
  EXPECT_EQ(this->expired_.back().first, 1'000'000U);
}

TYPED_TEST(HierarchicalWheelCancelTest, PostponeToAnEarlierTickOrOfAnIdleTimerIsReschedule) {
  EXPECT_TRUE(this->wheel_.postpone(this->timer(0), 500));
  EXPECT_TRUE(this->wheel_.postpone(this->timer(0), 20));
  EXPECT_EQ(this->wheel_.next_deadline(), 20U);
  this->wheel_.advance(1'000, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{20, 0}}));
}

TYPED_TEST(HierarchicalWheelCancelTest, SinkPostponesItsSlotMates) {
  for (int i = 0; i < 5; ++i) {
    this->wheel_.schedule(this->timer(i), 100);
  }
  const auto postpone = [&](WheelHook& hook) {
    this->record()(hook);
    if (number_of(hook) == 0) {
      this->wheel_.postpone(this->timer(1), 100);
      this->wheel_.postpone(this->timer(2), 5'000);
      this->wheel_.postpone(this->timer(4), 101);
    }
  };
  EXPECT_EQ(this->wheel_.advance(100, postpone), (AdvanceResult{2, false}));
  EXPECT_EQ(this->wheel_.next_deadline(), 101U);
  EXPECT_EQ(this->wheel_.advance(5'000, this->record()).expired, 3U);
  EXPECT_EQ(this->wheel_.size(), 0U);
}

// In every build: the library is compiled once, and used by programs with and without NDEBUG.
TEST(HierarchicalWheelDeathTest, SchedulingTwiceIsABug) {
  HierarchicalWheel wheel;
  WheelHook hook;
  wheel.schedule(hook, 10);
  EXPECT_DEATH(wheel.schedule(hook, 20), "already scheduled for 10");
}

TEST(HierarchicalWheelDeathTest, CancellingInAnotherWheelIsABug) {
  HierarchicalWheel wheel;
  HierarchicalWheel other;
  WheelHook hook;
  wheel.schedule(hook, 10);
  EXPECT_DEATH(other.cancel(hook), "waits in another wheel");
  EXPECT_DEATH(other.reschedule(hook, 20), "waits in another wheel");
  EXPECT_DEATH(other.postpone(hook, 20), "waits in another wheel");
  EXPECT_DEATH(other.schedule(hook, 20), "already scheduled for 10");
}

}  // namespace
}  // namespace carillon
