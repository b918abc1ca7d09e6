// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How long an operation takes of which one is not to take long.

#include <cstdint>

namespace carillon::bench {

/// What the kernel says this thread has waited for a CPU, though it could run. To tell an operation
/// that had to wait for another from one whose thread had no CPU, which is no block's doing on a
/// machine with more threads than cores.
///
/// Threads: of the thread that made it. Without schedstat in the kernel it is 0.
class RunQueueWait {
 public:
  RunQueueWait();
  ~RunQueueWait();
  RunQueueWait(const RunQueueWait&) = delete;
  RunQueueWait& operator=(const RunQueueWait&) = delete;

  [[nodiscard]] std::int64_t ns() const;

 private:
  int fd_;
};

/// The longest of many operations.
class LongestDelay {
 public:
  /// Runs and times `operation`.
  template <class F>
  void time(F&& operation);

  [[nodiscard]] double ms() const { return static_cast<double>(longest_) / 1e6; }
  /// With what was waited for a CPU.
  [[nodiscard]] double with_cpu_ms() const { return static_cast<double>(with_cpu_) / 1e6; }

 private:
  void add(std::int64_t ns, std::int64_t waited_for_cpu);
  [[nodiscard]] static std::int64_t now();

  RunQueueWait wait_;
  std::int64_t longest_ = 0;
  std::int64_t with_cpu_ = 0;
};

template <class F>
void LongestDelay::time(F&& operation) {
  const std::int64_t waited = wait_.ns();
  const std::int64_t begin = now();
  operation();
  const std::int64_t end = now();
  add(end - begin, wait_.ns() - waited);
}

}  // namespace carillon::bench
