// SPDX-License-Identifier: Apache-2.0
// The cost of an operation on a PooledWheel, in nanoseconds each, by the number of timers, beside
// HierarchicalWheel doing the same. W1 to W5 are those of hierarchical_wheel_bench.cc; here in one
// program, so that both see the same machine, and with
//
//   W1s  as W1, on a wheel that is never empty: what a fresh start makes cheap is not there
//   W6   a timer is scheduled far away and cancelled when 1,000 others have been: what compaction
//        costs, with N others that stay
//
// A phase is timed as a whole with one pair of clock readings; median and minimum of the phases.
// The label is a checksum: equal for equal work. `Hooks` are 32 bytes in one array; `Handles` are
// kept in one array.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/pooled_wheel.h"
#include "carillon/wheel/wheel_bench_report.h"

namespace carillon {
namespace {

constexpr Tick kSpan = 60'000;
constexpr Tick kTimeout = 30'000;

// N timers by number, on a wheel of hooks.
struct Hooks {
  explicit Hooks(std::size_t n) : hooks(std::make_unique<WheelHook[]>(n)) {}
  void schedule(std::size_t i, Tick deadline) { wheel.schedule(hooks[i], deadline); }
  using Name = WheelHook*;
  [[nodiscard]] Name name(std::size_t i) const { return &hooks[i]; }
  void cancel(Name hook) { wheel.cancel(*hook); }
  bool refresh(Name hook, Tick deadline) {
    wheel.postpone(*hook, deadline);
    return true;
  }
  template <class Sink>
  void advance(Tick target, const Sink& sink) {
    wheel.advance(target, [&](WheelHook& hook) {
      sink(static_cast<std::size_t>(&hook - hooks.get()), hook.deadline());
    });
  }

  std::unique_ptr<WheelHook[]> hooks;
  HierarchicalWheel wheel;
};

// The same on a wheel of handles; the payload is the number.
template <class Payload>
struct Handles {
  explicit Handles(std::size_t n) : handles(n) {}
  void schedule(std::size_t i, Tick deadline) {
    handles[i] = wheel.schedule(deadline, Payload{static_cast<std::uint32_t>(i)});
  }
  using Name = WheelHandle;
  [[nodiscard]] Name name(std::size_t i) const { return handles[i]; }
  void cancel(Name handle) { wheel.cancel(handle); }
  bool refresh(Name handle, Tick deadline) { return wheel.reschedule(handle, deadline); }
  template <class Sink>
  void advance(Tick target, const Sink& sink) {
    wheel.advance(target, [&](auto&& expired) {
      sink(std::size_t{expired.payload.number}, expired.deadline);
    });
  }

  std::vector<WheelHandle> handles;
  PooledWheel<Payload> wheel;
};

struct Number {
  std::uint32_t number;
};
// As large as a callback with two words of state.
struct Callback {
  std::uint32_t number;
  void* more[3] = {};
};
using Pool = Handles<Number>;
using Pool32 = Handles<Callback>;

struct Workload {
  explicit Workload(std::size_t n) : delays(n), order(n) {
    Random random(n);
    std::generate(delays.begin(), delays.end(), [&] { return 1 + random.below(kSpan); });
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::shuffle(order.begin(), order.end(), random);
  }

  template <class Timers>
  void schedule_all(Timers& timers) const {
    for (std::size_t i = 0; i < delays.size(); ++i) {
      timers.schedule(i, timers.wheel.now() + delays[i]);
    }
  }
  // What the user's own table of timers costs to read is not counted: its names for them, hooks or
  // handles, are in the order in which they are used.
  template <class Timers>
  [[nodiscard]] auto shuffled(const Timers& timers) const {
    std::vector<typename Timers::Name> names;
    names.reserve(order.size());
    for (const std::uint32_t i : order) {
      names.push_back(timers.name(i));
    }
    return names;
  }
  template <class Timers>
  static void cancel_all(Timers& timers, const std::vector<typename Timers::Name>& names) {
    for (const typename Timers::Name name : names) {
      timers.cancel(name);
    }
  }

