// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/time_zone.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "carillon/calendar/rfc3339.h"

namespace carillon::calendar {
namespace {

using ::testing::HasSubstr;

std::int64_t at(std::string_view text) { return parse_rfc3339(text).value() / 1'000; }

TEST(TimeZone, Utc) {
  EXPECT_EQ(TimeZone().name(), "UTC");
  EXPECT_EQ(TimeZone::find("UTC")->period_at(0), OffsetPeriod{});
}

TEST(TimeZone, PeriodsMeetAcrossTheEndOfTheListedChanges) {
  for (const std::string_view name :
       {"Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "America/Santiago",
        "Asia/Gaza", "Europe/Dublin", "America/Nuuk", "Africa/Casablanca", "Asia/Kolkata"}) {
    const TimeZone zone = TimeZone::find(name).value();
    std::int64_t when = at("2030-01-01T00:00:00Z");
    int changes = 0;
    while (when < at("2090-01-01T00:00:00Z")) {
      const OffsetPeriod period = zone.period_at(when);
      ASSERT_LE(period.begin_s, when) << name;
      ASSERT_GT(period.end_s, when) << name;
      EXPECT_EQ(zone.period_at(std::min(period.end_s - 1, at("2090-01-01T00:00:00Z"))), period)
          << name << " " << format_rfc3339(when * 1'000);
      when = period.end_s;
      ++changes;
    }
    // The clocks are set twice a year, four times where Ramadan falls in the summer, or not at all.
    EXPECT_TRUE(changes == 1 || (changes >= 118 && changes <= 240)) << name << " " << changes;
  }
}

TEST(TimeZone, NamesThatAreNone) {
  for (const std::string_view name :
       {"", "Europe/Nowhere", "europe/amsterdam", "../../../etc/passwd", "/etc/passwd",
        "Europe/Amsterdam ", "Europe", "tzdata.zi", "CEST"}) {
    const Result<TimeZone> zone = TimeZone::find(name);
    ASSERT_FALSE(zone) << name;
    EXPECT_EQ(zone.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(zone.error().message, HasSubstr("\"" + std::string(name) + "\""));
  }
  EXPECT_THAT(TimeZone::find("localtime").error().message, HasSubstr("depends on the machine"));
}

}  // namespace
}  // namespace carillon::calendar
