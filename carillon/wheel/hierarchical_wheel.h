// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The hierarchical timing wheel: any number of timers, at any distance, each scheduled, cancelled
/// and expired in constant time. The default of the library, and what the server waits in.
///
/// How it works
/// ------------
/// A clock face with many hands (G. Varghese and T. Lauck, "Hashed and hierarchical timing wheels",
/// 1987, scheme 7). A level is a ring of slots, a slot a list of timers; one turn of a level is one
/// slot of the next. With the default geometry, 64 slots a level, and ticks of 1 ms:
///
///     level   one slot covers   one turn            bits of the deadline that name the slot
///       0             1 tick    64 ms               0 to 5
///       1            64 ticks   4.1 s               6 to 11
///       2         4,096 ticks   4.4 min             12 to 17
///       3       262,144 ticks   4.7 h               18 to 23
///       4    16,777,216 ticks   12.4 days           24 to 29
///       5          2^30 ticks   2.2 years           30 to 35
///      ...                      ...                 ...
///      10          2^60 ticks   584 million years   60 to 63
///
/// Which level: the one of the highest bit in which `deadline` and `now` differ. So a level holds
/// what is due in the present slot of the level above, but not in its own present slot; all timers
/// of level 0 are due before all of level 1, those before all of level 2. Nothing lies behind a
/// hand, nothing under it, and a ring never holds two turns at once: there are no rounds to count,
/// and no edge tick to win or lose when a ring wraps.
///
///     now = 1000 = 15*64 + 40, deadline = 1030 = 16*64 + 6: they differ first on level 1.
///
///              level 1                       level 0
///     at 1000  ... 14 [15] 16  17 ...        ... 39 [40] 41 ... 63      [ ] the hand
///                           o                                            o  the timer
///     at 1024  ... 14  15 [16] 17 ...        [ 0]  1 ...  6   7 ...
///                           '--- cascades ----------------> o
///     at 1030                                  0   1 ... [ 6]  7 ...     expires
///
/// When a hand enters a slot above level 0, what is in it *cascades* to finer levels: at most once
/// a level for each timer, and mostly never, since it is cancelled first. A lone timer goes all the
/// way in one step.
///
/// *Tickless.* A word of bits a level says which slots are occupied, and one word which levels are.
/// The next occupied slot is two count-trailing-zeros away, whether the gap is one tick or 2^60, so
/// a jump costs what lies in it and nothing for its length. Bits are cleared by whoever finds the
/// list empty: so a cancel touches the timer and its two neighbours only, and a timer need not know
/// where it is.
///
/// *The exact next deadline.* A slot of level 0 is one tick. In a coarser slot the earliest timer
/// must be searched; done again and again while the earliest is cancelled, as with orders that are
/// paid in the order they came, that would be quadratic. So a level has a second ring, *ahead*: if
/// the first occupied slot is coarse and long, its timers are sorted into the ring of the level
/// below as if its time had come; and when it comes, the two rings change places. The search is the
/// cascade done early, no extra work. New timers find the ring too. If an earlier slot becomes the
/// first, and is long, it is looked through, as often as that is cheaper than to have the ring:
/// then the lists of the later slot are joined back, a splice a slot, and it will be sorted again.
///
/// What it bets on: that most timers are cancelled or pushed back, and that the exact tick and the
/// order within it matter. What it is bad at: a handful of timers (a small heap fits in a few cache
/// lines, this is 21 KiB); a coarse slot that holds a million timers cascades at once, which takes
/// milliseconds, whatever the budget; two crowded slots that take turns at being the first.
///
/// Three properties that the code keeps, and the tests name:
///   (1) equal deadlines lie in the same list, whatever happens: so first in, first out.
///   (2) `earliest` never exceeds the truth: so nobody sleeps too long.
///   (3) a bit may be set for an empty slot, and is never clear for an occupied one.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/wheel/hook.h"
#include "carillon/wheel/internal/destruction_watch.h"
#include "carillon/wheel/internal/hook_list.h"
#include "carillon/wheel/internal/slot_set.h"
#include "carillon/wheel/levels.h"
#include "carillon/wheel/snapshot.h"
#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// A hierarchical wheel with the levels of `Levels` (levels.h); `HierarchicalWheel` is the usual
/// one. Levels that have no name in this folder need hierarchical_wheel_impl.h.
///
/// Time:      in ticks, absolute, told by advance(). Never early; exact to the tick at any
///            distance. While a sink runs, now() is the tick that is being expired, not yet the one
///            that advance() was asked for.
/// Order:     by deadline; within a tick in the order scheduled, where rescheduling counts as
///            scheduling anew. The same on every run.
/// Threads:   distinct wheels: safe. One wheel: unsafe, next_deadline() and other const methods
///            included, since they tidy up.
/// Lifetime:  the hooks are the user's. The destructor leaves them unscheduled; a hook that is
///            destroyed cancels itself. Not movable.
/// Callbacks: see advance(). A sink may do anything, even destroy the wheel.
/// Errors:    none. To schedule what is scheduled, or to cancel, reschedule or postpone what waits
///            in another wheel, is a bug that stops the program, in every build.
/// Cost:      schedule, cancel, reschedule: O(1), no allocation, whatever the distance; at a
///            thousand timers 5, 2 and 5 ns (wheel_bench).
///            advance: O(expired + cascaded + levels), nothing for the length of the jump.
///            next_deadline: O(1); after the earliest has gone O(levels), amortised with cascading;
///            where two crowded slots take turns at being the first, O(sqrt(timers)), amortised.
///            21 KiB for the wheel of 64 x 64 x ..., 32 bytes a timer.
/// Limits:    none but the tick's 64 bits; at kLastTick itself there is no next tick, so what is
///            scheduled then expires at the next advance(kLastTick).
///
/// Example:
///     carillon::HierarchicalWheel wheel(now_ms);
///     wheel.schedule(connection, now_ms + 30'000);
///     ...
///     wheel.postpone(connection, now_ms + 30'000);   // a packet came
///     ...
///     wheel.advance(now_ms, [](carillon::WheelHook& hook) { ... });
///     sleep_until(wheel.next_deadline());
template <class Levels>
class BasicHierarchicalWheel : private internal::WheelCore {
 public:
  /// What a sink is given.
  using Expired = WheelHook&;

