// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A mutex, its lock and a condition variable that clang's -Wthread-safety understands; with other
/// compilers the annotations vanish. libstdc++'s own std::mutex carries none.

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define CARILLON_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define CARILLON_THREAD_ANNOTATION(x)
#endif

#define CARILLON_GUARDED_BY(x) CARILLON_THREAD_ANNOTATION(guarded_by(x))
#define CARILLON_REQUIRES(...) CARILLON_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define CARILLON_EXCLUDES(...) CARILLON_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace carillon {

/// Threads: safe. Not recursive.
class CARILLON_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void lock() CARILLON_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  bool try_lock() CARILLON_THREAD_ANNOTATION(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }
  void unlock() CARILLON_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class CARILLON_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) CARILLON_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() CARILLON_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits on a held Mutex. May wake spuriously: wait in a loop over the condition.
class CondVar {
 public:
  void wait(Mutex& mutex) CARILLON_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// Returns whether it was woken before `limit` had passed.
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds limit) CARILLON_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool woken = condition_.wait_for(lock, limit) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace carillon
