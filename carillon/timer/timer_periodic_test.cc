// SPDX-License-Identifier: Apache-2.0
// Periodic timers and timers with a key, on a clock that moves when told.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::QueueExecutor;

struct Driven {
  explicit Driven(TimerOptions options = {}) : timer(time.options(std::move(options))) {}
  [[nodiscard]] Span elapsed() const { return time.now() - ManualDriver::kStart; }

  ManualDriver time;
  Timer timer;
};

TEST(TimerPeriodic, FiresEveryPeriodUntilItIsCancelled) {
  Driven driven;
  std::vector<Span> fired;
  const auto handle = driven.timer.every(seconds(10), [&] { fired.push_back(driven.elapsed()); });
  driven.time.advance(seconds(35));
  EXPECT_EQ(fired, (std::vector<Span>{seconds(10), seconds(20), seconds(30)}));
  EXPECT_EQ(handle.state(), TimerState::kPending);
  EXPECT_EQ(driven.timer.pending(), 1U);
  EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(handle.cancel(), CancelResult::kNotFound);
  driven.time.advance(seconds(35));
  EXPECT_EQ(fired.size(), 3U);
  EXPECT_EQ(driven.timer.pending(), 0U);
  const TimerStats stats = driven.timer.stats();
  EXPECT_EQ(stats.scheduled, stats.pending + stats.cancelled + stats.fired);
}

TEST(TimerPeriodic, CancelsItself) {
  Driven driven;
  int runs = 0;
  TimerHandle self;
  const auto payload = std::make_shared<int>(1);
  self = driven.timer.every(milliseconds(1), [&, payload] {
    if (++runs == 3) {
      EXPECT_EQ(self.cancel(), CancelResult::kRunning);
      EXPECT_EQ(self.state(), TimerState::kRunning);
    }
  });
  driven.time.advance(seconds(1));
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(payload.use_count(), 1);
  EXPECT_EQ(self.cancel(), CancelResult::kNotFound);
  EXPECT_EQ(driven.timer.pending(), 0U);
}

