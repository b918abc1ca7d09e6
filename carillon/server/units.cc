// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/units.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>

namespace carillon::server {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

constexpr Unit kDurations[] = {{"ms", 1},     {"s", 1'000},     {"", 1'000},
                               {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
constexpr Unit kSizes[] = {{"", 1},        {"KiB", 1 << 10}, {"K", 1 << 10}, {"MiB", 1 << 20},
                           {"M", 1 << 20}, {"GiB", 1 << 30}, {"G", 1 << 30}};

Error malformed(std::string_view text, std::string_view what) {
  return {ErrorCode::kInvalidArgument, "'" + std::string(text) + "' is not " + std::string(what)};
}

Result<std::int64_t> parse(std::string_view text, std::span<const Unit> units,
                           std::string_view what) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-') return malformed(text, what);
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    std::int64_t value = 0;
    if (__builtin_mul_overflow(number, unit.factor, &value)) return malformed(text, what);
    return value;
  }
  return malformed(text, what);
}

}  // namespace

Result<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return malformed(text,
                     error == std::errc::result_out_of_range ? "a number of 64 bits" : "a number");
  }
  return number;
}

Result<Span> parse_duration(std::string_view text) {
  Result<std::int64_t> ms = parse(text, kDurations, "a duration (500ms, 30s, 5m, 2h, 1d)");
  if (!ms) return std::move(ms).error();
  return saturating_span<std::chrono::milliseconds>(*ms);
}

Result<std::uint64_t> parse_size(std::string_view text) {
  Result<std::int64_t> bytes = parse(text, kSizes, "a size (65535, 64KiB, 16MiB, 1GiB)");
  if (!bytes) return std::move(bytes).error();
  return static_cast<std::uint64_t>(*bytes);
}

std::string format_duration(Span span) {
  const std::int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  const Unit* best = &kDurations[0];
  for (const Unit& unit : kDurations) {
    if (!unit.name.empty() && ms != 0 && ms % unit.factor == 0) best = &unit;
  }
  if (ms == 0) best = &kDurations[1];
  return std::to_string(ms / best->factor).append(best->name);
}

std::string format_size(std::uint64_t bytes) {
  const Unit* best = &kSizes[0];
  for (const Unit& unit : kSizes) {
    const auto factor = static_cast<std::uint64_t>(unit.factor);
    if (unit.name.size() != 1 && bytes != 0 && bytes % factor == 0) best = &unit;
  }
  return std::to_string(bytes / static_cast<std::uint64_t>(best->factor)).append(best->name);
}

std::uint32_t ceil_seconds(Span span) noexcept {
  constexpr std::int64_t kNanos = 1'000'000'000;
  const std::int64_t seconds = span.count() / kNanos + (span.count() % kNanos > 0 ? 1 : 0);
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(seconds, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace carillon::server
