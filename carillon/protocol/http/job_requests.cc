// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/job_requests.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "carillon/protocol/http/base64.h"
#include "carillon/protocol/http/json_writer.h"
#include "carillon/protocol/http/time_text.h"

namespace carillon::protocol::http {
namespace {

/// In the order of OnConflict.
constexpr std::string_view kConflictWords[] = {"return", "replace", "refuse"};
/// In the order of JobState.
constexpr std::string_view kStates[] = {"ready", "delayed", "buried", "reserved"};

Problem too_large(std::string_view field, std::size_t size, std::size_t max_job_size) {
  return {ProblemKind::kTooLarge, fmt::format("the job has {} bytes", size), std::string(field),
          fmt::format("max-job-size is {}", max_job_size)};
}

/// Everything of a put but its body and content type; the same members in JSON and in a query.
void read_put_members(Fields& fields, PutRequest& request) {
  std::int64_t number = 0;
  if (fields.number("priority", 0, kMaxPriority, number)) {
    request.priority = static_cast<std::uint32_t>(number);
  }
  const bool has_delay = fields.number("delay_ms", 0, kMaxSpanMs, request.delay_ms);
  if (fields.time("due_at", number)) {
    request.extras.due_at_ms = number;
    if (has_delay) fields.invalid("due_at", "excludes delay_ms", "one of the two");
  }
  fields.number("ttr_ms", 1, kMaxSpanMs, request.ttr_ms);
  broker::JobExtras& extras = request.extras;
  if (fields.text("key", 1, kMaxKeySize, extras.key) && !is_key(extras.key)) {
    fields.invalid("key", "has a control character", kKeyLimit);
  }
  std::size_t word = 0;
  if (fields.word("on_conflict", kConflictWords, word)) {
    request.on_conflict = static_cast<broker::OnConflict>(word);
    if (!fields.has("key")) fields.invalid("on_conflict", "means nothing without a key", "a key");
  }
  read_job_extras(fields, extras);
}

void read_receipt(Fields& fields, Receipt& receipt) {
  fields.require("receipt");
  std::string_view text;
  if (!fields.text("receipt", 1, kMaxReceiptSize, text)) return;
  const std::optional<Receipt> read = parse_receipt(text);
  if (!read) {
    fields.invalid("receipt", "is no receipt of this server", "as reserve gave it");
    return;
  }
  receipt = *read;
}

}  // namespace

void read_job_body(Fields& fields, std::size_t max_job_size, broker::Body& out) {
  std::string_view text;
  const bool has_text = fields.text("body", 0, SIZE_MAX, text);
  std::string_view encoded;
  if (fields.text("body_base64", 0, SIZE_MAX, encoded)) {
    if (has_text) {
      fields.invalid("body_base64", "excludes body", "one of the two");
      return;
    }
    const std::optional<std::string> bytes = from_base64(encoded);
    if (!bytes) {
      fields.invalid("body_base64", "is not base64", "RFC 4648, section 4, with padding");
      return;
    }
    if (bytes->size() > max_job_size) {
      fields.fail(too_large(fields.path_of("body_base64"), bytes->size(), max_job_size));
      return;
    }
    out = broker::Body(*bytes);
    return;
  }
  if (!has_text) {
    fields.require("body");
    return;
  }
  if (text.size() > max_job_size) {
    fields.fail(too_large(fields.path_of("body"), text.size(), max_job_size));
    return;
  }
  out = broker::Body(text);
}

void read_job_extras(Fields& fields, broker::JobExtras& extras) {
  std::int64_t number = 0;
  if (fields.number("max_attempts", 1, 1'000'000, number)) {
    extras.max_attempts = static_cast<std::uint32_t>(number);
  }
  if (std::optional<Fields> backoff = fields.object("backoff")) {
    backoff->require("base_ms");
    backoff->number("base_ms", 1, kMaxSpanMs, extras.backoff_base_ms);
    extras.backoff_cap_ms = std::max<std::int64_t>(extras.backoff_base_ms, 3'600'000);
    backoff->number("cap_ms", std::max<std::int64_t>(1, extras.backoff_base_ms), kMaxSpanMs,
                    extras.backoff_cap_ms);
    backoff->flag("jitter", extras.backoff_jitter);
    if (std::optional<Problem> problem = backoff->finish()) fields.fail(std::move(*problem));
  }
}

bool is_key(std::string_view text) noexcept {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (text.empty() || text.size() > kMaxKeySize || !is_utf8(text) ||
      std::any_of(text.begin(), text.end(), is_control)) {
    return false;
  }
  // U+0080 to U+009F are control characters, too: U+009B begins the commands of a terminal.
  for (std::size_t i = 0; (i = text.find('\xc2', i)) != std::string_view::npos; ++i) {
    if (static_cast<unsigned char>(text[i + 1]) < 0xa0) return false;
  }
  return true;
}

bool is_content_type(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxContentTypeSize &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; }) &&
         text.front() != ' ' && text.back() != ' ' && text.find('/') != std::string_view::npos;
}

