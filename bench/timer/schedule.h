// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// T4's timers: when each is due, and when it fired.

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace carillon::bench {

/// Timers due at random over some seconds, the same on every run, and a record of each.
///
/// Threads: add from one; fire() from any.
class Schedule {
 public:
  Schedule(std::size_t timers, double seconds);

  /// What a timer runs.
  struct Recorder {
    Schedule* schedule;
    std::uint32_t index;
    void operator()() const { schedule->fire(index); }
  };

  [[nodiscard]] std::size_t size() const noexcept { return offsets_.size(); }
  /// Says that the timer is added now, `now`, to be due at `begin` and its offset; returns the ns
  /// until then.
  [[nodiscard]] std::int64_t plan(std::size_t index, std::int64_t begin, std::int64_t now);
  void fire(std::uint32_t index);

  /// Waits until all have fired. Throws BenchError if they have not after `seconds`.
  void await(double seconds);
  /// Throws BenchError unless each has fired once.
  void verify() const;
  /// Ascending, in ns. Pre: all have fired.
  [[nodiscard]] std::vector<std::int64_t> lateness() const;

 private:
  struct Record {
    std::int64_t due = 0;
    std::atomic<std::int64_t> fired_at = 0;
    std::atomic<std::uint32_t> times = 0;
  };
  std::vector<std::int64_t> offsets_;
  std::vector<Record> records_;
  std::atomic<std::size_t> left_;
  std::mutex mutex_;
  std::condition_variable all_fired_;
};

}  // namespace carillon::bench
