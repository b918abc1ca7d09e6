// SPDX-License-Identifier: Apache-2.0
#pragma once

// The lock of a shard of a Timer. It is held for some ten nanoseconds by a thread that schedules or
// cancels, and for some microseconds by the driver; so who finds it taken spins, then sleeps
// a little, in case the holder has been suspended, or has a lower real-time priority than
// the waiter. To lock it is one atomic exchange, to unlock it is a store.
//
// Nothing is handed over, so a thread that locks it again and again would keep those out that only
// look now and then. Therefore who is about to sleep leaves a mark, and who finds one before it
// locks stands back: for a millisecond or two at most, so that nobody waits for a waiter that does
// not run.

#include <atomic>
#include <cstdint>

#include "carillon/base/mutex.h"

namespace carillon::internal {

class CARILLON_THREAD_ANNOTATION(capability("mutex")) SpinLock {
 public:
  void lock() noexcept CARILLON_THREAD_ANNOTATION(acquire_capability()) {
    if (starving_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      stand_back();
    }
    if (taken_.exchange(1, std::memory_order_acquire) != 0) [[unlikely]] {
      wait();
    }
  }
  void unlock() noexcept CARILLON_THREAD_ANNOTATION(release_capability()) {
    taken_.store(0, std::memory_order_release);
  }
  // In the child of a fork, where the holder is no more.
  void reset() noexcept {
    taken_.store(0, std::memory_order_relaxed);
    starving_.store(0, std::memory_order_relaxed);
  }

 private:
  void wait() noexcept;
  void stand_back() noexcept;

  std::atomic<std::uint32_t> taken_{0};
  // So many have waited for long. On the same line, so to look at it costs next to nothing.
  std::atomic<std::uint32_t> starving_{0};
};

class CARILLON_THREAD_ANNOTATION(scoped_lockable) SpinLockHold {
 public:
  explicit SpinLockHold(SpinLock& lock) noexcept
      CARILLON_THREAD_ANNOTATION(acquire_capability(lock))
      : lock_(&lock) {
    lock.lock();
  }
  ~SpinLockHold() CARILLON_THREAD_ANNOTATION(release_capability()) {
    if (lock_ != nullptr) {
      lock_->unlock();
    }
  }
  SpinLockHold(const SpinLockHold&) = delete;
  SpinLockHold& operator=(const SpinLockHold&) = delete;

  void release() noexcept CARILLON_THREAD_ANNOTATION(release_capability()) {
    lock_->unlock();
    lock_ = nullptr;
  }

 private:
  SpinLock* lock_;
};

}  // namespace carillon::internal
