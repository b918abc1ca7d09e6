// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/sleep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "carillon/timer/coroutine_fixture.h"
#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using namespace std::chrono_literals;
using testing::FakeTimer;
using testing::QueueExecutor;
using testing::Started;

using Answer = std::optional<SleepResult>;

Started sleep(Timer& timer, Span delay, Answer& answer, std::stop_token token = {}) {
  answer = co_await timer.sleep_for(delay, token);
}

TEST(Sleep, EndsAtItsTimeAndNotBefore) {
  FakeTimer fake;
  Answer answer;
  const Started coroutine = sleep(fake.timer, 10ms, answer);
  fake.advance(10ms - 1ns);
  EXPECT_FALSE(answer);
  fake.advance(1ns);
  EXPECT_EQ(answer, SleepResult::kElapsed);
  EXPECT_TRUE(coroutine.done());
}

TEST(Sleep, CountsFromTheAwaitAndNotFromTheCall) {
  FakeTimer fake;
  bool awake = false;
  const auto late = [&]() -> Started {
    Sleep sleep = fake.timer.sleep_for(5ms);
    static_cast<void>(co_await fake.timer.sleep_for(10ms));
    EXPECT_EQ(co_await sleep, SleepResult::kElapsed);
    EXPECT_EQ(fake.elapsed(), 15ms);
    awake = true;
  };
  const Started coroutine = late();
  fake.advance(20ms);
  EXPECT_TRUE(awake);
}

TEST(Sleep, OfNoTimeEndsAtTheNextTick) {
  FakeTimer fake;
  Answer answer;
  const Started coroutine = sleep(fake.timer, -1s, answer);
  EXPECT_FALSE(answer);
  fake.advance(1ms);
  EXPECT_EQ(answer, SleepResult::kElapsed);
}

TEST(Sleep, UntilAPointInTime) {
  FakeTimer fake;
  std::vector<Span> seen;
  const auto sleeper = [&]() -> Started {
    EXPECT_EQ(co_await fake.timer.sleep_until(FakeTimer::kStart + 7ms), SleepResult::kElapsed);
    seen.push_back(fake.elapsed());
    // The same clock, by its other name.
    const std::chrono::steady_clock::time_point at((FakeTimer::kStart + 9ms).time_since_epoch());
    EXPECT_EQ(co_await fake.timer.sleep_until(at), SleepResult::kElapsed);
    seen.push_back(fake.elapsed());
  };
  const Started coroutine = sleeper();
  fake.advance(1s);
  EXPECT_EQ(seen, (std::vector<Span>{7ms, 9ms}));
}

TEST(Sleep, UntilADateFollowsTheCalendarOrIsRefused) {
  ManualCalendar calendar(WallTime(24h));
  TimerOptions options;
  options.clock = ClockKind::kWall;
  options.custom_calendar = &calendar;
  FakeTimer fake(options);
  FakeTimer other;
  Answer answer;
  const auto until = [&](Timer& timer) -> Started {
    answer = co_await timer.sleep_until(WallTime(25h));
  };
  const Started refused = until(other.timer);
  EXPECT_EQ(answer, SleepResult::kRefused);
  answer.reset();
  const Started coroutine = until(fake.timer);
  fake.advance(59min);
  EXPECT_FALSE(answer);
  calendar.set(WallTime(25h));
  fake.advance(1min);
  EXPECT_EQ(answer, SleepResult::kElapsed);
}

TEST(Sleep, AStopTokenEndsItAtOnceAndItSaysSo) {
  FakeTimer fake;
  std::stop_source source;
  Answer answer;
  const Started coroutine = sleep(fake.timer, 1h, answer, source.get_token());
  EXPECT_EQ(fake.timer.pending(), 1U);
  source.request_stop();
  EXPECT_EQ(answer, SleepResult::kStopRequested);
  EXPECT_EQ(fake.timer.pending(), 0U);

  answer.reset();
  const Started again = sleep(fake.timer, 1h, answer, source.get_token());
  EXPECT_EQ(answer, SleepResult::kStopRequested);
  EXPECT_EQ(fake.timer.stats().scheduled, 1U) << "the second was not begun";
}

TEST(Sleep, AStopTokenThatComesLateDoesNothing) {
  FakeTimer fake;
  std::stop_source source;
  Answer answer;
  const Started coroutine = sleep(fake.timer, 1ms, answer, source.get_token());
  fake.advance(1ms);
  EXPECT_EQ(answer, SleepResult::kElapsed);
  source.request_stop();
  EXPECT_EQ(answer, SleepResult::kElapsed);
}

TEST(Sleep, AStopTokenEndsItWhileItWaitsForTheExecutor) {
  auto queue = std::make_shared<QueueExecutor>();
  TimerOptions options;
  options.executor = queue;
  FakeTimer fake(options);
  std::stop_source source;
  Answer answer;
  const Started coroutine = sleep(fake.timer, 1ms, answer, source.get_token());
  fake.advance(1ms);
  EXPECT_EQ(queue->size(), 1U);
  source.request_stop();
  EXPECT_EQ(answer, SleepResult::kStopRequested);
  queue->run();
  EXPECT_EQ(fake.timer.stats().fired, 0U);
}

// Suspends the coroutine that awaits it, and destroys it.
struct Destroy {
  std::optional<Started>& coroutine;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<>) const { coroutine->destroy(); }
  void await_resume() const noexcept {}
};

