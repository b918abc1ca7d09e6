// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/posix_rule.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace carillon::calendar {

/// Recursive descent over the text of a rule; each function returns whether it matched.
class PosixRuleParser {
 public:
  explicit PosixRuleParser(std::string_view text) : rest_(text) {}

  std::optional<PosixRule> parse() {
    PosixRule rule;
    std::int64_t west_s = 0;
    if (!name() || !time(24, west_s)) return std::nullopt;
    rule.standard_s_ = -west_s;
    if (rest_.empty()) return rule;
    rule.saves_ = true;
    rule.saving_s_ = rule.standard_s_ + 3'600;
    if (!name()) return std::nullopt;
    if (!rest_.empty() && rest_.front() != ',') {
      if (!time(24, west_s)) return std::nullopt;
      rule.saving_s_ = -west_s;
    }
    if (!take(',') || !change(rule.begin_) || !take(',') || !change(rule.end_)) return std::nullopt;
    if (!rest_.empty()) return std::nullopt;
    return rule;
  }

 private:
  using Change = PosixRule::YearlyChange;

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool number(int most, int& value) {
    std::size_t count = 0;
    value = 0;
    while (count < rest_.size() && count < 4 && rest_[count] >= '0' && rest_[count] <= '9') {
      value = value * 10 + (rest_[count++] - '0');
    }
    rest_.remove_prefix(count);
    return count > 0 && value <= most;
  }

  // "CET", or "<+0330>".
  bool name() {
    std::size_t length = 0;
    if (take('<')) {
      length = rest_.find('>');
      if (length == std::string_view::npos) return false;
      rest_.remove_prefix(length + 1);
      return length >= 3;
    }
    while (length < rest_.size() && ((rest_[length] >= 'A' && rest_[length] <= 'Z') ||
                                     (rest_[length] >= 'a' && rest_[length] <= 'z'))) {
      ++length;
    }
    rest_.remove_prefix(length);
    return length >= 3;
  }

  // [+-]hours[:minutes[:seconds]]
  bool time(int most_hours, std::int64_t& seconds) {
    const bool negative = take('-');
    if (!negative) take('+');
    int hours = 0;
    int minutes = 0;
    int rest = 0;
    if (!number(most_hours, hours)) return false;
    if (take(':')) {
      if (!number(59, minutes)) return false;
      if (take(':') && !number(59, rest)) return false;
    }
    seconds = hours * 3'600 + minutes * 60 + rest;
    if (negative) seconds = -seconds;
    return true;
  }

  bool change(Change& change) {
    if (take('M')) {
      change.kind = Change::Kind::kWeekday;
      if (!number(12, change.month) || change.month < 1) return false;
      if (!take('.') || !number(5, change.week) || change.week < 1) return false;
      if (!take('.') || !number(6, change.weekday)) return false;
    } else if (take('J')) {
      change.kind = Change::Kind::kJulian;
      if (!number(365, change.day) || change.day < 1) return false;
    } else {
      change.kind = Change::Kind::kDayOfYear;
      if (!number(365, change.day)) return false;
    }
    // Up to a week before or after: RFC 8536, section 3.3.1.
    return !take('/') || time(167, change.time_s);
  }

  std::string_view rest_;
};

std::optional<PosixRule> PosixRule::parse(std::string_view text) {
  return PosixRuleParser(text).parse();
}

std::int64_t PosixRule::YearlyChange::in_year(int year) const {
  namespace chrono = std::chrono;
  const chrono::year y(year);
  chrono::sys_days on;
  switch (kind) {
    case Kind::kWeekday: {
      const chrono::year_month in = y / chrono::month(static_cast<unsigned>(month));
      const chrono::weekday wanted(static_cast<unsigned>(weekday));
      on = week == 5 ? chrono::sys_days(in / wanted[chrono::last])
                     : chrono::sys_days(in / wanted[static_cast<unsigned>(week)]);
      break;
    }
    case Kind::kJulian:
      on = chrono::sys_days(y / 1 / 1) + chrono::days(day - 1 + (y.is_leap() && day >= 60 ? 1 : 0));
      break;
    case Kind::kDayOfYear: on = chrono::sys_days(y / 1 / 1) + chrono::days(day); break;
  }
  return std::int64_t{on.time_since_epoch().count()} * 86'400 + time_s;
}

OffsetPeriod PosixRule::period_at(std::int64_t at_s) const {
  OffsetPeriod period;
  period.offset_s = standard_s_;
  if (!saves_) return period;

  // The changes of three years, in order: the period lies between two of them.
  const std::chrono::year_month_day today(std::chrono::floor<std::chrono::days>(
      std::chrono::sys_seconds(std::chrono::seconds(at_s + standard_s_))));
  const int year = static_cast<int>(today.year());
  struct Change {
    std::int64_t at_s;
    std::int64_t offset_s;
  };
  std::array<Change, 6> changes{};
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(2 * i);
    changes[at] = {end_.in_year(year - 1 + i) - saving_s_, standard_s_};
    changes[at + 1] = {begin_.in_year(year - 1 + i) - standard_s_, saving_s_};
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.at_s < b.at_s; });
  const auto next = std::upper_bound(changes.begin(), changes.end(), at_s,
                                     [](std::int64_t at, const Change& c) { return at < c.at_s; });
  if (next != changes.begin()) {
    period.begin_s = std::prev(next)->at_s;
    period.offset_s = std::prev(next)->offset_s;
  }
  if (next != changes.end()) period.end_s = next->at_s;
  return period;
}

}  // namespace carillon::calendar
