// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A rate limiter for each of many keys that keeps to its word: at most N in any window, exactly.
///
/// "100 requests in a minute" is often built as a counter that is set to zero each minute; then 200
/// go through in two seconds around the turn of the minute. Two counters weighed by the time are an
/// estimate. This remembers when each permit was taken, and so is exact: whatever window of that
/// length is looked at, half open, [t, t + window), it has at most N in it.
///
///     limit 3, window 60 s       t    0     10    20    59       60        70
///                                     ok    ok    ok    refused  ok: the   ok
///                                                 retry: 1 s     one of 0 has gone
///
/// What it costs is memory: 16 bytes, up to twice that, for each permit that was taken within the
/// last window (those of one call together), unless it is the only one. For a limit of thousands
/// and millions of keys take a TokenBucket.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/blocks/internal/keyed_limiter.h"
#include "carillon/blocks/key.h"

namespace carillon {

namespace internal {

class WindowPolicy {
 public:
  using Answer = Admission;

  // Permits that were taken at one instant.
  struct Run {
    Instant at;
    std::uint64_t permits;
  };

  WindowPolicy(std::uint64_t limit, Span window) : limit_(limit), window_(window) {
    CARILLON_CHECK(limit > 0 && window > Span::zero(), "a limiter of ", limit, " permits in ",
                   window.count(), " ns");
  }

  // Runs, the oldest first. One lies in here: most keys never have two at a time, and then there is
  // no other memory to be fetched. More are in a ring.
  class State {
   public:
    State(const WindowPolicy& /*policy*/, Instant /*now*/) noexcept {}
    State(State&& other) noexcept
        : first_(other.first_),
          count_(other.count_),
          capacity_(std::exchange(other.capacity_, 0)),
          taken_(other.taken_) {
      if (capacity_ == 0) {
        only_at_ = other.only_at_;
      } else {
        runs_ = other.runs_;
      }
    }
    State& operator=(State&&) = delete;
    ~State() {
      if (capacity_ != 0) {
        delete[] runs_;
      }
    }

   private:
    friend class WindowPolicy;

    [[nodiscard]] Run run(std::uint32_t number) const noexcept {
      return capacity_ == 0 ? Run{only_at_, taken_} : runs_[place(number)];
    }
    [[nodiscard]] Instant newest() const noexcept { return run(count_ - 1).at; }
    [[nodiscard]] std::uint32_t place(std::uint32_t number) const noexcept {
      return (first_ + number) & (capacity_ - 1);
    }
    void pop() noexcept {
      taken_ -= run(0).permits;
      first_ = capacity_ == 0 ? 0 : place(1);
      --count_;
    }
    void push(Instant at, std::uint64_t permits) {
      if (count_ == 0 || newest() != at) {
        if (count_ == std::max<std::uint32_t>(1, capacity_)) {
          resize(capacity_ == 0 ? kFewest : 2 * capacity_);
        }
        if (capacity_ == 0) {
          only_at_ = at;
        } else {
          runs_[place(count_)] = {at, 0};
        }
        ++count_;
      }
      if (capacity_ != 0) {
        runs_[place(count_ - 1)].permits += permits;
      }
      taken_ += permits;
    }
    void resize(std::uint32_t capacity) {
      auto runs = std::make_unique<Run[]>(capacity);
      for (std::uint32_t i = 0; i < count_; ++i) {
        runs[i] = run(i);
      }
      if (capacity_ != 0) {
        delete[] runs_;
      }
      runs_ = runs.release();
      first_ = 0;
      capacity_ = capacity;
    }

    static constexpr std::uint32_t kFewest = 4;

    union {
      // Of the one run, of which the permits are taken_: if the capacity is zero.
      Instant only_at_{};
      Run* runs_;
    };
    std::uint32_t first_ = 0;
    std::uint32_t count_ = 0;
    // A power of two, or zero.
    std::uint32_t capacity_ = 0;
    // The sum over the runs; at most the limit.
    std::uint64_t taken_ = 0;
  };

  [[nodiscard]] bool possible(std::uint64_t n) const noexcept { return n <= limit_; }

