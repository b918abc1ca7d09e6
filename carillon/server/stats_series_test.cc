// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/stats_series.h"

#include <gtest/gtest.h>

namespace carillon::server {
namespace {

StatsSample sample(std::int64_t at_ms, std::uint64_t puts, std::uint64_t fired) {
  StatsSample result;
  result.at_ms = at_ms;
  result.puts = puts;
  result.fired = fired;
  return result;
}

TEST(StatsSeries, RatesAreOfTheTimeBetweenTwoSamples) {
  StatsSeries series;
  series.add(sample(1'000, 100, 10), 0);
  EXPECT_TRUE(series.points().empty()) << "one sample is no rate";
  series.add(sample(3'000, 300, 10), 2.0);
  ASSERT_EQ(series.points().size(), 1U);
  EXPECT_EQ(series.points()[0].at_ms, 3'000);
  EXPECT_DOUBLE_EQ(series.points()[0].puts_per_s, 100);
  EXPECT_DOUBLE_EQ(series.points()[0].fired_per_s, 0);
  EXPECT_FALSE(series.points()[0].lateness_p99_ms);
}

TEST(StatsSeries, LatenessIsOfWhatFiredSinceTheLastSample) {
  StatsSeries series;
  StatsSample now;
  for (int i = 0; i < 1'000; ++i) now.lateness_us.add(1'000'000);  // Long ago.
  series.add(now, 0);
  for (int i = 0; i < 100; ++i) now.lateness_us.add(300);
  series.add(now, 1.0);
  const StatsPoint& point = series.points().back();
  ASSERT_TRUE(point.lateness_p50_ms && point.lateness_p99_ms);
  // 300 us lies in the bucket from 256 to 512.
  EXPECT_GE(*point.lateness_p50_ms, 0.256);
  EXPECT_LE(*point.lateness_p50_ms, *point.lateness_p99_ms);
  EXPECT_LE(*point.lateness_p99_ms, 0.512);
}

TEST(StatsSeries, CountersThatGoBackAreNoRate) {
  StatsSeries series;
  series.add(sample(1'000, 500, 50), 0);
  series.add(sample(2'000, 3, 1), 1.0);  // The partition has recovered.
  EXPECT_DOUBLE_EQ(series.points().back().puts_per_s, 0);
  series.add(sample(3'000, 8, 1), 1.0);
  EXPECT_DOUBLE_EQ(series.points().back().puts_per_s, 5);
}

TEST(StatsSeries, KeepsTheLastMinutesAndLeavesOutAPause) {
  StatsSeries series;
  for (std::size_t i = 0; i <= StatsSeries::kPoints + 10; ++i) {
    series.add(sample(static_cast<std::int64_t>(i) * 1'000, i, 0), 1.0);
  }
  EXPECT_EQ(series.points().size(), StatsSeries::kPoints);
  EXPECT_EQ(series.points().front().at_ms, 11'000);
  const std::size_t size = series.points().size();
  series.forget_last();
  series.add(sample(1'000'000, 1'000'000, 0), 1.0);
  EXPECT_EQ(series.points().size(), size);
  EXPECT_EQ(series.points().back().at_ms, 310'000);
}

TEST(StatsSeries, QuantilesLieInTheBucketTheyBelongTo) {
  broker::Histogram histogram;
  for (std::uint64_t i = 1; i <= 1'000; ++i) histogram.add(i);
  EXPECT_NEAR(interpolated_quantile(histogram, 0.5), 500, 2);
  EXPECT_NEAR(interpolated_quantile(histogram, 0.25), 250, 2);
  EXPECT_NEAR(interpolated_quantile(histogram, 1.0), 1'024, 1);
  broker::Histogram zeros;
  zeros.add(0);
  EXPECT_EQ(interpolated_quantile(zeros, 0.99), 0);
  broker::Histogram huge;
  huge.add(~std::uint64_t{0});
  EXPECT_GT(interpolated_quantile(huge, 0.5), 1e9);
}

}  // namespace
}  // namespace carillon::server
