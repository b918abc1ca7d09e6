// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/cron.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace carillon::calendar {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;
// Where WallTime ends, and as far back.
constexpr std::int64_t kLastSecond = std::numeric_limits<std::int64_t>::max() / 1'000'000'000;
constexpr std::int64_t kFirstSecond = -kLastSecond;
// Clocks were never set back by more than a day (Manila, 1844).
constexpr std::int64_t kLongestRepeatSeconds = 2 * kDaySeconds;
// The calendar repeats after so many years.
constexpr int kCycleYears = 400;

std::int64_t floor_days(std::int64_t seconds) {
  return seconds >= 0 ? seconds / kDaySeconds : -((-seconds + kDaySeconds - 1) / kDaySeconds);
}

bool has(std::uint64_t bits, int value) { return value < 64 && ((bits >> value) & 1) != 0; }

/// The least value at or after `from` in `bits`.
std::optional<int> first_from(std::uint64_t bits, int from) {
  if (from >= 64) return std::nullopt;
  const std::uint64_t rest = bits >> from;
  if (rest == 0) return std::nullopt;
  return from + std::countr_zero(rest);
}

}  // namespace

/// A day of the calendar, taken apart.
struct Cron::Day {
  explicit Day(std::int64_t number) {
    const std::chrono::sys_days point{std::chrono::days(number)};
    const std::chrono::year_month_day date(point);
    year = static_cast<int>(date.year());
    month = static_cast<int>(static_cast<unsigned>(date.month()));
    day = static_cast<int>(static_cast<unsigned>(date.day()));
    last = static_cast<int>(
        static_cast<unsigned>((date.year() / date.month() / std::chrono::last).day()));
    weekday = static_cast<int>(std::chrono::weekday(point).c_encoding());
  }
  [[nodiscard]] int weekday_of(int other_day) const {
    return ((weekday + other_day - day) % 7 + 7) % 7;
  }

  int year = 0;
  int month = 0;
  int day = 0;
  int last = 0;     ///< Days of its month.
  int weekday = 0;  ///< 0 is Sunday.
};

bool Cron::day_of_month_matches(const Day& day) const noexcept {
  if (has(days_, day.day) || has(days_before_last_, day.last - day.day)) return true;
  if (day.weekday == 0 || day.weekday == 6) return false;
  if (last_weekday_) {
    const int end = day.weekday_of(day.last);
    if (day.day == day.last - (end == 6 ? 1 : end == 0 ? 2 : 0)) return true;
  }
  if (nearest_weekdays_ == 0) return false;
  if (has(nearest_weekdays_, day.day)) return true;
  // A Friday stands for the Saturday after it, a Monday for the Sunday before it; a Friday for the
  // Sunday too if the month ends with that, a Monday for the Saturday if it begins with that.
  if (day.weekday == 5) {
    return (day.day < day.last && has(nearest_weekdays_, day.day + 1)) ||
           (day.day + 2 == day.last && has(nearest_weekdays_, day.last));
  }
  if (day.weekday == 1) {
    return (day.day > 1 && has(nearest_weekdays_, day.day - 1)) ||
           (day.day == 3 && has(nearest_weekdays_, 1));
  }
  return false;
}

bool Cron::day_of_week_matches(const Day& day) const noexcept {
  if (has(weekdays_, day.weekday)) return true;
  const std::uint8_t nth = nth_weekdays_[static_cast<std::size_t>(day.weekday)];
  if (nth == 0) return false;
  if ((nth & 1u) != 0 && day.day + 7 > day.last) return true;
  return has(nth, (day.day + 6) / 7);
}

bool Cron::day_matches(const Day& day) const noexcept {
  if (!has(months_, day.month)) return false;
  const bool of_month = day_of_month_matches(day);
  const bool of_week = day_of_week_matches(day);
  return any_day_ || any_weekday_ ? of_month && of_week : of_month || of_week;
}

