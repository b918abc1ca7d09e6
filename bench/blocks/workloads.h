// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The parts of a load of bench_blocks, as docs/internals/benchmarks.md describes them.
///
/// Each verifies what it timed. Errors: BenchError.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/blocks/probe.h"
#include "bench/blocks/subject.h"
#include "bench/common/interrupt.h"
#include "bench/common/process.h"
#include "carillon/base/clock.h"
#include "carillon/base/random.h"

namespace carillon::bench {

/// Items that do not expire while a load runs; the windows and lives of all subjects.
inline constexpr Span kLife = std::chrono::hours(1);
/// Those that are used while the others expire.
inline constexpr std::size_t kOthers = 1'000;

inline void require_equal(std::string_view what, std::size_t expected, std::size_t found) {
  if (expected != found) {
    throw BenchError(fmt::format("{}: {} expected, {} found", what, expected, found));
  }
}

/// The items of a thread, in the order it uses them.
inline std::vector<std::uint32_t> order_of(std::size_t items, std::size_t threads,
                                           std::size_t thread) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = thread; i < items; i += threads) {
    order.push_back(static_cast<std::uint32_t>(i));
  }
  std::shuffle(order.begin(), order.end(), Random(thread + 1));
  return order;
}

/// Million operations a second of all threads together.
template <BlockSubject S>
double run_rate(S& subject, const Load& load, std::size_t threads, double seconds) {
  constexpr std::size_t kBatch = 256;
  constexpr std::size_t kAhead = 4;
  std::vector<std::vector<std::uint32_t>> orders;
  orders.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) orders.push_back(order_of(load.items, threads, i));
  std::atomic<std::size_t> done = 0;
  std::atomic<std::size_t> well = 0;
  const std::int64_t ns = together(threads, [&](std::size_t thread) {
    const std::vector<std::uint32_t>& order = orders[thread];
    std::size_t at = 0;
    std::size_t my_done = 0;
    std::size_t my_well = 0;
    const std::int64_t end = now_ns() + static_cast<std::int64_t>(seconds * 1e9);
    while (now_ns() < end) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        if constexpr (requires { subject.expect(order[at]); }) {
          const std::size_t next = at + kAhead;
          subject.expect(order[next < order.size() ? next : next - order.size()]);
        }
        my_well += subject.use(order[at], my_done + i) ? 1U : 0U;
        if (++at == order.size()) at = 0;
      }
      my_done += kBatch;
    }
    done += my_done;
    well += my_well;
  });
  require_equal("operations that went well", load.refused ? 0 : done.load(), well);
  // A key of which nothing is within the window comes and goes.
  if (!S::kComesAndGoes) require_equal("items that expired", 0, subject.gone());
  return static_cast<double>(done) * 1e3 / static_cast<double>(ns);
}

template <BlockSubject S>
Measurement measure_rate(const Load& load) {
  S subject(Setup{load.items, load.part, load.refused});
  subject.add(0, load.items, SteadyClock().now() + kLife);
  static_cast<void>(run_rate(subject, load, 1, load.seconds / 5));
  Measurement m;
  m.params = {{"items", static_cast<double>(load.items)}};
  for (const std::size_t threads : load.threads) {
    const double rate = run_rate(subject, load, threads, load.seconds);
    m.values.emplace_back(fmt::format("m_per_s_{}", threads), rate);
    if (threads == 1) m.values.emplace_back("op_ns", 1e3 / rate);
  }
  return m;
}

template <BlockSubject S>
Measurement measure_memory(const Load& load) {
  S subject(Setup{load.items, load.part});
  const double before = settled_resident_bytes();
  subject.add(0, load.items, SteadyClock().now() + kLife);
  const double grown = settled_resident_bytes() - before;
  for (std::size_t i = 0; i < load.items; ++i) {
    require_equal("an item that is there", 1, subject.use(i, 0) ? 1 : 0);
  }
  require_equal("items that expired", 0, subject.gone());
  Measurement m;
  m.params = {{"items", static_cast<double>(load.items)}};
  m.values = {{"bytes", grown / static_cast<double>(load.items)}};
  return m;
}

/// A subject whose load.items expire at `deadline`, and kOthers after kLife.
template <BlockSubject S>
struct Herd {
  std::unique_ptr<S> subject;
  Instant deadline;
};

/// Begins anew with twice the time if the items have not been added before they expire.
template <BlockSubject S>
Herd<S> assemble(const Load& load) {
  constexpr int kTimes = 6;
  Span lead = load.lead;
  for (int i = 0; i < kTimes; ++i, lead *= 2) {
    auto subject = std::make_unique<S>(Setup{load.items + kOthers, load.part});
    const Instant deadline = SteadyClock().now() + lead;
    subject->add(0, load.items, deadline);
    subject->add(load.items, kOthers, SteadyClock().now() + kLife);
    const std::size_t early = subject->gone();
    if (SteadyClock().now() >= deadline) continue;
    require_equal("items that expired early", 0, early);
    return {std::move(subject), deadline};
  }
  throw BenchError("the items were not added in time");
}

template <BlockSubject S>
Measurement measure_herd(const Load& load) {
  const Herd<S> herd = assemble<S>(load);
  S& subject = *herd.subject;
  std::atomic<bool> over = false;
  double longest = 0;
  double with_cpu = 0;
  double herd_ms = 0;
  static_cast<void>(together(2, [&](std::size_t thread) {
    if (thread == 0) {
      LongestDelay delay;
      std::size_t well = 0;
      std::size_t done = 0;
      while (!over.load()) {
        constexpr std::size_t kAtOnce = 16;
        for (std::size_t i = 0; i < kAtOnce; ++i) {
          delay.time([&] { well += subject.use(load.items + done % kOthers, done) ? 1U : 0U; });
          ++done;
        }
        delay.refresh();
        sleep_seconds(50e-6);
      }
      require_equal("operations meanwhile that went well", done, well);
      longest = delay.ms();
      with_cpu = delay.with_cpu_ms();
      return;
    }
    const std::int64_t due = herd.deadline.time_since_epoch().count();
    const std::int64_t give_up = due + 60'000'000'000;
    sleep_seconds(static_cast<double>(due - now_ns()) / 1e9);
    while (subject.gone() < load.items && now_ns() < give_up) {
      subject.help();
      sleep_seconds(200e-6);
    }
    herd_ms = static_cast<double>(now_ns() - due) / 1e6;
    over = true;
  }));
  require_equal("items that expired", load.items, subject.gone());
  Measurement m;
  m.params = {{"items", static_cast<double>(load.items)}};
  m.values = {{"herd_ms", herd_ms}, {"delay_ms", longest}, {"delay_cpu_ms", with_cpu}};
  return m;
}

template <BlockSubject S>
std::vector<Measurement> run_load(const Load& load) {
  switch (load.part) {
    case Part::kRate: return {measure_rate<S>(load)};
    case Part::kMemory: return {measure_memory<S>(load)};
    case Part::kHerd: return {measure_herd<S>(load)};
  }
  return {};
}

template <BlockSubject S>
SubjectEntry entry_of() {
  SubjectEntry entry{S::kBench, S::kName, run_load<S>};
  if constexpr (requires { S::kMostItems; }) entry.most_items = S::kMostItems;
  return entry;
}

}  // namespace carillon::bench
