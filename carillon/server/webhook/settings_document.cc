// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/settings_document.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "carillon/protocol/http/json_document.h"

namespace carillon::server {
namespace {

using protocol::http::Fields;
using protocol::http::JsonDocument;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using protocol::http::Value;
using protocol::http::ValueType;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kDayMs = 24 * kHourMs;
constexpr std::int64_t kLeastTimeoutMs = 100;
constexpr std::int64_t kMaxConnectTimeoutMs = 60'000;
constexpr std::int64_t kMaxTimeoutMs = 600'000;
constexpr std::int64_t kMaxAttempts = 1'000'000;
/// With a span of an hour at most, which a token bucket can count exactly.
constexpr std::int64_t kMaxRate = 1'000'000;

constexpr std::array<std::string_view, 2> kOnClientError{"retry", "bury"};

std::int64_t ms_of(Span span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

void read_span(Fields& fields, std::string_view name, std::int64_t least_ms, std::int64_t most_ms,
               Span& out) {
  std::int64_t ms = 0;
  if (fields.number(name, least_ms, most_ms, ms)) out = std::chrono::milliseconds(ms);
}

template <class Number>
void read_number(Fields& fields, std::string_view name, std::int64_t least, std::int64_t most,
                 Number& out) {
  std::int64_t number = 0;
  if (fields.number(name, least, most, number)) out = static_cast<Number>(number);
}

void read_secrets(Fields& fields, std::vector<std::string>& out) {
  constexpr std::string_view kLimit = "at most 2 strings of 16 to 256 bytes";
  std::vector<std::uint32_t> places;
  if (!fields.array("secrets", 0, kMaxWebhookSecrets, places)) return;
  out.clear();
  for (const std::uint32_t place : places) {
    const Value& value = fields.values()[place];
    if (value.type != ValueType::kText || value.text.size() < kLeastSecretSize ||
        value.text.size() > kMaxSecretSize || !protocol::http::is_utf8(value.text)) {
      return fields.invalid("secrets", "has one that is none", kLimit);
    }
    out.emplace_back(value.text);
  }
}

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

/// A token (RFC 9110, 5.6.2).
bool is_header_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxHeaderNameSize &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  is_one_of(c, "!#$%&'*+-.^_`|~");
         });
}

/// Whether a field is ours to say, or the connection's.
bool is_own_header(std::string_view name) {
  constexpr std::string_view kOwn[] = {"connection",     "content-encoding",
                                       "content-length", "content-type",
                                       "expect",         "host",
                                       "keep-alive",     "te",
                                       "trailer",        "transfer-encoding",
                                       "upgrade",        "user-agent"};
  return name.starts_with("carillon-") || name.starts_with("proxy-") ||
         std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
}

std::string small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return small;
}

void read_headers(Fields& fields, std::vector<std::pair<std::string, std::string>>& out) {
  std::optional<Fields> headers = fields.object("headers");
  if (!headers) return;
  out.clear();
  std::set<std::string> seen;
  for (const std::string_view name : headers->names()) {
    if (!is_header_name(name)) {
      headers->invalid(name, "is not the name of a header", "1 to 64 letters, digits and -");
    } else if (const std::string small = small_letters(name); is_own_header(small)) {
      headers->invalid(name, "is set by the server", "another header");
    } else if (!seen.insert(small).second) {
      headers->invalid(name, "is there twice", "each header once");
    }
    std::string value;
    headers->text(name, 0, kMaxHeaderValueSize, value);
    const bool is_visible =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c < '\x7f'; });
    if (!is_visible || (!value.empty() && (value.front() == ' ' || value.back() == ' '))) {
      headers->invalid(name, "is not the value of a header", "visible ASCII, and spaces between");
    }
    out.emplace_back(name, std::move(value));
  }
  if (out.size() > kMaxWebhookHeaders) {
    fields.invalid("headers", "has too many members", "at most 16");
  }
  if (std::optional<Problem> problem = headers->finish()) fields.fail(std::move(*problem));
}

void read_rate(Fields& fields, std::optional<WebhookRate>& out) {
  std::optional<Fields> rate = fields.object("rate");
  if (!rate) return;
  WebhookRate read;
  rate->require("count");
  read_number(*rate, "count", 1, kMaxRate, read.count);
  read_span(*rate, "per_ms", 1, kHourMs, read.per);
  read.burst = read.count;
  read_number(*rate, "burst", 1, kMaxRate, read.burst);
  if (std::optional<Problem> problem = rate->finish()) return fields.fail(std::move(*problem));
  out = read;
}

void read_backoff(Fields& fields, WebhookBackoff& out) {
  std::optional<Fields> backoff = fields.object("backoff");
  if (!backoff) return;
  read_span(*backoff, "base_ms", 0, kDayMs, out.base);
  read_span(*backoff, "cap_ms", 0, 30 * kDayMs, out.cap);
  backoff->flag("jitter", out.jitter);
  if (out.cap < out.base) backoff->invalid("cap_ms", "is less than base_ms", "at least base_ms");
  if (std::optional<Problem> problem = backoff->finish()) fields.fail(std::move(*problem));
}

}  // namespace

