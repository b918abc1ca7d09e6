// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The wheel that never cascades: a timer far away is given out late by a bounded fraction of its
/// delay, and every operation costs the same and little. For timeouts that mostly never come, and
/// whose exact moment nobody needs.
///
/// How it works
/// ------------
/// The Linux kernel's timer wheel since 2015 (T. Gleixner, "timers: Switch to a non-cascading
/// wheel"; kernel/time/timer.c). Level l is a ring of 64 slots, each G^l ticks long. A timer goes
/// to the finest level whose ring reaches its deadline, into the slot that *begins* next at or
/// after it; when time gets there, all that is in the slot is given out. No timer is ever moved,
/// and none is looked at before it is due. The price is that a deadline is rounded up to a multiple
/// of its slot's length.
///
///     CoarseWheel, G = 4                            KernelWheel, G = 8
///     level   a slot is      for delays up to       level   a slot is    for delays up to
///       0           1 tick              64            0           1 tick            64
///       1           4 ticks            256            1           8 ticks          512
///       2          16 ticks          1,024            2          64 ticks        4,096
///       3          64 ticks          4,096            3         512 ticks       32,768
///       4         256 ticks         16,384            4       4,096 ticks      262,144
///       5       1,024 ticks         65,536            5      32,768 ticks    2,097,152
///       6       4,096 ticks        262,144            6     262,144 ticks   16,777,216
///      ...                                           ...
///      29        2^58 ticks           2^64           20        2^60 ticks         2^64
///
///     late by less than 4/63 of the delay, 6.4 %    late by less than 8/63, 12.7 %
///
/// (A delay in the last G^l ticks of a range may belong to the next level, if time is in the middle
/// of a slot; hence 63 and not 64. The kernel's own table leaves that out, and says 12.5 %.) Level
/// 0 is exact, and any 64-bit deadline has a level: nothing is clamped, as the kernel does beyond
/// its last level. A timer whose slot would begin after the end of time is given out at the last
/// tick.
///
///     now = 1000, deadline = 1100: 100 ticks away, too far for level 0. On level 1 the hand is in
///     slot 250, and 1100 = 275 * 4 exactly. A deadline of 1101 is rounded up, to slot 276:
///
///     level 1  ... [250] 251 ...  275  276 ...        [ ] the hand
///     ticks         1000          1100 1104
///                                  o    o             hook.deadline() says 1100 and 1104
///
/// *Honest.* deadline() of a hook is the tick at which it will be given out, next_deadline() the
/// least of them, exactly: a slot is one tick for all that is in it, so there is nothing to search.
///
/// *Tickless.* A word of bits a level says which slots are occupied; where the hand is, follows
/// from the time. The next occupied slot is one count-trailing-zeros a level that is in use, so a
/// jump costs what lies in it, and nothing for its length. Bits are cleared by whoever finds the
/// list empty: so a cancel touches the timer and its two neighbours only.
///
/// What it bets on: that a timer is a timeout, and whether it comes after 30 s or 31 does not
/// matter. In return it beats the hierarchical wheel where that must cascade: when timers do
/// expire, and come from far away. What it is bad at: appointments; and deadlines lumped together,
/// since what is rounded to the same tick is given out at once (use the budget of advance()).

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "carillon/wheel/hook.h"
#include "carillon/wheel/internal/hook_list.h"
#include "carillon/wheel/intrusive_wheel.h"
#include "carillon/wheel/snapshot.h"
#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// A wheel of levels of 2^SlotBits slots, each level 2^GrowthBits times coarser than the one below.
/// What it does is written at IntrusiveWheel; this is what is its own. `CoarseWheel` is the usual
/// one.
///
/// Time:      a timer is given out at a tick t with deadline <= t and
///            t - deadline < delay * 2^GrowthBits / (2^SlotBits - 1), where the delay is counted
///            from the now() at which it was scheduled; exact if that is up to 2^SlotBits.
/// Order:     by the tick at which they are given out; in a tick by level, finest first; in a slot
///            in the order scheduled. So what was scheduled at the same tick is given out by
///            deadline to within the rounding, and equal deadlines in the order scheduled; what was
///            scheduled from further away for an equal deadline may come later. The same on every
///            run.
/// Cost:      schedule, cancel, reschedule: O(1), no allocation, whatever the distance; at a
///            thousand timers 6, 2 and 6 ns (wheel_bench).
///            advance: O(expired + levels in use for each tick in which something expires).
///            next_deadline: O(1); after the earliest has gone O(levels in use).
///            30 KiB for the wheel of 30 levels of 64 slots, 32 bytes a timer.
///
/// Example:
///     carillon::CoarseWheel wheel(now_ms);
///     wheel.schedule(connection, now_ms + 30'000);    // in 30 to 31 s: a slot is 1,024 ticks
template <int SlotBits, int GrowthBits>
class BasicCoarseWheel : public IntrusiveWheel<BasicCoarseWheel<SlotBits, GrowthBits>> {
  using Base = IntrusiveWheel<BasicCoarseWheel>;
  friend Base;
  static_assert(SlotBits >= 2 && SlotBits <= 6, "a level has 4 to 64 slots");
  static_assert(GrowthBits >= 1 && GrowthBits < SlotBits, "the lateness is less than the delay");

