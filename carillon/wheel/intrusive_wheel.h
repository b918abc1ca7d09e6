// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `IntrusiveWheel`, the vocabulary and the contract that HashedWheel and CoarseWheel share. What a
/// wheel adds is where it puts a timer, and how it finds the next one.

#include <algorithm>
#include <cstddef>
#include <optional>

#include "carillon/base/check.h"
#include "carillon/wheel/hook.h"
#include "carillon/wheel/internal/destruction_watch.h"
#include "carillon/wheel/internal/hook_list.h"
#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// What every wheel of hooks does in the same way, as HierarchicalWheel does; the base of `Wheel`.
///
/// Time:      in ticks, absolute, told by advance(). Never early. A wheel says at once when a timer
///            will be given out: hook.deadline(), which is the deadline asked for, or where the
///            wheel rounds, later. While a sink runs, now() is the tick that is being expired.
/// Threads:   distinct wheels: safe. One wheel: unsafe, next_deadline() and other const methods
///            included, since they tidy up.
/// Lifetime:  the hooks are the user's. The destructor leaves them unscheduled; a hook that is
///            destroyed cancels itself. Not movable.
/// Callbacks: see advance(). A sink may do anything, even destroy the wheel.
/// Errors:    none. To schedule what is scheduled, or to cancel, reschedule or postpone what waits
///            in another wheel, is a bug that stops the program, in every build.
/// Limits:    none but the tick's 64 bits; at kLastTick itself there is no next tick, so what is
///            scheduled then expires at the next advance(kLastTick).
template <class Wheel>
class IntrusiveWheel : private internal::WheelCore {
 public:
  /// What a sink is given.
  using Expired = WheelHook&;

  IntrusiveWheel(const IntrusiveWheel&) = delete;
  IntrusiveWheel& operator=(const IntrusiveWheel&) = delete;

  /// Schedules `hook` to expire at `deadline`; if that is now() or has passed, at the next tick:
  /// the next advance() to now() + 1 or later.
  ///
  /// Pre: `hook` is not scheduled.      Cost: O(1), no allocation.
  /// Returns whether it is now the earliest of all. True is always right. False is right too unless
  /// what was the earliest has been cancelled, rescheduled or expired since next_deadline() was
  /// last asked; so a driver that asks before it sleeps must be woken on true, and only then.
  bool schedule(WheelHook& hook, Tick deadline) noexcept {
    CARILLON_CHECK(!hook.scheduled(), "the hook is already scheduled for ", hook.deadline());
    return insert(hook, deadline);
  }

  /// Cancels `hook`: it will not expire. True if it was scheduled; not an error if it was not.
  bool cancel(WheelHook& hook) noexcept {
    if (!hook.scheduled()) {
      return false;
    }
    CARILLON_CHECK(Access::owner(hook) == this, "the hook waits in another wheel");
    forget(hook);
    return true;
  }

  /// Schedules `hook` to expire at `deadline` instead of whenever it was due, if at all. Returns
  /// as schedule().
  bool reschedule(WheelHook& hook, Tick deadline) noexcept {
    cancel(hook);
    return insert(hook, deadline);
  }

  /// Reschedules `hook`; if it will not be given out earlier than now planned, without touching its
  /// neighbours. (Where the wheel rounds, `deadline` may be a little earlier than hook.deadline():
  /// what counts is the tick that it is rounded to. If that is the same, nothing is done, and the
  /// timer keeps its place.) This is for timeouts that every packet pushes back, and are cancelled
  /// or pushed back again long before they are due. The price: a postponed timer has no particular
  /// place in the order of its tick (still the same on every run), and the wheel moves it when its
  /// old slot comes up. It is never early, no later than if rescheduled, and next_deadline() stays
  /// exact.
  ///
  /// Returns as schedule().
  bool postpone(WheelHook& hook, Tick deadline) noexcept {
    // What is due already must leave its list, or it would stay due for the next tick.
    if (!hook.scheduled() || deadline <= now_ || hook.deadline() <= now_) [[unlikely]] {
      return reschedule(hook, deadline);
    }
    const Tick tick = self().rounded(deadline);
    if (tick < hook.deadline()) [[unlikely]] {
      return reschedule(hook, deadline);
    }
    CARILLON_CHECK(Access::owner(hook) == this, "the hook waits in another wheel");
    if (tick != hook.deadline()) {
      earliest_exact &= hook.deadline() != earliest;
      self().note_postponed(hook);
      Access::deadline(hook) = tick;
    }
    return false;
  }

