// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/timer.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::FakeTimer;
using testing::QueueExecutor;

TEST(Timer, FiresAtItsDeadlineAndNotBefore) {
  FakeTimer fake;
  std::optional<Span> fired;
  fake.timer.after(milliseconds(250), [&] { fired = fake.elapsed(); });
  fake.advance(milliseconds(249));
  EXPECT_FALSE(fired);
  fake.advance(milliseconds(1));
  EXPECT_EQ(fired, milliseconds(250));
}

TEST(Timer, DeadlinesBetweenTicksAreRoundedUp) {
  FakeTimer fake;
  std::optional<Span> fired;
  fake.advance(microseconds(300));
  fake.timer.after(microseconds(800), [&] { fired = fake.elapsed(); });  // Due at 1.1 ms.
  fake.advance(milliseconds(10));
  EXPECT_EQ(fired, milliseconds(2));
}

TEST(Timer, NoDelayIsDueAtTheNextTick) {
  for (const Span delay : {Span(0), Span(-46'000'000), Span::min()}) {
    FakeTimer fake;
    std::optional<Span> fired;
    fake.timer.after(delay, [&] { fired = fake.elapsed(); });
    fake.timer.poll();
    EXPECT_FALSE(fired) << delay.count();
    fake.advance(milliseconds(1));
    EXPECT_EQ(fired, milliseconds(1)) << delay.count();
  }
}

TEST(Timer, PracticallyNeverIsNeverNow) {
  FakeTimer fake;
  int fired = 0;
  const auto count = [&] { ++fired; };
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  fake.timer.after(nanoseconds(kMost), count);
  fake.timer.after(microseconds(kMost), count);
  fake.timer.after(milliseconds(kMost), count);
  fake.timer.after(seconds(kMost), count);
  fake.timer.after(hours(kMost), count);
  fake.timer.after(std::chrono::duration<double>(1e300), count);
  fake.advance(hours(24 * 365 * 100));
  EXPECT_EQ(fired, 0);
  EXPECT_EQ(fake.timer.pending(), 6U);
}

TEST(Timer, OneCatchUpFiresAllInOrderOfDeadlines) {
  FakeTimer fake;
  std::vector<int> order;
  for (const int ticks : {500, 5, 50}) {
    fake.timer.after(milliseconds(ticks), [&order, ticks] { order.push_back(ticks); });
  }
  fake.clock.advance(milliseconds(1000));
  fake.timer.poll();
  EXPECT_EQ(order, (std::vector<int>{5, 50, 500}));
}

TEST(Timer, CancelReleasesTheCallbackBeforeItReturns) {
  FakeTimer fake;
  const auto payload = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = payload;
  auto handle = fake.timer.after(seconds(1), [owned = payload] { FAIL() << *owned; });
  const_cast<std::shared_ptr<int>&>(payload).reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(handle.state(), TimerState::kPending);
  EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(handle.cancel(), CancelResult::kNotFound);
  EXPECT_EQ(handle.state(), TimerState::kNotFound);
  EXPECT_EQ(fake.timer.pending(), 0U);
}

TEST(Timer, CancelOfItselfAnswersRunning) {
  FakeTimer fake;
  TimerHandle self;
  std::optional<CancelResult> answer;
  std::optional<RescheduleResult> again;
  self = fake.timer.after(milliseconds(1), [&] {
    answer = self.cancel();
    again = self.reschedule(seconds(1));
    EXPECT_EQ(self.state(), TimerState::kRunning);
  });
  fake.advance(milliseconds(5));
  EXPECT_EQ(answer, CancelResult::kRunning);
  EXPECT_EQ(again, RescheduleResult::kRunning);
  EXPECT_EQ(self.cancel(), CancelResult::kNotFound);
  EXPECT_EQ(fake.timer.pending(), 0U);
}

TEST(Timer, CancelsWhatIsDueAndHasNotBegun) {
  FakeTimer fake;
  std::vector<TimerHandle> handles(5);
  int ran = 0;
  for (auto& handle : handles) {
    handle = fake.timer.after(milliseconds(3), [&] {
      ++ran;
      for (const auto& other : handles) {
        other.cancel();
      }
    });
  }
  fake.advance(seconds(1));
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(fake.timer.pending(), 0U);
  EXPECT_EQ(fake.timer.stats().cancelled, 4U);
}

