// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/schedule_requests.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "carillon/calendar/recurrence.h"
#include "carillon/protocol/http/fields.h"
#include "carillon/protocol/http/job_requests.h"

namespace carillon::protocol::http {
namespace {

/// In the order of Missed.
constexpr std::string_view kMissedWords[] = {"once", "skip"};
/// In the order of Overlap.
constexpr std::string_view kOverlapWords[] = {"allow", "skip", "queue"};

constexpr std::string_view kTimes = "spec, or cron and time_zone, or every_ms and start_at";

constexpr std::string_view kStarts = "from 1970 to 2262-04-11T23:47:16.854Z";
constexpr std::string_view kZones = "a name of the IANA time zones, such as Europe/Amsterdam";
constexpr std::string_view kSpecs = "docs/concepts/recurring-jobs.md";

void read_recurrence(Fields& fields, std::string& spec) {
  std::string_view text;
  std::string_view zone;
  std::int64_t period_ms = 0;
  std::int64_t start_ms = 0;
  const bool has_spec = fields.text("spec", 1, calendar::kMaxRecurrenceBytes, text);
  const bool has_cron = !has_spec && fields.text("cron", 1, calendar::kMaxRecurrenceBytes, text);
  const bool has_zone = fields.text("time_zone", 1, calendar::kMaxRecurrenceBytes, zone);
  const bool has_period =
      fields.number("every_ms", calendar::kShortestPeriodMs, calendar::kLongestPeriodMs, period_ms);
  const bool has_start = fields.time("start_at", start_ms);
  if (fields.has("spec") + fields.has("cron") + fields.has("every_ms") != 1) {
    fields.invalid("spec", "has to say when it is due, once", kTimes);
    return;
  }
  if (has_zone && !has_cron) fields.invalid("time_zone", "is for cron", kTimes);
  if (has_start && !has_period) fields.invalid("start_at", "is for every_ms", kTimes);
  if (!has_spec && !has_cron && !has_period) return;  // Something is wrong with it, and was said.
  const Result<calendar::Recurrence> recurrence =
      has_spec   ? calendar::Recurrence::parse(text)
      : has_cron ? calendar::Recurrence::cron(text, zone)
                 : calendar::Recurrence::every(period_ms, start_ms);
  if (!recurrence) {
    const std::string& why = recurrence.error().message;
    if (has_period) {  // The period has its own limits, and is in them.
      fields.invalid("start_at", why, kStarts);
    } else if (has_zone && calendar::Recurrence::cron(text, {})) {
      fields.invalid("time_zone", why, kZones);
    } else {
      fields.invalid(has_spec ? "spec" : "cron", why, kSpecs);
    }
    return;
  }
  spec = recurrence->spec();
}

}  // namespace

std::optional<Problem> decode_schedule(std::span<const Value> values, std::size_t max_job_size,
                                       broker::ScheduleSettings& settings) {
  Fields fields(values);
  fields.require("tube");
  fields.tube("tube", settings.tube);
  read_recurrence(fields, settings.spec);
  broker::JobExtras extras;
  read_job_body(fields, max_job_size, settings.body);
  std::int64_t number = 1024;
  fields.number("priority", 0, kMaxPriority, number);
  settings.priority = static_cast<std::uint32_t>(number);
  fields.number("ttr_ms", 1, kMaxSpanMs, settings.ttr_ms);
  read_job_extras(fields, extras);
  if (!extras.empty()) settings.extras = std::make_shared<const broker::JobExtras>(extras);
  std::size_t word = 0;
  if (fields.word("missed", kMissedWords, word))
    settings.missed = static_cast<broker::Missed>(word);
  if (fields.word("overlap", kOverlapWords, word)) {
    settings.overlap = static_cast<broker::Overlap>(word);
  }
  fields.number("jitter_ms", 0, broker::ScheduleSettings::kMaxJitterMs, settings.jitter_ms);
  return fields.finish();
}

std::optional<Problem> decode_schedules(std::span<const Value> query, SchedulesRequest& request) {
  Fields fields(query);
  if (fields.text("cursor", 1, broker::ScheduleSettings::kMaxNameBytes, request.after) &&
      !is_schedule_name(request.after)) {
    fields.invalid("cursor", "is none of this server", "the next of the page before");
  }
  std::int64_t limit = static_cast<std::int64_t>(request.limit);
  fields.number("limit", 1, broker::SchedulePage::kMaxPage, limit);
  request.limit = static_cast<std::size_t>(limit);
  return fields.finish();
}

bool is_schedule_name(std::string_view text) noexcept {
  static_assert(kMaxKeySize == broker::ScheduleSettings::kMaxNameBytes);
  return is_key(text);
}

std::string_view to_string(broker::Missed missed) noexcept {
  return kMissedWords[static_cast<std::size_t>(missed)];
}

std::string_view to_string(broker::Overlap overlap) noexcept {
  return kOverlapWords[static_cast<std::size_t>(overlap)];
}

}  // namespace carillon::protocol::http
