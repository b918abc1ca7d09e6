// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/retry_after.h"

#include <gtest/gtest.h>

#include <string_view>

namespace carillon::server {
namespace {

using namespace std::chrono_literals;

// Sun, 06 Nov 1994 08:49:07 GMT
constexpr WallTime kNow = WallTime(Span(784'111'747s));

TEST(RetryAfter, IsSeconds) {
  EXPECT_EQ(parse_retry_after("0", kNow), Span{});
  EXPECT_EQ(parse_retry_after("120", kNow), Span(120s));
  EXPECT_EQ(parse_retry_after(" 7\t", kNow), Span(7s));
  EXPECT_EQ(parse_retry_after("99999999999999999999999", kNow), kForever);
}

TEST(RetryAfter, IsADateInAnyOfThreeForms) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", kNow), Span(30s));
  EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-94 08:49:37 GMT", kNow), Span(30s));
  EXPECT_EQ(parse_retry_after("Sun Nov  6 08:49:37 1994", kNow), Span(30s));
  EXPECT_EQ(parse_retry_after("Wed Nov 16 08:49:07 1994", kNow), Span(240h));
}

TEST(RetryAfter, ADateThatHasPassedIsNoWait) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:07 GMT", kNow), Span{});
  EXPECT_EQ(parse_retry_after("Thu, 01 Jan 1970 00:00:00 GMT", kNow), Span{});
}

TEST(RetryAfter, AShortYearFarAheadIsInThePast) {
  EXPECT_EQ(parse_retry_after("Friday, 06-Nov-70 08:49:37 GMT", kNow), Span{});
  EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-05 08:49:37 GMT", kNow), Span{});
  const std::optional<Span> near = parse_retry_after("Monday, 06-Nov-95 08:49:07 GMT", kNow);
  EXPECT_EQ(near, Span(365 * 24h));
}

TEST(RetryAfter, AFarDateDoesNotWrap) {
  const std::optional<Span> far = parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", kNow);
  ASSERT_TRUE(far);
  EXPECT_GT(*far, Span(24h * 365 * 200));
}

TEST(RetryAfter, IsNothingElse) {
  for (const std::string_view text :
       {"", " ", "-1", "1.5", "soon", "1 s", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT x",
        "Sun, 06 Foo 1994 08:49:37 GMT", "06 Nov 1994"}) {
    EXPECT_FALSE(parse_retry_after(text, kNow)) << text;
  }
}

}  // namespace
}  // namespace carillon::server
