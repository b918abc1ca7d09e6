// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/retry_after.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>

namespace carillon::server {
namespace {

constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> kDays{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 7> kLongDays{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                    "Friday", "Saturday", "Sunday"};

/// Reads from the front of a text; once something did not fit, nothing does.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void literal(std::string_view wanted) {
    if (text_.starts_with(wanted)) {
      text_.remove_prefix(wanted.size());
    } else {
      good_ = false;
    }
  }
  /// Exactly `digits` digits.
  int number(std::size_t digits) {
    int value = 0;
    if (text_.size() < digits) good_ = false;
    for (std::size_t i = 0; good_ && i < digits; ++i) {
      const char c = text_[i];
      if (c < '0' || c > '9') good_ = false;
      value = value * 10 + (c - '0');
    }
    if (good_) text_.remove_prefix(digits);
    return value;
  }
  /// Its index.
  int one_of(std::span<const std::string_view> words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!text_.starts_with(words[i])) continue;
      text_.remove_prefix(words[i].size());
      return static_cast<int>(i);
    }
    good_ = false;
    return 0;
  }
  [[nodiscard]] bool next_is(char c) const { return text_.starts_with(c); }
  [[nodiscard]] bool finished() const { return good_ && text_.empty(); }

 private:
  std::string_view text_;
  bool good_ = true;
};

struct Date {
  int year = 0;
  int month = 0;  // From 0.
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;

  void read_time(Reader& reader) {
    hour = reader.number(2);
    reader.literal(":");
    minute = reader.number(2);
    reader.literal(":");
    second = reader.number(2);
  }
  [[nodiscard]] std::optional<WallTime> time() const {
    const std::chrono::year_month_day date{std::chrono::year(year),
                                           std::chrono::month(static_cast<unsigned>(month) + 1),
                                           std::chrono::day(static_cast<unsigned>(day))};
    // A leap second is the one before, as everywhere here.
    if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    const std::int64_t seconds = days * 86'400 + hour * 3'600 + minute * 60 + std::min(second, 59);
    return saturating_add(WallTime{}, saturating_span<std::chrono::seconds>(seconds));
  }
};

/// Sun, 06 Nov 1994 08:49:37 GMT
std::optional<WallTime> fixed_date(std::string_view text) {
  Reader reader(text);
  Date date;
  reader.one_of(kDays);
  reader.literal(", ");
  date.day = reader.number(2);
  reader.literal(" ");
  date.month = reader.one_of(kMonths);
  reader.literal(" ");
  date.year = reader.number(4);
  reader.literal(" ");
  date.read_time(reader);
  reader.literal(" GMT");
  return reader.finished() ? date.time() : std::nullopt;
}

/// Sunday, 06-Nov-94 08:49:37 GMT: a year that seems to lie more than 50 years ahead is a past one.
std::optional<WallTime> rfc850_date(std::string_view text, WallTime now) {
  Reader reader(text);
  Date date;
  reader.one_of(kLongDays);
  reader.literal(", ");
  date.day = reader.number(2);
  reader.literal("-");
  date.month = reader.one_of(kMonths);
  reader.literal("-");
  const int short_year = reader.number(2);
  reader.literal(" ");
  date.read_time(reader);
  reader.literal(" GMT");
  if (!reader.finished()) return std::nullopt;
  const std::chrono::year_month_day today{std::chrono::floor<std::chrono::days>(now)};
  const int this_year = static_cast<int>(today.year());
  date.year = this_year - this_year % 100 + short_year;
  if (date.year > this_year + 50) date.year -= 100;
  return date.time();
}

/// Sun Nov  6 08:49:37 1994
std::optional<WallTime> asctime_date(std::string_view text) {
  Reader reader(text);
  Date date;
  reader.one_of(kDays);
  reader.literal(" ");
  date.month = reader.one_of(kMonths);
  reader.literal(" ");
  const bool one_digit = reader.next_is(' ');
  if (one_digit) reader.literal(" ");
  date.day = reader.number(one_digit ? 1 : 2);
  reader.literal(" ");
  date.read_time(reader);
  reader.literal(" ");
  date.year = reader.number(4);
  return reader.finished() ? date.time() : std::nullopt;
}

}  // namespace

std::optional<Span> parse_retry_after(std::string_view value, WallTime now) {
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  if (value.empty()) return std::nullopt;
  if (std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    std::int64_t seconds = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (parsed.ec != std::errc{}) seconds = std::numeric_limits<std::int64_t>::max();
    return saturating_span<std::chrono::seconds>(seconds);
  }
  std::optional<WallTime> at = fixed_date(value);
  if (!at) at = rfc850_date(value, now);
  if (!at) at = asctime_date(value);
  if (!at) return std::nullopt;
  return *at <= now ? Span{} : *at - now;
}

}  // namespace carillon::server
