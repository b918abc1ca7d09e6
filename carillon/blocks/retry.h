// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Tries something again until it succeeds or it is time to stop, without a thread that sleeps.
///
///     auto retry = carillon::retry(
///         timer, {.max_attempts = 6, .at_most = 2min},
///         [&](carillon::Attempt attempt) {  // begins it, and answers when the client knows
///           client.send(order, [attempt = std::move(attempt)](Status status) mutable {
///             status.ok() ? attempt.succeed() : attempt.fail();
///           });
///         },
///         [](const carillon::RetryOutcome& outcome) { ... });
///
/// The waits, the limits and the budget are those of backoff.h; a coroutine takes that and sleeps.

#include <cstdint>
#include <memory>

#include "carillon/blocks/backoff.h"
#include "carillon/timer/timer.h"
#include "carillon/timer/unique_function.h"

namespace carillon {

struct RetryOutcome {
  RetryEnd end;
  /// That have begun.
  std::uint32_t attempts;

  [[nodiscard]] bool succeeded() const noexcept { return end == RetryEnd::kSucceeded; }
};

namespace internal {
struct RetryState;
}  // namespace internal

/// One attempt, to be answered once. Whoever does it keeps this, and answers from any thread, at
/// once or later; twice is a bug and stops the program. If it is destroyed without an answer, that
/// is a failure: a callback that is lost on the way does not end the retrying for ever.
class Attempt {
 public:
  Attempt(Attempt&& other) noexcept = default;
  Attempt& operator=(Attempt&&) = delete;
  Attempt(const Attempt&) = delete;
  ~Attempt();

  /// The first is 1.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }

  void succeed();
  /// Try again, if there is still time, a budget, an attempt left.
  void fail();
  /// Do not try again: the request is wrong, or the answer is final.
  void give_up();

 private:
  friend struct internal::RetryState;
  Attempt(std::shared_ptr<internal::RetryState> state, std::uint32_t number) noexcept
      : state_(std::move(state)), number_(number) {}

  std::shared_ptr<internal::RetryState> state_;  // Null: answered.
  std::uint32_t number_;
};

/// What is being retried: to cancel it. A value; to drop it does nothing.
class RetryHandle {
 public:
  RetryHandle() noexcept = default;

  /// Ends it: no attempt begins any more, and the callback at the end is not called but destroyed.
  /// kCancelled: it was waiting between two attempts. kRunning: an attempt is under way; its answer
  /// will be ignored. kNotFound: it has ended.
  CancelResult cancel() noexcept;

 private:
  friend struct internal::RetryState;
  explicit RetryHandle(std::shared_ptr<internal::RetryState> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<internal::RetryState> state_;
};

/// Begins an attempt, now and on this thread; and after each failure another, by `timer`, until one
/// succeeds or backoff.h says that it is over. Then `done` is called, once, on the thread that
/// answered last; if a wait is refused, by the thread that asked for it.
///
/// Attempts never overlap: the next begins when this one has been answered and its call has
/// returned. An `attempt` that throws has failed, and the exception goes where those of the Timer's
/// callbacks go; that of the first passes through, and then nothing more is tried.
///
/// Threads:   any. Lifetime: the Timer must outlive the attempts. When it is stopped no attempt
///            begins any more, and `done` is destroyed without being called, unless an attempt is
///            under way: then it is called with kRefused when that has failed.
/// Cost:      an allocation for the whole, and a timer for each wait.
RetryHandle retry(Timer& timer, const RetryOptions& options, UniqueFunction<void(Attempt)> attempt,
                  UniqueFunction<void(const RetryOutcome&)> done);

}  // namespace carillon
