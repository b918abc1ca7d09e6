// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What every subject is made to do: drawn once from a seed, the same for all, together with what
/// has to come of it. The workloads in words: docs/internals/benchmarks.md.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "carillon/wheel/hook.h"

namespace carillon::bench {

inline constexpr Tick kLongestDelay = 60'000;  ///< W1 and W3.
inline constexpr Tick kIdleTimeout = 30'000;   ///< W2 and W5.
inline constexpr std::size_t kRefreshesPerTick = 1'000;

/// Which timers expired when, whatever their order.
struct Checksum {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;    ///< Over a hash of (id, tick).
  std::uint64_t ids = 0;    ///< Of subjects that are late on purpose: over a hash of the id,
  std::uint64_t ticks = 0;  ///< and over the ticks.

  void add(std::uint64_t id, Tick tick) noexcept {
    ++count;
    sum += hash(id, tick);
  }
  void add_late(std::uint64_t id, Tick tick) noexcept {
    ++count;
    ids += hash(id, 0);
    ticks += tick;
  }
  void add_both(std::uint64_t id, Tick tick) noexcept {
    add_late(id, tick);
    sum += hash(id, tick);
  }

  static std::uint64_t hash(std::uint64_t id, Tick tick) noexcept {
    const std::uint64_t x = ((id << 36) ^ tick ^ (id >> 28)) * 0x9e3779b97f4a7c15U;
    return x ^ (x >> 31);
  }
};

/// W1 to W3 for so many timers.
struct Script {
  Script(std::size_t timers, std::size_t refreshes);

  /// Small populations are scheduled and cancelled many times, so that the clock can tell, and
  /// differently each time, or the processor would learn it by heart.
  std::size_t rounds;
  std::size_t expiry_rounds;  ///< The same for W3.
  std::size_t timers;
  std::vector<std::uint32_t> delays;  ///< Of each timer, round by round, 1 .. 60,000 ticks.
  std::vector<std::uint32_t> order;   ///< Of the timers, round by round, random.
  std::vector<std::uint32_t> picks;   ///< The timers to refresh.

  Checksum expired;  ///< W3, all rounds, ticks from the beginning of each.
  /// W2, ticks from its beginning: what was not refreshed for 30,000 ticks meanwhile, and what
  /// expires when no more comes.
  Checksum lapsed;
  Checksum drained;

  [[nodiscard]] std::span<const std::uint32_t> delays_of(std::size_t round) const {
    return std::span(delays).subspan(round * timers, timers);
  }
  [[nodiscard]] std::span<const std::uint32_t> order_of(std::size_t round) const {
    return std::span(order).subspan(round * timers, timers);
  }

 private:
  void foresee_refreshes();
};

/// W4: ten timers at a time.
struct SparseScript {
  static constexpr std::size_t kTimers = 10;

  SparseScript(Tick span, std::size_t rounds);

  Tick span;
  std::vector<Tick> delays;  ///< kTimers a round, uniform in 1 .. span.
  Checksum expired;          ///< Id: the place in `delays`; tick: from the round's beginning.
};

/// W5: the lives of connections.
struct LoopScript {
  enum Event : std::uint32_t { kOpen, kPacket, kClose };
  static constexpr std::uint32_t kPackets = 2;  ///< In the life of each.

  explicit LoopScript(std::size_t connections);

  std::size_t connections;
  Tick ticks;                         ///< All that happens, timeouts included, is over by then.
  std::vector<std::uint32_t> events;  ///< id * 4 + Event, tick by tick.
  std::vector<std::uint32_t> begins;  ///< Where in `events` those of a tick begin; ticks + 1.
  Checksum expired;
};

}  // namespace carillon::bench
