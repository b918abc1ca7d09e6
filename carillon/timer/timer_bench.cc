// SPDX-License-Identifier: Apache-2.0
// Micro-benchmarks of Timer: what a producer pays, alone and beside others, and what a timer takes.
// Each figure is that of an operation by one thread; `per_second` is that of all threads together.

#include <benchmark/benchmark.h>

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/timer/internal/fast_clock.h"
#include "carillon/timer/timer.h"

namespace {

using carillon::Random;
using carillon::Timer;
using carillon::TimerHandle;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::atomic<std::uint64_t> ran{0};

// 60 s, give or take: they do not come due while they are measured.
milliseconds far(Random& random) { return milliseconds(60'000 + random.below(60'000)); }

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void read_steady_clock(benchmark::State& state) {
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(carillon::SteadyClock().now());
  }
}
BENCHMARK(read_steady_clock);

void clock_or_later(benchmark::State& state) {
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(carillon::internal::steady_now_or_later());
  }
}
BENCHMARK(clock_or_later);

// The Timer of those that run now; made by the first thread, with so many pending.
std::unique_ptr<Timer> shared;
std::vector<std::vector<TimerHandle>> exchanged;

void set_up(const benchmark::State& state) {
  shared = std::make_unique<Timer>();
  Random random(1);
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    shared->after(far(random), [] { ++ran; });
  }
}
void tear_down(const benchmark::State&) { shared.reset(); }

void report(benchmark::State& state) { state.SetItemsProcessed(state.iterations()); }

// A timeout that is set and taken back at once: most of them.
void add_cancel(benchmark::State& state) {
  Random random(static_cast<std::uint64_t>(state.thread_index()) + 7);
  while (state.KeepRunning()) {
    const TimerHandle handle = shared->after(far(random), [&] { ++ran; });
    handle.cancel();
  }
  report(state);
}
BENCHMARK(add_cancel)
    ->Arg(0)
    ->Arg(1'000'000)
    ->Threads(1)
    ->Threads(2)
    ->Threads(4)
    ->Setup(set_up)
    ->Teardown(tear_down)
    ->UseRealTime();

// Each thread cancels what another has scheduled: 64 at a time, a pair is an add and a cancel.
void cancel_elsewhere(benchmark::State& state) {
  constexpr std::size_t kBatch = 64;
  static std::mutex mutex;
  static std::vector<std::vector<TimerHandle>> full[2];
  const auto side = static_cast<std::size_t>(state.thread_index() % 2);
  Random random(static_cast<std::uint64_t>(state.thread_index()) + 7);
  std::vector<TimerHandle> mine;
  std::vector<TimerHandle> theirs;
  mine.reserve(kBatch);
  while (state.KeepRunning()) {
    mine.push_back(shared->after(far(random), [&] { ++ran; }));
    if (mine.size() == kBatch) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        full[side].push_back(std::move(mine));
        auto& others = full[1 - side];
        if (!others.empty()) {
          theirs = std::move(others.back());
          others.pop_back();
        }
      }
      for (const TimerHandle& handle : theirs) {
        handle.cancel();
      }
      mine = std::move(theirs);
      mine.clear();
      mine.reserve(kBatch);
      theirs.clear();
    }
  }
  report(state);
}
BENCHMARK(cancel_elsewhere)
    ->Arg(0)
    ->Threads(2)
    ->Threads(4)
    ->Setup(set_up)
    ->Teardown(tear_down)
    ->UseRealTime();

void reschedule(benchmark::State& state) {
  Random random(7);
  const TimerHandle handle = shared->after(far(random), [] { ++ran; });
  while (state.KeepRunning()) {
    handle.reschedule(seconds(300));
  }
  report(state);
}
BENCHMARK(reschedule)->Arg(0)->Setup(set_up)->Teardown(tear_down)->UseRealTime();

// A million timers of 60 s into a Timer that is new; `bytes` of resident memory for each.
void add_million(benchmark::State& state) {
  constexpr int kTimers = 1'000'000;
  double bytes = 0;
  while (state.KeepRunning()) {
    auto timer = std::make_unique<Timer>();
    const std::size_t before = resident_bytes();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimers; ++i) {
      timer->after(seconds(60), [] { ++ran; });
    }
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    bytes = static_cast<double>(resident_bytes() - before) / kTimers;
  }
  state.counters["bytes"] = bytes;
}
BENCHMARK(add_million)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(3);

// All due in the same tick, of 1 ms, to the last callback.
void fire_million(benchmark::State& state) {
  constexpr std::uint64_t kTimers = 1'000'000;
  while (state.KeepRunning()) {
    Timer timer;
    std::atomic<std::uint64_t> fired{0};
    const auto due = timer.now() + milliseconds(400);
    for (std::uint64_t i = 0; i < kTimers; ++i) {
      timer.at(due, [&fired] { fired.fetch_add(1, std::memory_order_relaxed); });
    }
    while (fired.load(std::memory_order_relaxed) != kTimers) {
      usleep(200);
    }
    state.SetIterationTime(std::chrono::duration<double>(timer.now() - due).count());
  }
}
BENCHMARK(fire_million)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(3);

}  // namespace

BENCHMARK_MAIN();
