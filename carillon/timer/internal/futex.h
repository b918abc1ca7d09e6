// SPDX-License-Identifier: Apache-2.0
#pragma once

// To sleep on a word until it changes: what the kernel has below every mutex.

#include <atomic>
#include <cstdint>

#include "carillon/base/time.h"

namespace carillon::internal {

// Sleeps while `word` is `value`, until it is woken or CLOCK_MONOTONIC says `until`; Instant::max()
// is for ever. May return early: look again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                Instant until = Instant::max()) noexcept;
// Wakes at most `count` of those who sleep on it. The word need not be there any more.
void futex_wake(std::atomic<std::uint32_t>& word, unsigned count) noexcept;
void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace carillon::internal
