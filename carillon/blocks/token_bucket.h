// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A rate limiter for each of many keys that lets bursts through: the token bucket.
///
/// A bucket holds up to `burst` permits and is full at first. Who takes permits takes them out;
/// they come back one by one, at the rate. So a key that has been quiet may have `burst` at once,
/// and one that never stops has the rate, to the permit, however long it goes on. In any span t it
/// has at most burst + rate * t.
///
/// Two numbers a key, no list of what was taken: it is the cheapest of the limiters. What it is bad
/// at: "at most N in any window", since around a burst it lets nearly twice the rate through; that
/// is SlidingWindowLimiter's.

#include <functional>
#include <string>

#include "carillon/blocks/internal/keyed_limiter.h"
#include "carillon/blocks/key.h"

namespace carillon {

namespace internal {

class TokenPolicy {
 public:
  using Answer = Admission;

  TokenPolicy(Rate rate, std::uint64_t burst) : rate_(rate, burst) {}

  struct State {
    State(const TokenPolicy& policy, Instant now) noexcept : level(policy.rate_.most), at(now) {}
    // What is in the bucket, in units of the rate, at `at`.
    std::int64_t level;
    Instant at;
  };

  [[nodiscard]] bool possible(std::uint64_t n) const noexcept {
    return n <= static_cast<std::uint64_t>(rate_.most / rate_.permit);
  }

  Answer decide(State& state, std::uint64_t n, Instant now) const noexcept {
    if (now > state.at) {
      state.level += rate_.brought(saturating_between(state.at, now), rate_.most - state.level);
      state.at = now;
    }
    const std::int64_t price = static_cast<std::int64_t>(n) * rate_.permit;
    Answer answer;
    if (price <= state.level) {
      state.level -= price;
      answer.granted = true;
    } else {
      // From `now` on, which may be before the time of another thread's last call.
      answer.retry_after =
          wait_from(now, saturating_add(state.at, rate_.until(price - state.level)));
    }
    answer.remaining = static_cast<std::uint64_t>(state.level / rate_.permit);
    return answer;
  }

  [[nodiscard]] bool idle(const State& state, Instant now) const noexcept {
    return now >= saturating_add(state.at, rate_.until(rate_.most - state.level));
  }

 private:
  ExactRate rate_;
};

}  // namespace internal

struct TokenBucketOptions {
  /// How fast permits come back.
  Rate rate;
  /// The most that a key can have at once, and has at first.
  std::uint64_t burst;
  LimiterOptions common = {};
};

/// A token bucket for each key.
///
/// Time:    to the nanosecond, and exact: permits come back at the rate, without rounding, for
///          ever. The time is given, or read from the clock (LimiterOptions::clock). Threads may
///          give times that are a little out of order: an earlier one counts as the latest.
/// Threads: safe. A call holds the lock of one shard for some ten nanoseconds, and while it reads
///          the clock.
/// Errors:  a rate or burst of nothing is a bug and stops the program; so is a burst that is more
///          than 2^62 divided by the nanoseconds of `per`: 53,000 at "7 a day", which no common
///          divisor makes smaller. try_acquire() may throw std::bad_alloc, for a key that is new,
///          and what the key's constructor throws.
/// Cost:    O(1); an allocation when the table grows: by half, beside the old one, from which each
///          call that brings a new key moves some ten. A key whose bucket is full again is
///          forgotten: by other calls, a few keys each, or by sweep().
///
/// Example (examples/rate_limits.cc):
///     TokenBucket<> bucket({.rate = {10, 1s}, .burst = 20});
///     if (const Admission admission = bucket.try_acquire(client); !admission) {
///       refuse(429, admission.retry_after);
///     }
template <class Key = std::string, class Hash = typename KeyTraits<Key>::Hash,
          class Equal = std::equal_to<>>
class TokenBucket {
 public:
  explicit TokenBucket(const TokenBucketOptions& options)
      : keyed_(internal::TokenPolicy(options.rate, options.burst), options.common) {}
  TokenBucket(const TokenBucket&) = delete;
  TokenBucket& operator=(const TokenBucket&) = delete;

  /// Takes `n` permits of `key`, all or none. With n = 0 it is always granted, and a question.
  Admission try_acquire(KeyView<Key> key, std::uint64_t n = 1) {
    return keyed_.try_acquire(key, n);
  }
  Admission try_acquire(KeyView<Key> key, std::uint64_t n, Instant now) {
    return keyed_.try_acquire(key, n, now);
  }

  /// Forgets all keys that are idle, and returns how many. Calls do that by themselves; this is for
  /// when they have ceased: timer.every(10s, [&] { bucket.sweep(); }). O(keys), but holds no lock
  /// for longer than some microseconds.
  std::size_t sweep() noexcept { return keyed_.sweep(); }
  std::size_t sweep(Instant now) noexcept { return keyed_.sweep(now); }

  /// Keys that are remembered. Takes each shard's lock.
  [[nodiscard]] std::size_t keys() const noexcept { return keyed_.keys(); }

 private:
  internal::KeyedLimiter<internal::TokenPolicy, Key, Hash, Equal> keyed_;
};

}  // namespace carillon