std::optional<Problem> decode_put(std::span<const Value> values, std::uint32_t at,
                                  const std::string& path, std::size_t max_job_size,
                                  PutRequest& request) {
  Fields fields(values, at, path);
  read_job_body(fields, max_job_size, request.body);
  if (fields.text("content_type", 1, kMaxContentTypeSize, request.extras.content_type) &&
      !is_content_type(request.extras.content_type)) {
    fields.invalid("content_type", "is not a content type", "type/subtype, printable ASCII");
  }
  read_put_members(fields, request);
  return fields.finish();
}

std::optional<Problem> decode_raw_put(std::span<const Value> query, std::string_view bytes,
                                      std::string_view content_type, std::size_t max_job_size,
                                      PutRequest& request) {
  Fields fields(query);
  if (bytes.size() > max_job_size) return too_large("body", bytes.size(), max_job_size);
  if (!content_type.empty() && !is_content_type(content_type)) {
    return Problem{
        ProblemKind::kInvalidField, "is not a content type", "Content-Type",
        fmt::format("type/subtype, printable ASCII, at most {} bytes", kMaxContentTypeSize)};
  }
  read_put_members(fields, request);
  if (std::optional<Problem> problem = fields.finish()) return problem;
  request.body = broker::Body(bytes);
  request.extras.content_type = content_type;
  return std::nullopt;
}

std::optional<Problem> decode_reserve(std::span<const Value> values, ReserveRequest& request) {
  Fields fields(values);
  fields.require("tubes");
  std::vector<std::uint32_t> places;
  if (fields.array("tubes", 1, kMaxReserveTubes, places)) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Value& value = values[places[i]];
      if (value.type != ValueType::kText || !is_tube_name(value.text)) {
        fields.invalid(fmt::format("tubes[{}]", i), "is not the name of a tube", kTubeNameLimit);
        break;
      }
      if (std::find(request.tubes.begin(), request.tubes.end(), value.text) ==
          request.tubes.end()) {
        request.tubes.emplace_back(value.text);
      }
    }
  }
  fields.number("max", 1, kMaxReserve, request.max);
  fields.number("wait_ms", 0, kMaxWaitMs, request.wait_ms);
  fields.number("ttr_ms", 1, kMaxSpanMs, request.ttr_ms);
  return fields.finish();
}

std::string to_string(const Receipt& receipt) {
  return fmt::format(FMT_COMPILE("{:016x}.{}"), receipt.epoch, receipt.attempt);
}

std::optional<Receipt> parse_receipt(std::string_view text) noexcept {
  constexpr std::size_t kDigits = 16;
  if (text.size() < kDigits + 2 || text[kDigits] != '.') return std::nullopt;
  Receipt receipt;
  const char* const point = text.data() + kDigits;
  const auto [end, error] = std::from_chars(text.data(), point, receipt.epoch, 16);
  if (error != std::errc() || end != point) return std::nullopt;
  const char* const last = text.data() + text.size();
  const auto [end2, error2] = std::from_chars(point + 1, last, receipt.attempt);
  if (error2 != std::errc() || end2 != last) return std::nullopt;
  return receipt;
}

std::optional<Problem> decode_answer(std::span<const Value> values, AnswerMembers members,
                                     AnswerRequest& request) {
  Fields fields(values);
  read_receipt(fields, request.receipt);
  std::int64_t number = 0;
  if (members == AnswerMembers::kAll && fields.number("delay_ms", 0, kMaxSpanMs, number)) {
    request.delay_ms = number;
  }
  const bool has_priority =
      members == AnswerMembers::kAll || members == AnswerMembers::kReceiptAndPriority;
  if (has_priority && fields.number("priority", 0, kMaxPriority, number)) {
    request.priority = static_cast<std::uint32_t>(number);
  }
  if (members == AnswerMembers::kReceiptAndTtr) {
    fields.number("ttr_ms", 1, kMaxSpanMs, request.ttr_ms);
  }
  return fields.finish();
}

std::optional<Problem> decode_ack_batch(std::span<const Value> values,
                                        std::vector<AnswerRequest>& requests) {
  Fields fields(values);
  fields.require("jobs");
  std::vector<std::uint32_t> places;
  if (fields.array("jobs", 1, kMaxBatch, places)) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      Fields job(values, places[i], fmt::format("jobs[{}]", i));
      AnswerRequest& request = requests.emplace_back();
      job.require("id");
      job.id("id", request.id);
      read_receipt(job, request.receipt);
      if (std::optional<Problem> problem = job.finish()) return problem;
    }
  }
  return fields.finish();
}

