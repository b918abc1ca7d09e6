// SPDX-License-Identifier: Apache-2.0
// Bodies and targets of HTTP requests: the first byte says what the rest is taken for.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/protocol/http/base64.h"
#include "carillon/protocol/http/job_requests.h"
#include "carillon/protocol/http/query.h"
#include "carillon/protocol/http/routes.h"
#include "carillon/protocol/http/schedule_requests.h"
#include "carillon/protocol/http/time_text.h"

namespace {

using namespace carillon::protocol::http;  // NOLINT(google-build-using-namespace)

/// A problem names something and can be written.
void check(const std::optional<Problem>& problem) {
  if (problem) CARILLON_CHECK(!to_json(*problem).empty(), "no document");
}

void read_json(std::string_view text) {
  JsonDocument document;
  if (document.parse(text)) return;
  const std::vector<Value>& values = document.values();
  PutRequest put;
  const std::optional<Problem> problem = decode_put(values, 0, "jobs[0]", 1000, put);
  check(problem);
  if (!problem) {
    CARILLON_CHECK(put.body && put.body.size() <= 1000, put.body.size());
    CARILLON_CHECK(put.ttr_ms > 0 && put.delay_ms >= 0, put.ttr_ms);
    CARILLON_CHECK(put.extras.key.size() <= kMaxKeySize, put.extras.key.size());
  }
  ReserveRequest reserve;
  if (const auto wrong = decode_reserve(values, reserve)) {
    check(wrong);
  } else {
    CARILLON_CHECK(!reserve.tubes.empty() && reserve.max >= 1, reserve.max);
  }
  AnswerRequest answer;
  check(decode_answer(values, AnswerMembers::kAll, answer));
  std::vector<AnswerRequest> answers;
  check(decode_ack_batch(values, answers));
  ChangeRequest change;
  check(decode_change(values, change));
  carillon::broker::JobStates states = 0;
  check(decode_clear(values, states));
  carillon::broker::TubeSettings settings;
  check(decode_tube_settings(values, settings));
  carillon::broker::ScheduleSettings schedule;
  if (const auto wrong = decode_schedule(values, 1000, schedule)) {
    check(wrong);
  } else {
    CARILLON_CHECK(!schedule.spec.empty() && schedule.body && schedule.body.size() <= 1000);
    CARILLON_CHECK(schedule.ttr_ms > 0 && schedule.jitter_ms >= 0, schedule.ttr_ms);
    CARILLON_CHECK(schedule.jitter_ms <= carillon::broker::ScheduleSettings::kMaxJitterMs);
  }
}

void read_target(std::string_view text) {
  const std::optional<Target> target = Target::parse(text);
  if (!target) return;
  for (std::size_t i = 0; i < kMethodCount; ++i) {
    const Destination found = find_route(static_cast<Method>(i), target->segments());
    if (found.route == nullptr) continue;
    for (const std::string_view argument : found.arguments) {
      CARILLON_CHECK(!argument.empty(), "an empty argument");
      CARILLON_CHECK(decode_percent(encode_segment(argument), false) == argument, argument);
    }
  }
  const std::vector<Value> values = target->values();
  PutRequest put;
  check(decode_raw_put(values, "x", "a/b", 1000, put));
  ListRequest list;
  check(decode_list(values, 3, list));
  TubesRequest tubes;
  check(decode_tubes(values, tubes));
  SchedulesRequest schedules;
  check(decode_schedules(values, schedules));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  switch (bytes[0] % 4) {
    case 0: read_json(text); break;
    case 1: read_target(text); break;
    case 2:
      if (const auto at = parse_time(text)) {
        CARILLON_CHECK(parse_time(format_time(*at)) == at, *at);
      }
      break;
    default:
      if (const auto decoded = from_base64(text)) {
        CARILLON_CHECK(to_base64(*decoded) == text, text);
      }
      break;
  }
  return 0;
}
