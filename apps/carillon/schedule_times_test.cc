// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/schedule_times.h"

#include <gtest/gtest.h>

#include "carillon/base/result.h"

namespace carillon::app {
namespace {

using Times = std::vector<DueTime>;

calendar::Recurrence each_minute() { return *calendar::Recurrence::parse("every 1m"); }

TEST(ScheduleTimes, AfterATimeThatIsDueComesTheNext) {
  EXPECT_EQ(times_after(each_minute(), 60'000, 2), (Times{{120'000, {}}, {180'000, {}}}));
  EXPECT_EQ(times_after(each_minute(), 59'999, 1), (Times{{60'000, {}}}));
  EXPECT_EQ(times_after(each_minute(), 0, 0), Times{});
}

TEST(ScheduleTimes, EndWithTheCalendar) {
  const auto yearly = calendar::Recurrence::parse("@yearly");
  ASSERT_TRUE(yearly);
  const std::size_t count = times_after(*yearly, 0, kMostTimes).size();
  EXPECT_GT(count, 200U);
  EXPECT_LT(count, 300U);
}

TEST(ScheduleTimes, FromTheServersAllHaveItsJitter) {
  EXPECT_EQ(times_from(each_minute(), {120'000, 127'000}, 100'000, 3),
            (Times{{120'000, 127'000}, {180'000, 187'000}, {240'000, 247'000}}));
  EXPECT_EQ(times_from(each_minute(), {120'000, 120'000}, 100'000, 1), (Times{{120'000, 120'000}}));
}

TEST(ScheduleTimes, BehindOneThatTheServerIsLateWithAreThoseToCome) {
  EXPECT_EQ(times_from(each_minute(), {120'000, 127'000}, 600'000, 3),
            (Times{{120'000, 127'000}, {600'000, 607'000}, {660'000, 667'000}}));
  // That of minute 10 has been put late, or missed, when its seven seconds are over.
  EXPECT_EQ(times_from(each_minute(), {120'000, 127'000}, 607'000, 2),
            (Times{{120'000, 127'000}, {660'000, 667'000}}));
}

TEST(ScheduleTimes, ClocksShowTheirOffset) {
  const auto cron = calendar::Recurrence::cron("30 2 * * *", "Asia/Kolkata");
  ASSERT_TRUE(cron);
  EXPECT_EQ(by_clocks_of(cron->time_zone(), 1), "1970-01-01T05:30:00.001+05:30");
  EXPECT_EQ(by_clocks_of(cron->time_zone(), -1), "1970-01-01T05:29:59.999+05:30");
}

}  // namespace
}  // namespace carillon::app
