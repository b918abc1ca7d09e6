// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A limit to how long a coroutine waits for an operation.
///
///     auto answer = co_await with_timeout(timer, 2s, [&](std::stop_token stop) {
///       return ask(server, stop);                      // a coroutine that heeds the token
///     });
///     if (!answer) co_return give_up(answer.status());
///     use(*answer);
///
/// | the operation              | at the deadline                                                |
/// | -------------------------- | -------------------------------------------------------------- |
/// | a function of a stop token | its token is triggered, and it is waited for until it has ended |
/// | an awaitable               | it cannot be told, so it is left behind, and goes on by itself |
///
/// The first kind may use what the caller owns, since the caller goes on only when it has ended;
/// if it does not heed its token, the timeout is as late as its end. The second must own all it
/// uses; its result, or exception, is dropped when it ends.

#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/timer/sleep.h"

namespace carillon {

enum class TimeoutStatus : std::uint8_t {
  /// The operation ended before the deadline; there is a value.
  kCompleted,
  kTimedOut,
  /// The Timer was stopped before the operation ended, which is then as if timed out. Or it takes
  /// no timers any more: then the operation was not begun.
  kTimerStopped,
  /// TimerOptions::max_pending: the operation was not begun.
  kRefused,
};

/// What an operation with a timeout answered, or why it did not. To read a value that is not there
/// is a bug and stops the program.
template <class T>
class [[nodiscard]] TimeoutResult {
 public:
  using value_type = T;
  // An operation without a result has this one.
  struct Nothing {};
  using Stored = std::conditional_t<std::is_void_v<T>, Nothing, T>;

  explicit TimeoutResult(TimeoutStatus status) noexcept : status_(status) {}
  explicit TimeoutResult(Stored value)
      : status_(TimeoutStatus::kCompleted), value_(std::move(value)) {}

  [[nodiscard]] TimeoutStatus status() const noexcept { return status_; }
  [[nodiscard]] bool timed_out() const noexcept { return status_ == TimeoutStatus::kTimedOut; }
  [[nodiscard]] bool has_value() const noexcept { return status_ == TimeoutStatus::kCompleted; }
  explicit operator bool() const noexcept { return has_value(); }

  Stored& value() & {
    CARILLON_CHECK(has_value(), "value() of an operation that did not complete in time");
    return *value_;
  }
  Stored&& value() && { return std::move(value()); }
  Stored& operator*() & { return value(); }
  Stored&& operator*() && { return std::move(value()); }
  Stored* operator->() { return &value(); }

 private:
  TimeoutStatus status_;
  std::optional<Stored> value_;
};

namespace internal {

// A coroutine that is begun at once, and owned by nobody.
struct Detached {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

template <class Awaitable>
decltype(auto) awaiter_of(Awaitable&& awaitable) {
  if constexpr (requires { std::forward<Awaitable>(awaitable).operator co_await(); }) {
    return std::forward<Awaitable>(awaitable).operator co_await();
  } else if constexpr (requires { operator co_await(std::forward<Awaitable>(awaitable)); }) {
    return operator co_await(std::forward<Awaitable>(awaitable));
  } else {
    return std::forward<Awaitable>(awaitable);
  }
}
template <class Awaitable>
using AwaitResult =
    std::remove_cvref_t<decltype(awaiter_of(std::declval<Awaitable>()).await_resume())>;

template <class F>
concept StoppableOperation = std::is_invocable_v<F&, std::stop_token>;

// The answer comes from who claims the node. A stoppable operation ends the wait whoever that was.
template <class T, bool kStoppable>
class TimeoutNode : public WaitNode {
 public:
  TimeoutStatus status = TimeoutStatus::kCompleted;
  std::optional<TimeoutResult<T>> result;
  std::exception_ptr exception;
  std::stop_source stop;

