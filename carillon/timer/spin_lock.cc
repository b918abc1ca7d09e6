// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/internal/spin_lock.h"

#include <ctime>

namespace carillon::internal {
namespace {

void sleep_a_little() noexcept {
  constexpr timespec kPause{0, 50'000};
  nanosleep(&kPause, nullptr);
}

}  // namespace

// To yield is no way to wait: a thread that loops on the same processor would get its whole slice
// each time.
void SpinLock::wait() noexcept {
  constexpr int kSpins = 500;
  const auto take = [this]() noexcept {
    return taken_.load(std::memory_order_relaxed) == 0 &&
           taken_.exchange(1, std::memory_order_acquire) == 0;
  };
  for (int round = 0; round < kSpins; ++round) {
    if (take()) {
      return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }
  starving_.fetch_add(1, std::memory_order_relaxed);
  while (!take()) {
    sleep_a_little();
  }
  starving_.fetch_sub(1, std::memory_order_relaxed);
}

// While somebody starves, the others leave the lock alone; so a waiter that wakes finds it free.
void SpinLock::stand_back() noexcept {
  constexpr int kSleeps = 10;
  for (int i = 0; i < kSleeps && starving_.load(std::memory_order_relaxed) != 0; ++i) {
    sleep_a_little();
  }
}

}  // namespace carillon::internal
