// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Timers in a std::multimap: a red-black tree, as in nginx and in many a program of one's own.

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "carillon/wheel/wheel_like.h"

namespace carillon::bench {

/// Time, order, callbacks: as HierarchicalWheel.
/// Lifetime: a hook outlives its time in the map.
/// Cost: schedule O(log n) and an allocation; cancel and expire O(1) amortised, but for the
///       rebalancing; 48 bytes a node, 16 a hook.
class OrderedMap {
 public:
  class Hook {
    friend class OrderedMap;
    std::multimap<Tick, Hook*>::iterator at_;
    bool scheduled_ = false;
  };
  using Expired = Hook&;

  bool schedule(Hook& hook, Tick deadline) {
    if (deadline <= now_) deadline = now_ + 1;
    hook.at_ = timers_.emplace(deadline, &hook);
    hook.scheduled_ = true;
    return hook.at_ == timers_.begin();
  }

  bool cancel(Hook& hook) {
    if (!hook.scheduled_) return false;
    hook.scheduled_ = false;
    timers_.erase(hook.at_);
    return true;
  }

  /// Moves the node, so that nothing is allocated.
  bool reschedule(Hook& hook, Tick deadline) {
    if (!hook.scheduled_) return schedule(hook, deadline);
    auto node = timers_.extract(hook.at_);
    node.key() = std::max(deadline, now_ + 1);
    hook.at_ = timers_.insert(std::move(node));
    return hook.at_ == timers_.begin();
  }

  template <class Sink>
  AdvanceResult advance(Tick target, Sink&& sink, std::size_t budget = kUnlimited) {
    AdvanceResult result;
    while (!timers_.empty() && timers_.begin()->first <= target) {
      now_ = std::max(now_, timers_.begin()->first);
      if (result.expired == budget) {
        result.more = true;
        return result;
      }
      Hook& hook = *timers_.begin()->second;
      cancel(hook);
      ++result.expired;
      sink(hook);
    }
    now_ = std::max(now_, target);
    return result;
  }

  [[nodiscard]] std::optional<Tick> next_deadline() const {
    if (timers_.empty()) return std::nullopt;
    return timers_.begin()->first;
  }
  [[nodiscard]] Tick now() const noexcept { return now_; }
  [[nodiscard]] std::size_t size() const noexcept { return timers_.size(); }

  void clear() {
    for (const auto& [deadline, hook] : timers_) hook->scheduled_ = false;
    timers_.clear();
  }

 private:
  Tick now_ = 0;
  std::multimap<Tick, Hook*> timers_;
};

}  // namespace carillon::bench