 public:
  static constexpr int kSlots = 1 << SlotBits;
  static constexpr int kLevels = 1 + (64 - SlotBits + GrowthBits - 1) / GrowthBits;

  /// The length of a slot of `level`, in ticks.
  [[nodiscard]] static constexpr Tick granularity(int level) noexcept {
    return Tick{1} << shift(level);
  }

  /// No timer of that delay is given out later than this after its deadline.
  [[nodiscard]] static constexpr Tick lateness_bound(Tick delay) noexcept {
    // The largest integer below delay * 2^GrowthBits / (kSlots - 1), without overflow.
    constexpr Tick kReach = kSlots - 1;
    const Tick whole = (delay / kReach) << GrowthBits;
    const Tick rest = ((delay % kReach) << GrowthBits) + kReach - 1;
    return delay <= kSlots ? 0 : whole + rest / kReach - 1;
  }

  /// An empty wheel at the tick `now`.
  explicit BasicCoarseWheel(Tick now = 0) noexcept : Base(now) {
    for (Node& list : slots_) {
      list.make_empty();
    }
  }
  /// Unlinks all; the hooks are unscheduled then. O(size).
  ~BasicCoarseWheel() { this->clear(); }

  /// What lies in which slot: a timer stays in its slot until that is given out, and a postponed
  /// one until then in its old. O(size + slots), allocates.
  [[nodiscard]] WheelSnapshot snapshot() const;

 private:
  using Base::due_;
  using Base::next_start_;
  using Base::now_;
  using typename Base::Access;
  using typename Base::Node;
  static constexpr Tick kMask = kSlots - 1;
  static_assert(kLevels <= 64);

  struct Place {
    int level;
    // Slot `number` of a level begins at number * granularity.
    Tick number;
  };
  // The occupied slots that begin next.
  struct First {
    Tick tick;
    std::uint64_t levels;
  };

  static constexpr int shift(int level) noexcept { return level * GrowthBits; }
  static constexpr std::size_t slot_of(Place place) noexcept {
    return static_cast<std::size_t>(place.level * kSlots) +
           static_cast<std::size_t>(place.number & kMask);
  }
  // The first slot of `level` that begins at or after `tick`. Pre: tick > 0.
  static constexpr Tick number_after(int level, Tick tick) noexcept {
    return ((tick - 1) >> shift(level)) + 1;
  }
  // When a slot is given out: a slot that would begin after the end of time, at the end of time.
  static constexpr Tick start(Place place) noexcept {
    return place.number > kLastTick >> shift(place.level) ? kLastTick
                                                          : place.number << shift(place.level);
  }

