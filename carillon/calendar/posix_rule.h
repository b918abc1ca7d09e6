// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The rule at the end of a file of the time zone database, which holds when the file lists no
/// more changes: "CET-1CEST,M3.5.0,M10.5.0/3" (POSIX TZ, with the extensions of RFC 8536).
///
/// The date library reads the listed changes only. In Debian's files they end in 2037; in "slim"
/// files (zic -b slim, the default of many systems) as early as 2007.

#include <cstdint>
#include <optional>
#include <string_view>

#include "carillon/calendar/offset_period.h"

namespace carillon::calendar {

/// Standard time, and perhaps a daylight saving time that begins and ends every year.
///
/// Threads: immutable.    Cost: O(1), no allocation.
class PosixRule {
 public:
  /// nullopt: not a rule.
  [[nodiscard]] static std::optional<PosixRule> parse(std::string_view text);

  /// The period that `at_s` lies in. Its ends are exact within a year or so of `at_s`.
  [[nodiscard]] OffsetPeriod period_at(std::int64_t at_s) const;

 private:
  friend class PosixRuleParser;

  /// A day of each year and a time of it, in local time.
  struct YearlyChange {
    enum class Kind : std::uint8_t { kWeekday, kJulian, kDayOfYear };
    Kind kind = Kind::kWeekday;
    int month = 1;                ///< kWeekday
    int week = 1;                 ///< kWeekday: 5 is the last
    int weekday = 0;              ///< kWeekday: 0 is Sunday
    int day = 0;                  ///< kJulian: 1..365, never 29 February; kDayOfYear: 0..365
    std::int64_t time_s = 7'200;  ///< 02:00 unless given.

    /// Local seconds since 1970.
    [[nodiscard]] std::int64_t in_year(int year) const;
  };

  std::int64_t standard_s_ = 0;
  std::int64_t saving_s_ = 0;
  bool saves_ = false;
  YearlyChange begin_;
  YearlyChange end_;
};

}  // namespace carillon::calendar
