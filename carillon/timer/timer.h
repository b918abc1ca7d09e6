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
#include <string>
#include <string_view>
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

/// When a periodic timer is due again. Due times are first, first + period, first + 2 * period ...,
/// without drift; what differs is what becomes of those that have passed when a run ends, because
/// it took longer than a period, had to wait for a thread, or the machine slept.
enum class Repeat : std::uint8_t {
  /// They are left out (TimerStats::missed); the next run is at the next due time that is to come.
  kSkip,
  /// They are made up for at once, one run after the other.
  kBurst,
  /// One period after now; and the due times after it follow from that.
  kDelay,
  /// No due times, but a pause: each run is one period after the end of the one before.
  kFixedDelay,
};

class KeyedTimer;
class KeyTicket;
class Sleep;

/// A thread-safe timer.
///
/// Time:      a deadline is rounded up to the next tick (TimerOptions::tick, 1 ms). A callback
///            never begins before its deadline, on the clock that was chosen; it is handed to the
///            executor in that tick, plus what the system takes to wake a thread. A delay of zero
///            or less is due at the next tick. One that is beyond the clock (+-292 years) is
///            practically never.
/// Order:     by tick; within a tick, timers from one thread in the order scheduled. Callbacks are
///            handed over in this order, and run so if the executor has one thread. A periodic
///            timer never runs beside itself.
/// Threads:   safe. Each function may be called from any thread, and from a callback.
/// Lifetime:  the Timer owns what is pending. The destructor cancels that, waits for callbacks that
///            are running, and returns; then no callback runs, and all of them are destroyed. In a
///            callback of this very Timer, it may be called too, and then waits for none. No other
///            function of the Timer may run beside its destructor, nor after it: only handles may
///            be used then, from any thread. Not movable.
/// Callbacks: run on the executor, many at a time if that has many threads. They may schedule,
///            cancel, reschedule anything, stop and destroy the Timer. What they throw goes to
///            TimerOptions::on_exception, and the Timer lives on.
/// Errors:    what is not taken answers a null handle, which says why (Refusal); the callback is
///            destroyed then. Throws std::bad_alloc if memory cannot be had, and std::system_error
///            if the driver's thread cannot be started, or not one of the pool's; nothing is
///            scheduled then. To schedule an empty callback is a bug, and stops the program.
/// Fork:      the driver does not exist in the child. There, a Timer of the parent refuses, its
///            handles name nothing, its destructor returns at once; what was pending leaks.
/// Cost:      schedule, cancel, reschedule: O(1), whatever is pending. Memory: 64 bytes a pending
///            timer, if its callback has at most 24 bytes; larger ones are allocated. What the
///            wheels have needed at their fullest is used again, and given back by stop().
class Timer {
 public:
  /// With the default of each option.
  Timer();
  explicit Timer(TimerOptions options);
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
  /// The same for a time of ClockKind::kSteady's clock. A Timer with kBoot or kWall takes it for as
  /// long from now as it is then, so a suspension of the machine counts from now on. A clock that
  /// is not the system's (ManualDriver, TimerOptions::custom_clock) is taken to be this one: the
  /// time counts on that, and is not to be made from steady_clock::now().
  TimerHandle at(std::chrono::steady_clock::time_point deadline, TimerCallback callback);

  /// Runs `callback` once, at a time of the calendar, and follows that when it is set. Only with
  /// ClockKind::kWall; otherwise refused (Refusal::kNoCalendar). When the calendar is set, the cost
  /// is O(timers that follow it).
  TimerHandle at(WallTime deadline, TimerCallback callback);

  /// Runs `callback` every `period`, for the first time one period from now. A period of less than
  /// a tick is a tick.
  ///
  /// It goes on until it is cancelled, which it may do itself: that answers kRunning, and it does
  /// not run again. It is one timer with one handle, however often it has run. The first run may
  /// begin before this has returned, on another thread: so what it finds of the handle has to be
  /// guarded,
  ///
  ///     std::mutex mutex;
  ///     TimerHandle poll;
  ///     const std::lock_guard lock(mutex);
  ///     poll = timer.every(10s, [&] {
  ///       if (arrived()) {
  ///         const std::lock_guard lock(mutex);
  ///         poll.cancel();
  ///       }
  ///     });
  template <class Rep, class Period>
  TimerHandle every(std::chrono::duration<Rep, Period> period, TimerCallback callback,
                    Repeat repeat = Repeat::kSkip) {
    return schedule_every(internal::to_span(period), std::move(callback), repeat);
  }

  /// The timer of a key, of which there is at most one; see KeyedTimer. Keys are numbers or bytes;
  /// the number 7 and the text "7" are different keys.
  [[nodiscard]] KeyedTimer keyed(std::uint64_t key);
  [[nodiscard]] KeyedTimer keyed(std::string_view key);

  /// For coroutines, which include sleep.h: `co_await timer.sleep_for(250ms, stop_token)`; the
  /// token may be left out.
  template <class Rep, class Period, class... StopToken>
  [[nodiscard]] Sleep sleep_for(std::chrono::duration<Rep, Period> delay, StopToken... token);
  /// The same until an Instant, a time of std::chrono::steady_clock or a WallTime: as at().
  template <class Timeline, class Duration, class... StopToken>
  [[nodiscard]] Sleep sleep_until(std::chrono::time_point<Timeline, Duration> deadline,
                                  StopToken... token);

