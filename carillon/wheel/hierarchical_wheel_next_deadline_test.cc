// SPDX-License-Identifier: Apache-2.0
// next_deadline() is exact: nobody sleeps too long, nobody wakes for nothing. And what schedule()
// says about it.
#include <gtest/gtest.h>

#include "carillon/base/random.h"
#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class HierarchicalWheelNextDeadlineTest : public WheelFixture<Wheel> {};
TYPED_TEST_SUITE(HierarchicalWheelNextDeadlineTest, AllGeometries);

TYPED_TEST(HierarchicalWheelNextDeadlineTest, EmptyWheelHasNone) {
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
  this->wheel_.schedule(this->timer(0), 100'000);
  this->wheel_.cancel(this->timer(0));
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
  EXPECT_EQ(this->drive(1'000'000), 0);
}

// D7: one timer, one wake-up, however many levels it goes down.
TYPED_TEST(HierarchicalWheelNextDeadlineTest, OneTimerIsOneWakeUp) {
  this->wheel_.schedule(this->timer(0), 1'500);
  EXPECT_EQ(this->drive(5'000), 1);
  this->wheel_.schedule(this->timer(0), 987'654'321'987'654'321);
  EXPECT_EQ(this->drive(), 1);
}

TYPED_TEST(HierarchicalWheelNextDeadlineTest, SparseTimersAreOneWakeUpEach) {
  for (int i = 0; i < 10; ++i) {
    this->wheel_.schedule(this->timer(i), 1 + static_cast<Tick>(i) * 111'111'111);
  }
  EXPECT_EQ(this->drive(), 10);
  EXPECT_EQ(this->expired_.size(), 10U);
}

TYPED_TEST(HierarchicalWheelNextDeadlineTest, EarlierTimerMayLieOnEitherOfTwoLevels) {
  // 70 is on the coarser level of 64 x 64 when the wheel is at 60, 63 on the finer.
  this->wheel_.advance(60, this->record());
  this->wheel_.schedule(this->timer(0), 70);
  EXPECT_EQ(this->wheel_.next_deadline(), 70U);
  this->wheel_.schedule(this->timer(1), 63);
  EXPECT_EQ(this->wheel_.next_deadline(), 63U);
  this->wheel_.cancel(this->timer(1));
  EXPECT_EQ(this->wheel_.next_deadline(), 70U);
  this->wheel_.schedule(this->timer(2), 130);
  this->wheel_.cancel(this->timer(0));
  EXPECT_EQ(this->wheel_.next_deadline(), 130U);
}

TYPED_TEST(HierarchicalWheelNextDeadlineTest, StaysExactWhileTimeComesNearer) {
  this->wheel_.schedule(this->timer(0), 100'003);
  this->wheel_.schedule(this->timer(1), 100'001);
  for (Tick now = 0; now <= 100'000; now += 37) {
    this->wheel_.advance(now, this->record());
    ASSERT_EQ(this->wheel_.next_deadline(), 100'001U) << "at " << now;
  }
}

TYPED_TEST(HierarchicalWheelNextDeadlineTest, PrematureWakeUpChangesNothing) {
  this->wheel_.schedule(this->timer(0), 5'000);
  EXPECT_EQ(this->wheel_.advance(4'999, this->record()).expired, 0U);
  EXPECT_EQ(this->wheel_.next_deadline(), 5'000U);
  EXPECT_EQ(this->drive(), 1);
}

// Orders that are paid in the order they came: the earliest is cancelled again and again, and the
// next one asked for. If each search walked the slot this would be 10^10 steps; the test would not
// end before its time is out.
TYPED_TEST(HierarchicalWheelNextDeadlineTest,
           CancellingTheEarliestOfManyOverAndOverIsNotQuadratic) {
  constexpr int kOrders = 150'000;
  constexpr Tick kFar = (Tick{1} << 40) + 1'000'000;
  std::deque<NumberedTimer> orders;
  Random random(3);
  for (int i = 0; i < kOrders; ++i) {
    this->wheel_.schedule(orders.emplace_back(i), kFar + static_cast<Tick>(i));
  }
  for (int i = 0; i < kOrders; ++i) {
    ASSERT_EQ(this->wheel_.next_deadline(), kFar + static_cast<Tick>(i));
    // Shorter timers come and go meanwhile, near ones and some just before the orders.
    const Tick other = i % 2 == 0 ? 30'000 : kFar - 1 - random.below(1'000'000);
    this->wheel_.schedule(this->timer(0), other);
    ASSERT_EQ(this->wheel_.next_deadline(), other);
    this->wheel_.cancel(this->timer(0));
    this->wheel_.cancel(orders[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
}

// Two far groups compete for the ring ahead: nothing is lost, and ties keep their order.
TYPED_TEST(HierarchicalWheelNextDeadlineTest, EarlierGroupTakesTheRingAheadAndOrderSurvives) {
  constexpr Tick kLate = (Tick{1} << 30) + (Tick{1} << 20);
  constexpr Tick kEarly = (Tick{1} << 30) - (Tick{1} << 20);
  for (int i = 0; i < 200; ++i) {
    this->wheel_.schedule(this->timer(i), kLate + static_cast<Tick>(i) % 10 * 100);
  }
  EXPECT_EQ(this->wheel_.next_deadline(), kLate);
  this->wheel_.cancel(this->timer(0));
  EXPECT_EQ(this->wheel_.next_deadline(), kLate);
  for (int i = 200; i < 400; ++i) {
    this->wheel_.schedule(this->timer(i), kEarly + static_cast<Tick>(i) % 10 * 100);
  }
  this->wheel_.cancel(this->timer(200));
  EXPECT_EQ(this->wheel_.next_deadline(), kEarly);
  for (int i = 400; i < 420; ++i) {
    this->wheel_.schedule(this->timer(i), kLate + static_cast<Tick>(i) % 10 * 100);
  }
  this->wheel_.advance(kLate + 10'000, this->record());
  ASSERT_EQ(this->expired_.size(), 418U);
  for (std::size_t i = 1; i < this->expired_.size(); ++i) {
    // Ascending by tick, and by number, which is the order scheduled, within a tick.
    EXPECT_LT(this->expired_[i - 1], this->expired_[i]);
  }
}

TYPED_TEST(HierarchicalWheelNextDeadlineTest, ScheduleSaysWhenTheSleepMustBeCutShort) {
  EXPECT_TRUE(this->wheel_.schedule(this->timer(0), 100));
  EXPECT_FALSE(this->wheel_.schedule(this->timer(1), 100)) << "a tie";
  EXPECT_FALSE(this->wheel_.schedule(this->timer(2), 20'000));
  EXPECT_TRUE(this->wheel_.schedule(this->timer(3), 50));
  EXPECT_FALSE(this->wheel_.reschedule(this->timer(3), 300));
  EXPECT_TRUE(this->wheel_.reschedule(this->timer(2), 1));
  this->wheel_.cancel(this->timer(2));
  EXPECT_EQ(this->wheel_.next_deadline(), 100U);
  EXPECT_TRUE(this->wheel_.schedule(this->timer(2), 99));
  EXPECT_EQ(this->wheel_.next_deadline(), 99U);
}

TYPED_TEST(HierarchicalWheelNextDeadlineTest, FirstTimerOfAnEmptiedWheelIsTheEarliest) {
  this->wheel_.schedule(this->timer(0), 10);
  this->wheel_.cancel(this->timer(0));
  EXPECT_TRUE(this->wheel_.schedule(this->timer(1), 100));
  this->wheel_.advance(100, this->record());
  EXPECT_TRUE(this->wheel_.schedule(this->timer(1), 100'000));
  this->wheel_.clear();
  EXPECT_TRUE(this->wheel_.schedule(this->timer(1), 200'000));
}

}  // namespace
}  // namespace carillon
