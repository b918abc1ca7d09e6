// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The hashed timing wheel: one ring of slots, as in Netty. The simplest of the wheels, for delays
/// of which nearly all are shorter than one turn.
///
/// How it works
/// ------------
/// A clock face with one hand (G. Varghese and T. Lauck, "Hashed and hierarchical timing wheels",
/// 1987, scheme 6). The ring has 2^k slots; a timer lies in slot `deadline mod 2^k`, which is one
/// `and`. What is further away than a turn lies in the same ring, and must let the hand pass.
///
///     8 slots, the hand at 2: A is due in 5 ticks, B in 3, C in 11: one turn and 3.
///
///     slot    0    1   [2]   3    4    5    6    7         [ ] the hand
///                                      B         A
///                                      C
///     tick              2              5         7         B and A expire
///                      10             13                   C expires
///
/// *A deadline, not a count of rounds.* With rounds, as in the paper and in Netty, the hand must
/// take one off each timer of each slot it passes: with a million timers of 30 s in 512 slots of
/// 1 ms, two thousand a millisecond, which takes half a core to find that nothing is due. A
/// deadline does not change while it waits, so there is nothing to do for a timer that stays, the
/// hand may jump, and what expires is judged by its deadline, never by a count that may be off.
/// rounds() tells the number for those who draw.
///
/// *A slot is put in order, once.* A slot knows a tick before which none of its timers is due, and
/// the hand passes it by until then. When that tick comes, the timers of the slot are sorted by
/// deadline, stably, so that equal ones stay in the order scheduled; those in front are due, and
/// the others are not looked at again until they are. A new timer that is due after all others of
/// its slot, or before all, leaves it in order: so timeouts of one length, the usual case, are
/// never sorted at all. Others have the slot sorted anew when it comes up; that is a merge, a step
/// for each timer there, as in Netty, but only in a turn in which something of the slot may be due.
///
/// *Tickless.* For 64 slots, a group, there is one word of bits, which are occupied, and one tick,
/// the least before which none of them is due. The next occupied slot is a few
/// count-trailing-zeros away, and a gap without timers costs one pass over the groups, however many
/// turns it is long: 64 words for 4096 slots. Bits and ticks are lower bounds that a cancelled or
/// postponed timer leaves behind, and are mended by whoever finds nothing there: so a cancel
/// touches the timer and its two neighbours only.
///
/// What it bets on: that one turn of the ring is at least as long as the usual delay. Then each
/// operation touches one slot, and nothing is ever sorted. What it is bad at: many timers in one
/// slot with random deadlines many turns away; each turn in which some of them are due costs a step
/// for each of them, if others came meanwhile. Take more slots, or a HierarchicalWheel.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "carillon/wheel/hook.h"
#include "carillon/wheel/internal/hook_list.h"
#include "carillon/wheel/intrusive_wheel.h"
#include "carillon/wheel/snapshot.h"
#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// One ring of slots. What it does is written at IntrusiveWheel; this is what is its own.
///
/// Time:      exact to the tick at any distance. As with Netty, a deadline that has passed expires
///            at the next tick, and none before its deadline, whatever turn it is.
/// Order:     by deadline; within a tick in the order scheduled, where rescheduling counts as
///            scheduling anew. The same on every run.
/// Errors:    the constructor throws std::bad_alloc; nothing else allocates.
/// Cost:      schedule, cancel, reschedule: O(1), no allocation; at a thousand timers in 512 slots
///            5, 2 and 4 ns (wheel_bench).
///            advance: O(expired + slots with a timer that the hand passes), in turns in which
///            nothing is due O(slots / 64), once for any number of them; and a slot of n timers is
///            sorted, O(n log n), or O(n) if few came since, when one of them may be due and they
///            are not in order.
///            next_deadline: O(1); after the earliest has gone as an advance to the next.
///            32 bytes a slot and 24 for 64, 130 KiB for 4096 slots; 32 bytes a timer.
/// Limits:    2^30 slots.
///
/// Example:
///     carillon::HashedWheel wheel(now_ms, 32'768);   // one turn is 33 s
///     wheel.schedule(connection, now_ms + 30'000);
///     ...
///     wheel.postpone(connection, now_ms + 30'000);   // a packet came
///     ...
///     wheel.advance(now_ms, [](carillon::WheelHook& hook) { ... });
///     sleep_until(wheel.next_deadline());
class HashedWheel : public IntrusiveWheel<HashedWheel> {
 public:
  static constexpr std::size_t kDefaultSlots = 4096;
  static constexpr std::size_t kMaxSlots = std::size_t{1} << 30;

