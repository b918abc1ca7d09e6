// SPDX-License-Identifier: Apache-2.0
// The cost of an operation on each wheel of hooks, in nanoseconds each, by the number of timers.
//
//   W1  schedule N timers uniform in 1..60,000 ticks, then cancel all in random order
//   W2  refresh: N live timeouts of 30,000 ticks, a random one pushed back; a tick each 1,000
//       (by reschedule, and by postpone)
//   W3  expire all N of W1 tick by tick, cascades included
//   W4  ten timers over 10^9 ticks, from next deadline to next deadline
//   W5  schedule N, cancel all, advance past them: what laziness leaves to be paid later
//
// A phase is timed as a whole with one pair of clock readings; median and minimum of the phases.
// Timers are 32 bytes, in one array, scheduled in the order of the array. The label is a checksum:
// equal for equal work. (Of W3 the sum of the deadlines at which timers expired, so larger where a
// wheel rounds.) A HashedWheel is measured with rings of a turn of all delays and of many turns.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/wheel/coarse_wheel.h"
#include "carillon/wheel/hashed_wheel.h"
#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/wheel_bench_report.h"

namespace carillon {
namespace {

constexpr Tick kSpan = 60'000;
constexpr Tick kTimeout = 30'000;

struct Workload {
  explicit Workload(std::size_t n) : timers(std::make_unique<WheelHook[]>(n)), delays(n), order(n) {
    Random random(n);
    std::generate(delays.begin(), delays.end(), [&] { return 1 + random.below(kSpan); });
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::shuffle(order.begin(), order.end(), random);
  }

  std::unique_ptr<WheelHook[]> timers;
  std::vector<Tick> delays;
  std::vector<std::uint32_t> order;
};

template <class Wheel>
void schedule_all(Wheel& wheel, Workload& load) {
  for (std::size_t i = 0; i < load.delays.size(); ++i) {
    wheel.schedule(load.timers[i], wheel.now() + load.delays[i]);
  }
}

template <class Wheel>
void cancel_all(Wheel& wheel, Workload& load) {
  for (const std::uint32_t i : load.order) {
    wheel.cancel(load.timers[i]);
  }
}

template <class Wheel>
void w1_schedule(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Workload load(n);
  Wheel wheel;
  Report report(state, n);
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    const double once = timed([&] { schedule_all(wheel, load); });
    report.add(once);
    checksum = wheel.size();
    cancel_all(wheel, load);
    wheel.advance(wheel.now() + kSpan, [](WheelHook&) {});
  }
  report.finish(checksum);
}

template <class Wheel>
void w1_cancel(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Workload load(n);
  Wheel wheel;
  Report report(state, n);
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    schedule_all(wheel, load);
    const double once = timed([&] { cancel_all(wheel, load); });
    report.add(once);
    checksum = n - wheel.size();
    wheel.advance(wheel.now() + kSpan, [](WheelHook&) {});
  }
  report.finish(checksum);
}

// `refresh(wheel, hook, deadline)`: reschedule, or postpone.
template <class Wheel, class Refresh>
void w2(benchmark::State& state, const Refresh& refresh) {
  constexpr std::size_t kRefreshes = 1 << 17;
  const auto n = static_cast<std::size_t>(state.range(0));
  Workload load(n);
  std::vector<std::uint32_t> picks(kRefreshes);
  Random random(7);
  std::generate(picks.begin(), picks.end(),
                [&] { return static_cast<std::uint32_t>(random.below(n)); });
  Wheel wheel;
  Report report(state, kRefreshes);
  for (std::size_t i = 0; i < n; ++i) {
    wheel.schedule(load.timers[i], 1 + kTimeout * i / n);
  }
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    const double once = timed([&] {
      std::size_t until_tick = 1000;
      for (const std::uint32_t i : picks) {
        refresh(wheel, load.timers[i], wheel.now() + kTimeout);
        if (--until_tick == 0) {
          until_tick = 1000;
          // What was not refreshed for the whole timeout goes on as if it had been.
          wheel.advance(wheel.now() + 1, [&](WheelHook& hook) {
            wheel.schedule(hook, wheel.now() + kTimeout);
            ++checksum;
          });
        }
      }
    });
    report.add(once);
  }
  report.finish(wheel.size());
  benchmark::DoNotOptimize(checksum);
}

