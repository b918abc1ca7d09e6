// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/hashed_wheel.h"

#include <array>
#include <bit>

#include "carillon/base/check.h"

namespace carillon {

static_assert(WheelLike<HashedWheel>);

namespace {

using Node = internal::ListNode;

Tick deadline_of(const Node& node) { return internal::HookAccess::hook(node).deadline(); }

// Part of a list while it is being sorted: linked by `next` only, in ascending order.
struct Run {
  Node* first;
  Node* last;
  std::size_t length;
};

// All of `a` and `b`; of equal deadlines those of `a` come first.
Run merge(const Run& a, const Run& b) noexcept {
  const std::size_t length = a.length + b.length;
  if (deadline_of(*a.last) <= deadline_of(*b.first)) {
    a.last->next = b.first;
    return {a.first, b.last, length};
  }
  Node head;
  Node* last = &head;
  Node* from_a = a.first;
  Node* from_b = b.first;
  for (;;) {
    if (deadline_of(*from_b) < deadline_of(*from_a)) {
      last = last->next = from_b;
      if (from_b == b.last) {
        last->next = from_a;
        return {head.next, a.last, length};
      }
      from_b = from_b->next;
    } else {
      last = last->next = from_a;
      if (from_a == a.last) {
        last->next = from_b;
        return {head.next, b.last, length};
      }
      from_a = from_a->next;
    }
  }
}

// A natural merge sort: of what is in order already it makes one run, so that few newcomers to a
// long list in order cost a pass over it, and many as much as they are. It keeps each run more than
// twice as long as the next, so there are never more than 64.
class RunStack {
 public:
  void push(Run run) noexcept {
    while (count_ > 0 && runs_[count_ - 1].length <= 2 * run.length) {
      run = merge(runs_[--count_], run);
    }
    runs_[count_++] = run;
  }

  // Appends all to `list`, which is empty.
  void move_to(Node& list) noexcept {
    if (count_ == 0) {
      return;
    }
    Run all = runs_[--count_];
    while (count_ > 0) {
      all = merge(runs_[--count_], all);
    }
    Node* before = &list;
    list.next = all.first;
    for (std::size_t i = 0; i < all.length; ++i) {
      before->next->prev = before;
      before = before->next;
    }
    before->next = &list;
    list.prev = before;
  }

