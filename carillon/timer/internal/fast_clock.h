// SPDX-License-Identifier: Apache-2.0
#pragma once

// CLOCK_MONOTONIC for half the price, where it need not be exact but must not be early.

#include "carillon/base/time.h"

namespace carillon::internal {

// A number of this thread, given out from 0 on in the order in which threads first ask.
[[nodiscard]] unsigned thread_number() noexcept;

// An instant that is not before the present one on CLOCK_MONOTONIC, and at most a few microseconds
// after it.
//
// Where the kernel itself takes the time from the processor's time stamp counter (all cores count
// alike then), a thread keeps a reading of the clock and of the counter for a millisecond, and adds
// what has been counted since, at a rate that is a thousandth too high. NTP slews the clock by half
// of that at most. Elsewhere it is the clock. 10 ns instead of 23 (timer_bench, BM_Clock).
[[nodiscard]] Instant steady_now_or_later() noexcept;

}  // namespace carillon::internal
