// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A 4-ary heap whose timers know their place in it, so that any of them can be taken out: the best
/// heap there is for timers that are mostly cancelled.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "carillon/wheel/wheel_like.h"

namespace carillon::bench {

/// Entries of 16 bytes (deadline, timer); the four children of a node are one cache line.
///
/// Time, callbacks: as HierarchicalWheel. Order: by deadline; within a tick, any.
/// Lifetime: a hook outlives its time in the heap.
/// Cost: all operations O(log n), half as deep as a binary heap; 16 bytes an entry, 4 a hook.
class IndexedHeap {
 public:
  class Hook {
    friend class IndexedHeap;
    std::uint32_t place_ = 0;  // 0: nowhere
  };
  using Expired = Hook&;

  /// With memory for `capacity` entries.
  explicit IndexedHeap(std::size_t capacity) {
    entries_.reserve(capacity + kRoot);
    entries_.resize(kRoot);
  }

  bool schedule(Hook& hook, Tick deadline) {
    if (deadline <= now_) deadline = now_ + 1;
    entries_.push_back({});
    rise(entries_.size() - 1, {deadline, &hook});
    return hook.place_ == kRoot;
  }

  bool cancel(Hook& hook) {
    if (hook.place_ == 0) return false;
    take_out(hook);
    return true;
  }

  bool reschedule(Hook& hook, Tick deadline) {
    if (hook.place_ == 0) return schedule(hook, deadline);
    if (deadline <= now_) deadline = now_ + 1;
    settle(hook.place_, {deadline, &hook});
    return hook.place_ == kRoot;
  }

  template <class Sink>
  AdvanceResult advance(Tick target, Sink&& sink, std::size_t budget = kUnlimited) {
    AdvanceResult result;
    while (size() > 0 && entries_[kRoot].deadline <= target) {
      now_ = std::max(now_, entries_[kRoot].deadline);
      if (result.expired == budget) {
        result.more = true;
        return result;
      }
      Hook& hook = *entries_[kRoot].hook;
      take_out(hook);
      ++result.expired;
      sink(hook);
    }
    now_ = std::max(now_, target);
    return result;
  }

  [[nodiscard]] std::optional<Tick> next_deadline() const {
    if (size() == 0) return std::nullopt;
    return entries_[kRoot].deadline;
  }
  [[nodiscard]] Tick now() const noexcept { return now_; }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size() - kRoot; }

  void clear() {
    for (std::size_t place = kRoot; place < entries_.size(); ++place) {
      entries_[place].hook->place_ = 0;
    }
    entries_.resize(kRoot);
  }

 private:
  struct Entry {
    Tick deadline = 0;
    Hook* hook = nullptr;
  };
  static constexpr std::size_t kLine = 64;
  template <class T>
  struct LineAllocator {
    using value_type = T;
    LineAllocator() = default;
    template <class U>
    explicit LineAllocator(const LineAllocator<U>&) noexcept {}
    T* allocate(std::size_t n) {
      return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(kLine)));
    }
    void deallocate(T* at, std::size_t) noexcept { ::operator delete(at, std::align_val_t(kLine)); }
    friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
  };
  static_assert(kLine / sizeof(Entry) == 4);

  // With the root in place 3, its children are 4 to 7 and every group of four begins a line.
  static constexpr std::size_t kRoot = 3;
  static constexpr std::size_t parent(std::size_t place) { return place / 4 + 2; }
  static constexpr std::size_t first_child(std::size_t place) { return 4 * (place - 2); }

  void put(std::size_t place, const Entry& entry) {
    entries_[place] = entry;
    entry.hook->place_ = static_cast<std::uint32_t>(place);
  }

  // `place` is free, and `entry` is to go there or above.
  void rise(std::size_t place, const Entry& entry) {
    while (place > kRoot && entry.deadline < entries_[parent(place)].deadline) {
      put(place, entries_[parent(place)]);
      place = parent(place);
    }
    put(place, entry);
  }

  // `place` is free, and `entry` is to go there, above or below.
  void settle(std::size_t place, const Entry& entry) {
    if (place > kRoot && entry.deadline < entries_[parent(place)].deadline) {
      rise(place, entry);
      return;
    }
    const std::size_t end = entries_.size();
    for (std::size_t child = first_child(place); child < end; child = first_child(place)) {
      std::size_t least = child;
      const std::size_t last = std::min(child + 4, end);
      for (std::size_t other = child + 1; other < last; ++other) {
        if (entries_[other].deadline < entries_[least].deadline) least = other;
      }
      if (entries_[least].deadline >= entry.deadline) break;
      put(place, entries_[least]);
      place = least;
    }
    put(place, entry);
  }

  void take_out(Hook& hook) {
    const std::size_t place = hook.place_;
    hook.place_ = 0;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (place < entries_.size()) settle(place, last);
  }

  Tick now_ = 0;
  std::vector<Entry, LineAllocator<Entry>> entries_;
};

}  // namespace carillon::bench