TEST(TimerPeriodic, DoesNotDriftThoughThePeriodIsNoMultipleOfTheTick) {
  Driven driven;
  std::vector<Span> fired;
  driven.timer.every(microseconds(1500), [&] { fired.push_back(driven.elapsed()); });
  driven.time.advance(seconds(150));  // 1e5 periods.
  ASSERT_EQ(fired.size(), 100'000U);
  EXPECT_EQ(fired[0], milliseconds(2));
  EXPECT_EQ(fired[1], milliseconds(3));
  EXPECT_EQ(fired.back(), seconds(150));
}

TEST(TimerPeriodic, NoDriftInADay) {
  Driven driven;
  std::int64_t runs = 0;
  Span last{};
  driven.timer.every(microseconds(99'700), [&] {
    ++runs;
    last = driven.elapsed();
  });
  driven.time.advance(hours(24));
  EXPECT_EQ(runs, 24 * 3'600'000'000LL / 99'700);
  EXPECT_LT(last - runs * microseconds(99'700), milliseconds(1));
}

// C5: a 100 ms period, whose consumer is blocked for a second.
std::vector<std::int64_t> runs_of_one_blocked_for_a_second(Repeat repeat, std::uint64_t* missed) {
  ManualClock clock(testing::FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  PollTimer timer(options);
  std::vector<std::int64_t> ms;
  timer.every(
      milliseconds(100),
      [&] {
        ms.push_back((clock.now() - testing::FakeTimer::kStart) / milliseconds(1));
        if (ms.size() == 1) {
          clock.advance(milliseconds(1050));
        }
      },
      repeat);
  while (clock.now() < testing::FakeTimer::kStart + milliseconds(1500)) {
    timer.poll();
    clock.advance(milliseconds(1));
  }
  *missed = timer.stats().missed;
  return ms;
}

TEST(TimerPeriodic, MissedTicksAreSkippedToTheGrid) {
  std::uint64_t missed = 0;
  EXPECT_EQ(runs_of_one_blocked_for_a_second(Repeat::kSkip, &missed),
            (std::vector<std::int64_t>{100, 1200, 1300, 1400}));
  EXPECT_EQ(missed, 10U);
}

TEST(TimerPeriodic, MissedTicksAreMadeUpForInABurst) {
  std::uint64_t missed = 0;
  EXPECT_EQ(runs_of_one_blocked_for_a_second(Repeat::kBurst, &missed),
            (std::vector<std::int64_t>{100, 1150, 1150, 1150, 1150, 1150, 1150, 1150, 1150, 1150,
                                       1150, 1200, 1300, 1400}));
  EXPECT_EQ(missed, 0U);
}

TEST(TimerPeriodic, MissedTicksDelayThoseThatFollow) {
  std::uint64_t missed = 0;
  EXPECT_EQ(runs_of_one_blocked_for_a_second(Repeat::kDelay, &missed),
            (std::vector<std::int64_t>{100, 1250, 1350, 1450}));
}

TEST(TimerPeriodic, AFixedDelayIsAPauseBetweenRuns) {
  ManualClock clock(testing::FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  PollTimer timer(options);
  std::vector<std::int64_t> ms;
  timer.every(
      milliseconds(100),
      [&] {
        ms.push_back((clock.now() - testing::FakeTimer::kStart) / milliseconds(1));
        clock.advance(milliseconds(30));
      },
      Repeat::kFixedDelay);
  while (clock.now() < testing::FakeTimer::kStart + milliseconds(500)) {
    timer.poll();
    clock.advance(milliseconds(1));
  }
  EXPECT_EQ(ms, (std::vector<std::int64_t>{100, 230, 360, 490}));
}

TEST(TimerPeriodic, NeverRunsBesideItself) {
  const auto queue = std::make_shared<QueueExecutor>();
  Driven driven({.executor = queue});
  ManualClock clock(testing::FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  options.executor = queue;
  PollTimer timer(options);
  int runs = 0;
  timer.every(milliseconds(10), [&] { ++runs; });
  for (int i = 0; i < 100; ++i) {
    clock.advance(milliseconds(1));
    timer.poll();
  }
  EXPECT_EQ(queue->size(), 1U);
  queue->run();
  EXPECT_EQ(runs, 1);
}

TEST(TimerPeriodic, RescheduleBeginsANewGrid) {
  Driven driven;
  std::vector<Span> fired;
  const auto handle = driven.timer.every(seconds(10), [&] { fired.push_back(driven.elapsed()); });
  driven.time.advance(seconds(12));
  EXPECT_EQ(handle.reschedule(seconds(3)), RescheduleResult::kRescheduled);
  driven.time.advance(seconds(23));
  EXPECT_EQ(fired, (std::vector<Span>{seconds(10), seconds(15), seconds(25), seconds(35)}));
}

TEST(TimerPeriodic, IsTakenBackFromTheExecutor) {
  const auto queue = std::make_shared<QueueExecutor>();
  ManualClock clock(testing::FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  options.executor = queue;
  PollTimer timer(options);
  int runs = 0;
  const auto handle = timer.every(milliseconds(10), [&] { ++runs; });
  testing::run_until(clock, timer, clock.now() + milliseconds(10));
  ASSERT_EQ(queue->size(), 1U);
  EXPECT_EQ(handle.reschedule(milliseconds(50)), RescheduleResult::kRescheduled);
  queue->run();
  EXPECT_EQ(runs, 0);
  testing::run_until(clock, timer, clock.now() + milliseconds(50));
  queue->run();
  EXPECT_EQ(runs, 1);
  testing::run_until(clock, timer, clock.now() + milliseconds(10));
  EXPECT_EQ(queue->size(), 1U);
  EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
  queue->run();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(TimerPeriodic, StopReturnsItWhereverItIs) {
  const auto queue = std::make_shared<QueueExecutor>();
  ManualClock clock(testing::FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  options.executor = queue;
  PollTimer timer(options);
  const auto waiting = timer.every(seconds(10), [] {});
  const auto queued = timer.every(milliseconds(10), [] {});
  testing::run_until(clock, timer, clock.now() + milliseconds(10));
  EXPECT_EQ(timer.stop().size(), 2U);
  EXPECT_EQ(waiting.state(), TimerState::kNotFound);
  EXPECT_EQ(queued.state(), TimerState::kNotFound);
  queue->run();
}

TEST(TimerPeriodic, StopInItsOwnCallbackEndsIt) {
  Driven driven;
  int runs = 0;
  driven.timer.every(milliseconds(10), [&] {
    ++runs;
    driven.timer.stop();
  });
  driven.time.advance(seconds(1));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(driven.timer.pending(), 0U);
}

// ------------------------------------------------------------------------------ with a key

TEST(KeyedTimer, AnotherReplacesIt) {
  Driven driven;
  std::string ran;
  const auto payload = std::make_shared<int>(1);
  const auto first = driven.timer.keyed("idle").after(seconds(1), [&, payload] { ran += 'a'; });
  const auto second = driven.timer.keyed("idle").after(seconds(2), [&] { ran += 'b'; });
  EXPECT_EQ(payload.use_count(), 1);
  EXPECT_EQ(first.state(), TimerState::kNotFound);
  EXPECT_EQ(second.state(), TimerState::kPending);
  driven.timer.keyed("other").after(seconds(1), [&] { ran += 'c'; });
  driven.timer.keyed(7).after(seconds(1), [&] { ran += 'd'; });
  driven.timer.keyed("7").after(seconds(1), [&] { ran += 'e'; });
  EXPECT_EQ(driven.timer.pending(), 4U);
  driven.time.advance(seconds(5));
  EXPECT_EQ(ran.size(), 4U);
  EXPECT_EQ(ran.find('a'), std::string::npos);
  EXPECT_EQ(driven.timer.keyed("idle").state(), TimerState::kNotFound);
}

TEST(KeyedTimer, CancelByKeyAndByHandle) {
  Driven driven;
  auto idle = driven.timer.keyed("idle");
  EXPECT_EQ(idle.cancel(), CancelResult::kNotFound);
  const auto payload = std::make_shared<int>(1);
  idle.after(seconds(1), [payload] { FAIL(); });
  EXPECT_EQ(idle.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(idle.cancel(), CancelResult::kNotFound);
  const auto handle = idle.after(seconds(1), [payload] { FAIL(); });
  EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(idle.state(), TimerState::kNotFound);
  EXPECT_EQ(payload.use_count(), 1);
  driven.time.advance(seconds(5));
}

TEST(KeyedTimer, ReplacesWhatTheExecutorHasNotBegun) {
  const auto queue = std::make_shared<QueueExecutor>();
  ManualClock clock(testing::FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  options.executor = queue;
  PollTimer timer(options);
  std::string ran;
  timer.keyed(1).after(milliseconds(1), [&] { ran += 'a'; });
  testing::run_until(clock, timer, clock.now() + milliseconds(1));
  ASSERT_EQ(queue->size(), 1U);
  timer.keyed(1).after(milliseconds(1), [&] { ran += 'b'; });
  EXPECT_EQ(timer.pending(), 1U);
  queue->run();
  testing::run_until(clock, timer, clock.now() + milliseconds(1));
  queue->run();
  EXPECT_EQ(ran, "b");
}

TEST(KeyedTimer, ReplacesAtTheLimitToo) {
  Driven driven({.max_pending = 2});
  ASSERT_TRUE(driven.timer.keyed(1).after(seconds(1), [] { FAIL(); }));
  ASSERT_TRUE(driven.timer.keyed(2).after(seconds(1), [] {}));
  EXPECT_EQ(driven.timer.keyed(3).after(seconds(1), [] {}).refusal(), Refusal::kLimit);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(driven.timer.keyed(1).after(seconds(2), [] {}));
  }
  EXPECT_EQ(driven.timer.pending(), 2U);
  driven.time.advance(seconds(5));
  EXPECT_TRUE(driven.timer.keyed(3).after(seconds(1), [] {}));
  EXPECT_TRUE(driven.timer.keyed(4).after(seconds(1), [] {}));
  EXPECT_FALSE(driven.timer.keyed(5).after(seconds(1), [] {}));
}

TEST(KeyedTimer, RearmsItselfUnderItsKey) {
  Driven driven;
  int runs = 0;
  std::function<void()> again = [&] {
    if (++runs < 5) {
      driven.timer.keyed("self").after(seconds(1), again);
    }
  };
  driven.timer.keyed("self").after(seconds(1), again);
  driven.time.advance(seconds(60));
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(driven.timer.pending(), 0U);
}

// B16: the release of a lock cancels its renewal before that has been scheduled.
TEST(KeyedTimer, ACancelWinsThatComesBeforeWhatItIsToCancel) {
  Driven driven;
  auto lock = driven.timer.keyed("lock");
  auto ticket = lock.ticket();
  EXPECT_EQ(lock.cancel(), CancelResult::kNotFound);
  const auto refused = ticket.after(seconds(10), [] { FAIL(); });
  EXPECT_EQ(refused.refusal(), Refusal::kCancelled);
  driven.time.advance(seconds(60));

  // The next holder draws another.
  auto next = lock.ticket();
  bool renewed = false;
  EXPECT_TRUE(next.after(seconds(10), [&] { renewed = true; }));
  driven.time.advance(seconds(10));
  EXPECT_TRUE(renewed);
}

}  // namespace
}  // namespace carillon
