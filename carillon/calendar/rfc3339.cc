// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/rfc3339.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace carillon::calendar {
namespace {

constexpr std::int64_t kFirstMs = -62'135'596'800'000;  // 0001-01-01T00:00:00.000Z
constexpr std::int64_t kLastMs = 253'402'300'799'999;   // 9999-12-31T23:59:59.999Z

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes one piece after the other off the front of a text.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  /// Exactly `count` digits.
  std::optional<int> digits(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_digit(rest_[i])) return std::nullopt;
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return value;
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  /// The digits of a fraction of a second as milliseconds, rounded up; nullopt if there are none.
  std::optional<int> fraction_ms() {
    int ms = 0;
    int scale = 100;
    bool beyond = false;
    std::size_t count = 0;
    for (; count < rest_.size() && is_digit(rest_[count]); ++count) {
      const int digit = rest_[count] - '0';
      if (scale > 0) {
        ms += digit * scale;
        scale /= 10;
      } else {
        beyond = beyond || digit != 0;
      }
    }
    if (count == 0) return std::nullopt;
    rest_.remove_prefix(count);
    return ms + (beyond ? 1 : 0);
  }

 private:
  std::string_view rest_;
};

Error invalid(std::string_view text, std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("\"{}\" is not a time as in 2026-03-29T02:30:00.250+02:00: {}",
                           text.substr(0, 40), why)};
}

/// Pre: within the years 0001 to 9999.
std::string date_and_time(std::int64_t ms) {
  const std::chrono::sys_time<std::chrono::milliseconds> point{std::chrono::milliseconds(ms)};
  const auto day = std::chrono::floor<std::chrono::days>(point);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(point - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

}  // namespace

Result<std::int64_t> parse_rfc3339(std::string_view text) {
  Reader in(text);
  const auto year = in.digits(4);
  const bool dash = in.take('-');
  const auto month = in.digits(2);
  const bool dash2 = in.take('-');
  const auto day = in.digits(2);
  if (!year || !dash || !month || !dash2 || !day) {
    return invalid(text, "it begins with year-month-day");
  }
  if (!in.take('T') && !in.take('t')) return invalid(text, "a T is between date and time");
  const auto hour = in.digits(2);
  const bool colon = in.take(':');
  const auto minute = in.digits(2);
  const bool colon2 = in.take(':');
  const auto second = in.digits(2);
  if (!hour || !colon || !minute || !colon2 || !second) {
    return invalid(text, "the time is hour:minute:second");
  }
  int ms = 0;
  if (in.take('.')) {
    const auto fraction = in.fraction_ms();
    if (!fraction) return invalid(text, "digits follow the point");
    ms = *fraction;
  }
  std::int64_t offset_min = 0;
  if (!in.take('Z') && !in.take('z')) {
    const bool plus = in.take('+');
    const bool minus = !plus && in.take('-');
    if (!plus && !minus) return invalid(text, "it ends with Z or an offset as in +02:00");
    const auto hours = in.digits(2);
    const bool between = in.take(':');
    const auto minutes = in.digits(2);
    if (!hours || !between || !minutes) {
      return invalid(text, "it ends with Z or an offset as in +02:00");
    }
    if (*hours > 23 || *minutes > 59) return invalid(text, "the largest offset is 23:59");
    offset_min = (std::int64_t{60} * *hours + *minutes) * (plus ? 1 : -1);
  }
  if (!in.rest().empty()) return invalid(text, "something follows the offset");

  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (*year < 1 || !date.ok()) return invalid(text, "there is no such day");
  if (*hour > 23) return invalid(text, "the hour is at most 23");
  if (*minute > 59) return invalid(text, "the minute is at most 59");
  if (*second > 60) return invalid(text, "the second is at most 60");
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + *hour) * 60 + *minute) * 60 + *second;
  return (seconds - offset_min * 60) * 1'000 + ms;
}

std::string format_rfc3339(std::int64_t ms) {
  ms = std::clamp(ms, kFirstMs, kLastMs);
  return date_and_time(ms) + "Z";
}

std::string format_rfc3339(std::int64_t ms, std::int64_t offset_s) {
  constexpr std::int64_t kDayS = 86'400;
  if (offset_s == 0 || offset_s % 60 != 0 || offset_s <= -kDayS || offset_s >= kDayS ||
      ms < kFirstMs || ms > kLastMs) {
    return format_rfc3339(ms);
  }
  const std::int64_t local_ms = ms + offset_s * 1'000;
  if (local_ms < kFirstMs || local_ms > kLastMs) return format_rfc3339(ms);
  const std::int64_t minutes = offset_s < 0 ? -offset_s / 60 : offset_s / 60;
  return fmt::format("{}{}{:02}:{:02}", date_and_time(local_ms), offset_s < 0 ? '-' : '+',
                     minutes / 60, minutes % 60);
}

}  // namespace carillon::calendar
