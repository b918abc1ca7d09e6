// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Schedules in the words of a test. A spec is a period in milliseconds: "60000" is each minute, at
/// whole multiples of it; "60000 until 120000" ends there; anything else is none.

#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {

inline std::optional<std::int64_t> next_multiple(std::string_view spec, std::int64_t after_ms) {
  std::int64_t period = 0;
  const auto read = std::from_chars(spec.data(), spec.data() + spec.size(), period);
  if (read.ec != std::errc() || period <= 0) return std::nullopt;
  const std::string_view rest = spec.substr(static_cast<std::size_t>(read.ptr - spec.data()));
  std::int64_t floor = after_ms / period;
  if (after_ms % period < 0) --floor;
  const std::int64_t next = (floor + 1) * period;
  constexpr std::string_view kUntil = " until ";
  if (rest.starts_with(kUntil)) {
    std::int64_t until = 0;
    (void)std::from_chars(rest.data() + kUntil.size(), rest.data() + rest.size(), until);
    if (next > until) return std::nullopt;
  }
  return next;
}

inline BrokerOptions schedule_options(BrokerOptions options = {}) {
  options.next_period = next_multiple;
  return options;
}

inline ScheduleSettings every(std::int64_t period_ms, std::string name = "s",
                              std::string tube = "default") {
  ScheduleSettings settings;
  settings.name = std::move(name);
  settings.tube = std::move(tube);
  settings.spec = std::to_string(period_ms);
  settings.body = Body("of " + settings.name);
  return settings;
}

inline Command on_schedule(Verb verb, ScheduleSettings settings, std::uint64_t count = 0) {
  Command command;
  command.verb = verb;
  command.count = count;
  CommandOptions options;
  options.schedule = std::move(settings);
  command.options = std::make_shared<const CommandOptions>(std::move(options));
  return command;
}
inline Command on_schedule(Verb verb, std::string name, std::uint64_t count = 0) {
  ScheduleSettings settings;
  settings.name = std::move(name);
  return on_schedule(verb, std::move(settings), count);
}

/// The instances that the store has been given, as its records say: in order of their ids.
class Instances {
 public:
  struct Instance {
    JobId id = 0;
    std::string schedule;
    std::int64_t period_ms = 0;
    bool operator==(const Instance&) const = default;
  };

  /// Those that are there now and were not when it was looked last.
  std::vector<Instance> look(const StoredState& state) {
    std::vector<Instance> fresh;
    for (const auto& [id, entry] : state.jobs) {
      const SharedExtras& extras = entry.job.record.extras;
      if (!extras || extras->schedule.empty() || !seen_.insert(id).second) continue;
      fresh.push_back({id, extras->schedule, extras->due_at_ms.value_or(-1)});
    }
    return fresh;
  }

 private:
  std::set<JobId> seen_;
};

}  // namespace carillon::broker::testing