  void on_timer(bool elapsed) {
    give_up(elapsed ? TimeoutStatus::kTimedOut : TimeoutStatus::kTimerStopped);
  }
  void give_up(TimeoutStatus why) {
    if (!claim()) {
      return;
    }
    status = why;
    if constexpr (kStoppable) {
      stop.request_stop();
    } else {
      end();
    }
  }
  void on_end(std::optional<TimeoutResult<T>>&& answer, std::exception_ptr thrown) {
    const bool first = claim();
    if (first) {
      result = std::move(answer);
      exception = std::move(thrown);
    }
    if (first || kStoppable) {
      end();
    }
  }
};

template <class T, bool kStoppable, class Operation>
Detached run_operation(NodePtr<TimeoutNode<T, kStoppable>> node, Operation given) {
  std::optional<TimeoutResult<T>> answer;
  std::exception_ptr thrown;
  try {
    // It ends here, before the caller goes on, who owns what it may use.
    Operation operation = std::move(given);
    const auto begin = [&]() -> decltype(auto) {
      if constexpr (kStoppable) {
        return operation(node->stop.get_token());
      } else {
        return std::move(operation);
      }
    };
    if constexpr (std::is_void_v<T>) {
      co_await begin();
      answer.emplace(typename TimeoutResult<T>::Nothing{});
    } else {
      answer.emplace(co_await begin());
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  node->on_end(std::move(answer), std::move(thrown));
}

}  // namespace internal

/// What with_timeout() answers: to be awaited, once. The answer is a TimeoutResult<T>; what the
/// operation throws before the deadline is thrown.
///
/// Threads:  the coroutine is resumed where the operation ends; if that is left behind, or ended by
///           its token, on the Timer's executor; when the Timer is stopped, as Sleep says.
/// Lifetime: a coroutine that is suspended here may be destroyed, as in a Sleep. A stoppable
///           operation is told then, and not waited for; each goes on by itself.
/// Cost:     that of a timer, and two allocations.
template <class T, bool kStoppable, class Operation>
class [[nodiscard]] WithTimeout {
  using Node = internal::TimeoutNode<T, kStoppable>;

 public:
  WithTimeout(Timer& timer, Span limit, Operation operation)
      : timer_(&timer), limit_(limit), operation_(std::move(operation)) {}
  /// Pre: not yet awaited.
  WithTimeout(WithTimeout&&) = default;
  WithTimeout& operator=(WithTimeout&&) = delete;
  ~WithTimeout() {
    if (node_) {
      // In this order: what stops at once does not resume what is being destroyed.
      const internal::NodePtr<Node> node = std::move(node_);
      node->abandon();
      handle_.cancel();
      if (node->claim() && kStoppable) {
        node->stop.request_stop();
      }
    }
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }

  bool await_suspend(std::coroutine_handle<> waiter) {
    node_ = internal::NodePtr<Node>(new Node);
    node_->set_waiter(waiter);
    handle_ = timer_->after(limit_, internal::NodeCallback<Node>(node_));
    if (!handle_) {
      node_->status = handle_.refusal() == Refusal::kStopped ? TimeoutStatus::kTimerStopped
                                                             : TimeoutStatus::kRefused;
      return false;
    }
    internal::run_operation<T, kStoppable>(node_, std::move(operation_));
    return node_->wait();
  }

  TimeoutResult<T> await_resume() {
    const internal::NodePtr<Node> node = std::move(node_);
    handle_.cancel();
    if (node->exception) {
      std::rethrow_exception(node->exception);
    }
    if (node->result) {
      return std::move(*node->result);
    }
    return TimeoutResult<T>(node->status);
  }

 private:
  Timer* timer_;
  Span limit_;
  Operation operation_;
  TimerHandle handle_;
  internal::NodePtr<Node> node_;
};

/// Awaits what `operation(std::stop_token)` answers; triggers the token at the deadline, and waits
/// for the end. The limit counts from the co_await.
template <class Rep, class Period, class Operation>
  requires internal::StoppableOperation<std::decay_t<Operation>>
[[nodiscard]] auto with_timeout(Timer& timer, std::chrono::duration<Rep, Period> limit,
                                Operation&& operation) {
  using Stored = std::decay_t<Operation>;
  using T = internal::AwaitResult<std::invoke_result_t<Stored&, std::stop_token>>;
  return WithTimeout<T, true, Stored>(timer, internal::to_span(limit),
                                      std::forward<Operation>(operation));
}

/// Awaits `awaitable`, which is moved from; leaves it behind at the deadline.
template <class Rep, class Period, class Awaitable>
  requires(!internal::StoppableOperation<std::decay_t<Awaitable>>)
[[nodiscard]] auto with_timeout(Timer& timer, std::chrono::duration<Rep, Period> limit,
                                Awaitable awaitable) {
  using T = internal::AwaitResult<Awaitable>;
  return WithTimeout<T, false, Awaitable>(timer, internal::to_span(limit), std::move(awaitable));
}

}  // namespace carillon
