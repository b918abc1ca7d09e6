// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/posix_rule.h"

#include <gtest/gtest.h>

#include <string_view>

#include "carillon/calendar/rfc3339.h"

namespace carillon::calendar {
namespace {

std::int64_t at(std::string_view text) { return parse_rfc3339(text).value() / 1'000; }

OffsetPeriod period(std::string_view rule, std::string_view when) {
  return PosixRule::parse(rule).value().period_at(at(when));
}

TEST(PosixRule, StandardTimeOnly) {
  EXPECT_EQ(period("UTC0", "2050-01-01T00:00:00Z"), OffsetPeriod{});
  EXPECT_EQ(period("<+0330>-3:30", "2050-01-01T00:00:00Z").offset_s, 12'600);
  EXPECT_EQ(period("<-05>5", "2050-01-01T00:00:00Z").offset_s, -18'000);
}

TEST(PosixRule, NorthAndSouth) {
  EXPECT_EQ(period("CET-1CEST,M3.5.0,M10.5.0/3", "2050-07-01T00:00:00Z"),
            (OffsetPeriod{at("2050-03-27T01:00:00Z"), at("2050-10-30T01:00:00Z"), 7'200}));
  EXPECT_EQ(period("CET-1CEST,M3.5.0,M10.5.0/3", "2050-12-31T23:59:59Z"),
            (OffsetPeriod{at("2050-10-30T01:00:00Z"), at("2051-03-26T01:00:00Z"), 3'600}));
  EXPECT_EQ(period("NZST-12NZDT,M9.5.0,M4.1.0/3", "2050-01-01T00:00:00Z"),
            (OffsetPeriod{at("2049-09-25T14:00:00Z"), at("2050-04-02T14:00:00Z"), 46'800}));
}

TEST(PosixRule, ExtendedHoursHalfHoursAndNegativeSaving) {
  // Nuuk: at -01:00 on a Sunday, which is Saturday 23:00.
  EXPECT_EQ(period("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2050-07-01T00:00:00Z").begin_s,
            at("2050-03-27T01:00:00Z"));
  // Gaza: 50 hours after the fourth Thursday begins.
  EXPECT_EQ(period("EET-2EEST,M3.4.4/50,M10.4.4/50", "2050-07-01T00:00:00Z").begin_s,
            at("2050-03-26T00:00:00Z"));
  EXPECT_EQ(period("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2050-01-01T00:00:00Z").offset_s,
            39'600);
  // Dublin: its standard time is summer's.
  EXPECT_EQ(period("IST-1GMT0,M10.5.0,M3.5.0/1", "2050-01-01T00:00:00Z"),
            (OffsetPeriod{at("2049-10-31T01:00:00Z"), at("2050-03-27T01:00:00Z"), 0}));
}

TEST(PosixRule, JulianDaysAndDaysOfTheYear) {
  // J60 is 1 March in every year, 59 is 29 February in a leap year.
  EXPECT_EQ(period("AAA0BBB,J60/0,J300/0", "2052-07-01T00:00:00Z").begin_s,
            at("2052-03-01T00:00:00Z"));
  EXPECT_EQ(period("AAA0BBB,59/0,299/0", "2052-07-01T00:00:00Z").begin_s,
            at("2052-02-29T00:00:00Z"));
}

// XXX3EDT4,0/0,J365/23 of RFC 8536: the end of a year's saving is the beginning of the next.
TEST(PosixRule, SavingAllYear) {
  for (const std::string_view when : {"2050-01-01T00:00:00Z", "2050-12-31T23:30:00Z",
                                      "2051-01-01T03:00:00Z", "2051-06-01T00:00:00Z"}) {
    EXPECT_EQ(period("XXX3EDT4,0/0,J365/23", when).offset_s, -14'400) << when;
  }
}

TEST(PosixRule, WhatIsNoRule) {
  for (const std::string_view text :
       {"", "CE-1", "CET", "CET-1CEST", "CET-1CEST,", "CET-1CEST,M3.5.0", "CET-1CEST,M3.5.0,M10.5",
        "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5.0/168,M10.5.0", "CET-1CEST,M3.5.0,M10.5.0 ", "CET-25", "<CET-1", "<>-1",
        "CET-1CEST,J0,J1", "CET-1CEST,366,1"}) {
    EXPECT_FALSE(PosixRule::parse(text)) << text;
  }
}

}  // namespace
}  // namespace carillon::calendar