template <class Wheel>
void w2_reschedule(benchmark::State& state) {
  w2<Wheel>(state,
            [](Wheel& wheel, WheelHook& hook, Tick deadline) { wheel.reschedule(hook, deadline); });
}

template <class Wheel>
void w2_postpone(benchmark::State& state) {
  w2<Wheel>(state,
            [](Wheel& wheel, WheelHook& hook, Tick deadline) { wheel.postpone(hook, deadline); });
}

template <class Wheel>
void w3_expire(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Workload load(n);
  Wheel wheel;
  Report report(state, n);
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    const Tick begin = wheel.now();
    schedule_all(wheel, load);
    checksum = 0;
    const double once = timed([&] {
      for (Tick tick = begin + 1; !wheel.empty(); ++tick) {
        wheel.advance(tick, [&](WheelHook& hook) { checksum += hook.deadline() - begin; });
      }
    });
    report.add(once);
  }
  report.finish(checksum);
}

template <class Wheel>
void w4_sparse(benchmark::State& state) {
  constexpr std::size_t kTimers = 10;
  WheelHook timers[kTimers];
  Wheel wheel;
  Report report(state, kTimers);
  std::uint64_t wake_ups = 0;
  Random random(4);
  for (auto _ : state) {
    for (WheelHook& timer : timers) {
      wheel.schedule(timer, wheel.now() + 1 + random.below(1'000'000'000));
    }
    const double once = timed([&] {
      while (const auto next = wheel.next_deadline()) {
        wheel.advance(*next, [](WheelHook&) {});
        ++wake_ups;
      }
    });
    report.add(once);
  }
  report.finish(wake_ups / static_cast<std::uint64_t>(state.iterations()));
}

template <class Wheel>
void w5_in_all(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Workload load(n);
  Wheel wheel;
  Report report(state, n);
  for (auto _ : state) {
    const double once = timed([&] {
      schedule_all(wheel, load);
      cancel_all(wheel, load);
      wheel.advance(wheel.now() + kSpan, [](WheelHook&) {});
    });
    report.add(once);
  }
  report.finish(wheel.size());
}

// One turn is longer than all delays; or Netty's, and a delay is up to 118 turns.
struct LongRing : HashedWheel {
  LongRing() : HashedWheel(0, 65'536) {}
};
struct ShortRing : HashedWheel {
  ShortRing() : HashedWheel(0, 512) {}
};

#define CARILLON_BENCH_SIZES(function, wheel) \
  BENCHMARK_TEMPLATE(function, wheel)->Arg(1'000)->Arg(1'000'000)->UseManualTime()
#define CARILLON_BENCH_WHEEL(wheel)           \
  CARILLON_BENCH_SIZES(w1_schedule, wheel);   \
  CARILLON_BENCH_SIZES(w1_cancel, wheel);     \
  CARILLON_BENCH_SIZES(w2_reschedule, wheel); \
  CARILLON_BENCH_SIZES(w2_postpone, wheel);   \
  CARILLON_BENCH_SIZES(w3_expire, wheel);     \
  CARILLON_BENCH_SIZES(w5_in_all, wheel);     \
  BENCHMARK_TEMPLATE(w4_sparse, wheel)->UseManualTime()

CARILLON_BENCH_WHEEL(HierarchicalWheel);
CARILLON_BENCH_WHEEL(LinuxWheel);
CARILLON_BENCH_WHEEL(LongRing);
CARILLON_BENCH_WHEEL(ShortRing);
CARILLON_BENCH_WHEEL(CoarseWheel);
CARILLON_BENCH_WHEEL(KernelWheel);

}  // namespace
}  // namespace carillon

BENCHMARK_MAIN();
