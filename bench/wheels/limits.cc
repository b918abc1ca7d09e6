// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/limits.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/wheels/workloads.h"
#include "carillon/base/random.h"

namespace carillon::bench {
namespace {

struct alignas(64) Line {
  Line* next = nullptr;
  Line* prev = nullptr;
  std::uint64_t value = 0;
};

// Joins the lines to one circle, in random order.
void link_at_random(Line* lines, std::size_t count) {
  std::vector<std::uint32_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::uint32_t>(i);
  Random random(count + 1);
  std::shuffle(order.begin(), order.end(), random);
  for (std::size_t i = 0; i < count; ++i) {
    Line& line = lines[order[i]];
    Line& next = lines[order[i + 1 < count ? i + 1 : 0]];
    line.next = &next;
    next.prev = &line;
  }
}

// Keeps no timers, so that nothing expires.
struct NoTimers {
  struct Timer {};
  static constexpr std::string_view kName = kLimitPeer;
  static constexpr Family kFamily = Family::kWheel;
  static constexpr bool kEqualTimeouts = true;
  static constexpr bool kDrivesItself = false;
  static constexpr int kLateShift = 0;
  static constexpr std::size_t kPayloadBytes = 0;

  explicit NoTimers(std::size_t) {}
  void prepare(Timer&) {}
  void dispose(Timer&) {}
  void schedule(Timer&, Tick) {}
  void cancel(Timer&) {}
  void refresh(Timer&, Tick) {}
  template <class Sink>
  void advance(Tick, Sink&&) {}
  [[nodiscard]] Tick now() const { return 0; }
};

}  // namespace

Measurement measure_limits(const Script& script) {
  constexpr std::size_t kMostSteps = 500'000;
  const std::size_t n = script.timers;
  const auto lines = std::make_unique<Line[]>(n);
  Phase line(n);
  Phase unlink(n);
  const std::size_t steps = std::min(n, kMostSteps);
  Phase dependent(steps);
  std::uint64_t sum = 0;
  for (std::size_t round = 0; round < script.rounds; ++round) {
    link_at_random(lines.get(), n);
    line.time([&] {
      for (const std::uint32_t i : script.order_of(round)) ++lines[i].value;
    });
    const Line* at = lines.get();
    dependent.time([&] {
      for (std::size_t step = 0; step < steps; ++step) at = at->next;
    });
    sum += at->value;
    unlink.time([&] {
      for (const std::uint32_t i : script.order_of(round)) {
        Line& taken = lines[i];
        taken.next->prev = taken.prev;
        taken.prev->next = taken.next;
      }
    });
  }
  if (sum == 0) throw BenchError("the limits were not measured");
  Measurement m;
  m.bench = "limit";
  m.peer = kLimitPeer;
  m.params = {{"n", static_cast<double>(n)}};
  m.values = {{"line_ns", line.ns()}, {"unlink_ns", unlink.ns()}, {"dependent_ns", dependent.ns()}};
  return m;
}

Measurement measure_bare_loop(const LoopScript& script) {
  return time_loop<NoTimers>(script).first;
}

}  // namespace carillon::bench