TEST(Timer, CancelWhileTheExecutorHasIt) {
  const auto queue = std::make_shared<QueueExecutor>();
  FakeTimer fake({.executor = queue});
  const auto payload = std::make_shared<int>(1);
  auto handle = fake.timer.after(milliseconds(1), [payload] { FAIL(); });
  fake.advance(milliseconds(1));
  EXPECT_EQ(queue->size(), 1U);
  EXPECT_EQ(handle.state(), TimerState::kPending);
  EXPECT_EQ(fake.timer.pending(), 1U);
  EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(payload.use_count(), 1);
  EXPECT_EQ(fake.timer.pending(), 0U);
  queue->run();
  EXPECT_EQ(handle.cancel(), CancelResult::kNotFound);
}

TEST(Timer, RescheduleMovesTheDeadlineEitherWay) {
  FakeTimer fake;
  std::vector<Span> fired;
  const auto note = [&] { fired.push_back(fake.elapsed()); };
  const auto later = fake.timer.after(seconds(1), note);
  const auto earlier = fake.timer.after(seconds(9), note);
  EXPECT_EQ(later.reschedule(seconds(2)), RescheduleResult::kRescheduled);
  EXPECT_EQ(earlier.reschedule(milliseconds(5)), RescheduleResult::kRescheduled);
  fake.advance(seconds(20));
  EXPECT_EQ(fired, (std::vector<Span>{milliseconds(5), seconds(2)}));
  EXPECT_EQ(later.reschedule(seconds(1)), RescheduleResult::kNotFound);
}

TEST(Timer, RescheduleTakesBackWhatTheExecutorHasNotBegun) {
  const auto queue = std::make_shared<QueueExecutor>();
  FakeTimer fake({.executor = queue});
  std::vector<Span> fired;
  const auto handle = fake.timer.after(milliseconds(1), [&] { fired.push_back(fake.elapsed()); });
  fake.advance(milliseconds(1));
  ASSERT_EQ(queue->size(), 1U);
  EXPECT_EQ(handle.reschedule(milliseconds(10)), RescheduleResult::kRescheduled);
  queue->run();
  EXPECT_TRUE(fired.empty());
  EXPECT_EQ(handle.state(), TimerState::kPending);
  EXPECT_EQ(fake.timer.pending(), 1U);
  // The handle is that of the same timer still.
  EXPECT_EQ(handle.reschedule(milliseconds(20)), RescheduleResult::kRescheduled);
  fake.advance(milliseconds(20));
  EXPECT_EQ(handle.reschedule(milliseconds(20)), RescheduleResult::kRescheduled);
  queue->run();
  fake.advance(milliseconds(20));
  queue->run();
  EXPECT_EQ(fired, (std::vector<Span>{milliseconds(41)}));
  EXPECT_EQ(handle.cancel(), CancelResult::kNotFound);
  EXPECT_EQ(fake.timer.stats().fired, 1U);
}

TEST(Timer, CancelAfterRescheduleOfWhatTheExecutorHad) {
  const auto queue = std::make_shared<QueueExecutor>();
  FakeTimer fake({.executor = queue});
  const auto payload = std::make_shared<int>(1);
  const auto handle = fake.timer.after(milliseconds(1), [payload] { FAIL(); });
  fake.advance(milliseconds(1));
  EXPECT_EQ(handle.reschedule(milliseconds(10)), RescheduleResult::kRescheduled);
  EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(payload.use_count(), 1);
  EXPECT_EQ(fake.timer.pending(), 0U);
  fake.advance(milliseconds(100));
  queue->run();
}

TEST(Timer, AnExceptionIsReportedAndTheTimerLivesOn) {
  std::vector<std::string> told;
  FakeTimer fake({.on_exception = [&](std::exception_ptr exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& e) {
      told.emplace_back(e.what());
    }
  }});
  bool later = false;
  fake.timer.after(milliseconds(1), [] { throw std::runtime_error("first"); });
  fake.timer.after(milliseconds(1), [&] { later = true; });
  fake.advance(milliseconds(1));
  EXPECT_EQ(told, (std::vector<std::string>{"first"}));
  EXPECT_TRUE(later);
  EXPECT_EQ(fake.timer.stats().exceptions, 1U);
  EXPECT_EQ(fake.timer.stats().fired, 2U);
}