  /// An empty wheel at the tick `now`, of at least `slots` slots: the next power of two.
  ///
  /// Pre: 0 < slots <= kMaxSlots.
  explicit HashedWheel(Tick now = 0, std::size_t slots = kDefaultSlots);
  /// Unlinks all; the hooks are unscheduled then. O(size + slots).
  ~HashedWheel();

  /// How many ticks one turn is.
  [[nodiscard]] std::size_t slots() const noexcept { return static_cast<std::size_t>(mask_) + 1; }

  /// The slot in which a timer of that deadline lies: in [0, slots()).
  [[nodiscard]] std::size_t slot_of(Tick deadline) const noexcept {
    return static_cast<std::size_t>(deadline & mask_);
  }

  /// How often the hand passes the slot of that deadline before it is due.
  [[nodiscard]] Tick rounds(Tick deadline) const noexcept {
    return deadline > now() ? (deadline - now() - 1) / slots() : 0;
  }

  /// What lies in which slot, whatever the round. O(size + slots), allocates.
  [[nodiscard]] WheelSnapshot snapshot() const;

 private:
  friend class IntrusiveWheel<HashedWheel>;

  struct Slot {
    Node list;
    // No timer in `list` is due before `least`; kLastTick if the bit of the slot is clear.
    Tick least = kLastTick;
    // If `list` is in order, none is due after `last`.
    Tick last = 0;
  };
  struct Group {
    std::uint64_t occupied = 0;
    std::uint64_t unsorted = 0;
    // The least of the slots of the group is not before `least`.
    Tick least = kLastTick;
  };

  [[nodiscard]] Slot& slot(Tick tick) noexcept { return slots_[slot_of(tick)]; }
  [[nodiscard]] Group& group(Tick tick) noexcept { return groups_[slot_of(tick) / 64]; }
  [[nodiscard]] std::uint64_t bit(Tick tick) const noexcept {
    return std::uint64_t{1} << (slot_of(tick) % 64);
  }

  Tick place(WheelHook& hook, Tick deadline) noexcept {
    Access::deadline(hook) = deadline;
    Slot& s = slot(deadline);
    Group& g = group(deadline);
    s.least = std::min(s.least, deadline);
    g.least = std::min(g.least, deadline);
    g.occupied |= bit(deadline);
    next_start_ = std::min(next_start_, deadline);
    if (deadline < s.last) [[unlikely]] {
      place_between(hook);
    } else {
      s.last = deadline;
      s.list.append(Access::node(hook));
    }
    return deadline;
  }
  [[nodiscard]] static Tick rounded(Tick deadline) noexcept { return deadline; }
  void note_postponed(const WheelHook& hook) noexcept {
    group(hook.deadline()).unsorted |= bit(hook.deadline());
  }

  void place_between(WheelHook& hook) noexcept;
  std::optional<Tick> find_due(Tick target) noexcept;
  void take_due(Tick tick) noexcept;
  bool holds_due(Tick tick) noexcept;
  [[nodiscard]] Tick first_bound(Tick from) noexcept;
  void mend(Group& group, std::size_t first_slot) noexcept;
  void sort(Tick tick) noexcept;

  template <class Visit>
  void for_each_slot(Visit&& visit) {
    for (std::size_t i = 0; i < slots(); ++i) {
      visit(slots_[i].list);
    }
  }
  template <class Visit>
  void for_each_slot(Visit&& visit) const {
    for (std::size_t i = 0; i < slots(); ++i) {
      const Node& list = slots_[i].list;
      visit(list);
    }
  }

  // Invariants, for a timer with deadline d in the slot s (beside those of IntrusiveWheel):
  // (1) s is slot(d), or the timer has been postponed, and the bit of s in `unsorted` is set.
  // (2) the bit of s in `occupied` is set, and next_start_ <= s.least <= d; group.least <= s.least.
  //     Of a slot whose bit is set the same is true if it is empty: it will be visited.
  // (3) unless its bit in `unsorted` is set, s.list is in the order of deadlines, and d <= s.last.
  // (4) equal deadlines lie in the order scheduled, postponed ones aside.
  Tick mask_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Group[]> groups_;
};

}  // namespace carillon
