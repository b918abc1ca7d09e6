// SPDX-License-Identifier: Apache-2.0
// What is read of JSON and of queries, and what is said of what is wrong in them. The rest of the
// requests is tested against the real server (tests/conformance/http).

#include "carillon/protocol/http/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "carillon/protocol/http/job_requests.h"
#include "carillon/protocol/http/query.h"

namespace carillon::protocol::http {
namespace {

using testing::HasSubstr;

std::optional<Problem> put(std::string_view json, PutRequest& request) {
  JsonDocument document;
  if (std::optional<std::string> wrong = document.parse(json)) {
    return Problem{ProblemKind::kMalformedJson, *wrong};
  }
  return decode_put(document.values(), 0, {}, 10, request);
}

std::string field_of(std::string_view json) {
  PutRequest request;
  const std::optional<Problem> problem = put(json, request);
  return problem ? problem->field : "none";
}

TEST(JsonDocument, IsATreeInOneArray) {
  JsonDocument document;
  ASSERT_EQ(document.parse(R"({"a":[1,-2,18446744073709551615,1.5],"b":{"c":"\u00e9"},"d":null})"),
            std::nullopt);
  const auto& values = document.values();
  ASSERT_EQ(values.size(), 9U);
  EXPECT_EQ(values[values[0].first].name, "a");
  EXPECT_EQ(values[2].integer, 1);
  EXPECT_EQ(values[4].type, ValueType::kUnsigned);
  EXPECT_EQ(values[5].type, ValueType::kReal);
  EXPECT_EQ(values[7].text, "\xc3\xa9");
  EXPECT_EQ(values[8].type, ValueType::kNull);
}

TEST(JsonDocument, LimitsAreErrors) {
  JsonDocument document;
  const std::string deep(JsonDocument::kMaxDepth + 1, '[');
  EXPECT_THAT(document.parse(deep + std::string(JsonDocument::kMaxDepth + 1, ']')).value_or(""),
              HasSubstr("deeper"));
  std::string wide = "[0";
  for (std::size_t i = 0; i < JsonDocument::kMaxValues; ++i) wide += ",0";
  EXPECT_THAT(document.parse(wide + "]").value_or(""), HasSubstr("values"));
  EXPECT_EQ(document.parse("[1]"), std::nullopt) << "the same object reads the next";
}

TEST(JsonDocument, NumbersBeyond64BitsAreNumbers) {
  JsonDocument document;
  for (const char* number :
       {"18446744073709551616", "-9223372036854775809", "1e999", "-1e999", "1E+400",
        "99999999999999999999999999", "123456789012345678901234567890.5", "1e20"}) {
    ASSERT_EQ(document.parse("[\"1e999 \\\" 1e999\"," + std::string(number) + ",7]"), std::nullopt)
        << number;
    ASSERT_EQ(document.values().size(), 4U);
    EXPECT_EQ(document.values()[1].text, "1e999 \" 1e999") << "what is in a string stays";
    EXPECT_EQ(document.values()[2].type, ValueType::kHuge) << number;
    EXPECT_EQ(document.values()[3].integer, 7);
  }
  // What is no number stays none, beside one that is too large.
  for (const char* wrong : {"0184467440737095516160", "1e999e9", "--1e999", "1e999.5", "1.e999",
                            "+1e999", "1e99999-", "1e", "-"}) {
    EXPECT_NE(document.parse("[1e999," + std::string(wrong) + "]"), std::nullopt) << wrong;
  }
  ASSERT_EQ(document.parse("[18446744073709551615,-9223372036854775808,1.5e19]"), std::nullopt);
  EXPECT_EQ(document.values()[1].type, ValueType::kUnsigned);
  EXPECT_EQ(document.values()[2].type, ValueType::kInteger);
  EXPECT_EQ(document.values()[3].type, ValueType::kReal);
}

TEST(Fields, ANumberBeyond64BitsIsOutOfRangeAndNamed) {
  for (const char* number : {"18446744073709551616", "-18446744073709551616", "1e400"}) {
    PutRequest request;
    const std::optional<Problem> problem =
        put(R"({"body":"x","delay_ms":)" + std::string(number) + "}", request);
    ASSERT_TRUE(problem) << number;
    EXPECT_EQ(problem->kind, ProblemKind::kInvalidField);
    EXPECT_EQ(problem->field, "delay_ms");
    EXPECT_EQ(problem->detail, "is out of range");
    EXPECT_FALSE(problem->limit.empty());
  }
}

TEST(Fields, AKeyHasNoControlCharacters) {
  EXPECT_FALSE(is_key(""));
  EXPECT_FALSE(is_key("a\x1f"));
  EXPECT_FALSE(is_key("a\x7f"));
  EXPECT_FALSE(is_key("\xc2\x80"));
  EXPECT_FALSE(is_key("a\xc2\x85z"));
  EXPECT_FALSE(is_key("\xc3\xa4\xc2\x9b"));
  EXPECT_FALSE(is_key("a\xc2"));
  EXPECT_TRUE(is_key("\xc2\xa0"));
  EXPECT_TRUE(is_key("\xc3\x82\xc3\x9b"));
  EXPECT_TRUE(is_key("\xe2\x82\xac"));
}

TEST(JsonDocument, HalfASurrogatePairIsNoText) {
  JsonDocument document;
  EXPECT_NE(document.parse(R"({"body":"\udc00"})"), std::nullopt);
  EXPECT_NE(document.parse(R"({"\ud800":1})"), std::nullopt);
}

TEST(Fields, EveryMemberOfAPutIsRead) {
  PutRequest request;
  const std::optional<Problem> problem =
      put(R"({"body_base64":"AP8=","content_type":"a/b","priority":4294967295,"delay_ms":5,
              "ttr_ms":7,"key":"k","on_conflict":"replace","max_attempts":3,
              "backoff":{"base_ms":2,"cap_ms":4,"jitter":true}})",
          request);
  ASSERT_FALSE(problem) << problem->field << problem->detail;
  EXPECT_EQ(request.body.view(), std::string_view("\0\xff", 2));
  EXPECT_EQ(request.priority, 4294967295U);
  EXPECT_EQ(request.delay_ms, 5);
  EXPECT_EQ(request.ttr_ms, 7);
  EXPECT_EQ(request.on_conflict, broker::OnConflict::kReplace);
  const broker::JobExtras extras{"k", "a/b", 3, 2, 4, true, std::nullopt, ""};
  EXPECT_EQ(request.extras, extras);
}

