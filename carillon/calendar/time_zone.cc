// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/time_zone.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <ios>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "carillon/base/mutex.h"
#include "carillon/calendar/posix_rule.h"
#include "date/tz.h"
#include "fmt/format.h"

namespace carillon::calendar {

struct TimeZone::Zone {
  std::string name;
  const date::time_zone* listed = nullptr;  // Null: UTC.
  std::optional<PosixRule> rule;            // After the last listed change.
};

namespace {

constexpr std::string_view kDatabase = "/usr/share/zoneinfo/";

/// The last line of a TZif file from version 2 on.
std::optional<PosixRule> read_rule(const std::string& zone) {
  std::ifstream file(std::string(kDatabase) + zone, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  const std::string text = std::move(bytes).str();
  if (!text.starts_with("TZif") || !text.ends_with('\n')) return std::nullopt;
  const std::size_t begin = text.rfind('\n', text.size() - 2);
  if (begin == std::string::npos) return std::nullopt;
  return PosixRule::parse(std::string_view(text).substr(begin + 1, text.size() - begin - 2));
}

}  // namespace

TimeZone::TimeZone() {
  static const auto kUtc =
      std::make_shared<const Zone>(Zone{.name = "UTC", .listed = nullptr, .rule = {}});
  zone_ = kUtc;
}

Result<TimeZone> TimeZone::find(std::string_view name) {
  if (name == "UTC") return TimeZone();
  struct Known {
    Mutex mutex;
    std::map<std::string, TimeZone, std::less<>> zones CARILLON_GUARDED_BY(mutex);
  };
  static Known known;
  const MutexLock lock(known.mutex);
  if (const auto at = known.zones.find(name); at != known.zones.end()) return at->second;
  Result<TimeZone> zone = load(std::string(name));
  // As many as there are names in the database, no more.
  if (zone) known.zones.emplace(name, *zone);
  return zone;
}

Result<TimeZone> TimeZone::load(const std::string& name) {
  // What the machine is set to today is no name that means the same tomorrow, or elsewhere.
  if (name == "localtime") {
    return Error{ErrorCode::kInvalidArgument,
                 "time zone \"localtime\" depends on the machine; give its name, as in "
                 "Europe/Amsterdam"};
  }
  try {
    const auto& zones = date::get_tzdb().zones;
    const auto at = std::lower_bound(
        zones.begin(), zones.end(), name,
        [](const date::time_zone& zone, const std::string& n) { return zone.name() < n; });
    if (at == zones.end() || at->name() != name) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("time zone \"{}\" is not in the database in {}; names are as in "
                               "Europe/Amsterdam or UTC",
                               std::string_view(name).substr(0, 64), kDatabase)};
    }
    (void)at->get_info(date::sys_seconds{});  // Reads the file.
    return TimeZone(
        std::make_shared<const Zone>(Zone{.name = name, .listed = &*at, .rule = read_rule(name)}));
  } catch (const std::exception& e) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the time zone database in {} cannot be read (package tzdata): {}",
                             kDatabase, e.what())};
  }
}

const std::string& TimeZone::name() const noexcept { return zone_->name; }

OffsetPeriod TimeZone::period_at(std::int64_t at_s) const {
  if (zone_->listed == nullptr) return {};
  const date::sys_info info =
      zone_->listed->get_info(date::sys_seconds(std::chrono::seconds(at_s)));
  OffsetPeriod period{info.begin.time_since_epoch().count(), info.end.time_since_epoch().count(),
                      info.offset.count()};
  // The library says "to the end of time" of the period after the last listed change.
  constexpr std::int64_t kFarAway = 200'000'000'000;  // The year 8307.
  if (period.end_s > kFarAway && zone_->rule) {
    const std::int64_t begin_s = period.begin_s;
    period = zone_->rule->period_at(at_s);
    period.begin_s = std::max(period.begin_s, begin_s);
  }
  return period;
}

}  // namespace carillon::calendar
