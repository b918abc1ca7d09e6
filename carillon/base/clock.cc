// SPDX-License-Identifier: Apache-2.0
#include "carillon/base/clock.h"

#include <ctime>
#include <fstream>

#include "carillon/base/check.h"

namespace carillon {
namespace {

Span read_clock(clockid_t id) noexcept {
  timespec ts{};
  CARILLON_CHECK(clock_gettime(id, &ts) == 0, "clock ", id);
  return std::chrono::seconds(ts.tv_sec) + Span(ts.tv_nsec);
}

}  // namespace

Instant SteadyClock::now() const noexcept { return Instant(read_clock(CLOCK_MONOTONIC)); }
Instant BootClock::now() const noexcept { return Instant(read_clock(CLOCK_BOOTTIME)); }
WallTime SystemCalendar::now() const noexcept { return WallTime(read_clock(CLOCK_REALTIME)); }

std::string read_boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

void ManualClock::advance(Span span) noexcept {
  CARILLON_CHECK(span >= Span::zero(), "a monotonic clock cannot go back by ", -span.count(),
                 " ns");
  advance_to(saturating_add(now(), span));
}

void ManualClock::advance_to(Instant to) noexcept {
  const Span::rep before = nanos_.exchange(to.time_since_epoch().count());
  CARILLON_CHECK(before <= to.time_since_epoch().count(), "a monotonic clock cannot go back from ",
                 before, " to ", to.time_since_epoch().count());
}

}  // namespace carillon