TEST(Fields, TheFirstThatIsWrongIsNamed) {
  EXPECT_EQ(field_of(R"({"body":"x"})"), "none");
  EXPECT_EQ(field_of(R"({"body":"x","ttr_ms":0,"priority":-1})"), "priority");
  EXPECT_EQ(field_of(R"({"body":"x","body":"x"})"), "body");
  EXPECT_EQ(field_of(R"({"body":"x","Body":"x"})"), "Body");
  EXPECT_EQ(field_of(R"({"body":"elevenbytes"})"), "body");
  EXPECT_EQ(field_of("[]"), "body");
  std::string many = R"({"body":"x")";
  for (int i = 0; i < 100; ++i) many += ",\"m" + std::to_string(i) + "\":1";
  EXPECT_EQ(field_of(many + "}"), "");
}

TEST(Fields, AQueryIsReadAsJsonIs) {
  const auto target = Target::parse(
      "/x?delay_ms=5&key=%C3%A9&backoff.base_ms=2&backoff.jitter=true&max_attempts=9");
  PutRequest request;
  const std::vector<Value> values = target->values();
  const std::optional<Problem> problem = decode_raw_put(values, "bytes", "a/b", 10, request);
  ASSERT_FALSE(problem) << problem->field;
  EXPECT_EQ(request.delay_ms, 5);
  EXPECT_EQ(request.extras.key, "\xc3\xa9");
  EXPECT_EQ(request.extras.backoff_base_ms, 2);
  EXPECT_TRUE(request.extras.backoff_jitter);
  EXPECT_EQ(request.extras.max_attempts, 9U);
  const auto wrong = Target::parse("/x?backoff.base_ms=2&backoff.nonsense=1");
  const std::vector<Value> wrong_values = wrong->values();
  EXPECT_EQ(decode_raw_put(wrong_values, "", "a/b", 10, request)->field, "backoff.nonsense");
}

TEST(Receipt, GoesRoundAndNothingElseIsOne) {
  const Receipt receipt{0x0123456789abcdefU, 42};
  EXPECT_EQ(parse_receipt(to_string(receipt)), receipt);
  for (const char* text : {"", ".", "0123456789abcdef", "0123456789abcdef.", "0123456789abcde.1",
                           "0123456789abcdef.-1", "0123456789abcdef.4294967296",
                           "0123456789abcdeg.1", "0123456789abcdef.1 "}) {
    EXPECT_EQ(parse_receipt(text), std::nullopt) << text;
  }
}

TEST(ListRequest, ACursorGoesRound) {
  const std::string cursor = to_cursor(2, {-5, 17});
  const auto target = Target::parse("/x?state=delayed&cursor=" + cursor);
  const std::vector<Value> values = target->values();
  ListRequest request;
  ASSERT_FALSE(decode_list(values, 3, request));
  EXPECT_EQ(request.partition, 2U);
  EXPECT_EQ(request.query.after, (broker::ListCursor{-5, 17}));
  EXPECT_EQ(decode_list(values, 2, request)->field, "cursor") << "of a partition that is not there";
}

}  // namespace
}  // namespace carillon::protocol::http