TEST(Timer, StopReturnsWhatHadNotFired) {
  const auto queue = std::make_shared<QueueExecutor>();
  FakeTimer fake({.executor = queue});
  std::vector<int> ran;
  const auto late = fake.timer.after(seconds(2), [&] { ran.push_back(2); });
  fake.timer.after(seconds(1), [&] { ran.push_back(1); });
  fake.timer.after(milliseconds(1), [&] { ran.push_back(0); });  // In the executor by then.
  fake.timer.after(nanoseconds::max(), [&] { ran.push_back(3); });
  fake.advance(milliseconds(1));
  auto unfired = fake.timer.stop();
  ASSERT_EQ(unfired.size(), 4U);
  EXPECT_EQ(unfired[1].deadline, FakeTimer::kStart + seconds(1));
  EXPECT_EQ(unfired[3].deadline, Instant::max());
  EXPECT_EQ(late.state(), TimerState::kNotFound);
  EXPECT_EQ(fake.timer.pending(), 0U);
  EXPECT_EQ(fake.timer.stats().cancelled, 4U);
  queue->run();
  EXPECT_TRUE(ran.empty());
  for (auto& timer : unfired) {
    timer.callback();
  }
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3}));

  const auto refused = fake.timer.after(seconds(1), [] { FAIL(); });
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.refusal(), Refusal::kStopped);
  EXPECT_EQ(fake.timer.stats().rejected, 1U);
  EXPECT_TRUE(fake.timer.stop().empty());
}

TEST(Timer, HandlesOutliveTheTimer) {
  TimerHandle handle;
  {
    FakeTimer fake;
    handle = fake.timer.after(seconds(1), [] { FAIL(); });
  }
  EXPECT_EQ(handle.cancel(), CancelResult::kNotFound);
  // The next Timer has the same memory.
  FakeTimer other;
  const auto kept = other.timer.after(seconds(1), [] {});
  EXPECT_EQ(handle.cancel(), CancelResult::kNotFound);
  EXPECT_EQ(handle.reschedule(seconds(5)), RescheduleResult::kNotFound);
  EXPECT_EQ(kept.state(), TimerState::kPending);
  EXPECT_EQ(other.timer.pending(), 1U);
}

TEST(Timer, DestroyedInItsOwnCallback) {
  ManualClock clock(FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  auto timer = std::make_unique<PollTimer>(options);
  const auto payload = std::make_shared<int>(1);
  bool over = false;
  timer->after(milliseconds(1), [&] {
    timer.reset();
    over = true;
  });
  timer->after(milliseconds(1), [payload] { FAIL(); });
  timer->after(seconds(1), [payload] { FAIL(); });
  clock.advance(seconds(2));
  timer->poll();
  EXPECT_TRUE(over);
  EXPECT_EQ(payload.use_count(), 1);
}

TEST(Timer, ADroppedFiringCountsAsCancelled) {
  const auto queue = std::make_shared<QueueExecutor>();
  FakeTimer fake({.executor = queue});
  const auto payload = std::make_shared<int>(1);
  fake.timer.after(milliseconds(1), [payload] { FAIL(); });
  fake.advance(milliseconds(1));
  queue->drop();
  EXPECT_EQ(payload.use_count(), 1);
  EXPECT_EQ(fake.timer.stats().dropped, 1U);
  EXPECT_EQ(fake.timer.stats().cancelled, 1U);
  EXPECT_EQ(fake.timer.pending(), 0U);
}

TEST(Timer, WhatTheExecutorHasNoRoomForIsStillCancellable) {
  const auto queue = std::make_shared<QueueExecutor>(2);
  FakeTimer fake({.executor = queue, .batch = 4});
  std::vector<TimerHandle> handles;
  std::vector<int> ran;
  for (int i = 0; i < 9; ++i) {
    handles.push_back(fake.timer.after(milliseconds(1), [&ran, i] { ran.push_back(i); }));
  }
  fake.clock.advance(milliseconds(1));
  fake.timer.poll();
  EXPECT_EQ(queue->size(), 2U);
  EXPECT_EQ(fake.timer.pending(), 9U);
  EXPECT_EQ(handles[3].cancel(), CancelResult::kCancelled);  // In the driver's batch,
  EXPECT_EQ(handles[7].cancel(), CancelResult::kCancelled);  // and in the wheel.
  for (int round = 0; round < 9; ++round) {
    queue->run();
    fake.timer.poll();
  }
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 4, 5, 6, 8}));
  EXPECT_GT(fake.timer.stats().executor_full, 0U);
  EXPECT_EQ(fake.timer.pending(), 0U);
}

TEST(ScopedTimer, CancelsWhenItGoes) {
  FakeTimer fake;
  bool ran = false;
  {
    const ScopedTimer scoped(fake.timer.after(seconds(1), [&] { ran = true; }));
    EXPECT_EQ(fake.timer.pending(), 1U);
  }
  EXPECT_EQ(fake.timer.pending(), 0U);
  ScopedTimer kept(fake.timer.after(seconds(1), [&] { ran = true; }));
  kept = ScopedTimer(fake.timer.after(seconds(2), [&] { ran = true; }));
  EXPECT_EQ(fake.timer.pending(), 1U);
  const TimerHandle released = kept.release();
  kept = ScopedTimer();
  EXPECT_EQ(released.state(), TimerState::kPending);
  fake.advance(seconds(2));
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace carillon
