// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/retry.h"

#include <optional>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/base/mutex.h"
#include "carillon/timer/internal/spin_lock.h"

namespace carillon {
namespace internal {

// Between two attempts it is owned by the timer of the wait; during one by its Attempt.
struct RetryState {
  enum class Phase : std::uint8_t { kTrying, kWaiting, kOver };
  enum class Answer : std::uint8_t { kSuccess, kFailure, kFinal };

  RetryState(Timer& t, const RetryOptions& options, UniqueFunction<void(Attempt)>&& a,
             UniqueFunction<void(const RetryOutcome&)>&& d)
      : timer(t), backoff(options, t.now()), attempt(std::move(a)), done(std::move(d)) {}

  static RetryHandle make_handle(std::shared_ptr<RetryState> state) {
    return RetryHandle(std::move(state));
  }

  // Runs the attempt that is due, unless it has been cancelled; or has the call before it do that
  // when it returns, if that has answered and is still under way.
  static void begin(const std::shared_ptr<RetryState>& state) {
    std::optional<std::uint32_t> number = state->enter();
    while (number) {
      try {
        state->attempt(Attempt(state, *number));
      } catch (...) {
        if (state->leave()) {
          state->timer.after(Span::zero(), [state] { begin(state); });
        }
        throw;
      }
      number = state->leave() ? state->enter() : std::nullopt;
    }
  }

  static void answer(const std::shared_ptr<RetryState>& state, Answer answer) {
    UniqueFunction<void(const RetryOutcome&)> finish;
    UniqueFunction<void(Attempt)> gone;
    RetryOutcome outcome{RetryEnd::kSucceeded, 0};
    {
      const SpinLockHold lock(state->mutex);
      if (state->phase != Phase::kTrying) {
        return;  // Cancelled meanwhile.
      }
      if (answer == Answer::kFailure) {
        const Instant now = state->timer.now();
        const std::optional<Span> wait = state->backoff.failed(now);
        outcome.end = state->backoff.end();
        if (wait) {
          // With the lock held: when the wait is over at once, begin() finds kWaiting.
          state->phase = Phase::kWaiting;
          state->wait = state->timer.at(saturating_add(now, *wait), [state] { begin(state); });
          if (state->wait) {
            return;
          }
          outcome.end = RetryEnd::kRefused;
        }
      } else if (answer == Answer::kSuccess) {
        state->backoff.succeeded();
      } else {
        outcome.end = RetryEnd::kGivenUp;
      }
      gone = state->end();
      outcome.attempts = state->backoff.attempts();
      if (outcome.end == RetryEnd::kRefused) {
        --outcome.attempts;  // The one that will not be.
      }
      finish = std::move(state->done);
    }
    if (finish) {
      finish(outcome);
    }
  }

  static CancelResult cancel(RetryState& state) noexcept {
    // Destroyed when the lock is not held.
    UniqueFunction<void(const RetryOutcome&)> done_no_more;
    UniqueFunction<void(Attempt)> gone;
    TimerHandle wait;
    CancelResult result = CancelResult::kRunning;
    {
      const SpinLockHold lock(state.mutex);
      if (state.phase == Phase::kOver) {
        return CancelResult::kNotFound;
      }
      result = state.phase == Phase::kWaiting ? CancelResult::kCancelled : CancelResult::kRunning;
      gone = state.end();
      done_no_more = std::move(state.done);
      wait = state.wait;
    }
    wait.cancel();
    return result;
  }

  // The number of the attempt that is to be run now, if any.
  std::optional<std::uint32_t> enter() {
    const SpinLockHold lock(mutex);
    if (phase == Phase::kOver) {
      return std::nullopt;
    }
    if (calling) {
      again = true;
      return std::nullopt;
    }
    calling = true;
    phase = Phase::kTrying;
    return backoff.attempts();
  }
  // A call of `attempt` has returned. True: the next one has come due meanwhile.
  bool leave() {
    UniqueFunction<void(Attempt)> gone;
    const SpinLockHold lock(mutex);
    calling = false;
    if (phase == Phase::kOver) {
      gone = std::move(attempt);
    }
    return std::exchange(again, false) && phase != Phase::kOver;
  }
  // It is over. What `attempt` owns is given up as soon as it is not being called.
  UniqueFunction<void(Attempt)> end() CARILLON_REQUIRES(mutex) {
    phase = Phase::kOver;
    return calling ? UniqueFunction<void(Attempt)>() : std::move(attempt);
  }

  Timer& timer;
  SpinLock mutex;
  // `attempt` is being called, and the next one is due.
  bool calling CARILLON_GUARDED_BY(mutex) = false;
  bool again CARILLON_GUARDED_BY(mutex) = false;
  Phase phase CARILLON_GUARDED_BY(mutex) = Phase::kTrying;
  Backoff backoff CARILLON_GUARDED_BY(mutex);
  TimerHandle wait CARILLON_GUARDED_BY(mutex);
  UniqueFunction<void(Attempt)> attempt;
  UniqueFunction<void(const RetryOutcome&)> done CARILLON_GUARDED_BY(mutex);
};

}  // namespace internal

using internal::RetryState;

Attempt::~Attempt() {
  if (state_ != nullptr) {
    fail();
  }
}

void Attempt::succeed() {
  CARILLON_CHECK(state_ != nullptr, "an attempt was answered twice");
  RetryState::answer(std::exchange(state_, nullptr), RetryState::Answer::kSuccess);
}

void Attempt::fail() {
  CARILLON_CHECK(state_ != nullptr, "an attempt was answered twice");
  RetryState::answer(std::exchange(state_, nullptr), RetryState::Answer::kFailure);
}

void Attempt::give_up() {
  CARILLON_CHECK(state_ != nullptr, "an attempt was answered twice");
  RetryState::answer(std::exchange(state_, nullptr), RetryState::Answer::kFinal);
}

CancelResult RetryHandle::cancel() noexcept {
  return state_ == nullptr ? CancelResult::kNotFound : RetryState::cancel(*state_);
}

RetryHandle retry(Timer& timer, const RetryOptions& options, UniqueFunction<void(Attempt)> attempt,
                  UniqueFunction<void(const RetryOutcome&)> done) {
  auto state = std::make_shared<RetryState>(timer, options, std::move(attempt), std::move(done));
  try {
    RetryState::begin(state);
  } catch (...) {
    RetryState::cancel(*state);
    throw;
  }
  return RetryState::make_handle(std::move(state));
}

}  // namespace carillon
