// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The two handles of a timer: `TimerHandle`, a value that may be dropped, and `ScopedTimer`, which
/// cancels its timer when it goes.

#include <chrono>
#include <cstdint>
#include <ratio>
#include <string_view>
#include <type_traits>
#include <utility>

#include "carillon/base/time.h"
#include "carillon/wheel/pooled_wheel.h"

namespace carillon {

namespace internal {

struct Core;
struct Shard;

enum class TimerKind : std::uint8_t { kOnce, kPeriodic };

// A duration of any kind as a Span, clamped to what that holds: never wraps.
template <class Rep, class Period>
[[nodiscard]] constexpr Span to_span(std::chrono::duration<Rep, Period> duration) noexcept {
  using InNanos = std::ratio_divide<Period, std::nano>;
  if constexpr (std::is_integral_v<Rep> && sizeof(Rep) <= sizeof(Span::rep) && InNanos::den == 1) {
    Span::rep nanos = 0;
    if (__builtin_mul_overflow(duration.count(), InNanos::num, &nanos)) {
      return duration.count() > 0 ? Span::max() : Span::min();
    }
    return Span(nanos);
  } else {
    // 2^63 as a long double is exact; what is less fits.
    const long double nanos = std::chrono::duration<long double, std::nano>(duration).count();
    constexpr long double kEnd = 9223372036854775808.0L;
    if (!(nanos < kEnd)) {
      return Span::max();  // Not-a-number too: practically never.
    }
    if (nanos <= -kEnd) {
      return Span::min();
    }
    // Up, so that it is not early.
    const auto whole = static_cast<Span::rep>(nanos);
    return Span(static_cast<long double>(whole) < nanos ? whole + 1 : whole);
  }
}

}  // namespace internal

/// What cancel() found.
enum class CancelResult : std::uint8_t {
  /// It has not run and never will. What the callback owned is released.
  kCancelled,
  /// The callback has begun and has not returned; it will run to its end. A periodic timer will not
  /// begin again.
  kRunning,
  /// It has run, or was cancelled before, or its Timer is gone; or the handle is null.
  kNotFound,
};

enum class RescheduleResult : std::uint8_t {
  /// It will fire at the new time, and has not fired for the old one.
  kRescheduled,
  /// The callback has begun, for the old time. Nothing is changed.
  kRunning,
  /// As CancelResult::kNotFound.
  kNotFound,
};

enum class TimerState : std::uint8_t {
  /// It waits for its deadline, or for a thread to run on: it can be cancelled.
  kPending,
  kRunning,
  kNotFound,
};

/// Why a Timer would not take a timer. The callback has been destroyed.
enum class Refusal : std::uint8_t {
  kNone,
  /// The Timer was stopped, is being drained, or was made before a fork in whose child this is.
  kStopped,
  /// TimerOptions::max_pending timers are pending.
  kLimit,
  /// The key was cancelled after the ticket was drawn (KeyTicket).
  kCancelled,
  /// A calendar time, for a Timer whose clock is not ClockKind::kWall.
  kNoCalendar,
};

[[nodiscard]] constexpr std::string_view to_string(CancelResult result) noexcept {
  switch (result) {
    case CancelResult::kCancelled: return "cancelled";
    case CancelResult::kRunning: return "running";
    case CancelResult::kNotFound: return "not_found";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNone: return "not refused";
    case Refusal::kStopped: return "the timer is stopped";
    case Refusal::kLimit: return "max_pending timers are pending";
    case Refusal::kCancelled: return "the key was cancelled meanwhile";
    case Refusal::kNoCalendar: return "the timer's clock is not the calendar";
  }
  return "unknown";
}

/// Names a timer of a Timer: to cancel it, to change its time, to ask for its state.
///
/// A value: to copy it or to drop it does nothing to the timer, which goes on by itself. Keep a
/// ScopedTimer instead if the timer is to go when its owner goes.
///
/// Threads:  any; a timer may be cancelled from other threads than the one that scheduled it.
/// Lifetime: safe for ever: after the timer has fired, and after its Timer is gone, it names
///           nothing, and the answer is kNotFound.
/// Errors:   one that was refused is null, and refusal() says why.
/// Cost:     24 bytes. cancel() and reschedule(): O(1), a lock that is held for nanoseconds.
class TimerHandle {
 public:
  /// Null: names nothing, ever.
  TimerHandle() noexcept = default;

