// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Several Timers behind one interface, for machines with many cores: one for each core, or for
/// each shard that the program has.
///
/// One Timer serves many threads well: its producers are spread over shards. What it has one of is
/// the driver, which takes out what is due. Take a set if that thread is at work all the time
/// (TimerStats::driver_work), or if what a core schedules is to expire on that core.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/base/time.h"
#include "carillon/timer/timer.h"

namespace carillon {

struct TimerSetOptions {
  /// How many Timers; 0: as many as hardware threads.
  unsigned timers = 0;

  /// Of each Timer, but for these:
  /// - `executor`: shared by all. Null: one ThreadPoolExecutor for all, as `pool` says, but with as
  ///   many threads as Timers, if those are more.
  /// - `max_pending`: of each Timer, so that many times the Timers in all.
  /// - `shards`: 0 is 2, since the threads that use one Timer are few.
  /// - `thread_name`: the number of the Timer is added.
  /// - `cpu`: that of the first, if it is not -1; the second has the next ...
  TimerOptions timer = {};

  /// Which Timer the calling thread uses, a number below `timers`: what after(), at() and every()
  /// ask. Null: the number of the processor it runs on, modulo `timers`. Must not throw.
  std::function<std::size_t(std::size_t timers)> shard = {};
};

/// A set of Timers.
///
/// Time, Callbacks, Errors: those of Timer.
/// Order:    only within one Timer.
/// Threads:  safe.
/// Lifetime: as Timer. Handles name their Timer, so they are used as ever.
/// Cost:     to find the Timer of the calling thread takes some nanoseconds.
class TimerSet {
 public:
  explicit TimerSet(TimerSetOptions options = {});

  [[nodiscard]] std::size_t size() const noexcept { return timers_.size(); }
  /// Pre: number < size().
  [[nodiscard]] Timer& operator[](std::size_t number) noexcept { return *timers_[number]; }
  /// That of the calling thread: for what is not offered here. It may be another at the next call.
  [[nodiscard]] Timer& local() noexcept;

  template <class Rep, class Period>
  TimerHandle after(std::chrono::duration<Rep, Period> delay, TimerCallback callback) {
    return local().after(delay, std::move(callback));
  }
  template <class Time>
  TimerHandle at(Time deadline, TimerCallback callback) {
    return local().at(deadline, std::move(callback));
  }
  template <class Rep, class Period>
  TimerHandle every(std::chrono::duration<Rep, Period> period, TimerCallback callback,
                    Repeat repeat = Repeat::kSkip) {
    return local().every(period, std::move(callback), repeat);
  }

  /// The timer of a key, of which there is at most one in the set: a key has a Timer, whichever
  /// thread asks.
  [[nodiscard]] KeyedTimer keyed(std::uint64_t key);
  [[nodiscard]] KeyedTimer keyed(std::string_view key);

  /// The Timers' clock.
  [[nodiscard]] Instant now() const noexcept { return timers_.front()->now(); }
  [[nodiscard]] std::size_t pending() const noexcept;
  /// The sum of all. Each Timer's are exact; they are not of one moment.
  [[nodiscard]] TimerStats stats() const;

  void pause() noexcept;
  void resume() noexcept;
  /// As Timer::stop(), of all: what had not fired, in the order of deadlines.
  std::vector<UnfiredTimer> stop();
  /// As Timer::drain(), of all at the same time.
  std::vector<UnfiredTimer> drain(Span at_most);

 private:
  std::function<std::size_t(std::size_t)> shard_;
  std::vector<std::unique_ptr<Timer>> timers_;
};

}  // namespace carillon
