// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The Timer that most programs want: callbacks after a delay, from any thread.
///
///     carillon::Timer timer;                                         // 1 ms ticks
///     auto unpaid = timer.after(30min, [order] { cancel(order); });  // from any thread
///     unpaid.cancel();                                               // cancelled | running | ...
///
/// How it works
/// ------------
///     producers            shards (a lock, a wheel)       driver              executor
///     after(), cancel() ─> [0] [1] [2] ... [15]  ──due──> one thread ──────>  callbacks
///                              each thread has a home     asleep until the    a small pool,
///                              shard                      earliest deadline   or yours
///
/// A thread schedules in its home shard, and cancels where the handle says. To schedule is to take
/// that shard's lock, to put a number into its wheel (pooled_wheel.h), and to look whether the
/// deadline is before the driver's next; only then the driver is woken. A timer that is cancelled
/// never reaches the driver. Nothing else is shared, so producers do not wait for each other.
///
/// The driver sleeps until the earliest deadline, by the clock and not by a period, takes what is
/// due out of the wheels, tick by tick, and hands it to the executor in batches. It wakes once for
/// each tick in which something is due; if nothing is pending it does not wake at all.
///
/// What it bets on: that most timers are cancelled or pushed back; that threads are fewer than
/// shards. What it is bad at: a handful of timers in little memory (a shard in use is 360 KiB).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "carillon/base/time.h"
#include "carillon/timer/executor.h"
#include "carillon/timer/timer_handle.h"
#include "carillon/timer/timer_options.h"
#include "carillon/timer/timer_stats.h"
#include "carillon/timer/unique_function.h"

namespace carillon {

/// What a Timer runs when a timer is due.
using TimerCallback = UniqueFunction<void()>;

/// A timer that stop() has cancelled.
struct UnfiredTimer {
  /// When it would have been due, on the Timer's clock, rounded up to the tick.
  Instant deadline;
  /// To be run by whoever wants to, or destroyed.
  TimerCallback callback;
};

/// A thread-safe timer.
///
/// Time:      a deadline is rounded up to the next tick (TimerOptions::tick, 1 ms). A callback
///            never begins before its deadline, on the clock that was chosen; it is handed to the
///            executor in that tick, plus what the system takes to wake a thread. A delay of zero
///            or less is due at the next tick. One that is beyond the clock (+-292 years) is
///            practically never.
/// Order:     by tick; within a tick, timers from one thread in the order scheduled. Callbacks are
///            handed over in this order, and run so if the executor has one thread.
/// Threads:   safe. Each function may be called from any thread, and from a callback.
/// Lifetime:  the Timer owns what is pending. The destructor cancels that, waits for callbacks that
///            are running, and returns; then no callback runs, and all of them are destroyed. In a
///            callback of this very Timer, it may be called too, and then waits for none. Handles
///            may outlive the Timer. Not movable.
/// Callbacks: run on the executor, many at a time if that has many threads. They may schedule,
///            cancel, reschedule anything, stop and destroy the Timer. What they throw goes to
///            TimerOptions::on_exception, and the Timer lives on.
/// Errors:    what is not taken answers a null handle, which says why (Refusal); the callback is
///            destroyed then. Throws std::bad_alloc if memory cannot be had, and std::system_error
///            if the driver's thread cannot be started; nothing is scheduled then.
/// Fork:      the driver does not exist in the child. There, a Timer of the parent refuses, its
///            handles name nothing, its destructor returns at once; what was pending leaks.
/// Cost:      schedule, cancel, reschedule: O(1), whatever is pending. Memory: 64 bytes a pending
///            timer, if its callback has at most 24 bytes; larger ones are allocated.
class Timer {
 public:
  explicit Timer(TimerOptions options = {});
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Runs `callback` once, `delay` from now. The clock is read once.
  ///
  /// The handle may be ignored: the timer goes on by itself. For one that is cancelled with its
  /// owner: `ScopedTimer(timer.after(...))`.
  template <class Rep, class Period>
  TimerHandle after(std::chrono::duration<Rep, Period> delay, TimerCallback callback) {
    return schedule_after(internal::to_span(delay), std::move(callback));
  }

  /// Runs `callback` once, at a point in time of the Timer's clock, or at the next tick if that has
  /// passed.
  TimerHandle at(Instant deadline, TimerCallback callback);
  /// The same; for ClockKind::kSteady, whose clock it is.
  TimerHandle at(std::chrono::steady_clock::time_point deadline, TimerCallback callback) {
    return at(Instant(std::chrono::duration_cast<Span>(deadline.time_since_epoch())),
              std::move(callback));
  }

  /// The Timer's clock.
  [[nodiscard]] Instant now() const noexcept;
  /// The length of a tick.
  [[nodiscard]] Span tick() const noexcept;

  /// Timers that wait, for their deadline or for a thread to run on. Exact; takes each shard's
  /// lock.
  [[nodiscard]] std::size_t pending() const noexcept;
  [[nodiscard]] TimerStats stats() const;

  /// Ends the Timer: cancels all that has not begun, and returns it, in the order of deadlines.
  /// What is scheduled from now on is refused (Refusal::kStopped). Waits for callbacks that are
  /// running, unless called from one. A second call returns nothing. There is no restart.
  std::vector<UnfiredTimer> stop();

 private:
  friend class PollTimer;

  TimerHandle schedule_after(Span delay, TimerCallback&& callback);

  internal::Core* core_;
};

}  // namespace carillon
