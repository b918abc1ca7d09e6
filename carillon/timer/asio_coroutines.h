// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// sleep_for(), sleep_until() and with_timeout() for Asio's coroutines, asio::awaitable. See asio.h
/// for which Asio; sleep.h and with_timeout.h for other coroutines.
///
/// The coroutine is resumed on its executor. Where the executor has many threads, run the coroutine
/// on a strand, as always with Asio.

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "carillon/timer/asio_wheel_timer.h"
#include "carillon/timer/internal/asio_config.h"
#include "carillon/timer/sleep.h"
#include "carillon/timer/with_timeout.h"

#if defined(CARILLON_ASIO_COROUTINES)

namespace carillon::asio {
inline namespace CARILLON_ASIO_NAMESPACE {

namespace detail {

[[nodiscard]] inline net::awaitable<SleepResult> sleep_on(wheel_timer& timer,
                                                          std::stop_token token) {
  // It may be triggered before the wait begins: then that ends at once.
  const std::stop_callback on_stop(token, [waits = timer.internal_waits()] { waits->close(); });
  error_code error;
  co_await timer.async_wait(net::redirect_error(net::use_awaitable, error));
  if (!error) {
    co_return SleepResult::kElapsed;
  }
  if (token.stop_requested()) {
    co_return SleepResult::kStopRequested;
  }
#if CARILLON_ASIO_VERSION >= 102200
  if ((co_await net::this_coro::cancellation_state).cancelled() != net::cancellation_type::none) {
    throw system_error(error, "sleep");
  }
#endif
  co_return error == net::error::no_buffer_space ? SleepResult::kRefused
                                                 : SleepResult::kTimerStopped;
}

// What with_timeout() shares with the operation.
template <class T>
struct TimeoutShare {
  std::atomic<bool> claimed{false};
  std::optional<TimeoutResult<T>> result;
  std::exception_ptr thrown;
#if CARILLON_ASIO_VERSION >= 102200
  net::cancellation_signal cancel;
#endif
  // True for one: the answer is by that.
  [[nodiscard]] bool claim() noexcept { return !claimed.exchange(true); }
};

[[nodiscard]] inline TimeoutStatus timeout_status_of(error_code error) noexcept {
  return !error                                 ? TimeoutStatus::kTimedOut
         : error == net::error::no_buffer_space ? TimeoutStatus::kRefused
                                                : TimeoutStatus::kTimerStopped;
}

}  // namespace detail

/// Waits for `delay`, or until the token is triggered, and says which; see SleepResult. The delay
/// counts from the co_await; it is never early. In Asio that has cancellation slots, the coroutine
/// may be cancelled by these too, and then throws, as Asio's operations do.
template <class Rep, class Period>
[[nodiscard]] net::awaitable<SleepResult> sleep_for(Timer& timer,
                                                    std::chrono::duration<Rep, Period> delay,
                                                    std::stop_token token = {}) {
  wheel_timer wait(timer, co_await net::this_coro::executor);
  wait.expires_after(carillon::internal::to_span(delay));
  co_return co_await detail::sleep_on(wait, std::move(token));
}

/// The same until a point in time.
[[nodiscard]] inline net::awaitable<SleepResult> sleep_until(
    Timer& timer, std::chrono::steady_clock::time_point deadline, std::stop_token token = {}) {
  wheel_timer wait(timer, co_await net::this_coro::executor);
  wait.expires_at(deadline);
  co_return co_await detail::sleep_on(wait, std::move(token));
}

/// Awaits what `operation(std::stop_token)` answers, an awaitable<T>; triggers the token at the
/// deadline, and waits for the end. Answers a TimeoutResult<T>; throws what the operation throws
/// before the deadline.
///
/// The token is triggered on the coroutine's executor. If the Timer is stopped, or refuses, that is
/// as if the deadline had come, with TimeoutStatus::kTimerStopped or kRefused.
template <class Rep, class Period, class Operation>
  requires carillon::internal::StoppableOperation<Operation>
[[nodiscard]] auto with_timeout(Timer& timer, std::chrono::duration<Rep, Period> limit,
                                Operation operation)
    -> net::awaitable<
        TimeoutResult<typename std::invoke_result_t<Operation&, std::stop_token>::value_type>> {
  using T = typename std::invoke_result_t<Operation&, std::stop_token>::value_type;
  struct Share {
    std::atomic<bool> claimed{false};
    TimeoutStatus status = TimeoutStatus::kCompleted;
    std::stop_source stop;
  };
  const auto share = std::make_shared<Share>();
  wheel_timer deadline(timer, co_await net::this_coro::executor);
  deadline.expires_after(carillon::internal::to_span(limit));
  deadline.async_wait([share](error_code error) {
    if (!share->claimed.exchange(true)) {
      share->status = detail::timeout_status_of(error);
      share->stop.request_stop();
    }
  });
  std::optional<TimeoutResult<T>> answer;
  std::exception_ptr thrown;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await operation(share->stop.get_token());
      answer.emplace(typename TimeoutResult<T>::Nothing{});
    } else {
      answer.emplace(co_await operation(share->stop.get_token()));
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  if (share->claimed.exchange(true)) {
    co_return TimeoutResult<T>(share->status);
  }
  if (thrown) {
    std::rethrow_exception(thrown);
  }
  co_return std::move(*answer);
}

/// Awaits `operation`, which is moved from, in a coroutine of its own on the same executor.
///
/// At the deadline, in Asio from 1.22 (Boost 1.78): it is cancelled by its cancellation slot
/// (terminal), and waited for. In older ones, and if the Timer is stopped: it cannot be told, so it
/// is left behind and goes on by itself; it must own all that it uses, and its result, or
/// exception, is dropped.
template <class Rep, class Period, class T>
[[nodiscard]] net::awaitable<TimeoutResult<T>> with_timeout(
    Timer& timer, std::chrono::duration<Rep, Period> limit, net::awaitable<T> operation) {
  const auto executor = co_await net::this_coro::executor;
  const auto share = std::make_shared<detail::TimeoutShare<T>>();
  wheel_timer deadline(timer, executor);
  deadline.expires_after(carillon::internal::to_span(limit));
  // Told of the end of the operation by being closed.
  wheel_timer ended(timer, executor);
  ended.expires_at(wheel_timer::time_point::max());
  const auto finish = [share, first = deadline.internal_waits(),
                       second = ended.internal_waits()](std::exception_ptr thrown) {
    share->thrown = std::move(thrown);  // Read by who finds that this has claimed it.
    static_cast<void>(share->claim());
    first->close();
    second->close();
  };
  const auto begin = [&](auto handler) {
#if CARILLON_ASIO_VERSION >= 102200
    net::co_spawn(executor, std::move(operation),
                  net::bind_cancellation_slot(share->cancel.slot(), std::move(handler)));
#else
    net::co_spawn(executor, std::move(operation), std::move(handler));
#endif
  };
  if constexpr (std::is_void_v<T>) {
    begin([share, finish](std::exception_ptr thrown) {
      share->result.emplace(typename TimeoutResult<T>::Nothing{});
      finish(std::move(thrown));
    });
  } else {
    begin([share, finish](std::exception_ptr thrown, T value) {
      share->result.emplace(std::move(value));
      finish(std::move(thrown));
    });
  }
  error_code error;
  co_await deadline.async_wait(net::redirect_error(net::use_awaitable, error));
  if (share->claim()) {
#if CARILLON_ASIO_VERSION >= 102200
    share->cancel.emit(net::cancellation_type::terminal);
    error_code ignored;
    co_await ended.async_wait(net::redirect_error(net::use_awaitable, ignored));
#endif
    co_return TimeoutResult<T>(detail::timeout_status_of(error));
  }
  if (share->thrown) {
    std::rethrow_exception(share->thrown);
  }
  co_return std::move(*share->result);
}

}  // namespace CARILLON_ASIO_NAMESPACE
}  // namespace carillon::asio

#endif  // CARILLON_ASIO_COROUTINES