  // A ring holds the slots after that of the hand, a turn of them: [hand + 1, hand + kSlots].
  [[nodiscard]] Tick hand(int level) const noexcept { return now_ >> shift(level); }

  // The finest level whose ring reaches `deadline`. Pre: deadline > now_, or both are kLastTick.
  [[nodiscard]] Place locate(Tick deadline) const noexcept {
    const Tick delay = deadline - now_;
    // The finest level of which kSlots slots are as long as the delay.
    int level = kLevelOfWidth[static_cast<std::size_t>(
        std::bit_width(delay - static_cast<Tick>(delay != 0)))];
    Tick number = number_after(level, deadline);
    // Both ends may lie within a slot: then that is one slot too few.
    if (number - hand(level) > kSlots) [[unlikely]] {
      ++level;
      number = number_after(level, deadline);
    }
    return {level, number};
  }

  [[nodiscard]] Tick rounded(Tick deadline) const noexcept { return start(locate(deadline)); }
  void note_postponed(const WheelHook& /*hook*/) noexcept {}

  Tick place(WheelHook& hook, Tick deadline) noexcept {
    const Place place = locate(deadline);
    const Tick tick = start(place);
    Access::deadline(hook) = tick;
    slots_[slot_of(place)].append(Access::node(hook));
    occupied(place.level) |= std::uint64_t{1} << (place.number & kMask);
    occupied_levels_ |= std::uint64_t{1} << place.level;
    next_start_ = std::min(next_start_, tick);
    return tick;
  }

  [[nodiscard]] std::uint64_t& occupied(int level) noexcept {
    return occupied_[static_cast<std::size_t>(level)];
  }
  // Pre: a bit of `level` is set.
  [[nodiscard]] Tick first_of(int level) const noexcept {
    const std::uint64_t bits = occupied_[static_cast<std::size_t>(level)];
    const Tick next = hand(level) + 1;
    const auto turn = static_cast<int>(next & kMask);
    std::uint64_t ahead = 0;
    if constexpr (kSlots == 64) {
      ahead = std::rotr(bits, turn);
    } else {
      ahead = (bits >> turn | bits << (kSlots - turn)) & ((std::uint64_t{1} << kSlots) - 1);
    }
    const Tick number = next + static_cast<Tick>(std::countr_zero(ahead));
    // On level 0 the number wraps at the end of time.
    return number <= hand(level) ? kLastTick : start({level, number});
  }
  [[nodiscard]] First first() const noexcept {
    First result = {kLastTick, 0};
    for (std::uint64_t levels = occupied_levels_; levels != 0; levels &= levels - 1) {
      const Tick tick = first_of(std::countr_zero(levels));
      const std::uint64_t level = levels & -levels;
      if (tick < result.tick) {
        result = {tick, level};
      } else if (tick == result.tick) {
        result.levels |= level;
      }
    }
    return result;
  }
  void unmark(int level, Tick tick) noexcept {
    occupied(level) &= ~(std::uint64_t{1} << (number_after(level, tick) & kMask));
    if (occupied(level) == 0) {
      occupied_levels_ &= ~(std::uint64_t{1} << level);
    }
  }

  std::optional<Tick> find_due(Tick target) noexcept;
  void take_due(Tick tick) noexcept;
  bool holds_due(Tick tick) noexcept;

  template <class Visit>
  void for_each_slot(Visit&& visit) {
    for (Node& list : slots_) {
      visit(list);
    }
  }
  template <class Visit>
  void for_each_slot(Visit&& visit) const {
    for (const Node& list : slots_) {
      visit(list);
    }
  }

  static constexpr auto kLevelOfWidth = [] {
    std::array<std::uint8_t, 65> level_of{};
    for (int width = 0; width <= 64; ++width) {
      const int above = std::max(0, width - SlotBits);
      level_of[static_cast<std::size_t>(width)] =
          static_cast<std::uint8_t>((above + GrowthBits - 1) / GrowthBits);
    }
    return level_of;
  }();