std::optional<Problem> decode_webhook(Fields webhook, const WebhookSettings* present,
                                      WebhookSettings& settings) {
  settings = WebhookSettings();
  if (present != nullptr) {
    settings.target.secrets = present->target.secrets;
    settings.target.headers = present->target.headers;
  }
  std::string url;
  webhook.require("url");
  if (webhook.text("url", 1, WebhookUrl::kMaxSize, url)) {
    Result<WebhookUrl> parsed = WebhookUrl::parse(url);
    if (parsed) {
      settings.target.url = std::move(*parsed);
    } else {
      std::string why = parsed.error().message;
      if (why.starts_with("url: ")) why.erase(0, 5);
      webhook.invalid("url", why, "an http or https URL of at most 2048 bytes");
    }
  }
  read_secrets(webhook, settings.target.secrets);
  read_headers(webhook, settings.target.headers);
  read_number(webhook, "concurrency", 1, WebhookSettings::kMaxConcurrency, settings.concurrency);
  read_rate(webhook, settings.rate);
  read_span(webhook, "connect_timeout_ms", kLeastTimeoutMs, kMaxConnectTimeoutMs,
            settings.target.connect_timeout);
  read_span(webhook, "timeout_ms", kLeastTimeoutMs, kMaxTimeoutMs, settings.target.timeout);
  read_number(webhook, "max_attempts", 0, kMaxAttempts, settings.max_attempts);
  read_backoff(webhook, settings.backoff);
  read_span(webhook, "max_retry_after_ms", 0, 7 * kDayMs, settings.max_retry_after);
  std::size_t word = 0;
  if (webhook.word("on_client_error", kOnClientError, word)) {
    settings.bury_on_client_error = word == 1;
  }
  return webhook.finish();
}

void write_webhook(const WebhookSettings& settings, bool with_secrets, JsonWriter& out) {
  out.begin_object();
  out.field("url", settings.target.url.to_string());
  if (with_secrets) {
    out.key("secrets");
    out.begin_array();
    for (const std::string& secret : settings.target.secrets) out.text(secret);
    out.end_array();
    out.key("headers");
    out.begin_object();
    for (const auto& [name, value] : settings.target.headers) out.field(name, value);
    out.end_object();
  }
  out.field("concurrency", settings.concurrency);
  if (settings.rate) {
    out.key("rate");
    out.begin_object();
    out.field("count", settings.rate->count);
    out.field("per_ms", ms_of(settings.rate->per));
    out.field("burst", settings.rate->burst);
    out.end_object();
  }
  out.field("connect_timeout_ms", ms_of(settings.target.connect_timeout));
  out.field("timeout_ms", ms_of(settings.target.timeout));
  out.field("max_attempts", settings.max_attempts);
  out.key("backoff");
  out.begin_object();
  out.field("base_ms", ms_of(settings.backoff.base));
  out.field("cap_ms", ms_of(settings.backoff.cap));
  out.field("jitter", settings.backoff.jitter);
  out.end_object();
  out.field("max_retry_after_ms", ms_of(settings.max_retry_after));
  out.field("on_client_error", kOnClientError[settings.bury_on_client_error ? 1 : 0]);
  out.end_object();
}

void write_webhook_state(const WebhookSettings& settings, const WebhookState& state,
                         JsonWriter& out) {
  out.begin_object();
  out.field("secrets", settings.target.secrets.size());
  out.field("headers", settings.target.headers.size());
  out.field("in_flight", state.in_flight);
  out.field("concurrency_now", state.concurrency);
  out.field("waits_for_connection", state.starved);
  out.field("failures_in_row", state.failures);
  if (state.paused_for) out.field("paused_for_ms", ms_of(*state.paused_for));
  out.field("delivered", state.delivered);
  out.field("failed_attempts", state.failed);
  out.field("buried", state.buried);
  if (state.last_ago) {
    out.field("last_ago_ms", ms_of(*state.last_ago));
    out.field("last_outcome", to_string(state.last_end));
    if (state.last_status != 0) out.field("last_status", state.last_status);
    if (!state.last_error.empty() && protocol::http::is_utf8(state.last_error)) {
      out.field("last_error", state.last_error);
    }
  }
  out.end_object();
}

std::string webhook_document(const std::optional<WebhookSettings>& webhook) {
  if (!webhook) return {};
  JsonWriter out;
  out.begin_object();
  out.key("webhook");
  write_webhook(*webhook, true, out);
  out.end_object();
  return out.take();
}

Result<std::optional<WebhookSettings>> webhook_of(const std::string& document) {
  if (document.empty()) return std::optional<WebhookSettings>();
  const auto corrupt = [](const std::string& why) {
    return Error{ErrorCode::kCorrupt, "the settings of a tube: " + why};
  };
  JsonDocument json;
  if (std::optional<std::string> problem = json.parse(document)) return corrupt(*problem);
  Fields fields(json.values());
  std::optional<Fields> webhook = fields.object("webhook");
  if (std::optional<Problem> problem = fields.finish()) return corrupt(problem->detail);
  if (!webhook) return std::optional<WebhookSettings>();
  WebhookSettings settings;
  if (std::optional<Problem> problem = decode_webhook(std::move(*webhook), nullptr, settings)) {
    return corrupt(problem->field + " " + problem->detail);
  }
  return std::optional<WebhookSettings>(std::move(settings));
}

}  // namespace carillon::server
