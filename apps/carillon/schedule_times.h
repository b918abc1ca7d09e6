// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Times at which a recurring job is due, reckoned and printed.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carillon/calendar/recurrence.h"
#include "carillon/calendar/time_zone.h"

namespace carillon::app {

/// So many times are printed at most.
inline constexpr std::uint64_t kMostTimes = 10'000;

/// One of them. Unix time in ms.
struct DueTime {
  std::int64_t due_ms = 0;              ///< The period.
  std::optional<std::int64_t> next_ms;  ///< When a server puts the job for it, jitter included.
  bool operator==(const DueTime&) const = default;
};

/// The first `count` times after `after_ms`; fewer if there are no more.
[[nodiscard]] std::vector<DueTime> times_after(const calendar::Recurrence& recurrence,
                                               std::int64_t after_ms, std::uint64_t count);

/// The next `count` times at which a server puts a job of a schedule, if it misses and skips none.
/// `first` is what the server says of the next one. If that has passed at `now_ms`, as it may while
/// the server cannot put it, those behind it are to come: of all that pass meanwhile one has a job.
///
/// Pre: `first` has both times; `count` > 0.
[[nodiscard]] std::vector<DueTime> times_from(const calendar::Recurrence& recurrence,
                                              const DueTime& first, std::int64_t now_ms,
                                              std::uint64_t count);

/// A time as the clocks of `zone` show it, with their offset.
[[nodiscard]] std::string by_clocks_of(const calendar::TimeZone& zone, std::int64_t ms);

/// Prints when jobs are put, or else are due, by the clocks of the recurrence's zone: a line each,
/// or one line of JSON.
void print_times(const calendar::Recurrence& recurrence, std::span<const DueTime> times, bool json);

}  // namespace carillon::app