  /// Tells the wheel that it is `target` now, and gives all timers due by then to `sink`, as
  /// `sink(WheelHook&)`: tick by tick. The hook is unscheduled when the sink sees it, so that it
  /// may be scheduled again or destroyed.
  ///
  /// The sink may schedule, cancel, reschedule and destroy any hook, itself and its neighbours
  /// included; clear, advance or destroy the wheel. What it schedules for the tick being expired or
  /// earlier is due at the next one, and expires in this same call if `target` has reached that:
  /// advancing by 1000 ticks over a timer that re-arms itself for the next one fires it 1000 times.
  ///
  /// At most `budget` timers expire. If more are due the result says so, now() is the tick of the
  /// next one, and any later advance, to the same `target` too, goes on there; what is scheduled
  /// meanwhile for that tick is due at the one after. A `target` before now() has no effect: time
  /// does not go back.
  ///
  /// If the sink throws, the exception passes through; the timer that it was given has expired, the
  /// others are as after an exhausted budget.
  template <class Sink>
  AdvanceResult advance(Tick target, Sink&& sink, std::size_t budget = kUnlimited);

  /// The tick at which the earliest timer will be given out, exactly; now() if a budget left some
  /// due; nothing if the wheel is empty.
  [[nodiscard]] std::optional<Tick> next_deadline() const noexcept {
    if (empty()) {
      return std::nullopt;
    }
    if (earliest_exact) {
      return earliest;
    }
    // Searching tidies up: stale bits, lists to be put in order, postponed timers. None of that can
    // be observed, and a wheel that holds a timer is no const object.
    return const_cast<IntrusiveWheel*>(this)->find_earliest();
  }

