// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Whether the file system of a folder has room for more jobs.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "carillon/base/clock.h"

namespace carillon::store {

/// Asks the file system now and then, and remembers the answer in between.
///
/// Threads: safe.
/// Errors:  a file system that does not answer counts as one with room: the write itself will tell.
/// Cost:    an atomic load and a clock read; once an interval, in one thread, a statvfs.
class FreeSpace {
 public:
  /// `ask` returns the free bytes; default: statvfs of `folder`.
  FreeSpace(std::string folder, std::uint64_t min_bytes, Span interval,
            std::function<std::uint64_t()> ask);

  /// Whether there are at least min_bytes; asks if the last answer is older than the interval.
  [[nodiscard]] bool enough() const noexcept;
  /// The last answer.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t min_bytes() const noexcept { return min_bytes_; }

 private:
  const std::uint64_t min_bytes_;
  const Span interval_;
  const std::function<std::uint64_t()> ask_;
  const SteadyClock clock_;
  mutable std::atomic<Span::rep> asked_at_;
  mutable std::atomic<std::uint64_t> bytes_;
};

}  // namespace carillon::store
