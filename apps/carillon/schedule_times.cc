// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/schedule_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/carillon/json.h"
#include "carillon/base/check.h"
#include "carillon/calendar/rfc3339.h"

namespace carillon::app {

std::vector<DueTime> times_after(const calendar::Recurrence& recurrence, std::int64_t after_ms,
                                 std::uint64_t count) {
  std::vector<DueTime> times;
  while (times.size() < count) {
    const std::optional<std::int64_t> due_ms = recurrence.next(after_ms);
    if (!due_ms) break;
    times.push_back({.due_ms = *due_ms, .next_ms = {}});
    after_ms = *due_ms;
  }
  return times;
}

std::vector<DueTime> times_from(const calendar::Recurrence& recurrence, const DueTime& first,
                                std::int64_t now_ms, std::uint64_t count) {
  CARILLON_CHECK(first.next_ms, "no time of the server");
  CARILLON_CHECK(count > 0, "no times asked for");
  const std::int64_t jitter_ms = *first.next_ms - first.due_ms;
  std::vector<DueTime> times =
      times_after(recurrence, std::max(first.due_ms, now_ms - jitter_ms), count - 1);
  for (DueTime& time : times) time.next_ms = time.due_ms + jitter_ms;
  times.insert(times.begin(), first);
  return times;
}

std::string by_clocks_of(const calendar::TimeZone& zone, std::int64_t ms) {
  const std::int64_t second = ms / 1'000 - (ms % 1'000 < 0 ? 1 : 0);
  return calendar::format_rfc3339(ms, zone.period_at(second).offset_s);
}

void print_times(const calendar::Recurrence& recurrence, std::span<const DueTime> times,
                 bool json) {
  const calendar::TimeZone zone = recurrence.time_zone();
  std::vector<std::string> items;
  for (const DueTime& time : times) {
    const std::string shown = by_clocks_of(zone, time.next_ms.value_or(time.due_ms));
    if (!json) {
      fmt::print("{}\n", shown);
      continue;
    }
    JsonLine item;
    item.text("due_at", calendar::format_rfc3339(time.due_ms)).number("due_at_ms", time.due_ms);
    if (time.next_ms) item.text("next_at", calendar::format_rfc3339(*time.next_ms));
    items.push_back(item.text("shown", shown).str());
  }
  if (json) {
    fmt::print("{}\n", JsonLine()
                           .text("spec", recurrence.spec())
                           .text("time_zone", zone.name())
                           .list("times", items)
                           .str());
  }
}

}  // namespace carillon::app
