// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The pooled timing wheel: the hierarchical wheel for those who want a handle and not a hook. It
/// owns its timers and a payload for each, and is made for millions of them, of which most are
/// cancelled or pushed back before they are due.
///
/// How it works
/// ------------
/// The wheel is that of hierarchical_wheel.h (read it first), with 256 slots a level. What differs
/// is what lies in a slot. There, a list through the user's objects: to unlink one is to write to
/// both neighbours, which at a million timers are two cache misses more, and to walk a list is one
/// miss after the other. Here, a slot is a chain of *chunks* of a cache line:
///
///     slot        chunk                           chunk
///     head ─────> next ─────────────────────────> next
///                 12  7  40  3  9 ... (15)        51  8  2  _  _ ...
///     tail ───────────────────────────────────────────────^
///                    |
///     pool        node 7                          payload 7
///                 deadline                        in an array of its own: a node is 16 bytes,
///                 where its entry is              four to a cache line, whatever the payload is
///                 generation
///
/// An entry is the number of a node, and nothing else. It is *live* if the node says that its entry
/// is here, otherwise *stale*; so an entry need not be told when its timer has gone or moved:
///
///   - *Cancel* writes to the node alone. The payload is destroyed at once, the entry is left.
///   - *Reschedule* to a later time writes the new deadline, and the entry stays where it is. When
///     the time of its slot comes, it is given another. To an earlier time: a new entry, the old
///     one is stale.
///   - *Expiring and cascading* read a chain from front to back, skip what is stale, and prefetch
///     the nodes and payloads of the chunk after; so the misses overlap.
///   - *A handle* is the number of the node and its generation, which is counted up when it gets a
///     timer, to an odd number, and when that is gone, to an even one: a handle that is out of date
///     is told from the one that is valid, and none names a node that is free. A node whose
///     generations are used up is retired, so a handle never comes to mean another timer.
///
/// *Compaction.* Stale entries hold memory until their slot comes up. When there are three stale
/// for four live ones (and 256), whoever adds an entry that needs a chunk also sweeps eight chunks:
/// live entries are moved to the front of their chain, in order, and emptied chunks are free. So
/// with as many timers as before the stale never exceed the live. A cancel does no such work: what
/// only shrinks needs no more memory, and when the last timer goes all is free at once.
///
/// What it bets on: that timers are many, and that what is near in time was scheduled at about the
/// same time. What it is bad at: a handful of timers (it is 290 KiB from the first on); an object
/// that is touched at each refresh anyway (a hook inside it is in that cache line already); a
/// coarse slot with a million timers cascades at once, whatever the budget.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "carillon/wheel/internal/destruction_watch.h"
#include "carillon/wheel/internal/pool_core.h"
#include "carillon/wheel/snapshot.h"
#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// Names a timer of a PooledWheel, also after it has gone: to cancel it then is no error.
///
/// A value of eight bytes. The null handle, `WheelHandle{}`, names no timer, ever. To use the
/// handle of one wheel in another (also of one that was destroyed in one that was made anew) is a
/// bug that a wheel cannot notice: it harms neither wheel, and mostly names no timer; but it may
/// name one by accident, and that is then cancelled.
struct WheelHandle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;

  /// False for the null handle. Whether the timer still waits, the wheel knows.
  explicit operator bool() const noexcept { return generation != 0; }
  friend bool operator==(const WheelHandle&, const WheelHandle&) = default;
};

/// The payload of timers that have none; takes no memory.
struct NoPayload {};

/// The geometry of a PooledWheel. Another one may derive from it; that needs pooled_wheel_impl.h.
struct PooledShape {
  using Levels = PowerOfTwoLevels<8>;
  /// A chunk is 2^kChunkBits words of 4 bytes.
  static constexpr int kChunkBits = 4;
  /// The generation at which a node is retired: even, as those of free nodes are.
  static constexpr std::uint32_t kLastGeneration = ~std::uint32_t{1};
  /// So many stale entries are no reason to sweep.
  static constexpr std::size_t kFewStale = 256;
};

