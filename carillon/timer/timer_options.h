// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How a Timer is to be. Every option has a default that suits most programs.

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "carillon/base/clock.h"
#include "carillon/base/time.h"
#include "carillon/timer/executor.h"

namespace carillon {

class ManualDriver;

/// The clock that a Timer goes by.
enum class ClockKind {
  /// CLOCK_MONOTONIC. While the machine is suspended a delay does not run down: 60 s with 15 s of
  /// suspension among them are 75 s of real time.
  kSteady,
  /// CLOCK_BOOTTIME: a delay runs down while the machine is suspended too, and what has come due
  /// by then fires when it resumes.
  kBoot,
  /// As kBoot for delays and periods, which no change of the date hastens or stalls; besides, the
  /// Timer takes calendar times, at(WallTime), which follow the date when it is set.
  kWall,
};

struct TimerOptions {
  /// The resolution: deadlines are rounded up to a multiple of it, and it is one wake-up at most
  /// for each. From 10 us to an hour; what is outside is brought inside. 1 ms is what the system's
  /// own timers are good for; a coarser tick saves wake-ups if the deadlines are many.
  Span tick = std::chrono::milliseconds(1);

  ClockKind clock = ClockKind::kSteady;

  /// Instead of a clock of the system. A thread cannot sleep on it, so a Timer that has one has no
  /// thread: it is for a PollTimer, which is polled, and is set by ManualDriver::options(). A plain
  /// Timer that is given one fires nothing. Must outlive the Timer.
  const Clock* custom_clock = nullptr;
  /// Instead of the system's calendar, with ClockKind::kWall. Must outlive the Timer.
  const Calendar* custom_calendar = nullptr;
  /// See ManualDriver::options().
  ManualDriver* manual = nullptr;

  /// Where callbacks run. Null: a ThreadPoolExecutor of the Timer's own, as `pool` says.
  std::shared_ptr<Executor> executor = {};
  ThreadPoolOptions pool = {};

  /// The most timers that may be pending; one more is refused with Refusal::kLimit. 0: no limit but
  /// memory.
  std::size_t max_pending = 0;

  /// Producers are spread over so many shards, each with a lock, a wheel and its memory; rounded up
  /// to a power of two. 0: twice the hardware threads, at most kMaxShards. 1: all timers expire in
  /// one order whatever thread they are from, and need the least memory.
  unsigned shards = 0;
  static constexpr unsigned kMaxShards = 16;

  /// Of the driver's thread; 15 characters are kept.
  std::string thread_name = "carillon-timer";
  /// The CPU that the driver's thread is bound to; -1: any.
  int cpu = -1;
  /// Start the driver's thread at once. Otherwise the first timer does.
  bool start_now = false;

  /// At most so many callbacks are taken out of a wheel while its lock is held, and handed over at
  /// a time. More of them make the driver a little faster, and a producer wait a little longer.
  std::size_t batch = 128;

  /// What becomes of an exception that a callback throws: called on the thread that it ran on, and
  /// must not throw. Without it, the first is told to `log`. It is counted in any case.
  std::function<void(std::exception_ptr)> on_exception = {};

  /// A callback that runs for longer is told to `log`, the first time, and counted always. It holds
  /// one of the executor's threads. Zero: none is.
  Span slow_callback = std::chrono::seconds(1);

  /// So many Timers at a time in one process are told to `log`, once: one is enough for millions of
  /// timers, and each has threads. 0: never.
  unsigned many_timers = 64;

  /// Is given a line without a newline when something is amiss: on whatever thread that is noticed,
  /// with no lock held; must not throw. By default it is written to stderr.
  std::function<void(std::string_view)> log = {};
};

}  // namespace carillon
