// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a Timer has done and holds, as numbers.

#include <cstddef>
#include <cstdint>

namespace carillon {

/// A snapshot. Counts are since the Timer was made.
///
/// scheduled == pending + cancelled + fired, when no other thread is at it. Each number is exact by
/// itself and never negative, whatever other threads do meanwhile.
struct TimerStats {
  /// Timers that wait, for their deadline or for a thread to run on.
  std::uint64_t pending = 0;
  /// Timers taken.
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
  /// How often the driver has slept and woken.
  std::uint64_t wakeups = 0;
  /// How often callbacks were due that the executor had no room for.
  std::uint64_t executor_full = 0;
  /// Memory of the wheels.
  std::size_t memory_bytes = 0;
};

}  // namespace carillon