  std::vector<Tick> delays;
  std::vector<std::uint32_t> order;
};

constexpr auto kIgnore = [](std::size_t, Tick) {};

template <class Timers>
void w1_schedule(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const Workload load(n);
  Timers timers(n);
  Report report(state, n);
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    report.add(timed([&] { load.schedule_all(timers); }));
    checksum = timers.wheel.size();
    load.cancel_all(timers, load.shuffled(timers));
    timers.advance(timers.wheel.now() + kSpan, kIgnore);
  }
  report.finish(checksum);
}

template <class Timers>
void w1_cancel(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const Workload load(n);
  Timers timers(n);
  Report report(state, n);
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    load.schedule_all(timers);
    const auto names = load.shuffled(timers);
    report.add(timed([&] { load.cancel_all(timers, names); }));
    checksum = n - timers.wheel.size();
    timers.advance(timers.wheel.now() + kSpan, kIgnore);
  }
  report.finish(checksum);
}

// Timer n stays: at the end of time.
template <class Timers>
void w1s_schedule(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const Workload load(n);
  Timers timers(n + 1);
  timers.schedule(n, kLastTick);
  Report report(state, n);
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    report.add(timed([&] { load.schedule_all(timers); }));
    checksum = timers.wheel.size();
    load.cancel_all(timers, load.shuffled(timers));
    timers.advance(timers.wheel.now() + kSpan, kIgnore);
  }
  report.finish(checksum);
}

template <class Timers>
void w2_refresh(benchmark::State& state) {
  constexpr std::size_t kRefreshes = 1 << 17;
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<std::uint32_t> picks(kRefreshes);
  Random random(7);
  std::generate(picks.begin(), picks.end(),
                [&] { return static_cast<std::uint32_t>(random.below(n)); });
  Timers timers(n);
  Report report(state, kRefreshes);
  for (std::size_t i = 0; i < n; ++i) {
    timers.schedule(i, 1 + kTimeout * i / n);
  }
  std::vector<typename Timers::Name> names(kRefreshes);
  for (auto _ : state) {
    std::transform(picks.begin(), picks.end(), names.begin(),
                   [&](std::uint32_t i) { return timers.name(i); });
    report.add(timed([&] {
      std::size_t until_tick = 1000;
      for (std::size_t k = 0; k < kRefreshes; ++k) {
        if (!timers.refresh(names[k], timers.wheel.now() + kTimeout)) [[unlikely]] {
          // It has expired since, and has another handle.
          timers.refresh(timers.name(picks[k]), timers.wheel.now() + kTimeout);
        }
        if (--until_tick == 0) {
          until_tick = 1000;
          // What was not refreshed for the whole timeout goes on as if it had been.
          timers.advance(timers.wheel.now() + 1, [&](std::size_t expired, Tick) {
            timers.schedule(expired, timers.wheel.now() + kTimeout);
          });
        }
      }
    }));
  }
  report.finish(timers.wheel.size());
}

template <class Timers>
void w3_expire(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const Workload load(n);
  Timers timers(n);
  Report report(state, n);
  std::uint64_t checksum = 0;
  for (auto _ : state) {
    const Tick begin = timers.wheel.now();
    load.schedule_all(timers);
    checksum = 0;
    report.add(timed([&] {
      for (Tick tick = begin + 1; tick <= begin + kSpan; ++tick) {
        timers.advance(tick, [&](std::size_t, Tick deadline) { checksum += deadline - begin; });
      }
    }));
  }
  report.finish(checksum);
}

