// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A Timer without a thread, for programs that have a loop of their own.

#include <optional>

#include "carillon/timer/timer.h"

namespace carillon {

/// A Timer that is driven by calls of poll().
///
/// Timers may be scheduled and cancelled from any thread, as with every Timer; callbacks run on the
/// executor, which is inline_executor() unless another is given: inside poll().
///
/// Time:    as Timer, if poll() is called at next_deadline(); as late as that is, otherwise.
/// Threads: poll() and next_deadline() from one thread at a time, and not from a callback; poll()
///          in one is a bug, and stops the program.
///
/// Example:
///     carillon::PollTimer timer;
///     for (;;) {
///       wait_for_events_until(timer.next_deadline());
///       timer.poll();
///     }
class PollTimer : public Timer {
 public:
  PollTimer();
  explicit PollTimer(TimerOptions options);

  /// Hands over all that is due by now, in the order of deadlines.
  void poll() { poll(now()); }
  /// The same, for those who have just read the clock. Pre: `now` is not after the Timer's clock.
  void poll(Instant now);

  /// When to poll next: the earliest deadline, rounded up to the tick. Nothing: not before
  /// something is scheduled; or, if something is due that the executor had no room for, not before
  /// that has room. For both, fd() wakes who waits.
  [[nodiscard]] std::optional<Instant> next_deadline();

  /// For a loop that waits for descriptors (epoll, poll, io_uring): readable when poll() should be
  /// called, because something is due, or has been scheduled that is due earlier. Do not read it:
  /// poll() has it unreadable again. The Timer's own; the same at each call. -1 if the Timer has a
  /// clock that is not the system's. Throws std::system_error.
  [[nodiscard]] int fd();
};

}  // namespace carillon
