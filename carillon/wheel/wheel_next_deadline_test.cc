// SPDX-License-Identifier: Apache-2.0
// next_deadline() is exact: nobody sleeps too long, nobody wakes for nothing. And what schedule()
// says about it.
#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "carillon/base/random.h"
#include "carillon/wheel/wheel_fixture.h"

namespace carillon {
namespace {

template <class Wheel>
class WheelNextDeadlineTest : public WheelFixture<Wheel> {};
TYPED_TEST_SUITE(WheelNextDeadlineTest, AllWheels);

TYPED_TEST(WheelNextDeadlineTest, EmptyWheelHasNone) {
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
  this->schedule(0, 100'000);
  this->cancel(0);
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
  EXPECT_EQ(this->drive(1'000'000), 0);
}

// D7: one timer, one wake-up, however many levels it goes down.
TYPED_TEST(WheelNextDeadlineTest, OneTimerIsOneWakeUp) {
  this->schedule(0, 1'500);
  EXPECT_EQ(this->drive(5'000), 1);
  this->schedule(0, 987'654'321'987'654'321);
  EXPECT_EQ(this->drive(), 1);
}

TYPED_TEST(WheelNextDeadlineTest, SparseTimersAreOneWakeUpEach) {
  // A wheel that rounds may give out several at one tick.
  std::set<Tick> ticks;
  for (int i = 0; i < 10; ++i) {
    this->schedule(i, 1 + static_cast<Tick>(i) * 111'111'111);
    ticks.insert(this->told(i));
  }
  EXPECT_TRUE(!kIsExact<TypeParam> || ticks.size() == 10U);
  EXPECT_EQ(this->drive(), static_cast<int>(ticks.size()));
  EXPECT_EQ(this->expired_.size(), 10U);
}

TYPED_TEST(WheelNextDeadlineTest, EarlierTimerMayLieOnEitherOfTwoLevels) {
  // 70 is on the coarser level of 64 x 64 when the wheel is at 60, 63 on the finer.
  this->wheel_.advance(60, this->record());
  this->schedule(0, 70);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  this->schedule(1, 63);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(1));
  this->cancel(1);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  this->schedule(2, 130);
  this->cancel(0);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(2));
}

TYPED_TEST(WheelNextDeadlineTest, StaysExactWhileTimeComesNearer) {
  this->schedule(0, 100'003);
  this->schedule(1, 100'001);
  for (Tick now = 0; now <= 100'000; now += 37) {
    this->wheel_.advance(now, this->record());
    ASSERT_EQ(this->wheel_.next_deadline(), this->told(1)) << "at " << now;
  }
}

TYPED_TEST(WheelNextDeadlineTest, PrematureWakeUpChangesNothing) {
  this->schedule(0, 5'000);
  EXPECT_EQ(this->wheel_.advance(this->told(0) - 1, this->record()).expired, 0U);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  EXPECT_EQ(this->drive(), 1);
}

// Orders that are paid in the order they came: the earliest is cancelled again and again, and the
// next one asked for. If each search walked the slot this would be 10^10 steps; the test would not
// end before its time is out.
TYPED_TEST(WheelNextDeadlineTest, CancellingTheEarliestOfManyOverAndOverIsNotQuadratic) {
  constexpr int kOrders = 150'000;
  constexpr Tick kFar = (Tick{1} << 40) + 1'000'000;
  std::deque<NumberedTimer> orders;
  Random random(3);
  for (int i = 0; i < kOrders; ++i) {
    this->schedule(orders.emplace_back(i), kFar + static_cast<Tick>(i));
  }
  for (int i = 0; i < kOrders; ++i) {
    ASSERT_EQ(this->wheel_.next_deadline(), orders[static_cast<std::size_t>(i)].deadline());
    // Shorter timers come and go meanwhile, near ones and some just before the orders.
    const Tick other = i % 2 == 0 ? 30'000 : kFar - 1 - random.below(1'000'000);
    this->schedule(0, other);
    ASSERT_EQ(this->wheel_.next_deadline(), this->told(0));
    this->cancel(0);
    this->wheel_.cancel(orders[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
}

// A crowd of idle timeouts, and before them a few short timers that come and go. If each of these
// had the crowd sorted again, this would be 10^10 steps; the test would not end before its time is
// out.
TYPED_TEST(WheelNextDeadlineTest, ShortTimersThatComeAndGoBeforeACrowdDoNotHaveItSortedAgain) {
  if constexpr (std::is_base_of_v<HashedWheel, TypeParam> &&
                !std::is_same_v<HashedWheel, TypeParam>) {
    GTEST_SKIP() << "in a ring too small for them the short ones lie among the crowd";
  }
  constexpr int kCrowd = 100'000;
  constexpr int kShort = 12;
  std::deque<NumberedTimer> crowd;
  Random random(4);
  Tick least = kLastTick;
  for (int i = 0; i < kCrowd; ++i) {
    NumberedTimer& timer = crowd.emplace_back(i);
    this->schedule(timer, 30'000 + random.below(3'000));
    least = std::min(least, timer.deadline());
  }
  for (int round = 0; round < 60'000; ++round) {
    for (int i = 0; i < kShort; ++i) this->schedule(i, 5'000 + 64 * static_cast<Tick>(i));
    ASSERT_EQ(this->wheel_.next_deadline(), this->told(0));
    this->cancel(0);
    ASSERT_EQ(this->wheel_.next_deadline(), this->told(1));
    for (int i = 1; i < kShort; ++i) this->cancel(i);
    ASSERT_EQ(this->wheel_.next_deadline(), least);
  }
}

// Two far groups that are searched in turn (in a hierarchical wheel, compete for the ring ahead):
// nothing is lost, and ties keep their order.
TYPED_TEST(WheelNextDeadlineTest, SearchingOneFarGroupAndThenAnEarlierOneKeepsTheOrderOfBoth) {
  constexpr Tick kLate = (Tick{1} << 30) + (Tick{1} << 20);
  constexpr Tick kEarly = (Tick{1} << 30) - (Tick{1} << 20);
  for (int i = 0; i < 200; ++i) {
    this->schedule(i, kLate + static_cast<Tick>(i) % 10 * 100);
  }
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  this->cancel(0);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(10));
  for (int i = 200; i < 400; ++i) {
    this->schedule(i, kEarly + static_cast<Tick>(i) % 10 * 100);
  }
  this->cancel(200);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(210));
  for (int i = 400; i < 420; ++i) {
    this->schedule(i, kLate + static_cast<Tick>(i) % 10 * 100);
  }
  this->wheel_.advance(2 * kLate, this->record());
  ASSERT_EQ(this->expired_.size(), 418U);
  for (std::size_t i = 1; i < this->expired_.size(); ++i) {
    // Ascending by tick, and by number, which is the order scheduled, within a tick.
    EXPECT_LT(this->expired_[i - 1], this->expired_[i]);
  }
}

TYPED_TEST(WheelNextDeadlineTest, ScheduleSaysWhenTheSleepMustBeCutShort) {
  EXPECT_TRUE(this->schedule(0, 100));
  EXPECT_FALSE(this->schedule(1, 100)) << "a tie";
  EXPECT_FALSE(this->schedule(2, 20'000));
  EXPECT_TRUE(this->schedule(3, 50));
  EXPECT_FALSE(this->reschedule(3, 300));
  EXPECT_TRUE(this->reschedule(2, 1));
  this->cancel(2);
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(0));
  EXPECT_TRUE(this->schedule(2, kIsExact<TypeParam> ? 99 : 40));
  EXPECT_EQ(this->wheel_.next_deadline(), this->told(2));
}

TYPED_TEST(WheelNextDeadlineTest, FirstTimerOfAnEmptiedWheelIsTheEarliest) {
  this->schedule(0, 10);
  this->cancel(0);
  EXPECT_TRUE(this->schedule(1, 100));
  this->wheel_.advance(this->told(1), this->record());
  EXPECT_TRUE(this->schedule(1, 100'000));
  this->wheel_.clear();
  EXPECT_TRUE(this->schedule(1, 200'000));
}

}  // namespace
}  // namespace carillon
