// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How long an operation takes of which one is not to take long.

#include <cstdint>
#include <map>
#include <string>

namespace carillon::bench {

/// What the kernel says each thread of this process has waited for a CPU, though it could run. To
/// tell an operation that had to wait for the work of another thread from one that had to wait
/// because its own thread, or the one that held a lock, had no CPU, which is no block's doing on a
/// machine with more threads than cores.
///
/// Lifetime: of the threads that live at the last refresh(). Without schedstat in the kernel it is
///           0.
class RunQueueWaits {
 public:
  RunQueueWaits() { refresh(); }
  ~RunQueueWaits();
  RunQueueWaits(const RunQueueWaits&) = delete;
  RunQueueWaits& operator=(const RunQueueWaits&) = delete;

  /// Looks for threads that are new: a pool begins with its first callback.
  void refresh();
  /// Remembers where all stand.
  void begin();
  /// The longest that any of them has waited since begin().
  [[nodiscard]] std::int64_t longest_ns() const;

 private:
  struct Thread {
    int fd;
    std::int64_t before;
  };
  std::map<std::string, Thread> threads_;
};

/// The longest of many operations.
class LongestDelay {
 public:
  /// Runs and times `operation`.
  template <class F>
  void time(F&& operation);

  /// As RunQueueWaits::refresh(): to be called now and then.
  void refresh() { waits_.refresh(); }

  [[nodiscard]] double ms() const { return static_cast<double>(longest_) / 1e6; }
  /// With what was waited for a CPU.
  [[nodiscard]] double with_cpu_ms() const { return static_cast<double>(with_cpu_) / 1e6; }

 private:
  void add(std::int64_t ns, std::int64_t waited_for_cpu);
  [[nodiscard]] static std::int64_t now();

  RunQueueWaits waits_;
  std::int64_t longest_ = 0;
  std::int64_t with_cpu_ = 0;
};

template <class F>
void LongestDelay::time(F&& operation) {
  waits_.begin();
  const std::int64_t begin = now();
  operation();
  const std::int64_t end = now();
  add(end - begin, waits_.longest_ns());
}

}  // namespace carillon::bench
