// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Where time comes from: clocks that are injected, so that no test ever sleeps.
///
/// | clock          | counts in suspend | moves when the date is set | use                      |
/// | -------------- | ----------------- | -------------------------- | ------------------------ |
/// | SteadyClock    | no                | no                         | timeouts of running work |
/// | BootClock      | yes               | no                         | the server: real elapsed |
/// | SystemCalendar | yes               | yes                        | calendar dates only      |
/// | ManualClock    | when told         | when told                  | tests and simulation     |

#include <atomic>
#include <string>

#include "carillon/base/time.h"

namespace carillon {

/// A monotonic clock.
///
/// Time:    never moves backwards; resolution of the implementation, 1 ns at best.
/// Threads: now() may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() const noexcept = 0;
};

/// A calendar: may step in either direction whenever an administrator or NTP says so.
class Calendar {
 public:
  virtual ~Calendar() = default;
  [[nodiscard]] virtual WallTime now() const noexcept = 0;
};

/// CLOCK_MONOTONIC: stops while the machine is suspended.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const noexcept override;
};

/// CLOCK_BOOTTIME: like SteadyClock, but counts the time suspended too.
class BootClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const noexcept override;
};

/// CLOCK_REALTIME.
class SystemCalendar final : public Calendar {
 public:
  [[nodiscard]] WallTime now() const noexcept override;
};

/// The kernel's id of the running boot, which tells whether two instants of a BootClock, one of
/// them stored, can be compared. Empty if it cannot be read.
[[nodiscard]] std::string read_boot_id();

/// A clock that moves only when told to. Threads: safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = Instant{}) noexcept
      : nanos_(start.time_since_epoch().count()) {}

  [[nodiscard]] Instant now() const noexcept override {
    return Instant(Span(nanos_.load(std::memory_order_acquire)));
  }
  /// Moves time forward by `span`, saturating. Pre: span >= 0.
  void advance(Span span) noexcept;
  /// Moves time forward to `to`; to the past is a bug and stops the program.
  void advance_to(Instant to) noexcept;

 private:
  std::atomic<Span::rep> nanos_;
};

/// A calendar that says what it was last told, backwards included. Threads: safe.
class ManualCalendar final : public Calendar {
 public:
  explicit ManualCalendar(WallTime start = WallTime{}) noexcept
      : nanos_(start.time_since_epoch().count()) {}

  [[nodiscard]] WallTime now() const noexcept override {
    return WallTime(Span(nanos_.load(std::memory_order_acquire)));
  }
  void set(WallTime to) noexcept {
    nanos_.store(to.time_since_epoch().count(), std::memory_order_release);
  }

 private:
  std::atomic<Span::rep> nanos_;
};

}  // namespace carillon
