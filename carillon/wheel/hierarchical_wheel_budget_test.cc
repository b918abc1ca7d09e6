// SPDX-License-Identifier: Apache-2.0
// An advance() with a budget: bounded work, nothing lost, nothing out of order.
#include <gtest/gtest.h>

#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class HierarchicalWheelBudgetTest : public WheelFixture<Wheel> {};
TYPED_TEST_SUITE(HierarchicalWheelBudgetTest, AllGeometries);

TYPED_TEST(HierarchicalWheelBudgetTest, BudgetExhaustedInTheMiddleOfATickLeavesTheRestDue) {
  for (int i = 0; i < 10; ++i) {
    this->wheel_.schedule(this->timer(i), 77);
  }
  EXPECT_EQ(this->wheel_.advance(500, this->record(), 4), (AdvanceResult{4, true}));
  EXPECT_EQ(this->wheel_.now(), 77U) << "not yet the tick that was asked for";
  EXPECT_EQ(this->wheel_.next_deadline(), 77U);
  EXPECT_EQ(this->wheel_.size(), 6U);
  EXPECT_EQ(this->wheel_.advance(77, this->record(), 4), (AdvanceResult{4, true}));
  EXPECT_EQ(this->wheel_.advance(500, this->record(), 4), (AdvanceResult{2, false}));
  EXPECT_EQ(this->wheel_.now(), 500U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(this->expired_[static_cast<std::size_t>(i)].second, i);
  }
}

TYPED_TEST(HierarchicalWheelBudgetTest, MoreIsFalseWhenTheBudgetWasJustEnough) {
  this->wheel_.schedule(this->timer(0), 10);
  this->wheel_.schedule(this->timer(1), 5'000);
  this->wheel_.schedule(this->timer(2), 5'001);
  EXPECT_EQ(this->wheel_.advance(5'000, this->record(), 2), (AdvanceResult{2, false}));
  EXPECT_EQ(this->wheel_.now(), 5'000U);
}

TYPED_TEST(HierarchicalWheelBudgetTest, BudgetOfNothingExpiresNothingAndSaysWhetherMoreIsDue) {
  this->wheel_.schedule(this->timer(0), 5'000);
  EXPECT_EQ(this->wheel_.advance(4'999, this->record(), 0), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.advance(6'000, this->record(), 0), (AdvanceResult{0, true}));
  EXPECT_EQ(this->wheel_.advance(6'000, this->record(), 0), (AdvanceResult{0, true}));
  EXPECT_EQ(this->wheel_.advance(6'000, this->record(), 1), (AdvanceResult{1, false}));
}

// The half-finished tick stays closed to newcomers: they come at the next one, in order.
TYPED_TEST(HierarchicalWheelBudgetTest, TimersScheduledIntoAHalfFinishedTickComeAtTheNext) {
  for (int i = 0; i < 8; ++i) {
    this->wheel_.schedule(this->timer(i), 64);
  }
  EXPECT_TRUE(this->wheel_.advance(64, this->record(), 3).more);
  for (int i = 8; i < 520; ++i) {
    this->wheel_.schedule(this->timer(i), 64);
  }
  EXPECT_EQ(this->wheel_.advance(64, this->record()), (AdvanceResult{5, false}));
  EXPECT_EQ(this->wheel_.next_deadline(), 65U);
  EXPECT_EQ(this->wheel_.advance(65, this->record(), 500), (AdvanceResult{500, true}));
  EXPECT_EQ(this->wheel_.advance(65, this->record()), (AdvanceResult{12, false}));
  for (int i = 0; i < 520; ++i) {
    EXPECT_EQ(this->expired_[static_cast<std::size_t>(i)].second, i);
  }
}

// An entry that is due but was not taken yet can be cancelled, pushed back, destroyed.
TYPED_TEST(HierarchicalWheelBudgetTest, TimersLeftDueCanBeCancelledRescheduledAndDestroyed) {
  auto doomed = std::make_unique<NumberedTimer>(100);
  this->wheel_.schedule(this->timer(0), 10);
  this->wheel_.schedule(this->timer(1), 10);
  this->wheel_.schedule(*doomed, 10);
  this->wheel_.schedule(this->timer(2), 10);
  this->wheel_.schedule(this->timer(3), 10);
  EXPECT_TRUE(this->wheel_.advance(1'000, this->record(), 1).more);
  this->wheel_.cancel(this->timer(1));
  doomed.reset();
  this->wheel_.reschedule(this->timer(2), 2'000);
  EXPECT_EQ(this->wheel_.snapshot().due, 1U);
  EXPECT_EQ(this->wheel_.next_deadline(), 10U);
  this->wheel_.cancel(this->timer(3));
  EXPECT_EQ(this->wheel_.next_deadline(), 2'000U);
  EXPECT_EQ(this->wheel_.advance(1'000, this->record()), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.advance(2'000, this->record()).expired, 1U);
  EXPECT_EQ(this->expired_, (Expiries{{10, 0}, {2'000, 2}}));
}

// A timer that was postponed may still lie in the list of the tick, but it is not due.
TYPED_TEST(HierarchicalWheelBudgetTest, PostponedTimerIsNotLeftDue) {
  for (int i = 0; i < 4; ++i) {
    this->wheel_.schedule(this->timer(i), 10);
  }
  this->wheel_.postpone(this->timer(2), 500);
  this->wheel_.postpone(this->timer(3), 600);
  EXPECT_TRUE(this->wheel_.advance(10, this->record(), 1).more);
  EXPECT_EQ(this->wheel_.snapshot().due, 1U);
  EXPECT_EQ(this->wheel_.advance(10, this->record(), 1), (AdvanceResult{1, false}));
  EXPECT_EQ(this->wheel_.snapshot().due, 0U);
  EXPECT_EQ(this->wheel_.next_deadline(), 500U);
  for (int i = 0; i < 3; ++i) {
    this->wheel_.schedule(this->timer(10 + i), 20);
  }
  this->wheel_.postpone(this->timer(12), 700);
  EXPECT_TRUE(this->wheel_.advance(20, this->record(), 1).more);
  this->wheel_.cancel(this->timer(11));
  EXPECT_EQ(this->wheel_.advance(15, this->record()), (AdvanceResult{0, false}));
}

// D5: a million in one tick; work per advance is bounded, and what others are owed comes in turn.
TYPED_TEST(HierarchicalWheelBudgetTest, CrowdedTickIsWorkedOffInBoundedSteps) {
  constexpr int kCrowd = 100'000;
  std::deque<WheelHook> crowd(kCrowd);
  for (WheelHook& hook : crowd) {
    this->wheel_.schedule(hook, 1'000);
  }
  this->wheel_.schedule(this->timer(0), 1'001);
  int steps = 0;
  std::size_t expired = 0;
  for (AdvanceResult result{0, true}; result.more; ++steps) {
    result = this->wheel_.advance(1'001, [](WheelHook&) {}, 128);
    EXPECT_LE(result.expired, 128U);
    expired += result.expired;
  }
  EXPECT_EQ(expired, kCrowd + 1U);
  EXPECT_EQ(steps, (kCrowd + 1 + 127) / 128);
}

}  // namespace
}  // namespace carillon
