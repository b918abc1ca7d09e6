// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/with_timeout.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>

#include "carillon/timer/coroutine_fixture.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using namespace std::chrono_literals;
using testing::FakeTimer;
using testing::Lazy;
using testing::Started;

using Answer = std::optional<TimeoutResult<int>>;

// Sleeps `work`, heeding the token; answers 7, or -1 if it was stopped.
Lazy work_for(Timer& timer, Span work, std::stop_token token, int* ended = nullptr) {
  const SleepResult result = co_await timer.sleep_for(work, std::move(token));
  if (ended != nullptr) {
    ++*ended;
  }
  co_return result == SleepResult::kElapsed ? 7 : -1;
}

Started run(FakeTimer& fake, Span limit, Span work, Answer& answer, int* ended = nullptr) {
  answer.emplace(co_await with_timeout(fake.timer, limit, [&](std::stop_token token) {
    return work_for(fake.timer, work, std::move(token), ended);
  }));
}

TEST(WithTimeout, AnswersWhatTheOperationAnswersInTime) {
  FakeTimer fake;
  Answer answer;
  const Started coroutine = run(fake, 10ms, 5ms, answer);
  fake.advance(5ms);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), TimeoutStatus::kCompleted);
  EXPECT_EQ(**answer, 7);
  EXPECT_EQ(fake.timer.pending(), 0U) << "the deadline is cancelled";
}

TEST(WithTimeout, StopsTheOperationAtTheDeadline) {
  FakeTimer fake;
  Answer answer;
  int ended = 0;
  const Started coroutine = run(fake, 10ms, 1h, answer, &ended);
  fake.advance(10ms - 1ns);
  EXPECT_FALSE(answer);
  fake.advance(1ns);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->timed_out());
  EXPECT_FALSE(*answer);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(fake.timer.pending(), 0U) << "the loser is cancelled";
}

TEST(WithTimeout, WaitsForAnOperationThatDoesNotHeedItsToken) {
  FakeTimer fake;
  Answer answer;
  const auto deaf = [&]() -> Started {
    int local = 0;  // It is still there when the operation writes to it.
    answer.emplace(co_await with_timeout(fake.timer, 10ms, [&](const std::stop_token&) {
      return work_for(fake.timer, 30ms, {}, &local);
    }));
    EXPECT_EQ(local, 1);
  };
  const Started coroutine = deaf();
  fake.advance(29ms);
  EXPECT_FALSE(answer);
  fake.advance(1ms);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->timed_out());
}

TEST(WithTimeout, LeavesAnAwaitableBehindThatCannotBeTold) {
  FakeTimer fake;
  Answer answer;
  int ended = 0;
  const auto impatient = [&]() -> Started {
    answer.emplace(co_await with_timeout(fake.timer, 10ms, work_for(fake.timer, 30ms, {}, &ended)));
  };
  const Started coroutine = impatient();
  fake.advance(10ms);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->timed_out());
  EXPECT_EQ(ended, 0);
  fake.advance(20ms);
  EXPECT_EQ(ended, 1) << "it goes on by itself";
}

TEST(WithTimeout, AnAwaitableThatIsInTime) {
  FakeTimer fake;
  Answer answer;
  std::optional<SleepResult> slept;
  const auto patient = [&]() -> Started {
    answer.emplace(co_await with_timeout(fake.timer, 10ms, work_for(fake.timer, 5ms, {})));
    // An awaiter is an awaitable.
    slept = *co_await with_timeout(fake.timer, 10ms, fake.timer.sleep_for(1ms));
    // One that does not suspend.
    EXPECT_TRUE(co_await with_timeout(fake.timer, 10ms, std::suspend_never{}));
  };
  const Started coroutine = patient();
  fake.advance(6ms);
  ASSERT_TRUE(answer);
  EXPECT_EQ(**answer, 7);
  EXPECT_EQ(slept, SleepResult::kElapsed);
  EXPECT_TRUE(coroutine.done());
  EXPECT_EQ(fake.timer.pending(), 0U);
}

TEST(WithTimeout, ThrowsWhatTheOperationThrowsInTime) {
  FakeTimer fake;
  std::string caught;
  const auto failing = [&](Span work) -> Lazy {
    static_cast<void>(co_await fake.timer.sleep_for(work));
    throw std::runtime_error("no answer");
  };
  bool timed_out = false;
  const auto caller = [&]() -> Started {
    try {
      static_cast<void>(co_await with_timeout(
          fake.timer, 10ms, [&](const std::stop_token&) { return failing(5ms); }));
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
    // What it throws later is dropped.
    timed_out = (co_await with_timeout(fake.timer, 10ms, [&](const std::stop_token&) {
                  return failing(15ms);
                })).timed_out();
  };
  const Started coroutine = caller();
  fake.advance(5ms);
  EXPECT_EQ(caught, "no answer");
  fake.advance(15ms);
  EXPECT_TRUE(timed_out);
}

TEST(WithTimeout, SaysThatTheTimerIsStopped) {
  FakeTimer fake;
  FakeTimer other;
  Answer answer;
  const auto caller = [&]() -> Started {
    answer.emplace(co_await with_timeout(fake.timer, 10ms, [&](std::stop_token token) {
      return work_for(other.timer, 1h, std::move(token));
    }));
  };
  const Started coroutine = caller();
  fake.timer.stop();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), TimeoutStatus::kTimerStopped);
  EXPECT_EQ(other.timer.pending(), 0U) << "the operation was told to stop";

  answer.reset();
  const Started later = caller();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status(), TimeoutStatus::kTimerStopped);
  EXPECT_EQ(other.timer.stats().scheduled, 1U) << "the operation was not begun";
}

TEST(WithTimeout, ACoroutineThatWaitsMayBeDestroyed) {
  FakeTimer fake;
  Answer answer;
  int ended = 0;
  {
    const Started coroutine = run(fake, 10ms, 1h, answer, &ended);
    EXPECT_EQ(fake.timer.pending(), 2U);
  }
  EXPECT_EQ(ended, 1) << "the operation was told";
  EXPECT_FALSE(answer);
  EXPECT_EQ(fake.timer.pending(), 0U);

  const auto impatient = [&]() -> Started {
    answer.emplace(co_await with_timeout(fake.timer, 10ms, work_for(fake.timer, 30ms, {}, &ended)));
  };
  {
    const Started coroutine = impatient();
  }
  fake.advance(1s);
  EXPECT_EQ(ended, 2) << "what cannot be told goes on";
  EXPECT_FALSE(answer);
}

}  // namespace
}  // namespace carillon
