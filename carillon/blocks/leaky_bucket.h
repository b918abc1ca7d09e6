// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A rate limiter for each of many keys that makes a burst into an even flow: the leaky bucket, as
/// a queue.
///
/// A caller is told when its turn is: at once if the key has been quiet, otherwise one interval
/// after the turn before. What has been let in waits in the caller's hands (a Timer, a coroutine),
/// the bucket only counts. When `most_waiting` turns are waiting, the next is refused.
///
///     rate {10, 1s}, six calls at once, most_waiting 4
///     call    1     2        3        4        5        6
///     turn    now   100 ms   200 ms   300 ms   400 ms   refused: retry after 100 ms
///
/// For calls to somebody else's API, mails to one provider, writes to a slow disk: what must not
/// come in bursts. Where a burst does no harm, a TokenBucket makes nobody wait.

#include <functional>
#include <string>

#include "carillon/blocks/internal/keyed_limiter.h"
#include "carillon/blocks/key.h"

namespace carillon {

/// What a LeakyBucket answers.
struct [[nodiscard]] Turn {
  /// It may go, in `delay`.
  bool granted = false;
  /// As in Admission.
  bool table_full = false;
  /// If granted: how long to wait first; zero: go now. Rounded up to the nanosecond.
  Span delay{};
  /// If not granted: as in Admission.
  Span retry_after{};

  explicit operator bool() const noexcept { return granted; }
};

namespace internal {

class LeakyPolicy {
 public:
  using Answer = Turn;

  LeakyPolicy(Rate rate, std::uint64_t most_waiting) : rate_(rate, most_waiting + 1) {}

  struct State {
    State(const LeakyPolicy& /*policy*/, Instant now) noexcept : at(now) {}
    // What has not run out yet at `at`, in units of the rate.
    std::int64_t level = 0;
    Instant at;
  };

  [[nodiscard]] bool possible(std::uint64_t n) const noexcept {
    return n <= static_cast<std::uint64_t>(rate_.most / rate_.permit);
  }

  Answer decide(State& state, std::uint64_t n, Instant now) const noexcept {
    if (now > state.at) {
      state.level -= rate_.brought(saturating_between(state.at, now), state.level);
      state.at = now;
    }
    const std::int64_t price = static_cast<std::int64_t>(n) * rate_.permit;
    const std::int64_t room = rate_.most - price;
    Answer answer;
    if (state.level <= room) {
      answer.granted = true;
      answer.delay = wait_from(now, saturating_add(state.at, rate_.until(state.level)));
      state.level += price;
    } else {
      answer.retry_after =
          wait_from(now, saturating_add(state.at, rate_.until(state.level - room)));
    }
    return answer;
  }

  [[nodiscard]] bool idle(const State& state, Instant now) const noexcept {
    return now >= saturating_add(state.at, rate_.until(state.level));
  }

 private:
  ExactRate rate_;
};

}  // namespace internal

struct LeakyBucketOptions {
  /// How fast turns come.
  Rate rate;
  /// Turns of a key that may be waiting, beside the one whose turn it is. 0: who cannot go at once
  /// is refused.
  std::uint64_t most_waiting;
  LimiterOptions common = {};
};

/// A leaky bucket for each key.
///
/// Time:    as TokenBucket. Turns are exactly one interval apart, on average over any stretch; each
///          is rounded up to the nanosecond.
/// Order:   turns in the order of the calls.
/// Threads: safe, as TokenBucket. Errors: as TokenBucket, most_waiting + 1 in place of the burst.
/// Cost:    as TokenBucket. Who gives up a turn leaves it unused.
///
/// Example:
///     LeakyBucket<> bucket({.rate = {10, 1s}, .most_waiting = 100});
///     if (const Turn turn = bucket.try_acquire(provider)) {
///       timer.after(turn.delay, [mail] { send(mail); });
///     } else {
///       put_off(mail, turn.retry_after);
///     }
template <class Key = std::string, class Hash = typename KeyTraits<Key>::Hash,
          class Equal = std::equal_to<>>
class LeakyBucket {
 public:
  explicit LeakyBucket(const LeakyBucketOptions& options)
      : keyed_(internal::LeakyPolicy(options.rate, options.most_waiting), options.common) {}
  LeakyBucket(const LeakyBucket&) = delete;
  LeakyBucket& operator=(const LeakyBucket&) = delete;

  /// Takes `n` turns of `key`, all or none: `n` intervals then belong to the caller, of which
  /// `delay` is the beginning. With n = 0 it is a question: what would the delay be?
  Turn try_acquire(KeyView<Key> key, std::uint64_t n = 1) { return keyed_.try_acquire(key, n); }
  Turn try_acquire(KeyView<Key> key, std::uint64_t n, Instant now) {
    return keyed_.try_acquire(key, n, now);
  }

  /// As those of TokenBucket.
  std::size_t sweep() noexcept { return keyed_.sweep(); }
  std::size_t sweep(Instant now) noexcept { return keyed_.sweep(now); }
  [[nodiscard]] std::size_t keys() const noexcept { return keyed_.keys(); }

 private:
  internal::KeyedLimiter<internal::LeakyPolicy, Key, Hash, Equal> keyed_;
};

}  // namespace carillon
