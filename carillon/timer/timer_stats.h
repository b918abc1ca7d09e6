// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a Timer has done and holds, as numbers; and as text for Prometheus.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "carillon/base/time.h"

namespace carillon {

/// How often a span was how long. Its buckets are powers of two, from a microsecond on.
struct TimerHistogram {
  static constexpr std::size_t kBuckets = 32;

  /// Bucket i counts the spans that are at most bound(i), and longer than bound(i - 1).
  std::array<std::uint64_t, kBuckets> buckets{};
  std::uint64_t count = 0;
  Span sum{};

  /// 2^i us; the last one takes all that are longer.
  [[nodiscard]] static constexpr Span bound(std::size_t i) noexcept {
    return i + 1 < kBuckets ? Span(std::int64_t{1000} << i) : kForever;
  }
  /// The bucket of `span`.
  [[nodiscard]] static std::size_t bucket_of(Span span) noexcept;
  /// The bound of the bucket in which the share `part` of all is reached: 0.99 is the 99th
  /// percentile, at most twice too high. Zero if there are none.
  [[nodiscard]] Span quantile(double part) const noexcept;
};

/// A snapshot. Counts are since the Timer was made.
///
/// scheduled == pending + cancelled + fired, also while others are at it: each shard is read under
/// its lock, so within it no timer is missed, none is counted twice, none is negative. But the
/// shards are read one after the other, so the sums are not of one instant, and `pending` may be
/// more than there ever were at a time.
/// Histograms are written without a lock, and may be behind by what is just being fired.
struct TimerStats {
  /// Timers that wait, for their deadline or for a thread to run on.
  std::uint64_t pending = 0;
  /// Timers taken. A periodic one counts again each time that it is set.
  std::uint64_t scheduled = 0;
  /// Timers that will never run: cancelled, replaced, returned by stop(), dropped by the executor.
  std::uint64_t cancelled = 0;
  /// Callbacks begun.
  std::uint64_t fired = 0;
  /// Timers refused.
  std::uint64_t rejected = 0;
  /// Callbacks that ended with an exception.
  std::uint64_t exceptions = 0;
  /// Callbacks that the executor destroyed unrun; among the cancelled.
  std::uint64_t dropped = 0;
  /// Callbacks that ran for longer than TimerOptions::slow_callback.
  std::uint64_t slow = 0;
  /// Due times of periodic timers that were left out.
  std::uint64_t missed = 0;
  /// How often the driver has slept and woken.
  std::uint64_t wakeups = 0;
  /// How often callbacks were due that the executor had no room for.
  std::uint64_t executor_full = 0;
  /// Memory of the wheels.
  std::size_t memory_bytes = 0;

  /// From the tick of the deadline to the beginning of the callback.
  TimerHistogram lateness;
  /// From the beginning to the end of a callback.
  TimerHistogram callback_time;
  /// What the driver does each time it wakes: looking, taking out, handing over.
  TimerHistogram driver_work;
};

/// The metrics in Prometheus' text format, each line labelled `timer="name"`: counters
/// carillon_timer_*_total, gauges carillon_timer_pending and carillon_timer_memory_bytes, and the
/// histograms carillon_timer_lateness_seconds, _callback_seconds, _driver_work_seconds.
[[nodiscard]] std::string to_prometheus(const TimerStats& stats, std::string_view name);

}  // namespace carillon