  /// An empty wheel at the tick `now`.
  explicit BasicHierarchicalWheel(Tick now = 0) noexcept;
  /// Unlinks all; the hooks are unscheduled then. O(size).
  ~BasicHierarchicalWheel();
  BasicHierarchicalWheel(const BasicHierarchicalWheel&) = delete;
  BasicHierarchicalWheel& operator=(const BasicHierarchicalWheel&) = delete;

  /// Schedules `hook` to expire at `deadline`; if that is now() or has passed, at the next tick:
  /// the next advance() to now() + 1 or later.
  ///
  /// Pre: `hook` is not scheduled.      Cost: O(1), no allocation.
  /// Returns whether it is now the earliest of all. True is always right. False is right too unless
  /// what was the earliest has been cancelled, rescheduled or expired since next_deadline() was
  /// last asked; so a driver that asks before it sleeps must be woken on true, and only then.
  bool schedule(WheelHook& hook, Tick deadline) noexcept;

  /// Cancels `hook`: it will not expire. True if it was scheduled; not an error if it was not.
  bool cancel(WheelHook& hook) noexcept;

  /// Schedules `hook` to expire at `deadline` instead of whenever it was due, if at all. Returns
  /// as schedule().
  bool reschedule(WheelHook& hook, Tick deadline) noexcept;

  /// Reschedules `hook`; if `deadline` is not before the present one, by a single store. This is
  /// for timeouts that every packet pushes back, and are cancelled or pushed back again long before
  /// they are due. The price: a postponed timer has no particular place in the order of its tick
  /// (still the same on every run), and the wheel moves it once when its old slot comes up. It is
  /// never early or late, and next_deadline() stays exact.
  ///
  /// Returns as schedule().
  bool postpone(WheelHook& hook, Tick deadline) noexcept;

  /// Tells the wheel that it is `target` now, and gives all timers due by then to `sink`, as
  /// `sink(WheelHook&)`: tick by tick, within a tick in the order scheduled. The hook is
  /// unscheduled when the sink sees it, so that it may be scheduled again or destroyed.
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

  /// The exact deadline of the earliest timer; now() if a budget left some due; nothing if the
  /// wheel is empty.
  [[nodiscard]] std::optional<Tick> next_deadline() const noexcept;

