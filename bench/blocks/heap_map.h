// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The other thing that is written by hand: a map, beside it a heap of deadlines, both under a
/// mutex, and a thread that waits for the earliest. A peer.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/time.h"

namespace carillon::bench {

/// Values by key, each until a deadline. A deadline that is put off is only written down: the entry
/// of the heap comes up at the old one and is pushed again, so that a touch costs no heap
/// operation.
///
/// Threads: safe.
template <class Key, class Value>
class HeapMap {
 public:
  /// Calls `on_gone` with the value of each that has expired, with the lock held.
  explicit HeapMap(std::function<void(Value&)> on_gone)
      : on_gone_(std::move(on_gone)), thread_([this] { run(); }) {}
  ~HeapMap() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    earlier_.notify_one();
    thread_.join();
  }
  HeapMap(const HeapMap&) = delete;
  HeapMap& operator=(const HeapMap&) = delete;

  /// Puts a value until `deadline`; an old one is replaced, and its deadline not hastened. True:
  /// there was none.
  bool put(const Key& key, Value value, Instant deadline) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = map_.try_emplace(key);
    place->second = {std::move(value), deadline};
    if (!is_new) return false;
    const bool first = heap_.empty() || deadline < heap_.top().first;
    heap_.emplace(deadline, key);
    if (first) earlier_.notify_one();
    return true;
  }
  /// Calls `visit(Value&, Instant& deadline)` with the lock held, if there is an entry that has not
  /// expired at `now`; the deadline may be put off. False if there is none.
  template <class Visit>
  bool with(const Key& key, Instant now, Visit&& visit) {
    const std::lock_guard lock(mutex_);
    const auto found = map_.find(key);
    if (found == map_.end() || found->second.deadline <= now) return false;
    visit(found->second.value, found->second.deadline);
    return true;
  }

 private:
  struct Entry {
    Value value;
    Instant deadline;
  };
  using Due = std::pair<Instant, Key>;

  void run() {
    std::unique_lock lock(mutex_);
    while (!closing_) {
      if (heap_.empty()) {
        earlier_.wait(lock);
        continue;
      }
      const Instant now = SteadyClock().now();
      if (heap_.top().first > now) {
        // Not wait_until: a deadline may be the end of time.
        earlier_.wait_for(lock, std::min<Span>(heap_.top().first - now, std::chrono::hours(1)));
        continue;
      }
      const Key key = heap_.top().second;
      heap_.pop();
      const auto found = map_.find(key);
      if (found->second.deadline > now) {
        heap_.emplace(found->second.deadline, key);
        continue;
      }
      on_gone_(found->second.value);
      map_.erase(found);
    }
  }

  const std::function<void(Value&)> on_gone_;
  std::mutex mutex_;
  std::condition_variable earlier_;
  bool closing_ = false;
  std::unordered_map<Key, Entry> map_;  // each has one entry in the heap
  std::priority_queue<Due, std::vector<Due>, std::greater<>> heap_;
  std::thread thread_;
};

}  // namespace carillon::bench
