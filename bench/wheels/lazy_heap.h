// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A binary heap that only marks what is cancelled: what most programs have whose author needed
/// timers for an afternoon.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "carillon/wheel/wheel_like.h"

namespace carillon::bench {

/// std::priority_queue of (deadline, timer). Cancelling leaves a dead entry, which is skipped when
/// it comes up; when there are more dead entries than live ones, the dead are swept out and the
/// heap is made anew, so that memory and depth stay in proportion to what is scheduled.
///
/// Time, order, callbacks: as HierarchicalWheel.
/// Lifetime: a hook outlives the heap, or its clear(): dead entries point to it.
/// Cost: schedule, expire O(log n); cancel O(1), amortised with the sweeps; reschedule is both.
///       24 bytes an entry, dead ones included, 8 a hook.
class LazyHeap {
 public:
  /// What waits. Its ticket is that of its live entry, 0 if it has none.
  class Hook {
    friend class LazyHeap;
    std::uint64_t ticket_ = 0;
  };
  using Expired = Hook&;

  /// With memory for `capacity` entries.
  explicit LazyHeap(std::size_t capacity) { heap_.c.reserve(capacity); }

  bool schedule(Hook& hook, Tick deadline) {
    if (deadline <= now_) deadline = now_ + 1;
    hook.ticket_ = ++last_ticket_;
    heap_.push({deadline, hook.ticket_, &hook});
    ++live_;
    return heap_.top().ticket == hook.ticket_;
  }

  bool cancel(Hook& hook) {
    if (hook.ticket_ == 0) return false;
    hook.ticket_ = 0;
    --live_;
    if (heap_.size() > 2 * live_ + kFewDead) sweep();
    return true;
  }

  bool reschedule(Hook& hook, Tick deadline) {
    cancel(hook);
    return schedule(hook, deadline);
  }

  template <class Sink>
  AdvanceResult advance(Tick target, Sink&& sink, std::size_t budget = kUnlimited) {
    AdvanceResult result;
    for (drop_dead(); !heap_.empty() && heap_.top().deadline <= target; drop_dead()) {
      now_ = std::max(now_, heap_.top().deadline);
      if (result.expired == budget) {
        result.more = true;
        return result;
      }
      Hook& hook = *heap_.top().hook;
      heap_.pop();
      hook.ticket_ = 0;
      --live_;
      ++result.expired;
      sink(hook);
    }
    now_ = std::max(now_, target);
    return result;
  }

  [[nodiscard]] std::optional<Tick> next_deadline() const {
    drop_dead();
    if (heap_.empty()) return std::nullopt;
    return heap_.top().deadline;
  }
  [[nodiscard]] Tick now() const noexcept { return now_; }
  [[nodiscard]] std::size_t size() const noexcept { return live_; }

  /// Live and dead.
  [[nodiscard]] std::size_t entries() const noexcept { return heap_.size(); }

  void clear() {
    for (const Entry& entry : heap_.c) {
      if (entry.live()) entry.hook->ticket_ = 0;
    }
    heap_.c.clear();
    live_ = 0;
  }

 private:
  struct Entry {
    Tick deadline;
    std::uint64_t ticket;
    Hook* hook;

    [[nodiscard]] bool live() const noexcept { return hook->ticket_ == ticket; }
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const noexcept {
      return a.deadline != b.deadline ? a.deadline > b.deadline : a.ticket > b.ticket;
    }
  };
  struct Heap : std::priority_queue<Entry, std::vector<Entry>, Later> {
    using std::priority_queue<Entry, std::vector<Entry>, Later>::c;
  };
  // Not worth a sweep.
  static constexpr std::size_t kFewDead = 64;

  void drop_dead() const {
    while (!heap_.empty() && !heap_.top().live()) heap_.pop();
  }

  void sweep() {
    std::erase_if(heap_.c, [](const Entry& entry) { return !entry.live(); });
    std::make_heap(heap_.c.begin(), heap_.c.end(), Later());
  }

  Tick now_ = 0;
  std::uint64_t last_ticket_ = 0;
  std::size_t live_ = 0;
  mutable Heap heap_;
};

}  // namespace carillon::bench
