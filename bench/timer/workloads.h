// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The workloads of docs/internals/benchmarks.md for a timer in C++. Those for the JVM are in java/
/// and do the same.
///
/// Each verifies what it timed: so many added, so many cancelled, so many pending at the end, none
/// fired that was not to. Errors: BenchError.

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/common/interrupt.h"
#include "bench/common/lateness.h"
#include "bench/common/ledger.h"
#include "bench/common/process.h"
#include "bench/timer/schedule.h"
#include "bench/timer/subject.h"

namespace carillon::bench {

inline constexpr std::size_t kBatch = 256;

inline void require(bool done, std::string_view what, std::size_t expected, std::size_t found) {
  if (!done) throw BenchError(fmt::format("{}: {} expected, {} found", what, expected, found));
}
inline void require_equal(std::string_view what, std::size_t expected, std::size_t found) {
  require(expected == found, what, expected, found);
}

/// What a timer runs that is not to fire.
struct Counting {
  std::atomic<std::size_t>* fired;
  void operator()() const { fired->fetch_add(1, std::memory_order_relaxed); }
};

/// A timer under a workload whose timers are not to fire.
template <TimerSubject S>
class Watched {
 public:
  explicit Watched(Span delay) : delay_(delay) {}

  typename S::Handle add() { return subject_.add(delay_, Counting{&fired_}); }
  bool cancel(typename S::Handle& handle) { return subject_.cancel(handle); }
  void fill(std::size_t timers) {
    for (std::size_t i = 0; i < timers; ++i) static_cast<void>(add());
  }

  /// Ends the timer, and throws unless so many were pending and none had fired.
  void close(std::size_t pending) {
    require_equal("timers pending", pending, subject_.close());
    require_equal("timers fired", 0, fired_.load());
  }

 private:
  std::atomic<std::size_t> fired_ = 0;
  Span delay_;
  S subject_;
};

// ---------------------------------------------------------------------- T1, T2: what waits

/// In ms.
template <TimerSubject S>
double add_many(std::size_t timers, std::size_t threads, Span delay) {
  Watched<S> timer(delay);
  const std::size_t share = timers / threads;
  const std::int64_t ns = together(threads, [&](std::size_t) { timer.fill(share); });
  timer.close(share * threads);
  return static_cast<double>(ns) / 1e6;
}

template <TimerSubject S>
Measurement measure_adding(const Load& load, std::size_t threads) {
  Measurement m;
  m.params = {{"threads", static_cast<double>(threads)},
              {"timers", static_cast<double>(load.timers)}};
  m.values.emplace_back("cold_ms", add_many<S>(load.timers, threads, load.delay));
  std::vector<double> warm;
  warm.reserve(static_cast<std::size_t>(load.rounds));
  for (int round = 0; round < load.rounds; ++round) {
    warm.push_back(add_many<S>(load.timers, threads, load.delay));
  }
  m.values.emplace_back("warm_ms", summarize(warm).median);
  return m;
}

template <TimerSubject S>
Measurement measure_memory(const Load& load) {
  const double before = settled_resident_bytes();
  Watched<S> timer(load.delay);
  timer.fill(load.timers);
  const double grown = settled_resident_bytes() - before;
  timer.close(load.timers);
  Measurement m;
  m.params = {{"timers", static_cast<double>(load.timers)}};
  m.values = {{"bytes", grown / static_cast<double>(load.timers)}};
  return m;
}

// ---------------------------------------------------------------------- T3, T6: pairs

inline std::vector<std::pair<std::string, double>> pair_values(std::size_t pairs, std::int64_t ns) {
  const double each = static_cast<double>(ns) / static_cast<double>(pairs);
  return {{"m_pairs_per_s", 1e3 / each}, {"pair_ns", each}};
}

template <TimerSubject S>
std::vector<std::pair<std::string, double>> run_pairs(const Load& load, std::size_t threads,
                                                      double seconds) {
  Watched<S> timer(load.delay);
  timer.fill(load.pending);
  std::atomic<std::size_t> added = 0;
  std::atomic<std::size_t> cancelled = 0;
  const std::int64_t ns = together(threads, [&](std::size_t) {
    std::size_t pairs = 0;
    std::size_t hits = 0;
    const std::int64_t end = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
    while (now_ns() < end) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        auto handle = timer.add();
        hits += timer.cancel(handle) ? 1U : 0U;
      }
      pairs += kBatch;
    }
    added += pairs;
    cancelled += hits;
  });
  require_equal("timers cancelled", added, cancelled);
  timer.close(load.pending);
  return pair_values(added, ns);
}

