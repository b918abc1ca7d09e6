// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// When to log what may happen a thousand times a second.

#include <cstdint>
#include <optional>

#include "carillon/base/time.h"

namespace carillon::server {

/// Counts what happens, and says when there is to be a line about it: the first time, and then once
/// in an interval at most. What happens behind the last line is in the next one, and in the count.
///
/// Threads: one object, one thread. Cost: O(1), no allocation.
class LogPace {
 public:
  explicit LogPace(Span interval) noexcept : interval_(interval) {}

  /// It has happened at `now`. Returns how often it has since the last line, if there is to be one.
  std::optional<std::uint64_t> note(Instant now) noexcept {
    ++count_;
    if (logged_at_ && now - *logged_at_ < interval_) return std::nullopt;
    logged_at_ = now;
    const std::uint64_t since = count_ - logged_;
    logged_ = count_;
    return since;
  }
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

 private:
  Span interval_;
  std::uint64_t count_ = 0;
  std::uint64_t logged_ = 0;
  std::optional<Instant> logged_at_;
};

}  // namespace carillon::server
