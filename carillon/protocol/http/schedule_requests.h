// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the requests about schedules ask for: bodies and parameters, decoded and checked.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "carillon/broker/schedule.h"
#include "carillon/protocol/http/json_document.h"
#include "carillon/protocol/http/problem.h"

namespace carillon::protocol::http {

/// A schedule as JSON, but for its name. When it is due is `spec`, or `cron` and perhaps
/// `time_zone`, or `every_ms` and perhaps `start_at` (carillon/calendar/recurrence.h).
[[nodiscard]] std::optional<Problem> decode_schedule(std::span<const Value> values,
                                                     std::size_t max_job_size,
                                                     broker::ScheduleSettings& settings);

/// The parameters of a listing, by name.
struct SchedulesRequest {
  std::string after;  ///< `cursor`: the last name of the page before.
  std::size_t limit = 100;
};
[[nodiscard]] std::optional<Problem> decode_schedules(std::span<const Value> query,
                                                      SchedulesRequest& request);

/// 1 to ScheduleSettings::kMaxNameBytes bytes of UTF-8 without control characters.
[[nodiscard]] bool is_schedule_name(std::string_view text) noexcept;

/// "once", "skip"; "allow", "skip", "queue".
[[nodiscard]] std::string_view to_string(broker::Missed missed) noexcept;
[[nodiscard]] std::string_view to_string(broker::Overlap overlap) noexcept;

}  // namespace carillon::protocol::http