std::optional<Problem> decode_change(std::span<const Value> values, ChangeRequest& request) {
  Fields fields(values);
  std::int64_t number = 0;
  if (fields.number("delay_ms", 0, kMaxSpanMs, number)) request.delay_ms = number;
  if (fields.time("due_at", number)) {
    request.due_at_ms = number;
    if (request.delay_ms) fields.invalid("due_at", "excludes delay_ms", "one of the two");
  }
  if (fields.number("priority", 0, kMaxPriority, number)) {
    request.priority = static_cast<std::uint32_t>(number);
  }
  if (std::optional<Problem> problem = fields.finish()) return problem;
  if (!request.delay_ms && !request.due_at_ms && !request.priority) {
    return Problem{ProblemKind::kInvalidField, "asks for no change", "body",
                   "delay_ms, due_at or priority"};
  }
  return std::nullopt;
}

std::string to_cursor(std::size_t partition, const broker::ListCursor& cursor) {
  return fmt::format("{}_{}_{}", partition, cursor.due_ms, cursor.id);
}

namespace {

bool parse_cursor(std::string_view text, std::size_t partitions, ListRequest& request) {
  const auto take = [&text](auto& number) {
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with('_')) text.remove_prefix(1);
    return true;
  };
  return take(request.partition) && take(request.query.after.due_ms) &&
         take(request.query.after.id) && text.empty() && request.partition < partitions;
}

}  // namespace

std::optional<Problem> decode_list(std::span<const Value> query, std::size_t partitions,
                                   ListRequest& request) {
  Fields fields(query);
  broker::ListQuery& list = request.query;
  std::size_t state = 0;
  if (fields.word("state", kStates, state)) list.state = static_cast<broker::JobState>(state);
  std::int64_t number = 0;
  if (fields.number("limit", 1, broker::ListQuery::kMaxPage, number)) {
    list.limit = static_cast<std::size_t>(number);
  }
  std::string_view cursor;
  if (fields.text("cursor", 1, 100, cursor) && !parse_cursor(cursor, partitions, request)) {
    fields.invalid("cursor", "is none of this server", "the next of the page before");
  }
  fields.text("key_prefix", 1, kMaxKeySize, list.key_prefix);
  const bool by_due = list.state == broker::JobState::kDelayed;
  for (auto [name, where] :
       {std::pair{"due_from", &list.due_from_ms}, std::pair{"due_until", &list.due_until_ms}}) {
    if (fields.time(name, *where) && !by_due) {
      fields.invalid(name, "means nothing for jobs that are not delayed", "state=delayed");
    }
  }
  return fields.finish();
}

std::optional<Problem> decode_tubes(std::span<const Value> query, TubesRequest& request) {
  Fields fields(query);
  fields.text("prefix", 1, kMaxTubeNameSize, request.prefix);
  if (fields.text("cursor", 1, kMaxTubeNameSize, request.after) && !is_tube_name(request.after)) {
    fields.invalid("cursor", "is none of this server", "the next of the page before");
  }
  std::int64_t number = 0;
  if (fields.number("limit", 1, 1'000, number)) request.limit = static_cast<std::size_t>(number);
  return fields.finish();
}

std::optional<Problem> decode_clear(std::span<const Value> values, broker::JobStates& states) {
  Fields fields(values);
  fields.require("states");
  std::vector<std::uint32_t> places;
  states = 0;
  if (fields.array("states", 1, std::size(kStates), places)) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::string_view text = values[places[i]].text;
      const auto* const found = std::find(std::begin(kStates), std::end(kStates), text);
      if (found == std::end(kStates) || text == "reserved") {
        fields.invalid(fmt::format("states[{}]", i), "cannot be cleared", "ready, delayed, buried");
        break;
      }
      states = static_cast<broker::JobStates>(
          states | broker::bit_of(static_cast<broker::JobState>(found - std::begin(kStates))));
    }
  }
  return fields.finish();
}

void read_tube_settings(Fields& fields, broker::TubeSettings& settings) {
  std::int64_t number = 0;
  if (fields.number("max_jobs", 0, 1'000'000'000'000, number)) {
    settings.max_jobs = static_cast<std::uint64_t>(number);
  }
}

std::optional<Problem> decode_tube_settings(std::span<const Value> values,
                                            broker::TubeSettings& settings) {
  Fields fields(values);
  read_tube_settings(fields, settings);
  return fields.finish();
}

std::optional<Problem> decode_pause(std::span<const Value> values, std::int64_t& for_ms) {
  Fields fields(values);
  fields.require("for_ms");
  fields.number("for_ms", 1, kMaxSpanMs, for_ms);
  return fields.finish();
}

std::optional<Problem> decode_kick(std::span<const Value> values, std::int64_t& count) {
  Fields fields(values);
  fields.require("count");
  fields.number("count", 1, kMaxPriority, count);
  return fields.finish();
}

}  // namespace carillon::protocol::http