  [[nodiscard]] Tick now() const noexcept { return now_; }
  /// Timers scheduled. Exact, also while a sink runs.
  [[nodiscard]] std::size_t size() const noexcept { return WheelCore::size; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  /// Cancels all. O(size).
  void clear() noexcept;

  /// Calls `visit(const WheelHook&)` for each timer, in no particular order. It must not change the
  /// wheel.
  template <class Visit>
  void for_each(Visit&& visit) const;

  /// What lies in which slot. O(size), allocates.
  [[nodiscard]] WheelSnapshot snapshot() const;

 private:
  using Node = internal::ListNode;
  using Access = internal::HookAccess;
  static constexpr int kLevels = Levels::kLevels;
  static constexpr auto kRings = static_cast<std::size_t>(kLevels);
  static constexpr Tick kNone = ~Tick{0};
  static_assert(kLevels <= 64);

  struct Ring {
    Node* slots = nullptr;
    internal::SlotSet<Levels::kMaxSlots> occupied;
  };

  // The arrays are indexed by levels, which are ints.
  template <class T>
  static T& at(std::array<T, kRings>& array, int level) noexcept {
    return array[static_cast<std::size_t>(level)];
  }

  // The slot of level + 1 that contains now_.
  [[nodiscard]] Tick present_parent(int level) const noexcept {
    return Levels::parent(level, Levels::number(level, now_));
  }

  void mark(int level, Tick number) noexcept {
    at(current_, level).occupied.set(Levels::index(level, number));
    occupied_levels_ |= std::uint64_t{1} << level;
    next_start_ = std::min(next_start_, Levels::start(level, number));
  }
  void unmark(int level, int slot) noexcept {
    at(current_, level).occupied.clear(slot);
    if (at(current_, level).occupied.empty()) {
      occupied_levels_ &= ~(std::uint64_t{1} << level);
    }
  }

  bool insert(WheelHook& hook, Tick deadline) noexcept;
  void place(WheelHook& hook) noexcept;
  void place_ahead(WheelHook& hook, int level) noexcept;
  void place_all(Node& list) noexcept;
  bool has_due() noexcept;
  bool load_due(Tick target) noexcept;
  void enter(int level, Tick number, Tick target) noexcept;
  Tick find_earliest() noexcept;
  std::optional<Tick> search(Node& list, int level, Tick number) noexcept;
  std::optional<Tick> scan(Node& list, int level, Tick number) noexcept;
  void sort_ahead(Node& list, int level, Tick number) noexcept;
  void join_back(int level) noexcept;
  template <class Self, class Visit>
  static void for_each_list(Self& self, Visit&& visit);

  // Invariants, for a timer with deadline d that is not in due_; l = Levels::level_of(now_, d):
  // (1) d is after now_ (or both are kLastTick). It lies in current_[l], in the slot of d; unless
  //     that slot has been sorted ahead: ahead_number_[l] is its number, and d lies in
  //     ahead_[l - 1], or again, if its slot there has been sorted ahead, in ahead_[l - 2] ...
  //     A postponed timer lies where an earlier d would.
  // (2) the bit of each non-empty list is set, and that of each slot that has been sorted ahead;
  //     bit l of occupied_levels_ is set iff current_[l].occupied is not empty.
  // (3) no bit of current_[l] is set for a slot before the hand's, nor above level 0 for the
  //     hand's own, stale bits included: so the first bit is the next slot.
  // (4) no bit of current_ is set for a slot that begins before next_start_, which is now_ while
  //     due_ is not empty.
  // (5) timers in due_ have the deadline now_, or have been postponed.
  Tick now_;
  Tick next_start_ = kLastTick;
  std::uint64_t occupied_levels_ = 0;
  std::array<Ring, kRings> current_;
  std::array<Ring, kRings> ahead_;
  // The slot of level l whose timers are in ahead_[l - 1], or kNone.
  std::array<Tick, kRings> ahead_number_;
  // Timers looked at by scan() since the last sort_ahead().
  std::size_t scanned_ = 0;
  // What is due at now_ and was not yet given to a sink.
  Node due_;
  // While advance() is on the stack: the flag through which the destructor tells it.
  bool* destroyed_ = nullptr;
  std::array<Node, 2 * Levels::kAllSlots> slots_;
};

/// The default: 64 slots a level, eleven levels.
using HierarchicalWheel = BasicHierarchicalWheel<PowerOfTwoLevels<6>>;

/// The levels of the Linux kernel's wheel until 2015: 256, 64, 64, 64, 64; and on by 64 where that
/// one clamped the delay.
using LinuxWheel = BasicHierarchicalWheel<PowerOfTwoLevels<8, 6>>;

extern template class BasicHierarchicalWheel<PowerOfTwoLevels<6>>;
extern template class BasicHierarchicalWheel<PowerOfTwoLevels<8, 6>>;

}  // namespace carillon

#include "carillon/wheel/internal/hierarchical_wheel_inline.h"