  /// False if it is null: default-constructed, or refused. It does not say whether the timer is
  /// still pending; state() does.
  explicit operator bool() const noexcept { return static_cast<bool>(timer_); }
  /// Why there is no timer; kNone if there was one.
  [[nodiscard]] Refusal refusal() const noexcept { return refusal_; }

  /// Cancels the timer, also while it is due and waits for a thread. When it answers kCancelled the
  /// callback, and all that it owned, has been destroyed, on this thread.
  CancelResult cancel() const noexcept;

  /// Has it fire `delay` from now instead. A periodic timer goes on with its period from there. It
  /// remains the same timer: this handle and its copies name it still.
  ///
  /// For one that is due and waits for a thread too. A timer that has fired, or whose callback has
  /// begun, is not armed again: schedule another. Throws std::bad_alloc if memory cannot be had,
  /// and changes nothing then.
  template <class Rep, class Period>
  RescheduleResult reschedule(std::chrono::duration<Rep, Period> delay) const {
    return reschedule_after(internal::to_span(delay));
  }
  /// The same, to a point in time of the Timer's clock.
  RescheduleResult reschedule_at(Instant deadline) const;

  [[nodiscard]] TimerState state() const noexcept;

  friend bool operator==(const TimerHandle&, const TimerHandle&) = default;

 private:
  friend struct internal::Core;
  friend struct internal::Shard;

  using Kind = internal::TimerKind;

  TimerHandle(internal::Shard* shard, std::uint32_t life, Kind kind, WheelHandle timer) noexcept
      : shard_(shard), timer_(timer), life_(life), kind_(kind) {}
  explicit TimerHandle(Refusal refusal) noexcept : refusal_(refusal) {}

  RescheduleResult reschedule_after(Span delay) const;

  // Memory of shards is never given back, so it can be asked after its Timer is gone; `life_` tells
  // the Timers apart that have used it.
  internal::Shard* shard_ = nullptr;
  WheelHandle timer_;
  std::uint32_t life_ = 0;
  Kind kind_ = Kind::kOnce;
  Refusal refusal_ = Refusal::kNone;
};

/// A timer that is cancelled when this goes: for callbacks that use what its owner owns.
///
///     class Session {
///       ...
///       carillon::ScopedTimer idle_{timer.after(30s, [this] { close(); })};  // the last member
///     };
///
/// Its destructor cancels, and does not wait: if the callback has begun by then, on another thread,
/// it goes on. Make sure of that by the executor (callbacks and owner on one thread), or have the
/// callback own what it uses.
///
/// Threads: as any value: one at a time.
class [[nodiscard]] ScopedTimer {
 public:
  ScopedTimer() noexcept = default;
  explicit ScopedTimer(TimerHandle handle) noexcept : handle_(handle) {}
  ScopedTimer(ScopedTimer&& other) noexcept : handle_(other.release()) {}
  /// Cancels the timer it had.
  ScopedTimer& operator=(ScopedTimer&& other) noexcept {
    if (this != &other) {
      handle_.cancel();
      handle_ = other.release();
    }
    return *this;
  }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;
  ~ScopedTimer() { handle_.cancel(); }

  [[nodiscard]] const TimerHandle& handle() const noexcept { return handle_; }
  const TimerHandle* operator->() const noexcept { return &handle_; }
  explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

  /// Gives the timer away: it is no longer cancelled by this.
  [[nodiscard]] TimerHandle release() noexcept { return std::exchange(handle_, TimerHandle{}); }

 private:
  TimerHandle handle_;
};

}  // namespace carillon
