// SPDX-License-Identifier: Apache-2.0
// Times, Base64, targets and problems as text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "carillon/protocol/http/base64.h"
#include "carillon/protocol/http/json_writer.h"
#include "carillon/protocol/http/problem.h"
#include "carillon/protocol/http/query.h"
#include "carillon/protocol/http/time_text.h"

namespace carillon::protocol::http {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(TimeText, GoesRound) {
  for (const std::int64_t ms : {std::int64_t{0}, std::int64_t{1}, std::int64_t{951'782'400'000},
                                std::int64_t{1'893'456'000'123}, kLastTimeMs}) {
    EXPECT_EQ(parse_time(format_time(ms)), ms) << format_time(ms);
  }
  EXPECT_EQ(format_time(951'782'400'000), "2000-02-29T00:00:00.000Z");
  EXPECT_EQ(format_time(-1), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_time(INT64_MAX), "9999-12-31T23:59:59.999Z");
}

TEST(TimeText, ReadsWhatRfc3339Allows) {
  EXPECT_EQ(parse_time("1970-01-01T00:00:01Z"), 1000);
  EXPECT_EQ(parse_time("1970-01-01t00:00:01z"), 1000);
  EXPECT_EQ(parse_time("1970-01-01 00:00:01Z"), 1000);
  EXPECT_EQ(parse_time("1970-01-01T00:00:01.5Z"), 1500);
  EXPECT_EQ(parse_time("1970-01-01T02:00:01+02:00"), 1000);
  EXPECT_EQ(parse_time("1969-12-31T23:30:01-00:30"), 1000);
  EXPECT_EQ(parse_time("1970-01-01T00:00:60Z"), 60'000);
}

TEST(TimeText, FinerThanMillisecondsIsNeverEarly) {
  EXPECT_EQ(parse_time("1970-01-01T00:00:00.0001Z"), 1);
  EXPECT_EQ(parse_time("1970-01-01T00:00:00.9990000001Z"), 1000);
  EXPECT_EQ(parse_time("1970-01-01T00:00:00.9990000000Z"), 999);
}

TEST(TimeText, RefusesWhatIsNone) {
  for (const char* text :
       {"", "x", "1970-01-01", "1970-01-01T00:00:00", "1970-1-01T00:00:00Z", "1970-01-01T00:00Z",
        "1970-02-30T00:00:00Z", "1970-13-01T00:00:00Z", "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z", "1970-01-01T00:00:61Z", "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00Zx", "1970-01-01T00:00:00+1:00", "1970-01-01T00:00:00+24:00",
        "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.9999Z", "+1970-01-01T00:00:00Z"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

TEST(Base64, GoesRoundForEverySize) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes.push_back(static_cast<char>(i * 37));
  }
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foo"), "Zm9v");
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "=", "====", "Zg= =", "Zm9v\n", "Zm-_"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

TEST(Target, IsTakenApart) {
  const auto target = Target::parse("/api/a%2Fb/c?x=1&y=a+b%26&z&=w");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path(), "/api/a%2Fb/c");
  EXPECT_THAT(target->segments(), ElementsAre("api", "a/b", "c"));
  EXPECT_THAT(target->parameters(),
              ElementsAre(Pair("x", "1"), Pair("y", "a b&"), Pair("z", ""), Pair("", "w")));
  EXPECT_THAT(Target::parse("/")->segments(), ElementsAre());
  EXPECT_EQ(encode_segment("a/b c~"), "a%2Fb%20c~");
}

TEST(Target, RefusesWhatIsNone) {
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("*"), std::string("http://a/"),
        std::string("/%"), std::string("/%4"), std::string("/%4g"), std::string("/?a=%zz")}) {
    EXPECT_FALSE(Target::parse(text)) << text;
  }
  std::string deep;
  for (std::size_t i = 0; i <= Target::kMaxSegments; ++i) deep += "/a";
  EXPECT_FALSE(Target::parse(deep));
  std::string wide = "/?";
  for (std::size_t i = 0; i <= Target::kMaxParameters; ++i) wide += "a=1&";
  EXPECT_FALSE(Target::parse(wide));
}

TEST(Problem, IsADocumentOfRfc9457) {
  Problem problem{ProblemKind::kInvalidField, "is \"wrong\"", "delay_ms", "0 to 5", 7};
  EXPECT_EQ(to_json(problem),
            R"({"type":"urn:carillon:problem:invalid-field","title":"A member or parameter has a )"
            R"(wrong value","status":422,"detail":"is \"wrong\"","field":"delay_ms",)"
            R"("limit":"0 to 5","id":"7"})");
}

TEST(JsonWriter, EscapesAndStartsAnew) {
  JsonWriter out;
  out.begin_array();
  out.text(std::string_view("a\0\x1f\"\\/\n", 7));
  out.number(std::uint64_t{18446744073709551615U});
  out.end_array();
  EXPECT_EQ(out.take(), "[\"a\\u0000\\u001F\\\"\\\\/\\n\",18446744073709551615]");
  out.begin_object();
  out.end_object();
  EXPECT_EQ(out.take(), "{}");
}

}  // namespace
}  // namespace carillon::protocol::http
