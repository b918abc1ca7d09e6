// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "carillon/timer/internal/futex.h"

namespace carillon::internal {

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, Instant until) noexcept {
  constexpr Span::rep kPerSecond = 1'000'000'000;
  timespec at{};
  const Span::rep nanos = until.time_since_epoch().count();
  if (nanos > 0) {
    at.tv_sec = nanos / kPerSecond;
    at.tv_nsec = nanos % kPerSecond;
  }
  // Not FUTEX_WAIT: that takes a span, and this a point in time.
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
          until == Instant::max() ? nullptr : &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word, unsigned count) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept { futex_wake(word, INT_MAX); }

}  // namespace carillon::internal