TEST(Sleep, TheCoroutineMayEndWhenItIsResumed) {
  FakeTimer fake;
  std::stop_source source;
  for (const bool stopped : {false, true}) {
    std::optional<Started> coroutine;
    bool resumed = false;
    const auto brief = [&](std::stop_token token) -> Started {
      static_cast<void>(co_await fake.timer.sleep_for(1ms, token));
      resumed = true;
      co_await Destroy{coroutine};
      ADD_FAILURE() << "resumed after its end";
    };
    coroutine.emplace(brief(stopped ? source.get_token() : std::stop_token{}));
    if (stopped) {
      source.request_stop();
    } else {
      fake.advance(1ms);
    }
    EXPECT_TRUE(resumed);
  }
}

TEST(Sleep, ACoroutineThatSleepsMayBeDestroyed) {
  FakeTimer fake;
  std::stop_source source;
  const auto witness = std::make_shared<int>(0);
  Answer answer;
  {
    const auto sleeper = [&](std::shared_ptr<int> owned) -> Started {
      answer = co_await fake.timer.sleep_for(1ms, source.get_token());
      ++*owned;
    };
    const Started coroutine = sleeper(witness);
    EXPECT_EQ(witness.use_count(), 2);
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(fake.timer.pending(), 0U);
  fake.advance(1s);
  source.request_stop();
  EXPECT_FALSE(answer);
  EXPECT_EQ(fake.timer.stats().cancelled, 1U);
}

TEST(Sleep, IsEndedByStopWhenItsTimerIsDestroyed) {
  FakeTimer fake;
  Answer answer;
  const Started coroutine = sleep(fake.timer, 1h, answer);
  {
    const std::vector<UnfiredTimer> unfired = fake.timer.stop();
    EXPECT_EQ(unfired.size(), 1U);
    EXPECT_FALSE(answer) << "whoever has what stop() returned decides when";
  }
  EXPECT_EQ(answer, SleepResult::kTimerStopped);

  answer.reset();
  const Started later = sleep(fake.timer, 1h, answer);
  EXPECT_EQ(answer, SleepResult::kTimerStopped) << "not begun";
}

TEST(Sleep, WhoRunsWhatStopReturnedEndsIt) {
  FakeTimer fake;
  Answer answer;
  const Started coroutine = sleep(fake.timer, 1h, answer);
  for (UnfiredTimer& unfired : fake.timer.stop()) {
    unfired.callback();
  }
  EXPECT_EQ(answer, SleepResult::kElapsed);
}

TEST(Sleep, IsEndedByTheDestructorOfItsTimer) {
  Answer answer;
  std::optional<Started> coroutine;
  {
    FakeTimer fake;
    coroutine.emplace(sleep(fake.timer, 1h, answer));
  }
  EXPECT_EQ(answer, SleepResult::kTimerStopped);
}

TEST(Sleep, IsEndedByAnExecutorThatDropsIt) {
  auto queue = std::make_shared<QueueExecutor>();
  TimerOptions options;
  options.executor = queue;
  options.log = [](std::string_view) {};
  FakeTimer fake(options);
  Answer answer;
  const Started coroutine = sleep(fake.timer, 1ms, answer);
  fake.advance(1ms);
  queue->drop();
  EXPECT_EQ(answer, SleepResult::kTimerStopped);
}

TEST(Sleep, SaysThatTheTimerIsFull) {
  TimerOptions options;
  options.max_pending = 1;
  FakeTimer fake(options);
  Answer first;
  Answer second;
  const Started one = sleep(fake.timer, 1ms, first);
  const Started two = sleep(fake.timer, 1ms, second);
  EXPECT_EQ(second, SleepResult::kRefused);
  fake.advance(1ms);
  EXPECT_EQ(first, SleepResult::kElapsed);
}

TEST(Sleep, ManyInOrderOfTheirTime) {
  ManualDriver time;
  Timer timer(time.options());
  std::vector<int> order;
  std::vector<Started> coroutines;
  const auto sleeper = [&](int number) -> Started {
    for (int round = 1; round <= 3; ++round) {
      EXPECT_EQ(co_await timer.sleep_for(number * 1ms), SleepResult::kElapsed);
      EXPECT_EQ(time.now() - ManualDriver::kStart, number * round * 1ms);
      order.push_back(number * round);
    }
  };
  for (int number = 100; number > 0; --number) {
    coroutines.push_back(sleeper(number));
  }
  time.advance(1s);
  EXPECT_EQ(order.size(), 300U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// Timer and token on different threads, close together: each sleep ends once.
TEST(Sleep, TimerAndTokenRace) {
  Timer timer;
  std::atomic<int> ended{0};
  std::atomic<int> elapsed{0};
  constexpr int kRounds = 300;
  std::vector<Started> coroutines;
  coroutines.reserve(kRounds);
  const auto sleeper = [&](std::stop_token token, Span delay) -> Started {
    const SleepResult result = co_await timer.sleep_for(delay, token);
    elapsed += result == SleepResult::kElapsed ? 1 : 0;
    ++ended;
    ended.notify_all();
  };
  for (int round = 0; round < kRounds; ++round) {
    std::stop_source source;
    coroutines.push_back(sleeper(source.get_token(), 50us));
    std::jthread stopper([&] {
      for (int i = 0; i < round % 16; ++i) {
        std::this_thread::yield();
      }
      source.request_stop();
    });
    stopper.join();
    for (int seen = ended; seen <= round; seen = ended) {
      ended.wait(seen);
    }
    EXPECT_EQ(ended, round + 1);
  }
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(timer.stop().empty());  // And waits for callbacks that resume.
}

}  // namespace
}  // namespace carillon
