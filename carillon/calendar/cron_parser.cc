// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/cron_parser.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace carillon::calendar {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                      "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array<std::string_view, 7> kWeekdays = {"SUN", "MON", "TUE", "WED",
                                                       "THU", "FRI", "SAT"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kWords = {{
    {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
    {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},
    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
}};

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (upper(a[i]) != upper(b[i])) return false;
  }
  return true;
}

std::uint64_t bit(int value) { return std::uint64_t{1} << value; }

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(separators, at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

}  // namespace

const CronParser::Field CronParser::kSecond{"second", 0, 59, {}};
const CronParser::Field CronParser::kMinute{"minute", 0, 59, {}};
const CronParser::Field CronParser::kHour{"hour", 0, 23, {}};
const CronParser::Field CronParser::kDay{"day of month", 1, 31, {}};
const CronParser::Field CronParser::kMonth{"month", 1, 12, kMonths};
const CronParser::Field CronParser::kWeekday{"day of week", 0, 7, kWeekdays};

Result<Cron> CronParser::parse(std::string_view line) {
  std::vector<std::string_view> fields = split(line, " \t");
  if (fields.size() == 1 && fields[0].starts_with('@')) {
    const std::string_view word = fields[0];
    fields.clear();
    for (const auto& [name, meaning] : kWords) {
      if (same_word(word, name)) fields = split(meaning, " ");
    }
    if (fields.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("\"{}\" is none of @yearly @annually @monthly @weekly @daily "
                               "@midnight @hourly",
                               word.substr(0, 32))};
    }
  }
  if (fields.size() != 5 && fields.size() != 6) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("cron: {} fields; it has 5 (minute hour day-of-month month "
                             "day-of-week) or 6 (second first)",
                             fields.size())};
  }
  if (fields.size() == 5) fields.insert(fields.begin(), "0");

  const bool read =
      field(kSecond, fields[0], cron_.seconds_) && field(kMinute, fields[1], cron_.minutes_) &&
      field(kHour, fields[2], cron_.hours_) && field(kDay, fields[3], cron_.days_) &&
      field(kMonth, fields[4], cron_.months_) && field(kWeekday, fields[5], cron_.weekdays_);
  if (!read) return Error{ErrorCode::kInvalidArgument, std::move(problem_)};
  cron_.rhythm_ = fields[1].front() == '*' || fields[2].front() == '*';
  cron_.any_day_ = fields[3].front() == '*' || fields[3] == "?";
  cron_.any_weekday_ = fields[5].front() == '*' || fields[5] == "?";
  if ((cron_.weekdays_ & bit(7)) != 0) cron_.weekdays_ |= bit(0);
  if (!cron_.has_any_day()) {
    return Error{ErrorCode::kInvalidArgument,
                 "day of month, month, day of week: there is no such day in any year"};
  }
  return cron_;
}

bool CronParser::fail(const Field& field, std::string message) {
  problem_ = fmt::format("{}: {}", field.name, message);
  return false;
}

