// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/dashboard_json.h"

#include <gtest/gtest.h>

namespace carillon::server {
namespace {

broker::WheelView wheel_of(std::vector<std::vector<std::uint64_t>> levels) {
  broker::WheelView wheel;
  wheel.now_ms = 1'000;
  std::int64_t slot_ms = 1;
  for (std::vector<std::uint64_t>& counts : levels) {
    wheel.levels.push_back({slot_ms, 0, std::move(counts)});
    slot_ms *= 64;
  }
  return wheel;
}

std::string written(const broker::WheelView& wheel) {
  protocol::http::JsonWriter out;
  write_wheel(wheel, out);
  return out.take();
}

TEST(DashboardJson, WheelsOfPartitionsLieOnTopOfEachOther) {
  broker::WheelView sum;
  broker::WheelView one = wheel_of({{1, 0}, {0, 2}});
  one.delayed[0] = 3;
  one.far = 5;
  broker::WheelView other = wheel_of({{4, 1}, {0, 0}, {7, 0}});
  other.delayed[0] = 1;
  other.delayed[6] = 2;
  add_to(sum, one);
  add_to(sum, other);
  ASSERT_EQ(sum.levels.size(), 3U);
  EXPECT_EQ(sum.levels[0].counts, (std::vector<std::uint64_t>{5, 1}));
  EXPECT_EQ(sum.levels[1].counts, (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(sum.levels[2].counts, (std::vector<std::uint64_t>{7, 0}));
  EXPECT_EQ(sum.levels[2].slot_ms, 4'096);
  EXPECT_EQ(sum.delayed[0], 4U);
  EXPECT_EQ(sum.delayed[6], 2U);
  EXPECT_EQ(sum.far, 5U);
}

TEST(DashboardJson, LevelsBeyondTheCoarsestInUseAreLeftOut) {
  EXPECT_EQ(written(wheel_of({{1}, {0}, {0}, {0}, {0}})),
            R"({"now_ms":1000,"size":1,"levels":[{"granularity_ms":1,"hand":0,"counts":[1]},)"
            R"({"granularity_ms":64,"hand":0,"counts":[0]},)"
            R"({"granularity_ms":4096,"hand":0,"counts":[0]}]})");
  const std::string full = written(wheel_of({{1}, {0}, {0}, {0}, {9}}));
  EXPECT_NE(full.find(R"("size":10)"), std::string::npos);
  EXPECT_NE(full.find(R"("counts":[9])"), std::string::npos);
}

TEST(DashboardJson, WhatIsDueLatestHasNoEnd) {
  broker::WheelView wheel;
  wheel.delayed[0] = 1;
  wheel.delayed[wheel.delayed.size() - 1] = 2;
  protocol::http::JsonWriter out;
  write_due(wheel, out);
  const std::string text = out.take();
  EXPECT_TRUE(text.starts_with(R"([{"until_ms":1000,"count":1},)")) << text;
  EXPECT_TRUE(text.ends_with(R"({"until_ms":null,"count":2}])")) << text;
}

TEST(DashboardJson, HistoryIsRowsOfNumbers) {
  StatsSeries series;
  series.add({1'000, 0, 0, 0, {}}, 0);
  StatsSample later{2'000, 10, 5, 1, {}};
  series.add(later, 1.0);
  later.at_ms = 3'000;
  later.lateness_us.add(0);
  series.add(later, 1.0);
  protocol::http::JsonWriter out;
  write_dashboard_history(series, out);
  EXPECT_EQ(out.take(),
            R"({"columns":"at_ms,puts,fired,deleted,lateness_p50_ms,lateness_p99_ms","points":)"
            R"([[2000,10.0,5.0,1.0,null,null],[3000,0.0,0.0,0.0,0.0,0.0]]})");
}

}  // namespace
}  // namespace carillon::server
