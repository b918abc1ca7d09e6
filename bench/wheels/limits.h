// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What memory costs that no timer can do without: the yardstick beside the peers.

#include "bench/common/ledger.h"
#include "bench/wheels/script.h"

namespace carillon::bench {

inline constexpr std::string_view kLimitPeer = "limit";

/// Bench "limit": over as many objects as there are timers, a cache line each, in random order,
///
///     line_ns       to change one, independently of the one before: the least that touching a
///                   timer costs whose object was not touched for a while
///     unlink_ns     to take one out of a doubly linked list: itself and its two neighbours
///     dependent_ns  to read one whose address the one before holds
[[nodiscard]] Measurement measure_limits(const Script& script);

/// W5 without timers: the objects of the connections, touched in the same order.
[[nodiscard]] Measurement measure_bare_loop(const LoopScript& script);

}  // namespace carillon::bench
