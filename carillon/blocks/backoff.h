// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How long to wait before trying again, and when to stop trying: the part of retrying that has no
/// clock, no thread and no timer, for a loop or a coroutine of your own. retry.h does the rest.
///
///     attempt 1  fails   wait in [0, 100 ms)
///     attempt 2  fails   wait in [0, 200 ms)          "full jitter": clients that failed together
///     attempt 3  fails   wait in [0, 400 ms)          do not come back together
///     ...                ... never more than `most`

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

#include "carillon/base/random.h"
#include "carillon/base/time.h"

namespace carillon {

/// Which part of a wait is left to chance.
enum class Jitter : std::uint8_t {
  /// All: anything up to the wait. The least load for the server, if many clients fail at once.
  kFull,
  /// Half of it: at least half the wait.
  kHalf,
  /// None. For one client alone, and for tests.
  kNone,
};

/// A budget that many retries share, so that they do not multiply the load of a server that is
/// down: each failure takes a token, each success gives back a part of one, and while fewer than
/// half of the tokens are left nothing is retried. (The retry throttling of gRPC.)
///
///     RetryBudget budget(/*tokens=*/100, /*per_success=*/0.1);
///     // a server that refuses everything: 50 retries at most, whatever the number of calls;
///     // one that fails one call in twenty: each is retried
///
/// Threads:  safe. Lifetime: outlives what uses it. Cost: an atomic addition.
class RetryBudget {
 public:
  /// Pre: tokens in [1, 1'000'000], per_success in [0, tokens]. Both count in thousandths.
  RetryBudget(std::uint32_t tokens, double per_success);

  /// Counts a failure; true if it may be retried.
  bool take() noexcept;
  /// Counts a success.
  void give() noexcept;
  /// What is left.
  [[nodiscard]] double tokens() const noexcept;

 private:
  // In thousandths.
  static constexpr std::int64_t kScale = 1'000;
  const std::int64_t full_;
  const std::int64_t per_success_;
  std::atomic<std::int64_t> left_;
};

struct RetryOptions {
  /// The longest wait after the first failure; it grows by `factor` each time, up to `most`.
  Span first = std::chrono::milliseconds(100);
  /// At least 1. 2 reaches a wait of 30 s after nine attempts.
  double factor = 2;
  /// The longest wait of all. At least `first`.
  Span most = std::chrono::seconds(30);
  Jitter jitter = Jitter::kFull;
  /// The first attempt counts. 0: no limit.
  std::uint32_t max_attempts = 5;
  /// No attempt is planned for later than this after the first one; if the next would be, it is
  /// over at once, and nobody waits for nothing. One that is planned begins as late after its time
  /// as a timer fires. Attempts are not cut short.
  Span at_most = kForever;
  /// Shared with others; null: none. Must outlive what uses it.
  RetryBudget* budget = nullptr;
  /// Of the jitter. The same seed gives the same waits. Nothing: another one each time.
  std::optional<std::uint64_t> seed = std::nullopt;
};

/// How retrying has ended.
enum class RetryEnd : std::uint8_t {
  kSucceeded,
  /// RetryOptions::max_attempts have failed.
  kAttempts,
  /// The next attempt would begin after RetryOptions::at_most.
  kDeadline,
  /// RetryOptions::budget is used up.
  kBudget,
  /// An attempt has said that another would be in vain.
  kGivenUp,
  /// The Timer would not take the wait: it is stopped, or full.
  kRefused,
};

/// The waits between the attempts at one thing.
///
///     Backoff backoff({.max_attempts = 4}, now());
///     while (!try_it()) {
///       const auto wait = backoff.failed(now());
///       if (!wait) return backoff.end();
///       co_await sleep_for(timer, *wait);
///     }
///     backoff.succeeded();
///
/// Time:    comes in from outside, on any clock that is monotonic. Waits are exact to the
///          nanosecond: waits of 2.5 s and 3.5 s end one second apart.
/// Threads: one at a time.
/// Errors:  options that make no sense (first < 0, factor < 1 or not finite, most < first) are a
///          bug and stop the program.
class Backoff {
 public:
  /// The first attempt begins at `now`.
  Backoff(const RetryOptions& options, Instant now);

  /// An attempt has failed, at `now`. How long to wait before the next; nothing if there is none,
  /// and then end() says why.
  std::optional<Span> failed(Instant now);
  /// An attempt has succeeded: the budget is told.
  void succeeded() noexcept;

  /// Attempts that have begun.
  [[nodiscard]] std::uint32_t attempts() const noexcept { return attempts_; }
  [[nodiscard]] RetryEnd end() const noexcept { return end_; }

 private:
  [[nodiscard]] Span draw() noexcept;

  RetryOptions options_;
  Random random_;
  Instant deadline_;
  // The longest that the next wait may be.
  double longest_ns_;
  std::uint32_t attempts_ = 1;
  RetryEnd end_ = RetryEnd::kSucceeded;
};

}  // namespace carillon
