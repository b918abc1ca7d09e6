// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How things that wait are written by hand, under one interface: peers of Retry and LeaseKeeper.
///
///     after(delay, callback)   a handle; the callback runs on another thread
///     cancel(handle)           true: it will not run

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "bench/timer/heap_timer.h"
#include "carillon/base/time.h"

namespace carillon::bench {

/// A heap of deadlines under a mutex, and a thread.
class HeapWaits {
 public:
  static constexpr std::string_view kName = "mutex + heap";
  using Handle = HeapTimer::Handle;

  Handle after(Span delay, std::function<void()> callback) {
    return timer_.add(delay, std::move(callback));
  }
  bool cancel(Handle& handle) { return timer_.cancel(handle); }

 private:
  HeapTimer timer_;
};

/// A steady_timer for each, on a pool with a thread for each core.
///
/// Lifetime: handles must be gone before it.
class AsioWaits {
 public:
  static constexpr std::string_view kName = "Boost.Asio";
  using Handle = std::unique_ptr<boost::asio::steady_timer>;

  ~AsioWaits() {
    pool_.stop();
    pool_.join();
  }

  Handle after(Span delay, std::function<void()> callback) {
    auto timer = std::make_unique<boost::asio::steady_timer>(pool_, delay);
    timer->async_wait([callback = std::move(callback)](const boost::system::error_code& error) {
      if (!error) callback();
    });
    return timer;
  }
  bool cancel(Handle& handle) { return handle->cancel() == 1; }

 private:
  boost::asio::thread_pool pool_{std::max(1U, std::thread::hardware_concurrency())};
};

/// A thread that sleeps, and can be woken for good.
///
/// Lifetime: the destructor stops it and joins it.
class SleepingThread {
 public:
  /// `work` is called with this, on the new thread.
  explicit SleepingThread(std::function<void(SleepingThread&)> work)
      : thread_([this, work = std::move(work)] { work(*this); }) {}
  ~SleepingThread() {
    stop();
    thread_.join();
  }
  SleepingThread(const SleepingThread&) = delete;
  SleepingThread& operator=(const SleepingThread&) = delete;

  /// False: it was stopped before.
  bool sleep(Span time) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_until(lock, std::chrono::steady_clock::now() + time,
                             [this] { return stopped_; });
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::thread thread_;
};

/// Of those that have a thread each.
inline constexpr std::size_t kMostThreads = 20'000;

}  // namespace carillon::bench