// The checksum is the number of wake-ups for a timer: 1.
template <class Timers>
void w4_sparse(benchmark::State& state) {
  constexpr std::size_t kTimers = 10;
  const auto gap = static_cast<Tick>(state.range(0));
  Timers timers(kTimers);
  Report report(state, kTimers);
  std::uint64_t wake_ups = 0;
  Random random(4);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kTimers; ++i) {
      timers.schedule(i, timers.wheel.now() + 1 + random.below(gap));
    }
    report.add(timed([&] {
      while (const auto next = timers.wheel.next_deadline()) {
        timers.advance(*next, kIgnore);
        ++wake_ups;
      }
    }));
  }
  report.finish(wake_ups / static_cast<std::uint64_t>(state.iterations()) / kTimers);
}

template <class Timers>
void w5_in_all(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const Workload load(n);
  Timers timers(n);
  Report report(state, n);
  for (auto _ : state) {
    const double scheduling = timed([&] { load.schedule_all(timers); });
    const auto names = load.shuffled(timers);
    report.add(scheduling + timed([&] {
                 load.cancel_all(timers, names);
                 timers.advance(timers.wheel.now() + kSpan, kIgnore);
               }));
  }
  report.finish(timers.wheel.size());
}

template <class Timers>
void w6_churn(benchmark::State& state) {
  constexpr std::size_t kRounds = 1 << 17;
  constexpr std::size_t kShort = 1000;
  const auto n = static_cast<std::size_t>(state.range(0));
  const Workload load(n);
  Timers timers(n + kShort);
  for (std::size_t i = 0; i < n; ++i) {
    timers.schedule(i, kLastTick - load.delays[i]);
  }
  for (std::size_t i = 0; i < kShort; ++i) {
    timers.schedule(n + i, kSpan);
  }
  Random random(5);
  Report report(state, kRounds);
  for (auto _ : state) {
    report.add(timed([&] {
      for (std::size_t round = 0, i = n; round < kRounds; ++round) {
        timers.cancel(timers.name(i));
        timers.schedule(i, timers.wheel.now() + 1'000'000 + random.below(1'000'000));
        i = i + 1 == n + kShort ? n : i + 1;
      }
    }));
  }
  report.finish(timers.wheel.size());
}

#define CARILLON_BENCH_WITH(function, Timers)                        \
  BENCHMARK_TEMPLATE(function, Timers)->Arg(1'000)->UseManualTime(); \
  BENCHMARK_TEMPLATE(function, Timers)->Arg(1'000'000)->UseManualTime()->Iterations(9)
#define CARILLON_BENCH_SIZES(function)  \
  CARILLON_BENCH_WITH(function, Hooks); \
  CARILLON_BENCH_WITH(function, Pool);  \
  CARILLON_BENCH_WITH(function, Pool32)

CARILLON_BENCH_SIZES(w1_schedule);
CARILLON_BENCH_SIZES(w1_cancel);
CARILLON_BENCH_SIZES(w1s_schedule);
CARILLON_BENCH_SIZES(w2_refresh);
CARILLON_BENCH_SIZES(w3_expire);
CARILLON_BENCH_SIZES(w5_in_all);
CARILLON_BENCH_SIZES(w6_churn);
BENCHMARK_TEMPLATE(w4_sparse, Hooks)->Arg(1'000'000)->Arg(1'000'000'000'000)->UseManualTime();
BENCHMARK_TEMPLATE(w4_sparse, Pool)->Arg(1'000'000)->Arg(1'000'000'000'000)->UseManualTime();
// By name only: --benchmark_filter=/10000000
#define CARILLON_BENCH_TEN_MILLION(function)                                            \
  BENCHMARK_TEMPLATE(function, Hooks)->Arg(10'000'000)->UseManualTime()->Iterations(3); \
  BENCHMARK_TEMPLATE(function, Pool)->Arg(10'000'000)->UseManualTime()->Iterations(3)
CARILLON_BENCH_TEN_MILLION(w1_schedule);
CARILLON_BENCH_TEN_MILLION(w1_cancel);
CARILLON_BENCH_TEN_MILLION(w2_refresh);
CARILLON_BENCH_TEN_MILLION(w3_expire);

}  // namespace
}  // namespace carillon

BENCHMARK_MAIN();
