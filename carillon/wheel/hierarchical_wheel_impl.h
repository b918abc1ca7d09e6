// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The out-of-line half of hierarchical_wheel.h, for those who instantiate it with a geometry of
/// their own; the wheels named there are compiled in the library and need only that header.

#include <algorithm>

#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon {

namespace internal {

// The least deadline in `list`, which must not be empty; nothing if there are more than `limit`.
inline std::optional<Tick> least_deadline_if_short(const ListNode& list, int limit) noexcept {
  Tick least = kLastTick;
  int count = 0;
  for (const ListNode* node = list.next; node != &list; node = node->next) {
    if (++count > limit) {
      return std::nullopt;
    }
    least = std::min(least, HookAccess::hook(*node).deadline());
  }
  return least;
}

}  // namespace internal

template <class Levels>
BasicHierarchicalWheel<Levels>::BasicHierarchicalWheel(Tick now) noexcept : now_(now) {
  due_.make_empty();
  for (Node& list : slots_) {
    list.make_empty();
  }
  Node* next = slots_.data();
  for (int level = 0; level < kLevels; ++level) {
    at(current_, level).slots = next;
    next += Levels::slots(level);
    at(ahead_, level).slots = next;
    next += Levels::slots(level);
  }
  ahead_number_.fill(kNone);
}

template <class Levels>
BasicHierarchicalWheel<Levels>::~BasicHierarchicalWheel() {
  clear();
  if (destroyed_ != nullptr) {
    *destroyed_ = true;
  }
}

template <class Levels>
void BasicHierarchicalWheel<Levels>::clear() noexcept {
  // Bits and rings are left as they are: stale, which they may be.
  for_each_list(*this, [this](Node& list) {
    while (!list.empty()) {
      forget(Access::hook(*list.next));
    }
  });
}

template <class Levels>
void BasicHierarchicalWheel<Levels>::place_ahead(WheelHook& hook, int level) noexcept {
  const Tick deadline = hook.deadline();
  Ring* ring = &at(current_, level);
  while (level > 0 && at(ahead_number_, level) == Levels::number(level, deadline)) {
    --level;
    ring = &at(ahead_, level);
  }
  const Tick number = Levels::number(level, deadline);
  const int slot = Levels::index(level, number);
  ring->slots[slot].append(Access::node(hook));
  if (ring == &at(current_, level)) {
    mark(level, number);
  } else {
    ring->occupied.set(slot);
  }
}

template <class Levels>
void BasicHierarchicalWheel<Levels>::place_all(Node& list) noexcept {
  Node taken;
  taken.make_empty();
  taken.append_all(list);
  while (!taken.empty()) {
    Node& node = *taken.next;
    node.unlink();
    place(Access::hook(node));
  }
}

// Moves what is due next, and not after `target`, to due_, and now_ to its tick. If there is
// nothing, moves now_ to `target` and returns false.
template <class Levels>
bool BasicHierarchicalWheel<Levels>::load_due(Tick target) noexcept {
  while (occupied_levels_ != 0) {
    const int level = std::countr_zero(occupied_levels_);
    Ring& ring = at(current_, level);
    const int slot = ring.occupied.first();
    const Tick number = Levels::child(level, present_parent(level), slot);
    const Tick start = Levels::start(level, number);
    next_start_ = start;
    if (start > target) {
      now_ = target;
      return false;
    }
    unmark(level, slot);
    if (level > 0) {
      enter(level, number, target);
    } else if (!ring.slots[slot].empty()) {
      now_ = start;
      earliest = start;
      earliest_exact = true;
      due_.append_all(ring.slots[slot]);
      if (has_due()) {
        return true;
      }
      earliest_exact = false;
    }
  }
  now_ = target;
  next_start_ = kLastTick;
  return false;
}

// Time enters slot `number` of `level`, the first occupied one: brings its timers to finer levels.
// All finer rings are empty now, and their bits clear.
template <class Levels>
void BasicHierarchicalWheel<Levels>::enter(int level, Tick number, Tick target) noexcept {
  const Tick start = Levels::start(level, number);
  if (at(ahead_number_, level) == number) {
    now_ = start;
    at(ahead_number_, level) = kNone;
    std::swap(at(current_, level - 1), at(ahead_, level - 1));
    if (!at(current_, level - 1).occupied.empty()) {
      occupied_levels_ |= std::uint64_t{1} << (level - 1);
    }
    return;
  }
  Node& list = at(current_, level).slots[Levels::index(level, number)];
  if (list.empty()) {
    return;
  }
  // Nothing is due between `start` and the least deadline, so time may as well be there: a lone
  // timer goes to the level it is to end on, in one step. (If all have been postponed beyond this
  // slot, others may be due before them.)
  Tick least = std::max(start, earliest);
  if (const auto found = internal::least_deadline_if_short(list, Levels::kShortList);
      found && Levels::number(level, *found) == number) {
    least = std::max(least, *found);
  }
  now_ = std::min(least, target);
  place_all(list);
}

