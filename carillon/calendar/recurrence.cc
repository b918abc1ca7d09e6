// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/recurrence.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "carillon/calendar/rfc3339.h"
#include "fmt/format.h"

namespace carillon::calendar {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t ms;
};
constexpr std::array<Unit, 5> kUnits = {
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

// Where WallTime ends.
constexpr std::int64_t kLastMs = std::numeric_limits<std::int64_t>::max() / 1'000'000;

Error invalid(std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message)};
}

/// The text up to the next blank, taken off `rest` with the blanks after it.
std::string_view take_word(std::string_view& rest) {
  const std::string_view blanks = " \t";
  rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(blanks));
  rest.remove_prefix(word.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
  return word;
}

std::string joined(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const std::string_view word = take_word(line);
    if (word.empty()) break;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

}  // namespace

Result<std::int64_t> parse_period(std::string_view text) {
  const std::string_view whole = text.substr(0, 40);
  std::int64_t total = 0;
  std::size_t unit = 0;  // The first that may still come.
  if (text.empty()) return invalid("period: it is missing");
  while (!text.empty()) {
    std::int64_t count = 0;
    std::size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
      if (digits == 15) return invalid(fmt::format("period: \"{}\" is beyond 36525d", whole));
      count = count * 10 + (text[digits] - '0');
    }
    text.remove_prefix(digits);
    const std::string_view name = text.substr(0, text.find_first_of("0123456789"));
    while (unit < kUnits.size() && kUnits[unit].name != name) ++unit;
    if (digits == 0 || unit == kUnits.size()) {
      return invalid(
          fmt::format("period: \"{}\" is not one as 1h30m; units are d h m s ms, each "
                      "once and in this order",
                      whole));
    }
    std::int64_t part = 0;
    if (__builtin_mul_overflow(count, kUnits[unit].ms, &part) ||
        __builtin_add_overflow(total, part, &total)) {
      return invalid(fmt::format("period: \"{}\" is beyond 36525d", whole));
    }
    text.remove_prefix(name.size());
    ++unit;
  }
  return total;
}

std::string format_period(std::int64_t ms) {
  if (ms <= 0) return "0ms";
  std::string text;
  for (const Unit& unit : kUnits) {
    if (ms >= unit.ms) text += fmt::format("{}{}", ms / unit.ms, unit.name);
    ms %= unit.ms;
  }
  return text;
}

Result<Recurrence> Recurrence::every(std::int64_t period_ms, std::int64_t start_ms) {
  if (period_ms < kShortestPeriodMs) {
    return invalid(fmt::format("period: {} is below {}", format_period(period_ms),
                               format_period(kShortestPeriodMs)));
  }
  if (period_ms > kLongestPeriodMs) {
    return invalid(fmt::format("period: {} is beyond {}", format_period(period_ms),
                               format_period(kLongestPeriodMs)));
  }
  if (start_ms > kLastMs || start_ms < -kLastMs) {
    return invalid(fmt::format("from: {} is not from {} to {}", format_rfc3339(start_ms),
                               format_rfc3339(-kLastMs), format_rfc3339(kLastMs)));
  }
  std::string spec = fmt::format("every {}", format_period(period_ms));
  // Any of the times may be the start; the text has the one that was given.
  if (start_ms != 0) spec += fmt::format(" from {}", format_rfc3339(start_ms));
  return Recurrence(Every{period_ms, start_ms}, std::move(spec));
}

Result<Recurrence> Recurrence::cron(std::string_view line, std::string_view time_zone) {
  if (line.size() + time_zone.size() + std::string_view("CRON_TZ= ").size() > kMaxRecurrenceBytes) {
    return invalid(fmt::format("cron: more than {} bytes", kMaxRecurrenceBytes));
  }
  TimeZone zone;
  if (!time_zone.empty()) {
    Result<TimeZone> found = TimeZone::find(time_zone);
    if (!found) return std::move(found).error();
    zone = *std::move(found);
  }
  Result<Cron> cron = Cron::parse(line);
  if (!cron) return std::move(cron).error();
  std::string spec = joined(line);
  if (zone.name() != "UTC") spec.insert(0, fmt::format("CRON_TZ={} ", zone.name()));
  return Recurrence(Crontab{*std::move(cron), std::move(zone)}, std::move(spec));
}

Result<Recurrence> Recurrence::parse(std::string_view spec) {
  if (spec.size() > kMaxRecurrenceBytes) {
    return invalid(fmt::format("spec: {} bytes are beyond {}", spec.size(), kMaxRecurrenceBytes));
  }
  std::string_view rest = spec;
  const std::string_view first = take_word(rest);
  if (first.empty()) return invalid("spec: it is empty");
  if (first == "every" || first == "@every") {
    Result<std::int64_t> period = parse_period(take_word(rest));
    if (!period) return std::move(period).error();
    if (rest.empty()) return every(*period);
    if (take_word(rest) != "from") {
      return invalid("spec: after the period comes nothing, or \"from\" and a time");
    }
    Result<std::int64_t> start = parse_rfc3339(take_word(rest));
    if (!start) return std::move(start).error().prefixed("from");
    if (!rest.empty()) return invalid("spec: nothing comes after the time");
    return every(*period, *start);
  }
  for (const std::string_view name : {"CRON_TZ=", "TZ="}) {
    if (first.starts_with(name)) {
      const std::string_view zone = first.substr(name.size());
      if (zone.empty()) return invalid("time zone: it is missing after " + std::string(name));
      return cron(rest, zone);
    }
  }
  return cron(spec, "");
}

TimeZone Recurrence::time_zone() const {
  const auto* crontab = std::get_if<Crontab>(&rule_);
  return crontab != nullptr ? crontab->zone : TimeZone();
}

std::optional<std::int64_t> Recurrence::next(std::int64_t after_ms) const {
  if (after_ms >= kLastMs) return std::nullopt;
  if (const auto* every = std::get_if<Every>(&rule_)) {
    // Times before a start that was given do not exist; else it is only where counting begins.
    if (after_ms < every->start_ms && every->start_ms != 0) return every->start_ms;
    const std::int64_t since = std::max(after_ms, -kLastMs) - every->start_ms;
    std::int64_t count = since / every->period_ms;
    if (since % every->period_ms < 0) --count;
    const std::int64_t next = every->start_ms + (count + 1) * every->period_ms;
    return next <= kLastMs ? std::optional(next) : std::nullopt;
  }
  const auto& crontab = std::get<Crontab>(rule_);
  const std::int64_t after_s = after_ms >= 0 ? after_ms / 1'000 : -((-(after_ms + 1)) / 1'000) - 1;
  const auto next_s = crontab.line.next(after_s, crontab.zone);
  if (!next_s) return std::nullopt;
  return *next_s * 1'000;
}

std::optional<std::int64_t> next_of_spec(std::string_view spec, std::int64_t after_ms) {
  Result<Recurrence> recurrence = Recurrence::parse(spec);
  if (!recurrence) return std::nullopt;
  return recurrence->next(after_ms);
}

}  // namespace carillon::calendar