bool Cron::matches(std::int64_t local_s) const noexcept {
  const std::int64_t number = floor_days(local_s);
  const int second = static_cast<int>(local_s - number * kDaySeconds);
  return has(hours_, second / 3'600) && has(minutes_, second / 60 % 60) &&
         has(seconds_, second % 60) && day_matches(Day(number));
}

/// The first second of a day, at or after `from_s`, that is named.
std::optional<std::int64_t> Cron::first_time_of_day(std::int64_t from_s) const noexcept {
  const int from = static_cast<int>(from_s);
  int from_minute = from / 60 % 60;
  int from_second = from % 60;
  auto hour = first_from(hours_, from / 3'600);
  while (hour) {
    if (*hour != from / 3'600) from_minute = from_second = 0;
    auto minute = first_from(minutes_, from_minute);
    while (minute) {
      if (*minute != from_minute) from_second = 0;
      if (const auto second = first_from(seconds_, from_second)) {
        return *hour * 3'600 + *minute * 60 + *second;
      }
      minute = first_from(minutes_, *minute + 1);
      from_second = 0;
    }
    hour = first_from(hours_, *hour + 1);
    from_minute = from_second = 0;
  }
  return std::nullopt;
}

/// The first local time in [from_s, until_s) that is named.
std::optional<std::int64_t> Cron::first_local(std::int64_t from_s,
                                              std::int64_t until_s) const noexcept {
  std::int64_t number = floor_days(from_s);
  std::int64_t time_s = from_s - number * kDaySeconds;
  while (number * kDaySeconds < until_s) {
    const Day day(number);
    if (!has(months_, day.month)) {
      number += day.last - day.day + 1;
      time_s = 0;
      continue;
    }
    if (day_matches(day)) {
      if (const auto time = first_time_of_day(time_s)) {
        const std::int64_t found = number * kDaySeconds + *time;
        return found < until_s ? std::optional(found) : std::nullopt;
      }
    }
    ++number;
    time_s = 0;
  }
  return std::nullopt;
}

bool Cron::has_any_day() const noexcept {
  const std::int64_t begin =
      std::chrono::sys_days(std::chrono::year(2000) / 1 / 1).time_since_epoch().count();
  const std::int64_t end = std::chrono::sys_days(std::chrono::year(2000 + kCycleYears) / 1 / 1)
                               .time_since_epoch()
                               .count();
  for (std::int64_t number = begin; number < end;) {
    const Day day(number);
    if (!has(months_, day.month)) {
      number += day.last - day.day + 1;
      continue;
    }
    if (day_matches(day)) return true;
    ++number;
  }
  return false;
}

std::optional<std::int64_t> Cron::next(std::int64_t after_s, const TimeZone& zone) const {
  if (after_s >= kLastSecond) return std::nullopt;
  const std::int64_t from_s = std::max(after_s, kFirstSecond) + 1;
  // Local times before `seen_s` have been shown by the clocks. It begins long enough before
  // `from_s` that no clock that was set back before then still repeats what it had shown.
  std::int64_t at_s = rhythm_ ? from_s : from_s - kLongestRepeatSeconds;
  std::optional<std::int64_t> seen_s;
  while (at_s <= kLastSecond) {
    const OffsetPeriod period = zone.period_at(at_s);
    const std::int64_t begin_s = std::max(period.begin_s, at_s);
    const std::int64_t end_s = std::min(period.end_s, kLastSecond + 1);
    const std::int64_t local_begin_s = begin_s + period.offset_s;
    std::int64_t search_s = std::max(from_s, begin_s) + period.offset_s;
    if (!rhythm_ && seen_s) {
      if (*seen_s < local_begin_s && begin_s >= from_s && first_local(*seen_s, local_begin_s)) {
        return begin_s;
      }
      search_s = std::max(search_s, *seen_s);
    }
    if (end_s > from_s) {
      if (const auto local = first_local(search_s, end_s + period.offset_s)) {
        return *local - period.offset_s;
      }
    }
    const std::int64_t local_end_s = end_s + period.offset_s;
    seen_s = std::max(seen_s.value_or(local_end_s), local_end_s);
    at_s = end_s;
  }
  return std::nullopt;
}

}  // namespace carillon::calendar
