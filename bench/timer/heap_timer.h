// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What most programs have whose author needed a timer for an afternoon: a heap under a mutex, and
/// a thread that waits on a condition variable. A peer.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "bench/wheels/lazy_heap.h"
#include "carillon/base/time.h"

namespace carillon::bench {

/// Callbacks after a delay, on one thread, from std::priority_queue. Cancelling marks; the dead are
/// swept out when they outnumber the living (LazyHeap).
///
/// Threads: safe.
class HeapTimer {
  struct Node;

 public:
  class Handle {
    friend class HeapTimer;
    Node* node_ = nullptr;
    std::uint64_t life_ = 0;
  };

  HeapTimer();
  ~HeapTimer();
  HeapTimer(const HeapTimer&) = delete;
  HeapTimer& operator=(const HeapTimer&) = delete;

  Handle add(Span delay, std::function<void()> callback);
  /// Whether the callback will never run; it is destroyed then.
  bool cancel(Handle& handle);
  /// Ends the thread; returns how many were pending. Once.
  std::size_t close();

 private:
  struct Node : LazyHeap::Hook {
    std::function<void()> callback;
    std::uint64_t life = 0;  // of its use: a handle of an earlier one finds nothing
  };

  void run();
  void free_locked(Node& node);

  std::mutex mutex_;
  std::condition_variable earlier_;
  bool closing_ = false;
  LazyHeap heap_{0};
  std::deque<Node> nodes_;  // a hook outlives the heap's dead entries: never given back
  std::vector<Node*> free_;
  std::thread thread_;
};

}  // namespace carillon::bench
