// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/settings_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "carillon/protocol/http/json_document.h"

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using protocol::http::Fields;
using protocol::http::JsonDocument;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using testing::HasSubstr;
using testing::Not;

std::optional<Problem> decode(const std::string& json, WebhookSettings& settings,
                              const WebhookSettings* present = nullptr) {
  JsonDocument document;
  EXPECT_EQ(document.parse(json), std::nullopt) << json;
  return decode_webhook(Fields(document.values(), 0, "webhook"), present, settings);
}

WebhookSettings everything() {
  WebhookSettings settings;
  settings.target.url = WebhookUrl::parse("https://hooks.example:8443/in?a=1").value();
  settings.target.secrets = {"sixteen bytes or", "more \"than\" that, too"};
  settings.target.connect_timeout = 1'500ms;
  settings.target.timeout = 9s;
  settings.concurrency = 77;
  settings.rate = WebhookRate{5, 2s, 9};
  settings.max_attempts = 3;
  settings.backoff = {250ms, 1min, false};
  settings.max_retry_after = 10min;
  settings.bury_on_client_error = true;
  return settings;
}

TEST(WebhookDocument, HoldsEverything) {
  const Result<std::optional<WebhookSettings>> read = webhook_of(webhook_document(everything()));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(*read);
  EXPECT_EQ(**read, everything());
}

TEST(WebhookDocument, OfNoWebhookIsNothing) {
  EXPECT_EQ(webhook_document(std::nullopt), "");
  EXPECT_FALSE(webhook_of("").value());
  EXPECT_FALSE(webhook_of("{}").value());
}

TEST(WebhookDocument, OfSomebodyElseIsAnError) {
  for (const char* document :
       {"x", "[]", "{\"webhook\": 1}", "{\"webhook\": {}}", "{\"other\": {}}"}) {
    EXPECT_FALSE(webhook_of(document)) << document;
  }
}

TEST(WebhookSettings, HasDefaults) {
  WebhookSettings settings;
  EXPECT_FALSE(decode(R"({"url": "http://hooks.example"})", settings));
  WebhookSettings expected;
  expected.target.url = WebhookUrl::parse("http://hooks.example/").value();
  EXPECT_EQ(settings, expected);
  EXPECT_FALSE(decode(R"({"url": "http://h.example", "rate": {"count": 7}})", settings));
  EXPECT_EQ(settings.rate, (WebhookRate{7, 1s, 7}));
}

TEST(WebhookSettings, EveryRateThatIsTakenCanBeCounted) {
  for (const char* rate : {R"({"count": 999983, "per_ms": 3599999, "burst": 1000000})",
                           R"({"count": 1, "per_ms": 3600000, "burst": 1000000})",
                           R"({"count": 1000000, "per_ms": 1, "burst": 1})"}) {
    WebhookSettings settings;
    EXPECT_FALSE(
        decode(R"({"url": "http://h.example", "rate": )" + std::string(rate) + "}", settings));
    TokenBucketOptions options;
    options.rate = {settings.rate->count, settings.rate->per};
    options.burst = settings.rate->burst;
    TokenBucket<int> bucket(options);  // Which stops the program if it cannot.
    EXPECT_TRUE(bucket.try_acquire(0, 1, Instant{}));
  }
}

TEST(WebhookSettings, SecretsAreNotShownAndStayWhenTheRestIsSentBack) {
  JsonWriter out;
  write_webhook(everything(), false, out);
  const std::string shown = out.take();
  EXPECT_THAT(shown, Not(HasSubstr("sixteen")));
  EXPECT_THAT(shown, Not(HasSubstr("secret")));
  const WebhookSettings present = everything();
  WebhookSettings settings;
  EXPECT_FALSE(decode(shown, settings, &present));
  EXPECT_EQ(settings, present);
  EXPECT_FALSE(decode(R"({"url": "http://h.example", "secrets": []})", settings, &present));
  EXPECT_TRUE(settings.target.secrets.empty());
}

TEST(WebhookSettings, SaysWhichMemberIsWrong) {
  const struct {
    std::string json;
    std::string field;
  } cases[] = {
      {R"({})", "webhook.url"},
      {R"({"url": 1})", "webhook.url"},
      {R"({"url": "ftp://x.example"})", "webhook.url"},
      {R"({"url": "http://u:p@x.example"})", "webhook.url"},
      {R"({"url": "http://x.example", "concurrency": 0})", "webhook.concurrency"},
      {R"({"url": "http://x.example", "concurrency": 1001})", "webhook.concurrency"},
      {R"({"url": "http://x.example", "timeout_ms": 99})", "webhook.timeout_ms"},
      {R"({"url": "http://x.example", "timeout_ms": 600001})", "webhook.timeout_ms"},
      {R"({"url": "http://x.example", "connect_timeout_ms": 60001})", "webhook.connect_timeout_ms"},
      {R"({"url": "http://x.example", "max_attempts": -1})", "webhook.max_attempts"},
      {R"({"url": "http://x.example", "secrets": "s"})", "webhook.secrets"},
      {R"({"url": "http://x.example", "secrets": ["short"]})", "webhook.secrets"},
      {R"({"url": "http://x.example", "secrets": [7]})", "webhook.secrets"},
      {R"({"url": "http://x.example", "secrets": ["0123456789abcdef", "0123456789abcdef", "0123456789abcdef"]})",
       "webhook.secrets"},
      {R"({"url": "http://x.example", "rate": {}})", "webhook.rate.count"},
      {R"({"url": "http://x.example", "rate": {"count": 0}})", "webhook.rate.count"},
      {R"({"url": "http://x.example", "backoff": {"base_ms": 9, "cap_ms": 8}})",
       "webhook.backoff.cap_ms"},
      {R"({"url": "http://x.example", "on_client_error": "ignore"})", "webhook.on_client_error"},
      {R"({"url": "http://x.example", "secret": "x"})", "webhook.secret"},
  };
  for (const auto& [json, field] : cases) {
    WebhookSettings settings;
    const std::optional<Problem> problem = decode(json, settings);
    ASSERT_TRUE(problem) << json;
    EXPECT_EQ(problem->field, field) << json;
  }
}

}  // namespace
}  // namespace carillon::server
