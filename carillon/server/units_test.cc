// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/units.h"

#include <gtest/gtest.h>

namespace carillon::server {
namespace {

using namespace std::chrono_literals;

TEST(Units, ReadsDurations) {
  EXPECT_EQ(*parse_duration("500ms"), 500ms);
  EXPECT_EQ(*parse_duration("30s"), 30s);
  EXPECT_EQ(*parse_duration("30"), 30s);
  EXPECT_EQ(*parse_duration("5m"), 5min);
  EXPECT_EQ(*parse_duration("2h"), 2h);
  EXPECT_EQ(*parse_duration("1d"), 24h);
  EXPECT_EQ(*parse_duration("0"), 0s);
}

TEST(Units, ReadsSizes) {
  EXPECT_EQ(*parse_size("65535"), 65'535U);
  EXPECT_EQ(*parse_size("64KiB"), 65'536U);
  EXPECT_EQ(*parse_size("64K"), 65'536U);
  EXPECT_EQ(*parse_size("16MiB"), std::uint64_t{16} << 20);
  EXPECT_EQ(*parse_size("2G"), std::uint64_t{2} << 30);
}

TEST(Units, CountsAreDecimalDigitsAndNothingElse) {
  EXPECT_EQ(*parse_count("0"), 0U);
  EXPECT_EQ(*parse_count("010"), 10U);  // Not octal.
  EXPECT_EQ(*parse_count("18446744073709551615"), 18'446'744'073'709'551'615U);
  for (const char* text : {"", "-1", "-0", "+1", " 1", "1 ", "0x10", "1e3", "1.0", "1s",
                           "18446744073709551616", "-18446744073709551615"}) {
    const Result<std::uint64_t> count = parse_count(text);
    ASSERT_FALSE(count) << text;
    EXPECT_NE(count.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
}

TEST(Units, RefusesWhatIsNeitherAndQuotesIt) {
  for (const char* text : {"", "s", "-1s", "-0s", "0x5s", "1.5s", "1 s", "5min", "10x",
                           "99999999999999999999s", "9223372036854775807d", "ms"}) {
    const Result<Span> span = parse_duration(text);
    ASSERT_FALSE(span) << text;
    EXPECT_EQ(span.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(span.error().message.find("'" + std::string(text) + "'"), std::string::npos);
  }
  for (const char* text : {"", "K", "-1", "-0", "1.5M", "64kb", "9223372036854775807G"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Units, LongDurationsSaturateRatherThanWrap) {
  EXPECT_EQ(*parse_duration("9000000000000s"), kForever);
}

TEST(Units, FormatsInTheLargestUnitThatDivides) {
  EXPECT_EQ(format_duration(0s), "0s");
  EXPECT_EQ(format_duration(1500ms), "1500ms");
  EXPECT_EQ(format_duration(90s), "90s");
  EXPECT_EQ(format_duration(300s), "5m");
  EXPECT_EQ(format_duration(48h), "2d");
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(65'535), "65535");
  EXPECT_EQ(format_size(65'536), "64KiB");
  EXPECT_EQ(format_size(std::uint64_t{1} << 30), "1GiB");
}

TEST(Units, SecondsForTheWireAreRoundedUp) {
  EXPECT_EQ(ceil_seconds(0s), 0U);
  EXPECT_EQ(ceil_seconds(1ns), 1U);
  EXPECT_EQ(ceil_seconds(1s), 1U);
  EXPECT_EQ(ceil_seconds(1001ms), 2U);
  EXPECT_EQ(ceil_seconds(kForever), 4'294'967'295U);
}

}  // namespace
}  // namespace carillon::server
