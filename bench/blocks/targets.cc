// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "bench/blocks/plan.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kByHand = "mutex + map, sweeper";

constexpr Target itself(std::string_view name, std::string_view bench, std::string_view cell,
                        std::string_view metric, std::string_view subject, Bound bound,
                        double limit, double in_check) {
  return {name, bench, cell, metric, subject, "", bound, limit, in_check};
}

constexpr Target above(std::string_view name, std::string_view bench, std::string_view cell,
                       std::string_view metric, std::string_view subject, double limit) {
  return {name, bench, cell, metric, subject, kByHand, Bound::kAbove, limit, limit, "M/s"};
}

// Two threads do more than one.
constexpr Target rising(std::string_view name, std::string_view bench, std::string_view cell,
                        std::string_view subject) {
  return {name, bench, cell,  "m_per_s_2", subject, subject,    Bound::kAbove,
          1,    1,     "M/s", "",          "",      "m_per_s_1"};
}

// A million expire at once: the longest that another operation was delayed.
constexpr Target herd(std::string_view name, std::string_view bench, std::string_view cell,
                      std::string_view subject) {
  return itself(name, bench, cell, "delay_ms", subject, Bound::kAtMost, 1, 1);
}

constexpr std::string_view kIdle = "IdleMonitor";
constexpr std::string_view kWindow = "SlidingWindowLimiter";
constexpr std::string_view kBucket = "TokenBucket";
constexpr std::string_view kMap = "ExpiringMap";

constexpr std::string_view kPurgatory = "Purgatory";
constexpr std::string_view kDelayQueue = "delay queue";

constexpr std::string_view kRetry = "retry";
constexpr std::string_view kLease = "LeaseKeeper";
constexpr std::string_view kHeap = "mutex + heap";

constexpr Target above_heap(std::string_view name, std::string_view bench, std::string_view cell,
                            std::string_view subject) {
  return {name, bench, cell, "m_per_s_4", subject, kHeap, Bound::kAbove, 1, 1, "M/s"};
}

constexpr std::array kTargets = {
    itself("touch, ns", "Idle", "1 k items", "op_ns", kIdle, Bound::kAtMost, 3, 3),
    rising("touch, 2 threads / 1 thread", "Idle", "1 k items", kIdle),
    herd("1 M items fall silent: delay, ms", "Idle", "1 M items", kIdle),
    itself("window, granted, M decisions/s", "Window", "10 k keys, granted", "m_per_s_1", kWindow,
           Bound::kAtLeast, 10, 10),
    itself("window, refused, M decisions/s", "Window", "10 k keys, refused", "m_per_s_1", kWindow,
           Bound::kAtLeast, 10, 10),
    rising("window, 2 threads / 1 thread", "Window", "10 k keys, granted", kWindow),
    above("window, 4 threads / by hand", "Window", "10 k keys, granted", "m_per_s_4", kWindow, 1),
    herd("1 M windows pass: delay, ms", "Window", "1 M keys", kWindow),
    itself("bucket, granted, M decisions/s", "Bucket", "10 k keys, granted", "m_per_s_1", kBucket,
           Bound::kAtLeast, 10, 10),
    itself("bucket, refused, M decisions/s", "Bucket", "10 k keys, refused", "m_per_s_1", kBucket,
           Bound::kAtLeast, 10, 10),
    rising("bucket, 2 threads / 1 thread", "Bucket", "10 k keys, granted", kBucket),
    above("bucket, 4 threads / by hand", "Bucket", "10 k keys, granted", "m_per_s_4", kBucket, 1),
    herd("1 M buckets are full: delay, ms", "Bucket", "1 M keys", kBucket),
    above("map, 4 threads / by hand", "Map", "10 k entries", "m_per_s_4", kMap, 1),
    herd("1 M entries expire: delay, ms", "Map", "1 M entries", kMap),
    Target{"purgatory, 1 thread / by hand", "Purgatory", "10 k waiting", "m_per_s_1", kPurgatory,
           kDelayQueue, Bound::kAbove, 1, 1, "M/s"},
    herd("1 M operations expire: delay, ms", "Purgatory", "1 M waiting", kPurgatory),
    above_heap("retry, 4 threads / heap by hand", "Retry", "10 k waiting", kRetry),
    herd("1 M retries are due: delay, ms", "Retry", "1 M waiting", kRetry),
    above_heap("lease, 4 threads / heap by hand", "Lease", "10 k leases", kLease),
    herd("1 M leases are refused: delay, ms", "Lease", "1 M leases", kLease),
};

std::vector<Column> columns() {
  return {{"1 thread", "m_per_s_1", 2}, {"2", "m_per_s_2", 2},     {"4", "m_per_s_4", 2},
          {"bytes", "bytes", 0},        {"herd ms", "herd_ms", 0}, {"delay ms", "delay_ms", 2},
          {"+ CPU", "delay_cpu_ms", 2}};
}

}  // namespace

std::span<const Target> block_targets() { return kTargets; }

std::span<const Layout> block_layouts() {
  static const std::array<Layout, 7> kLayouts = {
      Layout{"Idle", "Idle timeouts: million touches/s by threads; bytes an item; herd", columns()},
      Layout{"Window", "Sliding windows: million decisions/s by threads; bytes a key; herd",
             columns()},
      Layout{"Bucket", "Token buckets: million decisions/s by threads; bytes a key; herd",
             columns()},
      Layout{"Map", "Map whose entries expire: million operations/s by threads; bytes; herd",
             columns()},
      Layout{"Purgatory", "Purgatory: million watch + check/s by threads; bytes a wait; herd",
             columns()},
      Layout{"Retry", "Calls to be retried: million given up + failed/s; bytes a wait; herd",
             columns()},
      Layout{"Lease", "Leases: million given back + taken/s by threads; bytes a lease; herd",
             columns()},
  };
  return kLayouts;
}

}  // namespace carillon::bench
