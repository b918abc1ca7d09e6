// SPDX-License-Identifier: Apache-2.0
#pragma once

// The hot paths of hierarchical_wheel.h, which includes this at its end. The rest is in
// hierarchical_wheel_impl.h.

#include <cstddef>
#include <optional>

#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon {

template <class Levels>
inline bool BasicHierarchicalWheel<Levels>::schedule(WheelHook& hook, Tick deadline) noexcept {
  CARILLON_CHECK(!hook.scheduled(), "the hook is already scheduled for ", hook.deadline());
  return insert(hook, deadline);
}

template <class Levels>
inline bool BasicHierarchicalWheel<Levels>::cancel(WheelHook& hook) noexcept {
  if (!hook.scheduled()) {
    return false;
  }
  CARILLON_CHECK(Access::owner(hook) == this, "the hook waits in another wheel");
  forget(hook);
  return true;
}

template <class Levels>
inline bool BasicHierarchicalWheel<Levels>::reschedule(WheelHook& hook, Tick deadline) noexcept {
  cancel(hook);
  return insert(hook, deadline);
}

template <class Levels>
inline bool BasicHierarchicalWheel<Levels>::postpone(WheelHook& hook, Tick deadline) noexcept {
  // What is due already must leave its list, or it would stay due for the next tick.
  if (!hook.scheduled() || deadline < hook.deadline() || hook.deadline() <= now_) [[unlikely]] {
    return reschedule(hook, deadline);
  }
  CARILLON_CHECK(Access::owner(hook) == this, "the hook waits in another wheel");
  earliest_exact &= hook.deadline() != earliest;
  Access::deadline(hook) = deadline;
  return false;
}

template <class Levels>
inline bool BasicHierarchicalWheel<Levels>::insert(WheelHook& hook, Tick deadline) noexcept {
  const Tick next = now_ + (now_ != kLastTick ? 1 : 0);
  if (deadline < next) {
    deadline = next;
  }
  Access::deadline(hook) = deadline;
  Access::owner(hook) = this;
  place(hook);
  return admit(deadline);
}

template <class Levels>
inline void BasicHierarchicalWheel<Levels>::place(WheelHook& hook) noexcept {
  const Tick deadline = hook.deadline();
  const int level = Levels::level_of(now_, deadline);
  const Tick number = Levels::number(level, deadline);
  if (at(ahead_number_, level) == number) [[unlikely]] {
    place_ahead(hook, level);
    return;
  }
  at(current_, level).slots[Levels::index(level, number)].append(Access::node(hook));
  mark(level, number);
}

// Is the first timer in due_ due? If it has been postponed, it goes where it belongs.
template <class Levels>
inline bool BasicHierarchicalWheel<Levels>::has_due() noexcept {
  while (!due_.empty()) {
    WheelHook& hook = Access::hook(*due_.next);
    if (hook.deadline() <= now_) [[likely]] {
      return true;
    }
    due_.next->unlink();
    place(hook);
  }
  return false;
}

template <class Levels>
template <class Sink>
AdvanceResult BasicHierarchicalWheel<Levels>::advance(Tick target, Sink&& sink,
                                                      std::size_t budget) {
  AdvanceResult result;
  // While something is due next_start_ is not after now_.
  if (target < next_start_ && target >= now_) [[likely]] {
    now_ = target;
    return result;
  }
  if (target < now_) {
    result.more = has_due();
    return result;
  }
  if (due_.empty() && !load_due(target)) {
    return result;
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

template <class Levels>
inline std::optional<Tick> BasicHierarchicalWheel<Levels>::next_deadline() const noexcept {
  if (empty()) {
    return std::nullopt;
  }
  if (earliest_exact) {
    return earliest;
  }
  // Searching clears stale bits, sorts slots ahead and puts postponed timers where they belong, and
  // none of that can be observed. A wheel that holds a timer is no const object.
  return const_cast<BasicHierarchicalWheel*>(this)->find_earliest();
}

template <class Levels>
template <class Visit>
void BasicHierarchicalWheel<Levels>::for_each(Visit&& visit) const {
  for_each_list(*this, [&visit](const Node& list) {
    for (const Node* node = list.next; node != &list; node = node->next) {
      visit(Access::hook(*node));
    }
  });
}

template <class Levels>
template <class Self, class Visit>
void BasicHierarchicalWheel<Levels>::for_each_list(Self& self, Visit&& visit) {
  visit(self.due_);
  for (auto& list : self.slots_) {
    visit(list);
  }
}

}  // namespace carillon