 private:
  std::size_t count_ = 0;
  std::array<Run, 65> runs_;
};

Tick mask_for(std::size_t slots) {
  CARILLON_CHECK(slots > 0 && slots <= HashedWheel::kMaxSlots, "a HashedWheel of ", slots,
                 " slots");
  return std::bit_ceil(slots) - 1;
}

}  // namespace

HashedWheel::HashedWheel(Tick now, std::size_t slots)
    : IntrusiveWheel(now),
      mask_(mask_for(slots)),
      slots_(std::make_unique<Slot[]>(mask_ + 1)),
      groups_(std::make_unique<Group[]>(mask_ / 64 + 1)) {
  for_each_slot([](Node& list) { list.make_empty(); });
}

HashedWheel::~HashedWheel() { clear(); }

// In a slot where others are due after it.
void HashedWheel::place_between(WheelHook& hook) noexcept {
  const Tick deadline = hook.deadline();
  Slot& s = slot(deadline);
  Group& g = group(deadline);
  if ((g.unsorted & bit(deadline)) == 0 && !s.list.empty()) {
    if (deadline < deadline_of(*s.list.next)) {
      s.list.prepend(Access::node(hook));
      return;
    }
    g.unsorted |= bit(deadline);
  }
  s.list.append(Access::node(hook));
}

// The first tick from `from` on, and less than a turn away, at which a slot may hold something due.
// If there is none: a tick, beyond the turn, before which none does.
// Pre: nothing is due before `from`.
Tick HashedWheel::first_bound(Tick from) noexcept {
  const Tick last = from + std::min(mask_, kLastTick - from);
  const Tick within_group = std::min<Tick>(mask_, 63);
  Tick beyond = kLastTick;
  // The slots of a group from that of `tick` to that of `end`; the hand's own group comes twice,
  // the slots before the hand's in the end.
  for (Tick tick = from;;) {
    const Tick end = std::min(tick | within_group, last);
    const std::size_t first = slot_of(tick);
    Group& g = groups_[first / 64];
    if (g.least <= end) {
      std::uint64_t bits =
          (g.occupied >> (first % 64)) & (~std::uint64_t{0} >> (63 - (end - tick)));
      for (; bits != 0; bits &= bits - 1) {
        const auto offset = static_cast<std::size_t>(std::countr_zero(bits));
        if (slots_[first + offset].least == tick + offset) {
          return tick + offset;
        }
      }
      mend(g, first / 64 * 64);
    }
    beyond = std::min(beyond, g.least);
    if (end == last) {
      return beyond;
    }
    tick = end + 1;
  }
}

void HashedWheel::mend(Group& group, std::size_t first_slot) noexcept {
  group.least = kLastTick;
  for (std::uint64_t bits = group.occupied; bits != 0; bits &= bits - 1) {
    const Slot& s = slots_[first_slot + static_cast<std::size_t>(std::countr_zero(bits))];
    group.least = std::min(group.least, s.least);
  }
}

std::optional<Tick> HashedWheel::find_due(Tick target) noexcept {
  for (;;) {
    const Tick tick = first_bound(next_start_);
    next_start_ = tick;
    if (tick > target) {
      return std::nullopt;
    }
    if ((group(tick).occupied & bit(tick)) != 0) {
      return tick;
    }
    // Without a bit it is the bound of a slot that is empty since, and the next search mends it; or
    // it is the end of time.
    if (tick == kLastTick) {
      return std::nullopt;
    }
  }
}

// Puts the slot of `tick` in order, and says whether something in it is due then.
bool HashedWheel::holds_due(Tick tick) noexcept {
  Slot& s = slot(tick);
  Group& g = group(tick);
  if ((g.unsorted & bit(tick)) != 0) [[unlikely]] {
    sort(tick);
  }
  if (s.list.empty()) {
    g.occupied &= ~bit(tick);
    s.least = kLastTick;
    s.last = 0;
    return false;
  }
  s.least = deadline_of(*s.list.next);
  return s.least == tick;
}

void HashedWheel::take_due(Tick tick) noexcept {
  if (!holds_due(tick)) {
    return;
  }
  Slot& s = slot(tick);
  if (s.last == tick) {
    due_.append_all(s.list);
    group(tick).occupied &= ~bit(tick);
    s.least = kLastTick;
    s.last = 0;
    return;
  }
  while (!s.list.empty() && deadline_of(*s.list.next) == tick) {
    Node& node = *s.list.next;
    node.unlink();
    due_.append(node);
  }
  holds_due(tick);
}

// Sorts the slot of `tick`, and sends those timers away that were postponed to other slots.
void HashedWheel::sort(Tick tick) noexcept {
  Slot& s = slot(tick);
  group(tick).unsorted &= ~bit(tick);
  RunStack runs;
  for (Node* node = s.list.next; node != &s.list;) {
    Node* const next = node->next;
    if (slot_of(deadline_of(*node)) != slot_of(tick)) {
      node->unlink();
      place(Access::hook(*node), deadline_of(*node));
    }
    node = next;
  }
  for (Node* node = s.list.next; node != &s.list;) {
    Run run = {node, node, 1};
    while ((node = node->next) != &s.list && deadline_of(*node) >= deadline_of(*run.last)) {
      run.last = node;
      ++run.length;
    }
    runs.push(run);
  }
  s.list.make_empty();
  runs.move_to(s.list);
  if (!s.list.empty()) {
    s.last = deadline_of(*s.list.prev);
  }
}

WheelSnapshot HashedWheel::snapshot() const {
  WheelSnapshot result;
  result.now = now();
  result.size = size();
  result.due = count_due();
  WheelSnapshot::Level& ring = result.levels.emplace_back();
  ring.hand = static_cast<int>(slot_of(now()));
  ring.counts.resize(slots());
  // By deadline and not by list: a postponed timer is where it will be.
  for_each([&](const WheelHook& hook) { ++ring.counts[slot_of(hook.deadline())]; });
  ring.counts[slot_of(now())] -= result.due;
  return result;
}

}  // namespace carillon
