// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/spread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Jitter, IsNeverEarlyAndNeverBeyondTheFraction) {
  Random random(1);
  Span least = kForever;
  Span most = Span::min();
  for (int i = 0; i < 10'000; ++i) {
    const Span delay = jitter(seconds(10), 0.5, random);
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_GE(least, seconds(10));
  EXPECT_LT(least, seconds(10) + milliseconds(10));
  EXPECT_LE(most, seconds(15));
  EXPECT_GT(most, seconds(15) - milliseconds(10));
}

TEST(Jitter, OfNothingIsNothing) {
  Random random(2);
  EXPECT_EQ(jitter(seconds(1), 0, random), seconds(1));
  EXPECT_EQ(jitter(seconds(1), -1, random), seconds(1));
  EXPECT_EQ(jitter(seconds(1), std::nan(""), random), seconds(1));
  EXPECT_EQ(jitter(seconds(0), 1, random), seconds(0));
  EXPECT_EQ(jitter(seconds(-5), 1, random), seconds(-5));
}

TEST(Jitter, PracticallyNeverIsNeverNow) {
  Random random(3);
  for (const double fraction : {0.1, 1.0, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(jitter(kForever, fraction, random), kForever);
    EXPECT_GE(jitter(kForever / 2, fraction, random), kForever / 2);
  }
}

TEST(RandomOffset, FillsItsWindow) {
  Random random(4);
  std::vector<int> tenths(10);
  for (int i = 0; i < 10'000; ++i) {
    const Span offset = random_offset(seconds(10), random);
    ASSERT_GE(offset, Span::zero());
    ASSERT_LT(offset, seconds(10));
    ++tenths[static_cast<std::size_t>(offset / seconds(1))];
  }
  for (const int count : tenths) {
    EXPECT_NEAR(count, 1000, 150);  // Five standard deviations.
  }
  EXPECT_EQ(random_offset(Span::zero(), random), Span::zero());
  EXPECT_EQ(random_offset(seconds(-1), random), Span::zero());
}

// Stored nowhere, so it must not change: not by version, not by platform.
TEST(OffsetOfKey, IsTheSameForEver) {
  EXPECT_EQ(offset_of_key("backup/customer-17", hours(1)).count(), 2'502'496'686'756);
  EXPECT_EQ(offset_of_key(17, hours(1)).count(), 1'314'031'658'984);
  EXPECT_EQ(offset_of_key("x", Span::zero()), Span::zero());
  EXPECT_EQ(offset_of_key("x", seconds(-1)), Span::zero());
}

TEST(OffsetOfKey, IsEvenOverNamesAndNumbersThatDifferInOneDigit) {
  for (const bool named : {true, false}) {
    std::vector<int> seconds_of_minute(60);
    for (unsigned i = 0; i < 60'000; ++i) {
      const Span offset = named ? offset_of_key("job-" + std::to_string(i), seconds(60))
                                : offset_of_key(i, seconds(60));
      ASSERT_LT(offset, seconds(60));
      ++seconds_of_minute[static_cast<std::size_t>(offset / seconds(1))];
    }
    for (const int count : seconds_of_minute) {
      EXPECT_NEAR(count, 1000, 160);  // Five standard deviations.
    }
  }
}

TEST(Spread, EveryPartOfTheWindowHasItsShare) {
  for (const std::size_t count : {1U, 7U, 600U, 10'007U}) {
    const Spread spread(count, seconds(60), 5);
    Span last(-1);
    std::vector<std::size_t> tenths(10);
    for (std::size_t i = 0; i < count; ++i) {
      const Span offset = spread.offset(i);
      EXPECT_EQ(offset, spread.offset(i));
      ASSERT_GE(offset, last);
      ASSERT_LT(offset, seconds(60));
      last = offset;
      ++tenths[static_cast<std::size_t>(offset / seconds(6))];
    }
    for (const std::size_t in_tenth : tenths) {
      EXPECT_NEAR(static_cast<double>(in_tenth), static_cast<double>(count) / 10, 2);
    }
  }
}

TEST(Spread, TheSeedDecides) {
  const Spread one(100, seconds(1), 1);
  const Spread same(100, seconds(1), 1);
  const Spread other(100, seconds(1), 2);
  int different = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(one.offset(i), same.offset(i));
    different += one.offset(i) != other.offset(i) ? 1 : 0;
  }
  EXPECT_GT(different, 95);
}

TEST(Spread, WindowsOfNoLengthAndOfAllTime) {
  EXPECT_EQ(Spread(5, Span::zero(), 1).offset(4), Span::zero());
  EXPECT_EQ(Spread(5, seconds(-1), 1).offset(4), Span::zero());
  const Spread longest(1'000'000, kForever, 1);
  EXPECT_GT(longest.offset(999'999), kForever / 1'000'000 * 999'998);
  EXPECT_LT(Spread(10, Span(3), 1).offset(9), Span(3));  // Fewer nanoseconds than places.
}

TEST(SpreadDeathTest, AnIndexBeyondTheBatchStopsTheProgram) {
  EXPECT_DEATH((void)Spread(5, seconds(1), 1).offset(5), "place 5 of 5");
}

// F21: six hundred schedules on the same minute.
TEST(SpreadStory, SixHundredOnTheSameMinuteAreTenASecond) {
  ManualDriver time;
  Timer timer(time.options());
  const Spread spread(600, seconds(60), 21);
  int fired = 0;
  for (std::size_t i = 0; i < 600; ++i) {
    timer.after(hours(1) + spread.offset(i), [&] { ++fired; });
  }
  time.advance(hours(1));
  int before = fired;
  EXPECT_LE(before, 1);
  for (int second = 0; second < 60; ++second) {
    time.advance(seconds(1));
    EXPECT_NEAR(fired - before, 10, 1) << "in second " << second;
    before = fired;
  }
  EXPECT_EQ(fired, 600);
}

}  // namespace
}  // namespace carillon
