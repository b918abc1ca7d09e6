// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/internal/spin_lock.h"

#include <sched.h>

#include <algorithm>
#include <ctime>

namespace carillon::internal {

void SpinLock::wait() noexcept {
  constexpr int kSpins = 64;
  constexpr int kYields = 256;
  constexpr long kShortestSleepNs = 20'000;
  constexpr long kLongestSleepNs = 1'000'000;
  timespec pause{0, kShortestSleepNs};
  for (int round = 0;; ++round) {
    if (taken_.load(std::memory_order_relaxed) == 0 &&
        taken_.exchange(1, std::memory_order_acquire) == 0) {
      return;
    }
    if (round < kSpins) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    } else if (round < kSpins + kYields) {
      sched_yield();
    } else {
      nanosleep(&pause, nullptr);
      pause.tv_nsec = std::min(2 * pause.tv_nsec, kLongestSleepNs);
    }
  }
}

}  // namespace carillon::internal
