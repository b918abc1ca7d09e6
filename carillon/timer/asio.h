// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For programs that use Boost.Asio, or Asio without Boost (define CARILLON_ASIO_STANDALONE before
/// this is included). Header only: the library itself needs neither.
///
/// | what                                | for                                                    |
/// | ----------------------------------- | ------------------------------------------------------ |
/// | carillon::asio::wheel_timer         | instead of steady_timer (asio_wheel_timer.h)           |
/// | carillon::asio::sleep_for()         | asio::awaitable (asio_coroutines.h)                    |
/// | carillon::asio::with_timeout()      | asio::awaitable (asio_coroutines.h)                    |
/// | carillon::asio::make_executor()     | a Timer whose callbacks run on an Asio executor (here) |
///
/// Asio from 1.18 (Boost 1.74). Cancellation slots need 1.20 (Boost 1.77). Coroutines are there if
/// that Asio has them with the compiler: CARILLON_ASIO_COROUTINES is defined then. (Those of Debian
/// 12 do not with clang.)

#include <memory>
#include <type_traits>
#include <utility>

#include "carillon/timer/asio_coroutines.h"
#include "carillon/timer/asio_wheel_timer.h"
#include "carillon/timer/executor.h"
#include "carillon/timer/internal/asio_config.h"

namespace carillon::asio {
inline namespace CARILLON_ASIO_NAMESPACE {

/// An executor for TimerOptions::executor: each callback is posted to `executor`, an executor of
/// Asio (io_context::executor_type, a strand, any_io_executor ...).
///
///     boost::asio::io_context io;
///     TimerOptions options;
///     options.executor = carillon::asio::make_executor(io.get_executor());
///     Timer timer(options);                    // its callbacks run in io.run()
///
/// Timers that are pending are not work: run() may return while there are some, and what comes due
/// then waits for the next run(). Keep an executor_work_guard if it is not to.
///
/// Lifetime: the context outlives the Timer.
/// Errors:   if Asio has no memory to post, the program stops.
template <class AsioExecutor>
  requires(!std::is_convertible_v<AsioExecutor&, net::execution_context&>)
[[nodiscard]] std::shared_ptr<Executor> make_executor(AsioExecutor executor) {
  return function_executor(
      [executor = std::move(executor)](Firing firing) { net::post(executor, std::move(firing)); });
}

/// The same, for the executor of a context.
template <class Context>
  requires std::is_convertible_v<Context&, net::execution_context&>
[[nodiscard]] std::shared_ptr<Executor> make_executor(Context& context) {
  return make_executor(context.get_executor());
}

}  // namespace CARILLON_ASIO_NAMESPACE
}  // namespace carillon::asio