template <TimerSubject S>
Measurement measure_pairs(const Load& load, std::size_t threads) {
  static_cast<void>(run_pairs<S>(load, threads, load.seconds / 10));
  Measurement m;
  m.params = {{"threads", static_cast<double>(threads)},
              {"pending", static_cast<double>(load.pending)}};
  m.values = run_pairs<S>(load, threads, load.seconds);
  return m;
}

/// Batches of handles from the thread that adds to the one that cancels.
template <class Handle>
class Conveyor {
 public:
  using Batch = std::array<Handle, kBatch>;

  /// Waits for a place that is free.
  Batch& begin_write() {
    const std::size_t at = written_.load(std::memory_order_relaxed);
    while (at - read_.load(std::memory_order_acquire) == kBatches) pause();
    return batches_[at % kBatches];
  }
  void end_write() { written_.fetch_add(1, std::memory_order_release); }
  void close() { closed_.store(true, std::memory_order_release); }

  /// Waits for a batch; null once closed and empty.
  Batch* begin_read() {
    const std::size_t at = read_.load(std::memory_order_relaxed);
    while (at == written_.load(std::memory_order_acquire)) {
      if (closed_.load(std::memory_order_acquire) &&
          at == written_.load(std::memory_order_acquire)) {
        return nullptr;
      }
      pause();
    }
    return &batches_[at % kBatches];
  }
  void end_read() { read_.fetch_add(1, std::memory_order_release); }

  [[nodiscard]] std::size_t batches() const { return written_.load(); }

 private:
  static constexpr std::size_t kBatches = 64;
  static void pause() { __builtin_ia32_pause(); }

  std::vector<Batch> batches_ = std::vector<Batch>(kBatches);
  alignas(64) std::atomic<std::size_t> written_ = 0;
  alignas(64) std::atomic<std::size_t> read_ = 0;
  alignas(64) std::atomic<bool> closed_ = false;
};

template <TimerSubject S>
std::vector<std::pair<std::string, double>> run_elsewhere(const Load& load, double seconds) {
  Watched<S> timer(load.delay);
  Conveyor<typename S::Handle> conveyor;
  std::size_t cancelled = 0;
  const std::int64_t ns = together(2, [&](std::size_t index) {
    if (index == 0) {
      const std::int64_t end = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
      while (now_ns() < end) {
        for (auto& handle : conveyor.begin_write()) handle = timer.add();
        conveyor.end_write();
      }
      conveyor.close();
      return;
    }
    while (auto* batch = conveyor.begin_read()) {
      for (auto& handle : *batch) cancelled += timer.cancel(handle) ? 1U : 0U;
      conveyor.end_read();
    }
  });
  const std::size_t added = conveyor.batches() * kBatch;
  require_equal("timers cancelled", added, cancelled);
  timer.close(0);
  return pair_values(added, ns);
}

template <TimerSubject S>
Measurement measure_elsewhere(const Load& load) {
  static_cast<void>(run_elsewhere<S>(load, load.seconds / 10));
  Measurement m;
  m.params = {{"threads", 2}};
  m.values = run_elsewhere<S>(load, load.seconds);
  return m;
}

// ---------------------------------------------------------------------- T4: lateness

