// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// This process and its threads: running some at once, and what the kernel says of them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

namespace carillon::bench {

/// Nanoseconds of the monotonic clock.
[[nodiscard]] std::int64_t now_ns();

/// Sleeps so long.
void sleep_seconds(double seconds);

/// Runs `part(0)` .. `part(count - 1)` at once, in threads of their own; returns the ns from their
/// common start to the end of the last. An exception in one is thrown here, after all have ended.
[[nodiscard]] std::int64_t together(std::size_t count,
                                    const std::function<void(std::size_t)>& part);

/// The resident memory, in bytes, after free memory was given back.
[[nodiscard]] double settled_resident_bytes();

/// The CPU time of all threads so far, in ms.
[[nodiscard]] double cpu_ms();

/// What a thread has used.
struct ThreadUse {
  double cpu_us = 0;
  double switches = 0;  ///< Of context, voluntary or not.
};

/// By the kernel's number of the thread, those that live now.
[[nodiscard]] std::map<int, ThreadUse> thread_uses();

/// The sum of those in `all` that are not in `others`.
[[nodiscard]] ThreadUse sum_without(const std::map<int, ThreadUse>& all,
                                    const std::map<int, ThreadUse>& others);

}  // namespace carillon::bench
