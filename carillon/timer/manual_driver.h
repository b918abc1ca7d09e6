// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests of programs that use a Timer: a clock that moves when the test says so, and fires what
/// is due on the way.

#include <chrono>
#include <cstddef>
#include <memory>

#include "carillon/base/clock.h"
#include "carillon/timer/timer_options.h"

namespace carillon {

namespace internal {
struct Core;
}  // namespace internal

/// Drives any number of Timers by one manual clock, without a thread and without waiting.
///
/// advance() goes from deadline to deadline: it sets the clock to the next one, has all callbacks
/// run that are due then, and goes on; so callbacks run in the order of deadlines over all Timers,
/// and each sees on the clock its own due time (rounded up to the tick). What they schedule is due
/// in the same advance(), if that gets so far.
///
/// Threads:   advance() by one thread at a time, and not from a callback, which would be a bug and
///            stops the program. The rest: any.
/// Lifetime:  must outlive the Timers that it drives.
/// Callbacks: run inside advance(); or on the executor of the Timer, if that has one. Then
///            advance() waits for all of them before it moves the clock on, and if the executor is
///            full, until it has room: so whatever runs them must not be the thread that advances.
///
/// Example:
///     ManualDriver time;
///     Timer timer(time.options());
///     Session session(timer);            // code under test
///     time.wait_until_armed(1);          // if it schedules from another thread
///     time.advance(30s);
///     EXPECT_TRUE(session.closed());
class ManualDriver {
 public:
  /// The clock begins at `start`, which is not before the epoch: a Timer fires nothing until then.
  explicit ManualDriver(Instant start = kStart);
  ~ManualDriver();
  ManualDriver(const ManualDriver&) = delete;
  ManualDriver& operator=(const ManualDriver&) = delete;

  /// Where the clock stands at first, unless said otherwise: an hour.
  static constexpr Instant kStart{std::chrono::hours(1)};

  /// Those of a Timer that is driven by this: `base`, on this clock. Also for code under test that
  /// makes a Timer of its own.
  [[nodiscard]] TimerOptions options(TimerOptions base);
  [[nodiscard]] TimerOptions options();

  [[nodiscard]] Instant now() const noexcept;
  /// The clock, for what takes one.
  [[nodiscard]] const Clock& clock() const noexcept;

  /// Moves time forward, firing what is due. Pre: span >= 0.
  void advance(Span span);
  /// The same; `to` is not in the past.
  void advance_to(Instant to);

  /// Waits until at least `count` timers are pending in all Timers together, that is, until other
  /// threads have scheduled them. Fires nothing. Waits for ever if they do not: a test has a limit
  /// of its own.
  void wait_until_armed(std::size_t count);

 private:
  friend struct internal::Core;
  void add(internal::Core& core);
  void remove(internal::Core& core) noexcept;
  void on_armed() noexcept;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace carillon
