// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: `HookedPool`, a pooled wheel that is used through hooks, so that what is written for
/// wheels of hooks (WheelLockstep, WheelProgram) tests it too.

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "carillon/wheel/hook.h"
#include "carillon/wheel/pooled_wheel_impl.h"
#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// Shapes that put every test across levels, chunks and segments, and sweep all the time.
struct TinyPool : PooledShape {
  struct Levels : PowerOfTwoLevels<2> {
    static constexpr int kShortList = 0;
  };
  static constexpr int kChunkBits = 1;
  static constexpr std::size_t kFewStale = 1;
};
struct SmallPool : PooledShape {
  struct Levels : PowerOfTwoLevels<1, 7, 3> {
    static constexpr int kShortList = 1;
  };
  static constexpr int kChunkBits = 2;
  static constexpr std::size_t kFewStale = 4;
};
/// Its nodes are retired soon.
struct MortalPool : TinyPool {
  static constexpr std::uint32_t kLastGeneration = 6;
};

/// postpone() is the pool's reschedule; reschedule() schedules anew, as that of the other wheels.
/// A hook that is destroyed while it waits leaves the list of hooks, and nothing else: the next
/// call notices, and cancels its timer. So do the destructors of payloads in earnest.
template <class Shape>
class HookedPool : private internal::WheelCore {
  using Access = internal::HookAccess;

 public:
  using Expired = WheelHook&;

  explicit HookedPool(Tick now = 0) noexcept : pool_(now, kMaxSize) { hooks_.make_empty(); }
  ~HookedPool() { clear(); }
  HookedPool(const HookedPool&) = delete;
  HookedPool& operator=(const HookedPool&) = delete;

  bool schedule(WheelHook& hook, Tick deadline) noexcept {
    reconcile();
    const bool first = pool_.empty() || std::max(deadline, next_tick()) < pool_.not_before();
    const WheelHandle handle = pool_.schedule(deadline, &hook);
    CARILLON_CHECK(handle && !handles_.contains(&hook));
    handles_[&hook] = handle;
    Access::owner(hook) = this;
    Access::deadline(hook) = pool_.deadline(handle).value();
    hooks_.append(Access::node(hook));
    ++WheelCore::size;
    return first;
  }

  bool cancel(WheelHook& hook) noexcept {
    reconcile();
    if (!hook.scheduled()) {
      CARILLON_CHECK(!handles_.contains(&hook));
      return false;
    }
    let_go(hook);
    const WheelHandle handle = handles_.extract(&hook).mapped();
    const bool cancelled = pool_.cancel(handle);
    CARILLON_CHECK(!pool_.contains(handle) && !pool_.cancel(handle));
    return cancelled;
  }

  bool reschedule(WheelHook& hook, Tick deadline) noexcept {
    cancel(hook);
    return schedule(hook, deadline);
  }

  bool postpone(WheelHook& hook, Tick deadline) noexcept {
    reconcile();
    if (!hook.scheduled()) {
      return schedule(hook, deadline);
    }
    const bool first = std::max(deadline, next_tick()) < pool_.not_before();
    const WheelHandle handle = handles_.at(&hook);
    CARILLON_CHECK(pool_.reschedule(handle, deadline));
    Access::deadline(hook) = pool_.deadline(handle).value();
    return first;
  }

  template <class Sink>
  AdvanceResult advance(Tick target, Sink&& sink, std::size_t budget = kUnlimited) {
    reconcile();
    return pool_.advance(
        target,
        [&](auto&& expired) {
          WheelHook& hook = *expired.payload;
          CARILLON_CHECK(expired.deadline == pool_.now() && !pool_.contains(expired.handle));
          CARILLON_CHECK(handles_.extract(&hook).mapped() == expired.handle);
          let_go(hook);
          sink(hook);
          reconcile();
        },
        budget);
  }

  [[nodiscard]] std::optional<Tick> next_deadline() const noexcept {
    reconcile();
    return pool_.next_deadline();
  }
  [[nodiscard]] Tick now() const noexcept { return pool_.now(); }
  [[nodiscard]] std::size_t size() const noexcept {
    reconcile();
    return pool_.size();
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  void clear() noexcept {
    reconcile();
    pool_.clear();
    handles_.clear();
    while (!hooks_.empty()) {
      let_go(Access::hook(*hooks_.next));
    }
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    reconcile();
    pool_.for_each([&](WheelHandle handle, Tick deadline, const WheelHook* hook) {
      CARILLON_CHECK(pool_.deadline(handle) == deadline && hook->deadline() == deadline);
      visit(*hook);
    });
  }
  [[nodiscard]] WheelSnapshot snapshot() const {
    reconcile();
    return pool_.snapshot();
  }

 private:
  // Few, so that a wheel is made quickly: the exhaustive test makes two million.
  static constexpr std::size_t kMaxSize = 64;

  [[nodiscard]] Tick next_tick() const { return now() == kLastTick ? kLastTick : now() + 1; }

  void let_go(WheelHook& hook) noexcept { forget(hook); }

  void reconcile() const noexcept {
    if (WheelCore::size == handles_.size()) {
      return;
    }
    std::map<const WheelHook*, WheelHandle> remaining;
    for (const internal::ListNode* node = hooks_.next; node != &hooks_; node = node->next) {
      remaining.insert(handles_.extract(&Access::hook(*node)));
    }
    for (const auto& [hook, handle] : handles_) {
      CARILLON_CHECK(pool_.cancel(handle));
    }
    handles_ = std::move(remaining);
  }

  mutable BasicPooledWheel<WheelHook*, Shape> pool_;
  mutable std::map<const WheelHook*, WheelHandle> handles_;
  internal::ListNode hooks_;
};

}  // namespace carillon
