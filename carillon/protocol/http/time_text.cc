// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/time_text.h"

#include <algorithm>
#include <chrono>

namespace carillon::protocol::http {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;

/// Takes `digits` decimal digits off the front of `text`.
bool take_digits(std::string_view& text, int digits, int& value) noexcept {
  if (text.size() < static_cast<std::size_t>(digits)) return false;
  value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = text[static_cast<std::size_t>(i)];
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(static_cast<std::size_t>(digits));
  return true;
}

bool take(std::string_view& text, std::string_view any_of) noexcept {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// A fraction of a second in milliseconds, rounded up.
bool take_fraction(std::string_view& text, int& ms) noexcept {
  int digits = 0;
  bool rest = false;
  ms = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1)) {
    const int digit = text.front() - '0';
    if (digits++ < 3) {
      ms = ms * 10 + digit;
    } else {
      rest = rest || digit != 0;
    }
  }
  for (int i = digits; i < 3; ++i) ms *= 10;
  if (rest) ++ms;
  return digits > 0;
}

}  // namespace

// By hand, for two of these are in each reserved job: five times as fast as a format string.
std::string format_time(std::int64_t unix_ms) {
  const std::int64_t ms = std::clamp<std::int64_t>(unix_ms, 0, kLastTimeMs);
  const std::chrono::sys_days day{std::chrono::days(ms / kDayMs)};
  const std::chrono::year_month_day date(day);
  const std::int64_t rest = ms % kDayMs;
  std::string text("0000-00-00T00:00:00.000Z");
  const auto put = [&text](std::size_t at, int digits, std::int64_t value) {
    for (std::size_t i = at + static_cast<std::size_t>(digits); i > at; value /= 10) {
      text[--i] = static_cast<char>('0' + value % 10);
    }
  };
  put(0, 4, static_cast<int>(date.year()));
  put(5, 2, static_cast<unsigned>(date.month()));
  put(8, 2, static_cast<unsigned>(date.day()));
  put(11, 2, rest / 3'600'000);
  put(14, 2, rest / 60'000 % 60);
  put(17, 2, rest / 1'000 % 60);
  put(20, 3, rest % 1'000);
  return text;
}

std::optional<std::int64_t> parse_time(std::string_view text) noexcept {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0;
  if (!take_digits(text, 4, year) || !take(text, "-") || !take_digits(text, 2, month) ||
      !take(text, "-") || !take_digits(text, 2, day) || !take(text, "Tt ") ||
      !take_digits(text, 2, hour) || !take(text, ":") || !take_digits(text, 2, minute) ||
      !take(text, ":") || !take_digits(text, 2, second)) {
    return std::nullopt;
  }
  if (take(text, ".") && !take_fraction(text, ms)) return std::nullopt;
  std::int64_t offset_ms = 0;
  if (!take(text, "Zz")) {
    const bool west = text.starts_with('-');
    int offset_hours = 0, offset_minutes = 0;
    if (!take(text, "+-") || !take_digits(text, 2, offset_hours) || !take(text, ":") ||
        !take_digits(text, 2, offset_minutes) || offset_hours > 23 || offset_minutes > 59) {
      return std::nullopt;
    }
    offset_ms = (offset_hours * 60 + offset_minutes) * std::int64_t{60'000};
    if (west) offset_ms = -offset_ms;
  }
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!text.empty() || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t at =
      days * kDayMs + hour * 3'600'000LL + minute * 60'000LL + second * 1'000LL + ms - offset_ms;
  if (at < 0 || at > kLastTimeMs) return std::nullopt;
  return at;
}

}  // namespace carillon::protocol::http
