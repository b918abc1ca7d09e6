// SPDX-License-Identifier: Apache-2.0
// An advance() with a budget: bounded work, nothing lost, nothing out of order.
#include <gtest/gtest.h>

#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class WheelBudgetTest : public WheelFixture<Wheel> {};
TYPED_TEST_SUITE(WheelBudgetTest, AllWheels);

TYPED_TEST(WheelBudgetTest, BudgetExhaustedInTheMiddleOfATickLeavesTheRestDue) {
  for (int i = 0; i < 10; ++i) {
    this->schedule(i, 77);
  }
  const Tick due = this->told(0);
  EXPECT_EQ(this->wheel_.advance(500, this->record(), 4), (AdvanceResult{4, true}));
  EXPECT_EQ(this->wheel_.now(), due) << "not yet the tick that was asked for";
  EXPECT_EQ(this->wheel_.next_deadline(), due);
  EXPECT_EQ(this->wheel_.size(), 6U);
  EXPECT_EQ(this->wheel_.advance(due, this->record(), 4), (AdvanceResult{4, true}));
  EXPECT_EQ(this->wheel_.advance(500, this->record(), 4), (AdvanceResult{2, false}));
  EXPECT_EQ(this->wheel_.now(), 500U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(this->expired_[static_cast<std::size_t>(i)].second, i);
  }
}

TYPED_TEST(WheelBudgetTest, MoreIsFalseWhenTheBudgetWasJustEnough) {
  this->schedule(0, 10);
  this->schedule(1, 5'000);
  this->schedule(2, this->told(1) + 1);
  const Tick due = this->told(1);
  EXPECT_EQ(this->wheel_.advance(due, this->record(), 2), (AdvanceResult{2, false}));
  EXPECT_EQ(this->wheel_.now(), due);
}

TYPED_TEST(WheelBudgetTest, BudgetOfNothingExpiresNothingAndSaysWhetherMoreIsDue) {
  this->schedule(0, 5'000);
  const Tick due = this->told(0);
  EXPECT_EQ(this->wheel_.advance(due - 1, this->record(), 0), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.advance(due + 1'000, this->record(), 0), (AdvanceResult{0, true}));
  EXPECT_EQ(this->wheel_.advance(due + 1'000, this->record(), 0), (AdvanceResult{0, true}));
  EXPECT_EQ(this->wheel_.advance(due + 1'000, this->record(), 1), (AdvanceResult{1, false}));
}

// The half-finished tick stays closed to newcomers: they come at the next one, in order.
TYPED_TEST(WheelBudgetTest, TimersScheduledIntoAHalfFinishedTickComeAtTheNext) {
  for (int i = 0; i < 8; ++i) {
    this->schedule(i, 64);
  }
  const Tick due = this->told(0);
  EXPECT_TRUE(this->wheel_.advance(due, this->record(), 3).more);
  for (int i = 8; i < 520; ++i) {
    this->schedule(i, due);
  }
  EXPECT_EQ(this->wheel_.advance(due, this->record()), (AdvanceResult{5, false}));
  EXPECT_EQ(this->wheel_.next_deadline(), due + 1);
  EXPECT_EQ(this->wheel_.advance(due + 1, this->record(), 500), (AdvanceResult{500, true}));
  EXPECT_EQ(this->wheel_.advance(due + 1, this->record()), (AdvanceResult{12, false}));
  for (int i = 0; i < 520; ++i) {
    EXPECT_EQ(this->expired_[static_cast<std::size_t>(i)].second, i);
  }
}

// An entry that is due but was not taken yet can be cancelled, pushed back, destroyed.
TYPED_TEST(WheelBudgetTest, TimersLeftDueCanBeCancelledRescheduledAndDestroyed) {
  auto doomed = std::make_unique<NumberedTimer>(100);
  this->schedule(0, 10);
  this->schedule(1, 10);
  this->wheel_.schedule(*doomed, 10);
  this->schedule(2, 10);
  this->schedule(3, 10);
  EXPECT_TRUE(this->wheel_.advance(1'000, this->record(), 1).more);
  this->cancel(1);
  doomed.reset();
  this->reschedule(2, 2'000);
  EXPECT_EQ(this->wheel_.snapshot().due, 1U);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(3));
  this->cancel(3);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(2));
  EXPECT_EQ(this->wheel_.advance(1'000, this->record()), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.advance(this->told(2), this->record()).expired, 1U);
  EXPECT_TRUE(this->expired_are({{10, 0}, {2'000, 2}}));
}

// A timer that was postponed may still lie in the list of the tick, but it is not due.
TYPED_TEST(WheelBudgetTest, PostponedTimerIsNotLeftDue) {
  for (int i = 0; i < 4; ++i) {
    this->schedule(i, 10);
  }
  this->postpone(2, 500);
  this->postpone(3, 600);
  const Tick due = this->told(0);
  EXPECT_TRUE(this->wheel_.advance(due, this->record(), 1).more);
  EXPECT_EQ(this->wheel_.snapshot().due, 1U);
  EXPECT_EQ(this->wheel_.advance(due, this->record(), 1), (AdvanceResult{1, false}));
  EXPECT_EQ(this->wheel_.snapshot().due, 0U);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(2));
  for (int i = 0; i < 3; ++i) {
    this->schedule(10 + i, 20);
  }
  this->postpone(12, 700);
  EXPECT_TRUE(this->wheel_.advance(this->told(10), this->record(), 1).more);
  this->cancel(11);
  EXPECT_EQ(this->wheel_.advance(due + 1, this->record()), (AdvanceResult{0, false}));
}

// D5: a million in one tick; work per advance is bounded, and what others are owed comes in turn.
TYPED_TEST(WheelBudgetTest, CrowdedTickIsWorkedOffInBoundedSteps) {
  constexpr int kCrowd = 100'000;
  std::deque<WheelHook> crowd(kCrowd);
  for (WheelHook& hook : crowd) {
    this->schedule(hook, 1'000);
  }
  const Tick next = crowd.front().deadline() + 1;
  this->schedule(0, next);
  const Tick end = this->told(0);
  int steps = 0;
  std::size_t expired = 0;
  for (AdvanceResult result{0, true}; result.more; ++steps) {
    result = this->wheel_.advance(end, [](WheelHook&) {}, 128);
    EXPECT_LE(result.expired, 128U);
    expired += result.expired;
  }
  EXPECT_EQ(expired, kCrowd + 1U);
  EXPECT_EQ(steps, (kCrowd + 1 + 127) / 128);
}

}  // namespace
}  // namespace carillon
