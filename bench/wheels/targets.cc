// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/targets.h"

#include <array>
#include <string_view>

#include "bench/wheels/limits.h"

namespace carillon::bench {
namespace {

// The better of these two counts, operation by operation.
constexpr std::string_view kOurs = "HierarchicalWheel|PooledWheel";
constexpr std::string_view kHeaps = "heap, lazy cancel|4-ary heap|std::multimap";
constexpr std::string_view kPeers =
    "heap, lazy cancel|4-ary heap|std::multimap|libev|libevent|libevent common|libuv|Boost.Asio";
// Those that take out what is cancelled when it is cancelled.
constexpr std::string_view kEagerPeers =
    "4-ary heap|std::multimap|libev|libevent|libevent common|libuv|Boost.Asio";
constexpr std::string_view kEagerHeaps = "4-ary heap|std::multimap";

constexpr std::string_view kThousand = "1,000";
constexpr std::string_view kMillion = "1,000,000";
constexpr std::string_view kTenMillion = "10,000,000";

// The metric of our wheels in a cell, against that of rivals there.
constexpr Target against(std::string_view name, std::string_view bench, std::string_view cell,
                         std::string_view metric, std::string_view rivals, double limit,
                         double or_ns = 0) {
  return {name,  bench, cell, metric, kOurs, rivals, Bound::kAtMost,
          limit, limit, "ns", "",     "",    "",     or_ns};
}

// The same against what memory costs there. `in_check` 0: not judged by --check.
constexpr Target in_lines(std::string_view name, std::string_view bench, std::string_view cell,
                          std::string_view metric, double limit, double in_check, double or_ns = 0,
                          std::string_view limit_metric = "line_ns") {
  return {name,  bench,    cell, metric,  kOurs, kLimitPeer,   Bound::kAtMost,
          limit, in_check, "ns", "limit", "",    limit_metric, or_ns};
}

constexpr Target itself(std::string_view name, std::string_view cell, std::string_view metric,
                        std::string_view subject, double limit) {
  return {name, "W1", cell, metric, subject, "", Bound::kAtMost, limit, limit};
}

// Where a time in ns was wished for, it is met by that time, or on a slower machine by its ratio to
// the yardstick where both were measured: 11 ns to schedule and 15 to cancel in the best heap that
// cancels at once, 13 to refresh; 12 ns for a cache line at a million timers.
constexpr std::array kTargets = {
    // 6, 5 and 1.5 ns there.
    against("schedule, 1 thousand / best peer", "W1", kThousand, "schedule_ns", kPeers, 0.55, 6),
    against("cancel, 1 thousand / best eager peer", "W1", kThousand, "cancel_ns", kEagerPeers, 0.33,
            5),
    against("refresh, 1 thousand / best peer", "W2", kThousand, "refresh_ns", kPeers, 0.12, 1.5),
    Target{"expire, 1 thousand / best peer", "W3", kThousand, "expire_ns", kOurs, kPeers,
           Bound::kBelow, 1, 1, "ns"},
    // 8, 8, 30 and 60 ns there.
    in_lines("schedule, 1 million / line", "W1", kMillion, "schedule_ns", 0.67, 0.67, 8),
    in_lines("cancel, 1 million / line", "W1", kMillion, "cancel_ns", 0.67, 0.67, 8),
    in_lines("refresh, 1 million / line", "W2", kMillion, "refresh_ns", 2.5, 2.5, 30),
    in_lines("expire, 1 million / line", "W3", kMillion, "expire_ns", 5, 5, 60),
    against("cancel, 1 million / best eager heap", "W1", kMillion, "cancel_ns", kEagerHeaps, 0.2),
    Target{"W1 in all, 1 million / best heap", "W1", kMillion, "in_all_ns", kOurs, kHeaps,
           Bound::kBelow, 1, 1, "ns"},
    against("refresh, 1 million / best heap", "W2", kMillion, "refresh_ns", kHeaps, 0.2),
    // What the misses explain. Schedule: a line in order. Cancel: not more than an unlink. Expire:
    // the node in the cascade and again when it is due, its payload, its free bit and a share of
    // the chunks, and as much as three lines for what is done at 100 thousand too, where nothing is
    // missed. Refresh: a line; and for each a third of a timer, which none had refreshed in time,
    // expires and is armed anew.
    in_lines("schedule, 10 million / line", "W1", kTenMillion, "schedule_ns", 1, 0),
    in_lines("cancel, 10 million / unlink", "W1", kTenMillion, "cancel_ns", 1, 0, 0, "unlink_ns"),
    in_lines("refresh, 10 million / line", "W2", kTenMillion, "refresh_ns", 4.5, 0),
    in_lines("expire, 10 million / line", "W3", kTenMillion, "expire_ns", 7, 0),
    // Independent of the gap: a million times as far away.
    Target{"W4, 10^9 ticks / 10^3 ticks", "W4", "1,000,000,000", "expire_ns", kOurs, kOurs,
           Bound::kAtMost, 2, 2, "ns", "", "1,000", ""},
    Target{"W5, a loop / best peer", "W5", kMillion, "event_ns", kOurs, kPeers, Bound::kBelow, 1, 1,
           "ns"},
    itself("bytes of a hook", kMillion, "hook_bytes", "HierarchicalWheel", 32),
    // Without the payload; half a byte is what pages round up to.
    itself("bytes of a pooled timer", kMillion, "bytes", "PooledWheel", 32.5),
};

}  // namespace

std::span<const Target> wheel_targets() { return kTargets; }

}  // namespace carillon::bench
