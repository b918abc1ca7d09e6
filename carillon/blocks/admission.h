// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the rate limiters have in common: a rate, an answer, options. Which of them to take:
///
/// | limiter              | permits of a key           | a burst                   | bytes a key |
/// | -------------------- | -------------------------- | ------------------------- | ----------- |
/// | SlidingWindowLimiter | at most N in any window    | N at once, then none till | 106; 16 for |
/// |                      |                            | the first has gone        | each permit |
/// | TokenBucket          | a rate, on average         | up to `burst` at once     | 80          |
/// | LeakyBucket          | a rate, evenly: one has to | queues, up to             | 80          |
/// |                      | wait for one's turn        | `most_waiting`            |             |
///
/// The bytes are those of a million std::string of at most 15 characters, which lie in the table;
/// another key adds or saves what it is larger or smaller, and a half. Keys must move without
/// throwing.

#include <cstddef>
#include <cstdint>

#include "carillon/base/clock.h"
#include "carillon/base/time.h"

namespace carillon {

/// So many permits in so long: {100, 60s}.
struct Rate {
  std::uint64_t permits;
  Span per;
};

/// What a limiter answers.
struct [[nodiscard]] Admission {
  /// The permits have been taken. If not, nothing has been changed.
  bool granted = false;
  /// No room for another key (LimiterOptions::max_keys). Not granted then.
  bool table_full = false;
  /// If not granted: from when on the same request will be granted, provided that nobody else takes
  /// permits of this key; exactly, rounded up to the nanosecond. kForever: never, it is for more
  /// than there can be. If the table is full, a guess. Zero if granted.
  Span retry_after{};
  /// Permits that could be taken now, after these. Zero also if the table is full, or if more was
  /// asked for than there can be: the key is not looked at then.
  std::uint64_t remaining = 0;

  explicit operator bool() const noexcept { return granted; }
};

struct LimiterOptions {
  /// Keys that are not idle, at most; one more is refused (Admission::table_full), so that a flood
  /// of invented keys cannot take all memory. Divided among the shards: since keys spread unevenly,
  /// a shard may refuse when all of them together have a tenth of the room left. 0: no limit.
  std::size_t max_keys = 10'000'000;
  /// Keys are spread over so many shards, each with a lock; rounded up to a power of two, and so
  /// few that each has room for 1,024 keys, or one. Threads that use different keys rarely meet if
  /// this is several times their number.
  unsigned shards = 64;
  /// Read by the calls that are not given the time, while they hold a lock: it must not wait for
  /// anything. Null: the steady clock. Must outlive the limiter.
  const Clock* clock = nullptr;
};

}  // namespace carillon