/// A wheel of timers that carry a `Payload`; `PooledWheel<Payload>` is the usual one.
///
/// Time:      in ticks, absolute, told by advance(). Never early; exact to the tick at any
///            distance. While a sink runs, now() is the tick that is being expired.
/// Order:     by deadline; within a tick in the order scheduled. A timer that has been rescheduled
///            to a later time has no particular place in the order of its tick, one that has been
///            rescheduled to an earlier time counts as scheduled anew. The same on every run.
/// Threads:   distinct wheels: safe. One wheel: unsafe, next_deadline() and other const methods
///            included, since they tidy up.
/// Lifetime:  owns the payloads: a payload is destroyed before cancel(), clear() or the destructor
///            returns, or it is handed to the sink. Not movable.
/// Callbacks: see advance(). A sink and the destructor of a payload may do anything, even destroy
///            the wheel. A payload's constructors and moves must leave the wheel alone.
/// Errors:    schedule() answers the null handle when max_size() timers are scheduled; while
///            clear() runs, those whose payloads it has yet to destroy count too. schedule() and
///            reschedule() throw std::bad_alloc if memory or addresses for them cannot be had, and
///            change nothing then. If moving entries takes a chunk and none can be had, the program
///            stops; not after reserve(). An older handle than the timer's is answered, never an
///            error.
/// Cost:      schedule, cancel, reschedule: O(1), whatever the distance. advance: O(expired +
///            cascaded + stale met + levels), nothing for the length of the jump. next_deadline:
///            O(1); after the earliest has gone O(levels), amortised with cascading; where two
///            crowded slots take turns at being the first, O(sqrt(timers)), amortised. Memory is
///            kept for reuse until the wheel is destroyed: for a timer at most 28 bytes (node 16,
///            entry 4 to 5, stale entry as much, an eighth for growth), and the payload; for the
///            wheel 33 KiB, a step of 64 KiB of each array from the first timer on (290 KiB in all,
///            354 with a payload), and a chunk for each occupied slot. *Addresses*, which are no
///            memory but count for `ulimit -v`, are set aside with the first timer for all that
///            there may be: 56 bytes and one and a half payloads for each of max_size(), that is
///            3.8 GB and more unless max_size says less.
/// Limits:    max_size() timers, at most kMaxSize.
///
/// Example:
///     carillon::PooledWheel<std::function<void()>> wheel(now_ms);
///     const auto unpaid = wheel.schedule(now_ms + 1'800'000, [order] { remove(order); });
///     ...
///     wheel.cancel(unpaid);
///     ...
///     wheel.advance(now_ms, [](auto&& expired) { expired.payload(); });
template <class Payload, class Shape = PooledShape>
class BasicPooledWheel : private internal::PoolCore<Shape> {
  using Core = internal::PoolCore<Shape>;
  using Node = internal::PoolNode;

 public:
  static_assert(std::is_nothrow_move_constructible_v<Payload> &&
                std::is_nothrow_destructible_v<Payload> && alignof(Payload) <= 4096);

  using Handle = WheelHandle;

  /// What a sink is given.
  struct Expired {
    /// No longer valid: the timer has expired.
    Handle handle;
    Tick deadline;
    [[no_unique_address]] Payload payload;
  };

  /// The most timers that any wheel takes.
  static constexpr std::size_t kMaxSize = std::size_t{1} << 30;
  /// What max_size() is unless said otherwise: 64 million timers. They take up to two gigabytes of
  /// memory; and from the first timer on 3.8 GB of addresses and 1.5 payloads for each of the 64
  /// million, which a process with little of those (`ulimit -v`, 32 bits) avoids by a smaller
  /// `max_size`.
  static constexpr std::size_t kDefaultMaxSize = std::size_t{1} << 26;

  /// Memory is taken in multiples of this for each of nodes, free bits and their summary, chunks
  /// and payloads, while it is little; then by an eighth of what there is.
  static constexpr std::size_t kMemoryStep = internal::Region::kStep;

  /// An empty wheel at the tick `now`, for at most `max_size` timers; kMaxSize if that is less.
  explicit BasicPooledWheel(Tick now = 0, std::size_t max_size = kDefaultMaxSize) noexcept
      : Core(now, max_size < kMaxSize ? max_size : kMaxSize, kHasPayload ? sizeof(Payload) : 0) {}
  /// Destroys all payloads, and refuses what their destructors schedule. Walks as clear() does; not
  /// at all if the payload has no destructor.
  ~BasicPooledWheel();
  BasicPooledWheel(const BasicPooledWheel&) = delete;
  BasicPooledWheel& operator=(const BasicPooledWheel&) = delete;

  /// Schedules a timer with the payload Payload(arguments...) to expire at `deadline`; if that is
  /// now() or has passed, at the next tick: the next advance() to now() + 1 or later.
  ///
  /// The null handle if the wheel is full (Errors, above). The arguments are untouched then.
  /// A driver that sleeps until next_deadline() need be woken if `deadline` is before that. For an
  /// aggregate, clang before 16 needs schedule(deadline, Payload{...}).
  template <class... Arguments>
    requires std::is_constructible_v<Payload, Arguments...>
  [[nodiscard]] Handle schedule(Tick deadline, Arguments&&... arguments);

  /// Cancels the timer. True: it has not run and never will, and its payload is destroyed. False:
  /// it has expired or was cancelled before; or the handle is null.
  bool cancel(Handle handle) noexcept;

  /// Cancels the timer and returns its payload; nothing where cancel() would be false.
  std::optional<Payload> extract(Handle handle) noexcept;

  /// Changes the deadline of the timer. To a later time, a single store: this is for timeouts that
  /// every packet pushes back. False, and nothing done, where cancel() would be false.
  bool reschedule(Handle handle, Tick deadline);

