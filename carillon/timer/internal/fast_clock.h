// SPDX-License-Identifier: Apache-2.0
#pragma once

// CLOCK_MONOTONIC for half the price, where it need not be exact but must not be early.

#include <atomic>
#include <cstdint>
#include <mutex>

#include "carillon/base/time.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace carillon::internal {

struct ThreadPlace {
  unsigned number_plus_one = 0;
  // A reading of the clock, and of the counter before it.
  std::uint64_t counter = 0;
  Span::rep nanos = 0;
};
extern constinit thread_local ThreadPlace thread_place;

unsigned number_this_thread() noexcept;
// Guards what that gives out; a fork must wait for it.
extern constinit std::mutex numbers_mutex;

// A number below kThreadNumbers for this thread: one that as few threads have as possible of those
// that are alive, and of these the least.
inline constexpr unsigned kThreadNumbers = 16;
[[nodiscard]] inline unsigned thread_number() noexcept {
  const unsigned plus_one = thread_place.number_plus_one;
  return plus_one != 0 ? plus_one - 1 : number_this_thread();
}

struct CounterRate {
  // Nanoseconds for a count, times 2^32, a thousandth too many. 0: not known yet, or never to be.
  std::atomic<std::uint64_t> rate{0};
  // Counts for which a reading is good: a millisecond.
  std::atomic<std::uint64_t> window{0};
};
extern constinit CounterRate counter_rate;

[[nodiscard]] Instant read_steady_clock() noexcept;

// An instant that is not before the present one on CLOCK_MONOTONIC, and at most a few microseconds
// after it.
//
// Where the kernel itself takes the time from the processor's time stamp counter (all cores count
// alike then), a thread keeps a reading of the clock and of the counter for a millisecond, and adds
// what has been counted since, at a rate that is a thousandth too high. NTP slews the clock by half
// of that at most. Elsewhere it is the clock. 10 ns instead of 23 (timer_bench).
[[nodiscard]] inline Instant steady_now_or_later() noexcept {
#if defined(__x86_64__)
  // The counter may be read before what stands before it in the program.
  constexpr Span::rep kReordered = 250;
  const std::uint64_t counted = __rdtsc() - thread_place.counter;
  if (counted < counter_rate.window.load(std::memory_order_acquire)) [[likely]] {
    // A window is below 10^7 counts, a rate below 2^36.
    const std::uint64_t since = (counted * counter_rate.rate.load(std::memory_order_relaxed)) >> 32;
    return Instant(Span(thread_place.nanos + static_cast<Span::rep>(since) + kReordered));
  }
#endif
  return read_steady_clock();
}

}  // namespace carillon::internal