  /// The Timer's clock.
  [[nodiscard]] Instant now() const noexcept;
  /// The length of a tick.
  [[nodiscard]] Span tick() const noexcept;

  /// Timers that wait, for their deadline or for a thread to run on. Takes each shard's lock, one
  /// after the other: a sum of exact numbers, but not of one instant. It is exact when nobody else
  /// schedules, cancels or fires; otherwise it may count a timer that has gone and one that has
  /// come since, and so be above TimerOptions::max_pending.
  [[nodiscard]] std::size_t pending() const noexcept;
  /// Cheap: takes each shard's lock for some additions.
  [[nodiscard]] TimerStats stats() const;
  /// How many timers are in each level of the wheels, the finest first. O(pending), with the lock
  /// of the shard held: for a look at a program that runs, not for each second of it.
  [[nodiscard]] std::vector<std::size_t> level_population() const;

  /// Hands over nothing until resume(); what is handed over already still runs. Timers are taken
  /// and cancelled as ever, and time goes on: what comes due meanwhile fires on resume().
  void pause() noexcept;
  void resume() noexcept;

  /// Ends the Timer: cancels all that has not begun, and returns it, in the order of deadlines.
  /// What is scheduled from now on is refused (Refusal::kStopped). Waits for callbacks that are
  /// running, unless called from one. A second call returns nothing; it waits for callbacks too,
  /// unless called from one. There is no restart.
  std::vector<UnfiredTimer> stop();

  /// Refuses what is scheduled from now on, and lets what is pending fire at its time: until
  /// nothing is pending or running but periodic timers, or for `at_most`; then stops, and returns
  /// what had not fired. In a callback it is stop(). `at_most` is real time, whatever the clock; a
  /// PollTimer must be polled, and a ManualDriver advanced, by another thread meanwhile.
  std::vector<UnfiredTimer> drain(Span at_most);

 private:
  friend class KeyedTimer;
  friend class PollTimer;

  TimerHandle schedule_after(Span delay, TimerCallback&& callback);
  TimerHandle schedule_every(Span period, TimerCallback&& callback, Repeat repeat);
  KeyedTimer keyed_as(std::string key);

  internal::Core* core_;
};

/// The timer of a key: at most one is pending under a key, and another replaces it, atomically.
///
///     timer.keyed(session_id).after(30s, [=] { expire(session_id); });  // replaces the last one
///     timer.keyed(session_id).cancel();
///
/// One whose callback has begun is no longer in the way: it goes on beside its successor.
///
/// Threads:  any. Lifetime: of the Timer's; a value that holds the key.
/// Cost:     a hash table under the lock of one shard, to which all threads come that use this key;
///           an allocation for each timer.
class KeyedTimer {
 public:
  template <class Rep, class Period>
  TimerHandle after(std::chrono::duration<Rep, Period> delay, TimerCallback callback) {
    return schedule(internal::to_span(delay), nullptr, std::move(callback), nullptr);
  }
  TimerHandle at(Instant deadline, TimerCallback callback) {
    return schedule(Span::zero(), &deadline, std::move(callback), nullptr);
  }
  /// Cancels what is pending under the key, and makes tickets drawn before void.
  CancelResult cancel() noexcept;
  [[nodiscard]] TimerState state() const noexcept;

  /// For a timer that will be scheduled later, by somebody who cannot know whether the key has been
  /// cancelled by then: draw a ticket first. Throws std::bad_alloc.
  [[nodiscard]] KeyTicket ticket() const;

 private:
  friend class KeyTicket;
  friend class Timer;
  KeyedTimer(internal::Shard* shard, std::string key) : shard_(shard), key_(std::move(key)) {}

  TimerHandle schedule(Span delay, const Instant* at, TimerCallback&& callback,
                       const std::uint64_t* generation);

  internal::Shard* shard_;
  std::string key_;
};

/// What was the state of a key when it was drawn: a timer is scheduled with it unless the key has
/// been cancelled since. So a cancel wins that comes before what it is to cancel:
///
///     auto ticket = timer.keyed(lock).ticket();   // before the lock is asked for
///     acquire(lock, [ticket = std::move(ticket)]() mutable { ticket.after(10s, renew); });
///     ...
///     timer.keyed(lock).cancel();                 // no renewal survives
///
/// Threads:  as any value: one at a time. Lifetime: must be gone before its Timer is.
class KeyTicket {
 public:
  KeyTicket(KeyTicket&& other) noexcept
      : timer_(std::move(other.timer_)),
        generation_(other.generation_),
        drawn_(std::exchange(other.drawn_, false)) {}
  KeyTicket& operator=(KeyTicket&&) = delete;
  KeyTicket(const KeyTicket&) = delete;
  ~KeyTicket();

  /// Refused with Refusal::kCancelled if the key has been cancelled since this was drawn.
  template <class Rep, class Period>
  TimerHandle after(std::chrono::duration<Rep, Period> delay, TimerCallback callback) {
    return timer_.schedule(internal::to_span(delay), nullptr, std::move(callback), &generation_);
  }

 private:
  friend class KeyedTimer;
  KeyTicket(KeyedTimer timer, std::uint64_t generation) noexcept
      : timer_(std::move(timer)), generation_(generation) {}

  KeyedTimer timer_;
  std::uint64_t generation_;
  bool drawn_ = true;
};

}  // namespace carillon