  // Invariants, for a timer with deadline d, which is rounded already (beside those of
  // IntrusiveWheel):
  // (1) it lies in a slot that begins at d; or, if it has been postponed, before d. The slot's
  //     number is in [hand + 1, hand + kSlots] of its level.
  // (2) d is the start of a slot on all levels up to that of its delay: so when a postponed timer
  //     is moved, nearer to d, it is not rounded again.
  // (3) the bit of each non-empty list is set; bit l of occupied_levels_ iff one of level l is.
  std::array<std::uint64_t, static_cast<std::size_t>(kLevels)> occupied_{};
  std::uint64_t occupied_levels_ = 0;
  // Of the levels found by find_due().
  std::uint64_t first_levels_ = 0;
  std::array<Node, static_cast<std::size_t>(kLevels* kSlots)> slots_;
};

template <int SlotBits, int GrowthBits>
std::optional<Tick> BasicCoarseWheel<SlotBits, GrowthBits>::find_due(Tick target) noexcept {
  const First found = first();
  next_start_ = found.tick;
  first_levels_ = found.levels;
  return found.tick > target || found.levels == 0 ? std::nullopt : std::optional(found.tick);
}

template <int SlotBits, int GrowthBits>
void BasicCoarseWheel<SlotBits, GrowthBits>::take_due(Tick tick) noexcept {
  for (std::uint64_t levels = first_levels_; levels != 0; levels &= levels - 1) {
    const int level = std::countr_zero(levels);
    due_.append_all(slots_[slot_of({level, number_after(level, tick)})]);
    unmark(level, tick);
  }
}

template <int SlotBits, int GrowthBits>
bool BasicCoarseWheel<SlotBits, GrowthBits>::holds_due(Tick tick) noexcept {
  for (std::uint64_t levels = first_levels_; levels != 0; levels &= levels - 1) {
    const int level = std::countr_zero(levels);
    Node& list = slots_[slot_of({level, number_after(level, tick)})];
    while (!list.empty()) {
      WheelHook& hook = Access::hook(*list.next);
      if (hook.deadline() == tick) {
        return true;
      }
      list.next->unlink();
      place(hook, hook.deadline());
    }
    unmark(level, tick);
  }
  return false;
}

template <int SlotBits, int GrowthBits>
WheelSnapshot BasicCoarseWheel<SlotBits, GrowthBits>::snapshot() const {
  WheelSnapshot result;
  result.now = now_;
  result.size = this->size();
  result.due = this->count_due();
  for (int level = 0; level < kLevels; ++level) {
    WheelSnapshot::Level& l = result.levels.emplace_back();
    l.granularity = granularity(level);
    l.hand = static_cast<int>(hand(level) & kMask);
    l.counts.resize(static_cast<std::size_t>(kSlots));
    for (std::size_t slot = 0; slot < l.counts.size(); ++slot) {
      const Node& list = slots_[static_cast<std::size_t>(level * kSlots) + slot];
      for (const Node* node = list.next; node != &list; node = node->next) {
        ++l.counts[slot];
      }
    }
  }
  // What a budget left behind and was postponed since lies in no slot: it is shown where it will.
  for (const Node* node = due_.next; node != &due_; node = node->next) {
    const WheelHook& hook = Access::hook(*node);
    if (hook.deadline() > now_) {
      const Place place = locate(hook.deadline());
      ++result.levels[static_cast<std::size_t>(place.level)]
            .counts[static_cast<std::size_t>(place.number & kMask)];
    }
  }
  return result;
}

/// The default: 64 slots a level, each four times as long as below: less than 4/63, 6.4 %, late.
using CoarseWheel = BasicCoarseWheel<6, 2>;

/// The levels of the Linux kernel: eight times as long; less than 8/63, 12.7 %, late.
using KernelWheel = BasicCoarseWheel<6, 3>;

extern template class BasicCoarseWheel<6, 2>;
extern template class BasicCoarseWheel<6, 3>;

}  // namespace carillon