  Answer decide(State& state, std::uint64_t n, Instant given) const {
    // Runs are in the order of time, whatever order the threads come in.
    const Instant now = state.count_ > 0 ? std::max(given, state.newest()) : given;
    while (state.count_ > 0 && gone(state.run(0).at, now)) {
      state.pop();
    }
    if (state.capacity_ > kKeptCapacity && state.count_ < state.capacity_ / 8) {
      state.resize(state.capacity_ / 4);
    }
    Answer answer;
    if (n <= limit_ - state.taken_) {
      if (n > 0) {
        state.push(now, n);
      }
      answer.granted = true;
    } else {
      // When enough of the oldest have gone: at most n of them, as each has at least one.
      std::uint64_t needed = n - (limit_ - state.taken_);
      std::uint32_t number = 0;
      while (state.run(number).permits < needed) {
        needed -= state.run(number++).permits;
      }
      answer.retry_after = wait_from(given, saturating_add(state.run(number).at, window_));
    }
    answer.remaining = limit_ - state.taken_;
    return answer;
  }

  [[nodiscard]] bool idle(const State& state, Instant now) const noexcept {
    return state.count_ == 0 || gone(state.newest(), now);
  }

 private:
  static constexpr std::uint32_t kKeptCapacity = 16;

  [[nodiscard]] bool gone(Instant taken_at, Instant now) const noexcept {
    return saturating_add(taken_at, window_) <= now;
  }

  std::uint64_t limit_;
  Span window_;
};

}  // namespace internal

struct SlidingWindowOptions {
  /// The most permits of a key in any window.
  std::uint64_t limit;
  Span window;
  LimiterOptions common = {};
};

/// An exact sliding window for each key.
///
/// Time:    to the nanosecond: a permit taken at t counts in [t, t + window). The time is given, or
///          read from the clock (LimiterOptions::clock). Threads may give times that are a little
///          out of order: one that is earlier than that of the key's last permit counts as that. If
///          a key has been asked for at t before, and is at t - d, a window may be short by d.
/// Threads: safe. A call holds the lock of one shard for some ten nanoseconds, and while it reads
///          the clock; that of a key with thousands of old permits for as long as it takes to drop
///          them, 1 ns each.
/// Errors:  a limit or window of nothing is a bug and stops the program. try_acquire() may throw
///          std::bad_alloc, and what the key's constructor throws; nothing is taken then.
/// Cost:    O(1) amortised when granted, O(n) for the answer when refused. An allocation when a key
///          has more permits in its window than ever, and when the table grows: by half, beside the
///          old one, from which each call that brings a new key moves some ten. A key of which
///          nothing is within the window is forgotten: by other calls, a few keys each, or by
///          sweep().
/// Limits:  2^31 calls of one key in a window.
///
/// Example (examples/rate_limits.cc):
///     SlidingWindowLimiter<> limiter({.limit = 100, .window = 60s});
///     if (const Admission admission = limiter.try_acquire(client); !admission) {
///       refuse(429, admission.retry_after);
///     }
template <class Key = std::string, class Hash = typename KeyTraits<Key>::Hash,
          class Equal = std::equal_to<>>
class SlidingWindowLimiter {
 public:
  explicit SlidingWindowLimiter(const SlidingWindowOptions& options)
      : keyed_(internal::WindowPolicy(options.limit, options.window), options.common) {}
  SlidingWindowLimiter(const SlidingWindowLimiter&) = delete;
  SlidingWindowLimiter& operator=(const SlidingWindowLimiter&) = delete;

  /// Takes `n` permits of `key`, all or none. With n = 0 it is always granted, and a question.
  Admission try_acquire(KeyView<Key> key, std::uint64_t n = 1) {
    return keyed_.try_acquire(key, n);
  }
  Admission try_acquire(KeyView<Key> key, std::uint64_t n, Instant now) {
    return keyed_.try_acquire(key, n, now);
  }

  /// As those of TokenBucket.
  std::size_t sweep() noexcept { return keyed_.sweep(); }
  std::size_t sweep(Instant now) noexcept { return keyed_.sweep(now); }
  [[nodiscard]] std::size_t keys() const noexcept { return keyed_.keys(); }

 private:
  internal::KeyedLimiter<internal::WindowPolicy, Key, Hash, Equal> keyed_;
};

}  // namespace carillon