  /// Does the timer wait?
  [[nodiscard]] bool contains(Handle handle) const noexcept { return find(handle) != nullptr; }
  /// When it is due; nothing if it does not wait. A deadline that had passed when it was scheduled
  /// reads as the tick after.
  [[nodiscard]] std::optional<Tick> deadline(Handle handle) const noexcept;
  /// Its payload; null if it does not wait. Valid until the timer has gone.
  [[nodiscard]] Payload* payload(Handle handle) noexcept
    requires(!std::is_empty_v<Payload>)
  {
    return find(handle) == nullptr ? nullptr : payload_at(handle.index);
  }

  /// Tells the wheel that it is `target` now, and gives all timers due by then to `sink`, as
  /// `sink(Expired&&)`: tick by tick, within a tick in the order scheduled. The timer has gone when
  /// the sink sees it, and the payload is the sink's; what it leaves is destroyed when it returns.
  ///
  /// The sink may schedule, cancel, reschedule anything; clear, advance or destroy the wheel. What
  /// it schedules for the tick being expired or earlier is due at the next one, and expires in this
  /// same call if `target` has reached that.
  ///
  /// At most `budget` timers expire. If more are due the result says so, now() is the tick of the
  /// next one, and any later advance, to the same `target` too, goes on there; what is scheduled
  /// meanwhile for that tick is due at the one after. A `target` before now() has no effect.
  ///
  /// If the sink throws, the exception passes through; the timer that it was given has expired, the
  /// others are as after an exhausted budget.
  template <class Sink>
  AdvanceResult advance(Tick target, Sink&& sink, std::size_t budget = kUnlimited);

  /// The exact deadline of the earliest timer; now() if a budget left some due; nothing if the
  /// wheel is empty.
  [[nodiscard]] std::optional<Tick> next_deadline() const noexcept;
  /// No timer is due before this. Costs nothing, but may be earlier than next_deadline().
  [[nodiscard]] Tick not_before() const noexcept { return empty() ? kLastTick : this->earliest_; }

  [[nodiscard]] Tick now() const noexcept { return this->now_; }
  /// Timers scheduled. Exact, also while a sink runs.
  [[nodiscard]] std::size_t size() const noexcept { return this->size_; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::size_t max_size() const noexcept { return this->max_size_; }
  /// Entries whose timer has gone or moved, and which no one has met yet.
  [[nodiscard]] std::size_t stale_entries() const noexcept { return this->stale(); }

  /// Cancels all that is scheduled, but not what the destructors of the payloads schedule; there is
  /// room for that as payloads are destroyed. Walks the pool from its beginning to the last timer
  /// in it: not O(size), but at worst O(the most timers there have been). Nothing to walk if the
  /// wheel is empty.
  void clear() noexcept;

  /// Has memory ready for `count` timers, or max_size() if that is less. May throw std::bad_alloc.
  void reserve(std::size_t count);
  /// What the wheel holds of the heap, and itself.
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return sizeof(*this) + this->heap_bytes();
  }

  /// Calls `visit(Handle, Tick deadline, const Payload&)` for each timer, in no particular order.
  /// It must not change the wheel. O(the most timers there have been).
  template <class Visit>
  void for_each(Visit&& visit) const;

  /// What lies in which slot. O(the most timers there have been), allocates.
  [[nodiscard]] WheelSnapshot snapshot() const { return this->make_snapshot(); }

 private:
  static constexpr bool kHasPayload = !std::is_empty_v<Payload>;
  // Nothing that anybody could notice happens when a payload is destroyed.
  static constexpr bool kQuietPayload = std::is_trivially_destructible_v<Payload>;
  static_assert(kHasPayload ||
                    (kQuietPayload && std::is_trivially_default_constructible_v<Payload>),
                "an empty payload is not stored, so it must have nothing to do");

  using Watch = internal::DestructionWatch;

  // Payloads that clear() has yet to destroy have their nodes still.
  [[nodiscard]] bool full() const noexcept {
    return size() + (kQuietPayload ? 0 : this->doomed_) >= this->max_size_;
  }
  using Core::find;
  [[nodiscard]] Node* find(Handle handle) const noexcept {
    return Core::find(handle.index, handle.generation);
  }
  [[nodiscard]] Payload* payload_at(std::uint32_t index) const noexcept {
    return std::launder(reinterpret_cast<Payload*>(this->payloads_.data()) + index);
  }
  [[nodiscard]] Payload take_payload(std::uint32_t index) noexcept;
  [[nodiscard]] Payload take(std::uint32_t index, Node& node) noexcept;
  void doom_all() noexcept;
  void destroy_doomed(const Watch* watch) noexcept;

  bool* destroyed_ = nullptr;
};

/// The usual pooled wheel. `PooledWheel<>` has timers without a payload.
template <class Payload = NoPayload>
using PooledWheel = BasicPooledWheel<Payload>;

extern template class internal::PoolCore<PooledShape>;

}  // namespace carillon

#include "carillon/wheel/internal/pooled_wheel_inline.h"
