// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/targets.h"

#include <array>
#include <string_view>

#include "bench/timer/subject.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kJvm = "Netty|Netty, 1 ms ticks|ScheduledThreadPool|DelayQueue";
constexpr std::string_view kPlainJvm =
    "Netty, JVM as it comes|ScheduledThreadPool, JVM as it comes|DelayQueue, JVM as it comes";
// The better of its settings counts, workload by workload.
constexpr std::string_view kNetty = "Netty|Netty, 1 ms ticks";
constexpr std::string_view kPeersInTime =
    "mutex + heap|Boost.Asio|Netty, 1 ms ticks|ScheduledThreadPool|DelayQueue";

constexpr std::string_view kOne = "1 thread";
constexpr std::string_view kTwo = "2 threads";
constexpr std::string_view kFour = "4 threads";

// Ours by itself.
constexpr Target itself(std::string_view name, std::string_view bench, std::string_view cell,
                        std::string_view metric, Bound bound, double limit, double in_check) {
  return {name, bench, cell, metric, kOurs, "", bound, limit, in_check};
}

// How many times as long the best of the rivals takes. `in_check` 0: not judged by --check.
constexpr Target faster(std::string_view name, std::string_view bench, std::string_view cell,
                        std::string_view metric, std::string_view rivals, double limit,
                        double in_check) {
  return {name, bench, cell, metric, rivals, kOurs, Bound::kAtLeast, limit, in_check};
}

constexpr std::array kTargets = {
    itself("add 1 M cold, 1 thread, ms", "T1", kOne, "cold_ms", Bound::kBelow, 60, 60),
    itself("add 1 M cold, 4 threads, ms", "T1", kFour, "cold_ms", Bound::kBelow, 60, 0),
    faster("add 1 M cold, 1 thread: best JVM /", "T1", kOne, "cold_ms", kJvm, 3, 3),
    faster("the same, JVM as it comes", "T1", kOne, "cold_ms", kPlainJvm, 3, 0),
    faster("add 1 M cold, 4 threads: best JVM /", "T1", kFour, "cold_ms", kJvm, 3, 0),
    itself("bytes of a pending timer", "T2", "60 s", "bytes", Bound::kAtMost, 64, 64),
    itself("add + cancel, 1 thread, M pairs/s", "T3", kOne, "m_pairs_per_s", Bound::kAtLeast, 20,
           20),
    Target{"add + cancel, 2 threads / 1 thread", "T3", kTwo, "m_pairs_per_s", kOurs, kOurs,
           Bound::kAbove, 1, 1, "M/s", "", kOne, ""},
    faster("add + cancel, 1 thread: Netty /", "T3", kOne, "pair_ns", kNetty, 2, 2),
    faster("add + cancel, 4 threads: Netty /", "T3", kFour, "pair_ns", kNetty, 5, 5),
    itself("lateness p99 at 1 ms ticks, ms", "T4", "1 ms ticks", "p99_ms", Bound::kBelow, 1.2, 1.2),
    itself("fired early", "T4", "1 ms ticks", "early", Bound::kAtMost, 0, 0),
    Target{"CPU of T4 / least of the peers", "T4", "1 ms ticks", "cpu_ms", kOurs, kPeersInTime,
           Bound::kBelow, 1, 1, "ms"},
    itself("wake-ups with nothing due", "T5", "an hour away", "switches", Bound::kAtMost, 0, 0),
    itself("growth under add + cancel, MiB", "T8", "100 k pairs/s", "grown_mib", Bound::kAtMost, 1,
           1),
};

}  // namespace

std::span<const Target> timer_targets() { return kTargets; }

std::span<const Layout> timer_layouts() {
  static const std::array<Layout, 7> kLayouts = {
      Layout{"T1",
             "T1 add a million timers of 60 s, ms",
             {{"cold", "cold_ms", 1, true, true}, {"warm", "warm_ms", 1, true, true}},
             kOurs},
      Layout{"T2",
             "T2 memory per pending timer, bytes; JVM: of the heap",
             {{"bytes", "bytes", 1, false, true}},
             kOurs},
      Layout{"T3",
             "T3 add and cancel, each thread its own",
             {{"M pairs/s", "m_pairs_per_s", 2, true}, {"ns a pair", "pair_ns", 1, false, true}},
             kOurs},
      Layout{"T4",
             "T4 lateness of timers that fall due at random, ms",
             {{"p50", "p50_ms", 3},
              {"p99", "p99_ms", 3},
              {"p99.9", "p999_ms", 3},
              {"early", "early", 0},
              {"CPU ms", "cpu_ms", 1, false, true}},
             kOurs},
      Layout{"T5",
             "T5 one timer an hour away: what its threads do meanwhile",
             {{"switches", "switches", 0}, {"CPU us", "cpu_us", 0}},
             kOurs},
      Layout{"T6",
             "T6 add in one thread, cancel in another",
             {{"M pairs/s", "m_pairs_per_s", 2, true}, {"ns a pair", "pair_ns", 1, false, true}},
             kOurs},
      Layout{"T8",
             "T8 add and cancel timers of 300 s at an even rate: growth of memory",
             {{"MiB", "grown_mib", 2},
              {"bytes a pair", "bytes_per_pair", 2},
              {"k pairs/s", "k_pairs_per_s", 1}},
             kOurs},
  };
  return kLayouts;
}

}  // namespace carillon::bench