bool CronParser::field(const Field& field, std::string_view text, std::uint64_t& bits) {
  for (;;) {
    const std::size_t comma = text.find(',');
    if (!element(field, text.substr(0, comma), bits)) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

// all or value or range, and perhaps "/step".
bool CronParser::element(const Field& field, std::string_view text, std::uint64_t& bits) {
  bool taken = false;
  if (&field == &kDay && (!day_element(text, taken) || taken)) return taken;
  if (&field == &kWeekday && (!weekday_element(text, taken) || taken)) return taken;

  const std::size_t slash = text.find('/');
  const bool has_step = slash != std::string_view::npos;
  const std::string_view base = text.substr(0, slash);
  int first = 0;
  int last = 0;
  const bool is_day = &field == &kDay || &field == &kWeekday;
  if (base == "*" || (base == "?" && is_day)) {
    first = field.least;
    last = &field == &kWeekday ? 6 : field.most;
  } else if (const std::size_t dash = base.find('-'); dash != std::string_view::npos) {
    if (!value(field, base.substr(0, dash), first)) return false;
    if (!value(field, base.substr(dash + 1), last)) return false;
    // SUN is 0, and ends a week as 7 does.
    if (&field == &kWeekday && last == 0 && first > 0) last = 7;
    if (first > last) {
      return fail(field, fmt::format("the range {} ends before it begins; name two ranges",
                                     base.substr(0, 32)));
    }
  } else {
    if (!value(field, base, first)) return false;
    last = has_step ? (&field == &kWeekday ? 6 : field.most) : first;
    if (has_step && first > last) last = first;  // 7/n: Sunday.
  }
  int step = 1;
  if (has_step) {
    const std::string_view digits = text.substr(slash + 1);
    if (!number(digits, step)) {
      return fail(field, fmt::format("the step \"{}\" is not a number", digits.substr(0, 32)));
    }
    if (step < 1) return fail(field, "the step is at least 1");
    if (step > field.most) {
      return fail(field, fmt::format("the step {} is beyond {}", step, field.most));
    }
  }
  for (int v = first; v <= last; v += step) bits |= bit(v);
  return true;
}

// L, L-n, LW, nW.
bool CronParser::day_element(std::string_view text, bool& taken) {
  taken = true;
  if (same_word(text, "L")) {
    cron_.days_before_last_ |= bit(0);
    return true;
  }
  if (same_word(text, "LW")) {
    cron_.last_weekday_ = true;
    return true;
  }
  int day = 0;
  if (text.size() >= 2 && same_word(text.substr(0, 2), "L-")) {
    if (!number(text.substr(2), day)) {
      taken = false;
      return fail(kDay, fmt::format("\"{}\" is not L-n as in L-3", text.substr(0, 32)));
    }
    if (day > 30) {
      taken = false;
      return fail(kDay, fmt::format("L-{} is beyond L-30", day));
    }
    cron_.days_before_last_ |= bit(day);
    return true;
  }
  if (text.size() >= 2 && upper(text.back()) == 'W') {
    if (!value(kDay, text.substr(0, text.size() - 1), day)) return taken = false;
    cron_.nearest_weekdays_ |= bit(day);
    return true;
  }
  taken = false;
  return true;
}

// FRI#2, FRIL.
bool CronParser::weekday_element(std::string_view text, bool& taken) {
  taken = true;
  int weekday = 0;
  if (const std::size_t hash = text.find('#'); hash != std::string_view::npos) {
    int nth = 0;
    if (!value(kWeekday, text.substr(0, hash), weekday)) return taken = false;
    if (!number(text.substr(hash + 1), nth) || nth < 1 || nth > 5) {
      taken = false;
      return fail(kWeekday,
                  fmt::format("in \"{}\" a number from 1 to 5 follows #", text.substr(0, 32)));
    }
    cron_.nth_weekdays_[static_cast<std::size_t>(weekday % 7)] |=
        static_cast<std::uint8_t>(1u << nth);
    return true;
  }
  if (text.size() >= 2 && upper(text.back()) == 'L') {
    if (!value(kWeekday, text.substr(0, text.size() - 1), weekday)) return taken = false;
    cron_.nth_weekdays_[static_cast<std::size_t>(weekday % 7)] |= 1u;
    return true;
  }
  taken = false;
  return true;
}

bool CronParser::value(const Field& field, std::string_view text, int& value) {
  for (std::size_t i = 0; i < field.names.size(); ++i) {
    if (same_word(text, field.names[i])) {
      value = field.least + static_cast<int>(i);
      return true;
    }
  }
  if (text.empty()) return fail(field, "a value is missing");
  if (!number(text, value)) {
    return fail(field, fmt::format("\"{}\" is not a number from {} to {}{}", text.substr(0, 32),
                                   field.least, field.most,
                                   field.names.empty()
                                       ? std::string()
                                       : fmt::format(" or a name as {}", field.names.front())));
  }
  if (value < field.least) {
    return fail(field, fmt::format("{} is before {}", value, field.least));
  }
  if (value > field.most) return fail(field, fmt::format("{} is beyond {}", value, field.most));
  return true;
}

bool CronParser::number(std::string_view text, int& value) {
  if (text.empty() || text.size() > 6) return false;
  value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  return true;
}

Result<Cron> Cron::parse(std::string_view line) { return CronParser().parse(line); }

}  // namespace carillon::calendar
