// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The times that a line of cron names, in a time zone.
///
///     ┌─────────── second        0-59          (only if there are six fields; else 0)
///     │ ┌───────── minute        0-59
///     │ │ ┌─────── hour          0-23
///     │ │ │ ┌───── day of month  1-31          also L, L-3, LW, 15W
///     │ │ │ │ ┌─── month         1-12, JAN-DEC
///     │ │ │ │ │ ┌─ day of week   0-7, SUN-SAT  0 and 7 are Sunday; also FRI#2, FRIL
///     * * * * * *
///
/// A field is a list, "1,15,20-25": of values, of ranges, of `*` for all, each perhaps with a step:
/// `*/15`, `8-18/2`, `5/20` (from 5 on). `?` is `*` in the fields of days. Names in any case. Or
/// one word: @yearly @annually @monthly @weekly @daily @midnight @hourly.
///
/// Days of the month beyond cron: `L` the last day, `L-3` three before it, `15W` the weekday
/// (Monday to Friday) nearest to the 15th within its month, `LW` the last weekday. Days of the
/// week: `FRI#2` the second Friday, `FRIL` the last. What a month lacks (the 31st, a fifth Friday)
/// does not come in it.
///
/// Both kinds of days, as in Vixie's cron: if one of the two fields begins with `*` (or is `?`), a
/// day must match both; else one of them is enough. "0 0 13 * FRI" is each 13th and each Friday.
///
/// When clocks are set, as in Vixie's cron. A line whose minute and hour do not begin with `*`
/// means *times of day*:
///
///     02:30 in a gap       runs once, at the instant at which the gap ends
///     02:30 twice          runs the first time only
///
/// any number of times that lie in one gap run once together. A line whose minute or hour begins
/// with `*` means *a rhythm*: it runs at each instant at which the local clock shows what it names.
/// "*/15 * * * *" runs every 15 minutes of real time, in a repeated hour too.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/calendar/offset_period.h"
#include "carillon/calendar/time_zone.h"

namespace carillon::calendar {

/// A line of cron, without a zone.
///
/// Threads: immutable.
/// Errors:  parse names the field and its limits. A line that names no day at all ("30 2 30 2 *")
///          is refused.
/// Cost:    parse O(length), and O(days of 400 years) for what is refused as never matching; next
///          about 1 µs for each change of the clocks and month on the way. No allocation.
class Cron {
 public:
  [[nodiscard]] static Result<Cron> parse(std::string_view line);

  /// The first time later than `after_s` (seconds since 1970, UTC); nullopt: none until 2262.
  [[nodiscard]] std::optional<std::int64_t> next(std::int64_t after_s, const TimeZone& zone) const;

  /// Whether the fields name the local time `local_s` (seconds since 1970 as if it were UTC).
  [[nodiscard]] bool matches(std::int64_t local_s) const noexcept;
  /// Whether it means a rhythm, not times of day: the difference matters when clocks are set.
  [[nodiscard]] bool is_rhythm() const noexcept { return rhythm_; }

 private:
  friend class CronParser;
  struct Day;

  [[nodiscard]] bool day_matches(const Day& day) const noexcept;
  [[nodiscard]] bool day_of_month_matches(const Day& day) const noexcept;
  [[nodiscard]] bool day_of_week_matches(const Day& day) const noexcept;
  [[nodiscard]] std::optional<std::int64_t> first_time_of_day(std::int64_t from_s) const noexcept;
  [[nodiscard]] std::optional<std::int64_t> first_local(std::int64_t from_s,
                                                        std::int64_t until_s) const noexcept;
  [[nodiscard]] bool has_any_day() const noexcept;

  // Bit n: the value n.
  std::uint64_t seconds_ = 0;
  std::uint64_t minutes_ = 0;
  std::uint64_t hours_ = 0;
  std::uint64_t days_ = 0;
  std::uint64_t months_ = 0;
  std::uint64_t weekdays_ = 0;
  // L-n and nW: bit n. LW.
  std::uint64_t days_before_last_ = 0;
  std::uint64_t nearest_weekdays_ = 0;
  bool last_weekday_ = false;
  // FRI#n: bit n of [FRI]; FRIL: bit 0.
  std::array<std::uint8_t, 7> nth_weekdays_{};

  bool any_day_ = false;      // The day of month begins with a star,
  bool any_weekday_ = false;  // the day of week.
  bool rhythm_ = false;
};

}  // namespace carillon::calendar
