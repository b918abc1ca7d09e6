// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// When a recurring job is due: every so often, or by cron in a time zone; and its text form.
///
///     every 30m                                        at multiples of it since 1970 (UTC)
///     every 36h from 2026-03-01T06:00:00+01:00         at that time, and each 36 hours after it
///     30 2 * * *                                       cron, UTC
///     CRON_TZ=Europe/Amsterdam 30 2 * * MON-FRI        cron by the clocks there (also TZ=)
///     CRON_TZ=Europe/Amsterdam @daily
///
/// `every` counts elapsed time from a fixed start, so it does not drift however late a run was, and
/// to set the same schedule again, at each deployment say, moves nothing. Units: d (24 hours), h,
/// m, s, ms, in this order: "1h30m". For days as people count them, 23 to 25 hours long, use cron.
/// `@every 30m` is `every 30m`. For cron, see carillon/calendar/cron.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "carillon/base/result.h"
#include "carillon/calendar/cron.h"
#include "carillon/calendar/time_zone.h"

namespace carillon::calendar {

inline constexpr std::size_t kMaxRecurrenceBytes = 512;
inline constexpr std::int64_t kShortestPeriodMs = 1'000;
inline constexpr std::int64_t kLongestPeriodMs = std::int64_t{36'525} * 86'400'000;  // 100 years

/// Points in time without end.
///
/// Time:    milliseconds since 1970 (UTC); cron comes on whole seconds.
/// Threads: immutable.
/// Errors:  names the field and the limit.
/// Cost:    parse and next each some µs; see Cron.
class Recurrence {
 public:
  [[nodiscard]] static Result<Recurrence> parse(std::string_view spec);
  /// From its parts, as a JSON object has them. An empty zone is UTC.
  [[nodiscard]] static Result<Recurrence> cron(std::string_view line, std::string_view time_zone);
  /// `start_ms`: one of the times.
  [[nodiscard]] static Result<Recurrence> every(std::int64_t period_ms, std::int64_t start_ms = 0);

  /// The first time after `after_ms`; nullopt: none until 2262.
  [[nodiscard]] std::optional<std::int64_t> next(std::int64_t after_ms) const;

  /// The text form, which parse() reads back: equal texts mean equal recurrences.
  [[nodiscard]] const std::string& spec() const noexcept { return spec_; }
  /// Of cron; UTC for `every`.
  [[nodiscard]] TimeZone time_zone() const;

 private:
  struct Every {
    std::int64_t period_ms = 0;
    std::int64_t start_ms = 0;
  };
  struct Crontab {
    Cron line;
    TimeZone zone;
  };

  Recurrence(std::variant<Every, Crontab> rule, std::string spec)
      : rule_(std::move(rule)), spec_(std::move(spec)) {}

  std::variant<Every, Crontab> rule_;
  std::string spec_;
};

/// "1h30m" as milliseconds, and back.
[[nodiscard]] Result<std::int64_t> parse_period(std::string_view text);
[[nodiscard]] std::string format_period(std::int64_t ms);

/// The same as a function, for broker::BrokerOptions: nullopt also if `spec` is none.
[[nodiscard]] std::optional<std::int64_t> next_of_spec(std::string_view spec,
                                                       std::int64_t after_ms);

}  // namespace carillon::calendar
