// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/asio_coroutines.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/timer/asio_fixture.h"
#include "carillon/timer/manual_driver.h"

#if defined(CARILLON_ASIO_COROUTINES)

namespace carillon {
namespace {

using namespace std::chrono_literals;
namespace net = testing::net;
using AsioCoroutine = testing::AsioOnManualTime;

TEST_F(AsioCoroutine, SleepEndsAtItsTimeOnTheExecutorOfTheCoroutine) {
  std::optional<SleepResult> result;
  std::thread::id resumed_on;
  const auto sleeper = [&]() -> net::awaitable<void> {
    result = co_await carillon::asio::sleep_for(timer, 10ms);
    resumed_on = std::this_thread::get_id();
    const std::chrono::steady_clock::time_point at((time.now() + 5ms).time_since_epoch());
    EXPECT_EQ(co_await carillon::asio::sleep_until(timer, at), SleepResult::kElapsed);
    EXPECT_EQ(time.now() - ManualDriver::kStart, 15ms);
  };
  spawn(sleeper());
  time.advance(10ms);
  EXPECT_FALSE(result) << "not where the timer fires";
  run();
  EXPECT_EQ(result, SleepResult::kElapsed);
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
  advance(5ms);
  EXPECT_TRUE(io.stopped());
}

TEST_F(AsioCoroutine, SleepIsEndedByAStopTokenFromAnotherThread) {
  std::stop_source source;
  std::vector<SleepResult> results;
  std::thread::id resumed_on;
  const auto sleeper = [&]() -> net::awaitable<void> {
    results.push_back(co_await carillon::asio::sleep_for(timer, 1h, source.get_token()));
    resumed_on = std::this_thread::get_id();
    results.push_back(co_await carillon::asio::sleep_for(timer, 1h, source.get_token()));
  };
  spawn(sleeper());
  std::jthread([&] { source.request_stop(); }).join();
  EXPECT_TRUE(results.empty());
  run();
  run();
  EXPECT_EQ(results, std::vector<SleepResult>(2, SleepResult::kStopRequested));
  EXPECT_EQ(resumed_on, std::this_thread::get_id());
  EXPECT_EQ(timer.pending(), 0U);
}

TEST_F(AsioCoroutine, SleepSaysThatTheTimerIsStopped) {
  std::optional<SleepResult> result;
  const auto sleeper = [&]() -> net::awaitable<void> {
    result = co_await carillon::asio::sleep_for(timer, 1h);
  };
  spawn(sleeper());
  timer.stop();
  run();
  EXPECT_EQ(result, SleepResult::kTimerStopped);
}

TEST_F(AsioCoroutine, ASleepingCoroutineIsDestroyedWithItsContext) {
  const auto witness = std::make_shared<int>(0);
  {
    net::io_context short_lived;
    const auto sleeper = [&](std::shared_ptr<int> owned) -> net::awaitable<void> {
      static_cast<void>(co_await carillon::asio::sleep_for(timer, 1h));
      ++*owned;
    };
    net::co_spawn(short_lived, sleeper(witness), net::detached);
    short_lived.poll();
    EXPECT_EQ(timer.pending(), 1U);
    EXPECT_GT(witness.use_count(), 1);
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(timer.pending(), 0U);
}

// ------------------------------------------------------------------------------ with_timeout

net::awaitable<int> work_for(Timer& timer, Span work, std::stop_token token, int* ended) {
  const SleepResult result = co_await carillon::asio::sleep_for(timer, work, std::move(token));
  ++*ended;
  co_return result == SleepResult::kElapsed ? 7 : -1;
}

using Answer = std::optional<TimeoutResult<int>>;

TEST_F(AsioCoroutine, WithTimeoutAnswersInTimeOrStopsTheOperation) {
  Answer answer;
  int ended = 0;
  const auto caller = [&](Span work) -> net::awaitable<void> {
    answer.emplace(co_await carillon::asio::with_timeout(
        timer, 10ms,
        [&, work](std::stop_token token) { return work_for(timer, work, token, &ended); }));
  };
  spawn(caller(5ms));
  advance(5ms);
  ASSERT_TRUE(answer);
  EXPECT_EQ(**answer, 7);
  EXPECT_EQ(timer.pending(), 0U);

  answer.reset();
  spawn(caller(1h));
  advance(10ms - 1ns);
  EXPECT_FALSE(answer);
  advance(1ns);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->timed_out());
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(timer.pending(), 0U);

  answer.reset();
  spawn(caller(1h));
  timer.stop();
  run();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), TimeoutStatus::kTimerStopped);
}

TEST_F(AsioCoroutine, WithTimeoutOfAnAwaitable) {
  Answer answer;
  int ended = 0;
  const auto caller = [&](Span work) -> net::awaitable<void> {
    answer.emplace(
        co_await carillon::asio::with_timeout(timer, 10ms, work_for(timer, work, {}, &ended)));
  };
  spawn(caller(5ms));
  advance(5ms);
  ASSERT_TRUE(answer);
  EXPECT_EQ(**answer, 7);
  EXPECT_EQ(timer.pending(), 0U);

  answer.reset();
  spawn(caller(30ms));
  advance(10ms);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->timed_out());
  EXPECT_EQ(ended, 1);
  advance(20ms);
#if CARILLON_ASIO_VERSION >= 102200
  EXPECT_EQ(ended, 1) << "cancelled by its slot";
#else
  EXPECT_EQ(ended, 2) << "left behind";
#endif
  EXPECT_EQ(timer.pending(), 0U);
}

TEST_F(AsioCoroutine, WithTimeoutThrowsWhatTheOperationThrows) {
  const auto failing = [&]() -> net::awaitable<void> {
    static_cast<void>(co_await carillon::asio::sleep_for(timer, 5ms));
    throw std::runtime_error("no answer");
  };
  int caught = 0;
  const auto caller = [&]() -> net::awaitable<void> {
    try {
      static_cast<void>(co_await carillon::asio::with_timeout(timer, 10ms, failing()));
    } catch (const std::runtime_error&) {
      ++caught;
    }
    try {
      static_cast<void>(co_await carillon::asio::with_timeout(
          timer, 10ms, [&](const std::stop_token&) { return failing(); }));
    } catch (const std::runtime_error&) {
      ++caught;
    }
  };
  spawn(caller());
  advance(5ms);
  advance(5ms);
  EXPECT_EQ(caught, 2);
  EXPECT_TRUE(io.stopped());
}

}  // namespace
}  // namespace carillon

#endif  // CARILLON_ASIO_COROUTINES