template <TimerSubject S>
Measurement measure_lateness(const Load& load) {
  Schedule schedule(load.timers, load.seconds);
  const double cpu_before = cpu_ms();
  S timer;
  // Adding ends before the first is due.
  const std::int64_t begin = now_ns() + static_cast<std::int64_t>(load.seconds / 10 * 1e9);
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const Span delay(schedule.plan(i, begin, now_ns()));
    static_cast<void>(
        timer.add(delay, Schedule::Recorder{&schedule, static_cast<std::uint32_t>(i)}));
  }
  schedule.await(load.seconds + 20);
  const double cpu = cpu_ms() - cpu_before;
  require_equal("timers pending", 0, timer.close());
  schedule.verify();
  Measurement m;
  m.params = {{"timers", static_cast<double>(load.timers)}, {"seconds", load.seconds}};
  m.values = {{"cpu_ms", cpu}};
  add_lateness(m, schedule.lateness());
  return m;
}

// ---------------------------------------------------------------------- T5: nothing to do

template <TimerSubject S>
Measurement measure_idle(const Load& load) {
  const auto others = thread_uses();
  Watched<S> timer(std::chrono::hours(1));
  timer.fill(1);
  sleep_seconds(load.seconds / 10);  // its threads come to rest
  const ThreadUse before = sum_without(thread_uses(), others);
  sleep_seconds(load.seconds);
  const ThreadUse after = sum_without(thread_uses(), others);
  timer.close(1);
  Measurement m;
  m.params = {{"seconds", load.seconds}};
  m.values = {{"switches", after.switches - before.switches},
              {"cpu_us", after.cpu_us - before.cpu_us}};
  return m;
}

// ---------------------------------------------------------------------- T8: memory over time

template <TimerSubject S>
Measurement measure_flatness(const Load& load) {
  Watched<S> timer(load.delay);
  const auto all = static_cast<std::size_t>(load.rate * load.seconds);
  double base = 0;
  std::size_t cancelled = 0;
  const std::int64_t begin = now_ns();
  for (std::size_t done = 0; done < all;) {
    const double passed = static_cast<double>(now_ns() - begin) / 1e9;
    const std::size_t due = std::min(all, static_cast<std::size_t>(passed * load.rate));
    for (; done < due; ++done) {
      auto handle = timer.add();
      cancelled += timer.cancel(handle) ? 1U : 0U;
    }
    if (base == 0 && done >= all / 10) base = settled_resident_bytes();
    sleep_seconds(1e-3);
  }
  const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
  const double grown = settled_resident_bytes() - base;
  require_equal("timers cancelled", all, cancelled);
  timer.close(0);
  Measurement m;
  m.params = {{"rate", load.rate}, {"seconds", load.seconds}};
  m.values = {{"grown_mib", grown / (1 << 20)},
              {"bytes_per_pair", grown / (0.9 * static_cast<double>(all))},
              {"k_pairs_per_s", static_cast<double>(all) / seconds / 1e3}};
  return m;
}

// ---------------------------------------------------------------------- all of them

template <TimerSubject S>
std::vector<Measurement> run_workload(const Load& load) {
  if (load.bench == "T2") return {measure_memory<S>(load)};
  if (load.bench == "T4") return {measure_lateness<S>(load)};
  if (load.bench == "T5") return {measure_idle<S>(load)};
  if (load.bench == "T6") return {measure_elsewhere<S>(load)};
  if (load.bench == "T8") return {measure_flatness<S>(load)};
  std::vector<Measurement> results;
  results.reserve(load.threads.size());
  for (const std::size_t threads : load.threads) {
    results.push_back(load.bench == "T1" ? measure_adding<S>(load, threads)
                                         : measure_pairs<S>(load, threads));
  }
  return results;
}

template <TimerSubject S>
SubjectEntry entry_of() {
  return {S::kName, run_workload<S>};
}

}  // namespace carillon::bench
