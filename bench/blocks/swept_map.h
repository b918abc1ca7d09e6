// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What is written by hand where things expire: a map under a mutex, and a thread that walks it now
/// and then and takes out what is over. A peer.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "carillon/base/clock.h"
#include "carillon/base/time.h"

namespace carillon::bench {

/// Entries by key, until over(entry, now), which is called with the lock held. With more than one
/// mutex the map is so many maps, a key's by its hash, swept one after the other.
///
/// Threads: safe.
template <class Key, class Entry, std::size_t kMutexes>
class SweptMap {
 public:
  static constexpr Span kInterval = std::chrono::milliseconds(100);

  using Over = std::function<bool(const Entry&, Instant)>;

  explicit SweptMap(Over over) : over_(std::move(over)), sweeper_([this] { run(); }) {}
  ~SweptMap() {
    {
      const std::lock_guard lock(closing_mutex_);
      closing_ = true;
    }
    wake_.notify_one();
    sweeper_.join();
  }
  SweptMap(const SweptMap&) = delete;
  SweptMap& operator=(const SweptMap&) = delete;

  /// Calls `visit(Entry&)`, of a new entry if there is none, with the lock held.
  template <class Visit>
  auto with(const Key& key, Visit&& visit) {
    Part& part = part_of(key);
    const std::lock_guard lock(part.mutex);
    return visit(part.map[key]);
  }
  /// The same if there is an entry; else false.
  template <class Visit>
  bool with_existing(const Key& key, Visit&& visit) {
    Part& part = part_of(key);
    const std::lock_guard lock(part.mutex);
    const auto found = part.map.find(key);
    return found != part.map.end() && visit(found->second);
  }

  /// Those that were taken out.
  [[nodiscard]] std::size_t gone() const { return gone_.load(); }

 private:
  struct alignas(64) Part {
    std::mutex mutex;
    std::unordered_map<Key, Entry> map;
  };

  Part& part_of(const Key& key) {
    if constexpr (kMutexes == 1) return parts_[0];
    // A map takes the remainder by a prime; these are other bits.
    return parts_[(std::hash<Key>{}(key) * 0x9e3779b97f4a7c15U >> 32) % kMutexes];
  }

  void run() {
    std::unique_lock lock(closing_mutex_);
    while (!wake_.wait_for(lock, kInterval, [this] { return closing_; })) {
      for (Part& part : parts_) sweep(part);
    }
  }

  void sweep(Part& part) {
    const std::lock_guard lock(part.mutex);
    const Instant now = SteadyClock().now();
    gone_ += std::erase_if(part.map, [&](const auto& item) { return over_(item.second, now); });
  }

  const Over over_;
  std::array<Part, kMutexes> parts_;
  std::atomic<std::size_t> gone_ = 0;
  std::mutex closing_mutex_;
  std::condition_variable wake_;
  bool closing_ = false;
  std::thread sweeper_;
};

}  // namespace carillon::bench