  [[nodiscard]] Tick now() const noexcept { return now_; }
  /// Timers scheduled. Exact, also while a sink runs.
  [[nodiscard]] std::size_t size() const noexcept { return WheelCore::size; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  /// Cancels all. O(size + slots).
  void clear() noexcept {
    // Bits and bounds are left as they are: stale, which they may be.
    const auto forget_all = [this](Node& list) {
      while (!list.empty()) {
        forget(Access::hook(*list.next));
      }
    };
    forget_all(due_);
    self().for_each_slot(forget_all);
  }

  /// Calls `visit(const WheelHook&)` for each timer, in no particular order. It must not change the
  /// wheel.
  template <class Visit>
  void for_each(Visit&& visit) const {
    const auto visit_all = [&visit](const Node& list) {
      for (const Node* node = list.next; node != &list; node = node->next) {
        visit(Access::hook(*node));
      }
    };
    visit_all(due_);
    self().for_each_slot(visit_all);
  }

 protected:
  using Node = internal::ListNode;
  using Access = internal::HookAccess;

  explicit IntrusiveWheel(Tick now) noexcept : now_(now) { due_.make_empty(); }
  // Pre: the wheel has cleared itself; its slots are gone by now.
  ~IntrusiveWheel() {
    if (destroyed_ != nullptr) {
      *destroyed_ = true;
    }
  }

  // Timers in due_ that are due, and have not been postponed.
  [[nodiscard]] std::size_t count_due() const noexcept {
    std::size_t count = 0;
    for (const Node* node = due_.next; node != &due_; node = node->next) {
      count += static_cast<std::size_t>(Access::hook(*node).deadline() <= now_);
    }
    return count;
  }

  // Invariants:
  // (1) what lies in a slot is due after now_ (or both are kLastTick), and not before next_start_.
  // (2) timers in due_ are due at now_, or have been postponed.
  Tick now_;
  Tick next_start_ = kLastTick;
  // What is due at now_ and was not yet given to a sink.
  Node due_;

 private:
  // What `Wheel` adds, to be seen by this class:
  //   Tick place(hook, deadline)    links the hook into a slot, sets its deadline, rounded, lowers
  //                                 next_start_; returns the rounded deadline
  //   Tick rounded(deadline)        what place() would return; pre: deadline > now_
  //   void note_postponed(hook)     its deadline is about to be replaced by a later one
  //   std::optional<Tick> find_due(target)
  //                                 the first tick not after `target` in whose slots something
  //                                 may be due, in order; raises next_start_ to it
  //   void take_due(tick)           moves what is in those slots behind due_
  //   bool holds_due(tick)          is there something due in the slots found? If not, tidies
  //   void for_each_slot(visit)     visits the lists
  [[nodiscard]] Wheel& self() noexcept { return static_cast<Wheel&>(*this); }
  [[nodiscard]] const Wheel& self() const noexcept { return static_cast<const Wheel&>(*this); }

  bool insert(WheelHook& hook, Tick deadline) noexcept {
    const Tick next = now_ + (now_ != kLastTick ? 1 : 0);
    Access::owner(hook) = this;
    return admit(self().place(hook, std::max(deadline, next)));
  }

  // Is the first timer in due_ due? If it has been postponed, it goes where it belongs.
  bool has_due() noexcept {
    while (!due_.empty()) {
      WheelHook& hook = Access::hook(*due_.next);
      if (hook.deadline() <= now_) [[likely]] {
        return true;
      }
      due_.next->unlink();
      self().place(hook, hook.deadline());
    }
    return false;
  }

  bool load_due(Tick target) noexcept;
  Tick find_earliest() noexcept;

  // While advance() is on the stack: the flag through which the destructor tells it.
  bool* destroyed_ = nullptr;
};

// Moves what is due next, and not after `target`, to due_, and now_ to its tick. If there is
// nothing, moves now_ to `target` and returns false.
template <class Wheel>
bool IntrusiveWheel<Wheel>::load_due(Tick target) noexcept {
  while (const std::optional<Tick> tick = self().find_due(target)) {
    now_ = *tick;
    // Whatever else there is, is due later; so is what has_due() may put back.
    next_start_ = now_ + (now_ != kLastTick ? 1 : 0);
    self().take_due(now_);
    if (has_due()) {
      earliest = now_;
      earliest_exact = true;
      return true;
    }
  }
  now_ = target;
  return false;
}

// The exact next deadline, given that there is one.
template <class Wheel>
Tick IntrusiveWheel<Wheel>::find_earliest() noexcept {
  Tick tick = now_;
  if (!has_due()) {
    do {
      tick = self().find_due(kLastTick).value_or(kLastTick);
    } while (!self().holds_due(tick));
  }
  earliest = tick;
  earliest_exact = true;
  return tick;
}

template <class Wheel>
template <class Sink>
AdvanceResult IntrusiveWheel<Wheel>::advance(Tick target, Sink&& sink, std::size_t budget) {
  AdvanceResult result;
  if (target < now_) {
    result.more = has_due();
    return result;
  }
  if (due_.empty()) {
    if (target < next_start_) {
      now_ = target;
      return result;
    }
    if (!load_due(target)) {
      return result;
    }
  }
  const internal::DestructionWatch watch(destroyed_);
  for (;;) {
    if (!has_due()) {
      // Once `target` itself has expired nothing more is due, unless time ends there.
      if ((result.expired > 0 && now_ >= target) || !load_due(target)) {
        break;
      }
    }
    if (result.expired == budget) {
      result.more = true;
      break;
    }
    ++result.expired;
    WheelHook& hook = Access::hook(*due_.next);
    forget(hook);
    sink(hook);
    if (watch.destroyed()) {
      break;
    }
  }
  return result;
}

}  // namespace carillon