// The exact next deadline, given that there is one.
template <class Levels>
Tick BasicHierarchicalWheel<Levels>::find_earliest() noexcept {
  std::optional<Tick> found;
  if (has_due()) {
    found = now_;
  }
  while (!found) {
    // The first slot of the finest occupied level; if it has been sorted ahead, the first slot of
    // that ring, and so on down.
    int level = std::countr_zero(occupied_levels_);
    Ring* ring = &at(current_, level);
    bool is_ahead = false;
    int slot = ring->occupied.first();
    Tick number = Levels::child(level, present_parent(level), slot);
    while (level > 0 && at(ahead_number_, level) == number) {
      Ring& finer = at(ahead_, level - 1);
      if (finer.occupied.empty()) {
        at(ahead_number_, level) = kNone;
        break;
      }
      --level;
      ring = &finer;
      is_ahead = true;
      slot = ring->occupied.first();
      number = Levels::child(level, number, slot);
    }
    Node& list = ring->slots[slot];
    if (!list.empty()) {
      found = search(list, level, number);
    } else if (is_ahead) {
      ring->occupied.clear(slot);
    } else {
      unmark(level, slot);
    }
  }
  earliest = *found;
  earliest_exact = true;
  return *found;
}

// The least deadline in `list`, the first non-empty one: slot `number` of `level`. Or nothing, but
// then what was in the way has been moved, and a new search comes nearer.
template <class Levels>
std::optional<Tick> BasicHierarchicalWheel<Levels>::search(Node& list, int level,
                                                           Tick number) noexcept {
  if (level == 0) {
    while (!list.empty()) {
      WheelHook& hook = Access::hook(*list.next);
      if (hook.deadline() == number) {
        return number;
      }
      list.next->unlink();
      place(hook);
    }
    return std::nullopt;
  }
  const std::optional<Tick> least = internal::least_deadline_if_short(list, Levels::kShortList);
  if (!least) {
    if (at(ahead_number_, level) != kNone && scanned_ < size()) {
      return scan(list, level, number);
    }
    sort_ahead(list, level, number);
    return std::nullopt;
  }
  if (Levels::number(level, *least) != number) {
    // All have been postponed, and others may be due before them.
    place_all(list);
    return std::nullopt;
  }
  return least;
}

// The same for a long list, by looking at all of it, since the ring ahead is another slot's: a few
// short timers that come and go must not have a hundred thousand idle ones sorted again each time.
// Only when as many have been looked at as there are timers the ring is worth its price.
template <class Levels>
std::optional<Tick> BasicHierarchicalWheel<Levels>::scan(Node& list, int level,
                                                         Tick number) noexcept {
  std::optional<Tick> least;
  for (Node* node = list.next; node != &list;) {
    WheelHook& hook = Access::hook(*node);
    Node* const next = node->next;
    if (Levels::number(level, hook.deadline()) == number) {
      least = std::min(least.value_or(kLastTick), hook.deadline());
    } else {
      node->unlink();
      place(hook);  // It has been postponed.
    }
    node = next;
    ++scanned_;
  }
  return least;
}

// Sorts the timers of slot `number` of `level`, which are `list`, into the ring ahead of the level
// below.
template <class Levels>
void BasicHierarchicalWheel<Levels>::sort_ahead(Node& list, int level, Tick number) noexcept {
  if (at(ahead_number_, level) != kNone) {
    join_back(level);
  }
  at(ahead_number_, level) = number;
  scanned_ = 0;
  place_all(list);
}

// Undoes sort_ahead() of a slot of `level`: joins the lists of the ring below in its list again.
// Equal deadlines were in one list of the ring, so they keep their order.
template <class Levels>
void BasicHierarchicalWheel<Levels>::join_back(int level) noexcept {
  const Tick number = at(ahead_number_, level);
  if (level > 1 && at(ahead_number_, level - 1) != kNone &&
      Levels::parent(level - 1, at(ahead_number_, level - 1)) == number) {
    join_back(level - 1);
  }
  const Ring& ring = Levels::parent(level, number) == present_parent(level) ? at(current_, level)
                                                                            : at(ahead_, level);
  Node& list = ring.slots[Levels::index(level, number)];
  Ring& finer = at(ahead_, level - 1);
  while (!finer.occupied.empty()) {
    const int slot = finer.occupied.first();
    list.append_all(finer.slots[slot]);
    finer.occupied.clear(slot);
  }
  at(ahead_number_, level) = kNone;
}

template <class Levels>
WheelSnapshot BasicHierarchicalWheel<Levels>::snapshot() const {
  WheelSnapshot result;
  result.now = now_;
  result.size = size();
  for (int level = 0; level < kLevels; ++level) {
    WheelSnapshot::Level& l = result.levels.emplace_back();
    l.granularity = Levels::start(level, 1);
    l.hand = Levels::index(level, Levels::number(level, now_));
    l.counts.resize(static_cast<std::size_t>(Levels::slots(level)));
  }
  // By deadline and not by list: a slot that was sorted ahead is still that slot, and a postponed
  // timer is where it will be.
  for_each([&](const WheelHook& hook) {
    const int level = Levels::level_of(now_, hook.deadline());
    const int slot = Levels::index(level, Levels::number(level, hook.deadline()));
    ++result.levels[static_cast<std::size_t>(level)].counts[static_cast<std::size_t>(slot)];
  });
  for (const Node* node = due_.next; node != &due_; node = node->next) {
    result.due += Access::hook(*node).deadline() == now_ ? 1 : 0;
  }
  result.levels[0].counts[static_cast<std::size_t>(result.levels[0].hand)] -= result.due;
  return result;
}

}  // namespace carillon
