// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/rfc3339.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace carillon::calendar {
namespace {

using ::testing::HasSubstr;

TEST(Rfc3339, Reads) {
  const std::pair<std::string_view, std::int64_t> rows[] = {
      {"1970-01-01T00:00:00Z", 0},
      {"1970-01-01T01:00:00+01:00", 0},
      {"1969-12-31T18:30:00-05:30", 0},
      {"2026-03-29T00:30:00.250Z", 1'774'744'200'250},
      {"2026-03-29t00:30:00.25z", 1'774'744'200'250},
      {"2026-03-29T02:30:00.250000+02:00", 1'774'744'200'250},
      {"2026-03-29T00:30:00.2500001Z", 1'774'744'200'251},
      {"2026-03-29T00:30:00.9999Z", 1'774'744'201'000},
      {"1969-12-31T23:59:59.999Z", -1},
      {"2016-12-31T23:59:60Z", 1'483'228'800'000},
      {"0001-01-01T00:00:00Z", -62'135'596'800'000},
      {"9999-12-31T23:59:59.999Z", 253'402'300'799'999},
      {"2028-02-29T00:00:00Z", 1'835'395'200'000},
  };
  for (const auto& [text, ms] : rows) {
    const Result<std::int64_t> read = parse_rfc3339(text);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, ms) << text;
  }
}

TEST(Rfc3339, Refuses) {
  for (const std::string_view text : {"",
                                      "2026",
                                      "2026-03-29",
                                      "2026-03-29T00:30Z",
                                      "2026-03-29T00:30:00",
                                      "2026-03-29 00:30:00Z",
                                      "2026-02-29T00:00:00Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-00-01T00:00:00Z",
                                      "2026-01-00T00:00:00Z",
                                      "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:60:00Z",
                                      "2026-01-01T00:00:61Z",
                                      "2026-01-01T00:00:00.Z",
                                      "2026-01-01T00:00:00+24:00",
                                      "2026-01-01T00:00:00+0100",
                                      "2026-01-01T00:00:00Zx",
                                      "0000-01-01T00:00:00Z",
                                      "+026-01-01T00:00:00Z",
                                      "2026-01-01T00:00:00 Z"}) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
  EXPECT_THAT(parse_rfc3339("2026-03-29T00:30:00").error().message, HasSubstr("an offset"));
}

TEST(Rfc3339, WritesWhatItReads) {
  for (const std::int64_t ms :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1'774'744'200'250},
        std::int64_t{-62'135'596'800'000}, std::int64_t{253'402'300'799'999}}) {
    EXPECT_EQ(parse_rfc3339(format_rfc3339(ms)).value(), ms);
  }
  EXPECT_EQ(format_rfc3339(1'774'744'200'250), "2026-03-29T00:30:00.250Z");
  EXPECT_EQ(format_rfc3339(std::numeric_limits<std::int64_t>::max()), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(format_rfc3339(std::numeric_limits<std::int64_t>::min()), "0001-01-01T00:00:00.000Z");
}

TEST(Rfc3339, WritesWhatTheClocksOfAZoneShow) {
  EXPECT_EQ(format_rfc3339(1'774'744'200'250, 7'200), "2026-03-29T02:30:00.250+02:00");
  EXPECT_EQ(format_rfc3339(1'774'744'200'250, -12'600), "2026-03-28T21:00:00.250-03:30");
  EXPECT_EQ(format_rfc3339(1'774'744'200'250, 0), "2026-03-29T00:30:00.250Z");
  EXPECT_EQ(format_rfc3339(0, 1'172), "1970-01-01T00:00:00.000Z");  // No whole minutes.
  EXPECT_EQ(format_rfc3339(std::numeric_limits<std::int64_t>::max(), 3'600),
            "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(format_rfc3339(253'402'300'799'999, 3'600), "9999-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace carillon::calendar
