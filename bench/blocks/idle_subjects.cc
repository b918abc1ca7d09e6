// SPDX-License-Identifier: Apache-2.0
//
// Idle timeouts: IdleMonitor beside maps under a mutex, and a store that a sweeper reads. The
// operation is a packet: a touch.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "bench/blocks/heap_map.h"
#include "bench/blocks/swept_map.h"
#include "bench/blocks/workloads.h"
#include "carillon/blocks/idle_monitor.h"
#include "carillon/timer/timer.h"

namespace carillon::bench {
namespace {

// What every item has: calls of them are counted.
struct OnIdle {
  std::atomic<std::size_t>* gone;
  void operator()() const { gone->fetch_add(1, std::memory_order_relaxed); }
};

// Monitor: watch(item, timeout, on_idle), touch(item), which says whether it is watched if that
// costs nothing. Items are watched in the order of their numbers.
template <class Monitor>
class IdleSubject {
 public:
  static constexpr std::string_view kBench = "Idle";
  static constexpr std::string_view kName = Monitor::kName;
  static constexpr bool kComesAndGoes = false;

  explicit IdleSubject(const Setup& setup) : monitor_(setup.items) {}

  void add(std::size_t first, std::size_t count, Instant deadline) {
    for (std::size_t i = first; i < first + count; ++i) {
      monitor_.watch(i, deadline - SteadyClock().now(), OnIdle{&gone_});
    }
  }
  bool use(std::size_t item, std::uint64_t /*number*/) { return monitor_.touch(item); }
  std::size_t gone() { return gone_.load(); }
  void help() {}

 private:
  std::atomic<std::size_t> gone_ = 0;
  Monitor monitor_;
};

class OurMonitor {
 public:
  static constexpr std::string_view kName = "IdleMonitor";

  explicit OurMonitor(std::size_t items) { items_.reserve(items); }
  void watch(std::size_t /*item*/, Span timeout, OnIdle on_idle) {
    items_.push_back(monitor_.watch(timeout, on_idle));
  }
  bool touch(std::size_t item) {
    items_[item].touch();
    return true;
  }

 private:
  Timer timer_;
  IdleMonitor monitor_{timer_};
  std::vector<IdleMonitor::Item> items_;
};

template <std::size_t kMutexes>
class SweptItems {
 public:
  static constexpr std::string_view kName =
      kMutexes == 1 ? "mutex + map, sweeper" : "64 maps, sweeper";

  explicit SweptItems(std::size_t /*items*/) {}
  void watch(std::size_t item, Span timeout, OnIdle on_idle) {
    map_.with(item, [&](Entry& entry) { entry = {SteadyClock().now(), timeout, on_idle}; });
  }
  bool touch(std::size_t item) {
    const Instant now = SteadyClock().now();
    return map_.with_existing(item, [&](Entry& entry) {
      entry.touched = now;
      return true;
    });
  }

 private:
  struct Entry {
    Instant touched;
    Span timeout{};
    std::function<void()> on_idle;
  };

  SweptMap<std::uint64_t, Entry, kMutexes> map_{[](const Entry& entry, Instant now) {
    const bool over = entry.touched + entry.timeout <= now;
    if (over) entry.on_idle();
    return over;
  }};
};

class HeapItems {
 public:
  static constexpr std::string_view kName = "map + heap";

  explicit HeapItems(std::size_t /*items*/) {}
  void watch(std::size_t item, Span timeout, OnIdle on_idle) {
    map_.put(item, {timeout, on_idle}, SteadyClock().now() + timeout);
  }
  bool touch(std::size_t item) {
    const Instant now = SteadyClock().now();
    return map_.with(item, now,
                     [&](Entry& entry, Instant& deadline) { deadline = now + entry.timeout; });
  }

 private:
  struct Entry {
    Span timeout{};
    std::function<void()> on_idle;
  };

  HeapMap<std::uint64_t, Entry> map_{[](Entry& entry) { entry.on_idle(); }};
};

// The best that is done by hand: the time of the last packet lies in the connection, and a thread
// reads it in all of them. A touch takes no lock; to add one does.
class StoredTimes {
 public:
  static constexpr std::string_view kName = "stored time, sweeper";

  explicit StoredTimes(std::size_t /*items*/) : sweeper_([this] { run(); }) {}
  ~StoredTimes() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wake_.notify_one();
    sweeper_.join();
  }
  StoredTimes(const StoredTimes&) = delete;
  StoredTimes& operator=(const StoredTimes&) = delete;

  void watch(std::size_t /*item*/, Span timeout, OnIdle on_idle) {
    const std::lock_guard lock(mutex_);
    Connection& connection = connections_.emplace_back();
    connection.touched = now_ns();
    connection.timeout_ns = timeout.count();
    connection.on_idle = on_idle;
  }
  bool touch(std::size_t item) {
    connections_[item].touched.store(now_ns(), std::memory_order_relaxed);
    return true;
  }

 private:
  struct Connection {
    std::atomic<std::int64_t> touched;
    std::int64_t timeout_ns = 0;  // 0: it was idle
    std::function<void()> on_idle;
  };

  void run() {
    constexpr Span kInterval = std::chrono::milliseconds(100);
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kInterval, [this] { return closing_; })) {
      const std::int64_t now = now_ns();
      for (Connection& connection : connections_) {
        if (connection.timeout_ns == 0 || connection.touched + connection.timeout_ns > now) {
          continue;
        }
        connection.timeout_ns = 0;
        connection.on_idle();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool closing_ = false;
  std::deque<Connection> connections_;
  std::thread sweeper_;
};

}  // namespace

void add_idle_subjects(std::vector<SubjectEntry>& entries) {
  entries.push_back(entry_of<IdleSubject<OurMonitor>>());
  entries.push_back(entry_of<IdleSubject<SweptItems<1>>>());
  entries.push_back(entry_of<IdleSubject<SweptItems<64>>>());
  entries.push_back(entry_of<IdleSubject<HeapItems>>());
  entries.push_back(entry_of<IdleSubject<StoredTimes>>());
}

}  // namespace carillon::bench
