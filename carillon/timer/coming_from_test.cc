// SPDX-License-Identifier: Apache-2.0
// What docs/library/coming-from.md says of other timers and of ours, where no other test shows it.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "carillon/timer/timer.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using namespace std::chrono_literals;
using testing::FakeTimer;

int threads_named(std::string_view name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string line;
    count += std::getline(file, line) && line == name ? 1 : 0;
  }
  return count;
}

TEST(ComingFrom, TheThreadsStartWithTheFirstTimerAndEndWithTheTimer) {
  TimerOptions options;
  options.thread_name = "cf-driver";
  options.executor = inline_executor();  // Threads have the name of who starts them, at first.
  {
    Timer timer(options);
    EXPECT_EQ(threads_named("cf-driver"), 0);
    std::atomic<bool> fired{false};
    timer.after(0ms, [&] {
      fired = true;
      fired.notify_all();
    });
    fired.wait(false);
    EXPECT_EQ(threads_named("cf-driver"), 1);
  }
  // The system forgets a thread a little after it has been joined.
  while (threads_named("cf-driver") != 0) {
    std::this_thread::yield();
  }
}

TEST(ComingFrom, StateFollowsTheTimer) {
  FakeTimer fake;
  TimerHandle timer;
  TimerState inside{};
  timer = fake.timer.after(1ms, [&] { inside = timer.state(); });
  EXPECT_EQ(timer.state(), TimerState::kPending);
  fake.advance(1ms);
  EXPECT_EQ(inside, TimerState::kRunning);
  EXPECT_EQ(timer.state(), TimerState::kNotFound);
  const TimerHandle cancelled = fake.timer.after(1ms, [] {});
  cancelled.cancel();
  EXPECT_EQ(cancelled.state(), TimerState::kNotFound);
}

TEST(ComingFrom, AfterStopItRefusesAndSaysWhy) {
  FakeTimer fake;
  fake.timer.stop();
  const auto witness = std::make_shared<int>(0);
  const TimerHandle refused = fake.timer.after(1ms, [witness] {});
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.refusal(), Refusal::kStopped);
  EXPECT_EQ(witness.use_count(), 1) << "the callback is destroyed";
  EXPECT_EQ(fake.timer.every(1ms, [] {}).refusal(), Refusal::kStopped);
}

// One tick before, at, and after where each level of the wheels ends, whatever their sizes are.
TEST(ComingFrom, ADelayThatPassesThroughEveryLevelIsExact) {
  FakeTimer fake;
  std::size_t fired = 0;
  std::size_t scheduled = 0;
  for (int bits = 1; bits <= 40; ++bits) {
    for (const int off : {-1, 0, 1}) {
      const Span delay = ((std::int64_t{1} << bits) + off) * 1ms;
      ++scheduled;
      fake.timer.after(delay, [&fake, &fired, delay] {
        EXPECT_EQ(fake.elapsed(), delay);
        ++fired;
      });
    }
  }
  fake.advance(((std::int64_t{1} << 40) + 1) * 1ms);
  EXPECT_EQ(fired, scheduled);
}

TEST(ComingFrom, WhatHasPassedFiresAtTheNextTickAndNotInsideTheCall) {
  FakeTimer fake;
  bool fired = false;
  fake.timer.at(FakeTimer::kStart - 1h, [&] { fired = true; });
  EXPECT_FALSE(fired);
  fake.advance(fake.timer.tick());
  EXPECT_TRUE(fired);
}

TEST(ComingFrom, RescheduleOfOneThatHasFiredSaysSoAndDoesNotArmIt) {
  FakeTimer fake;
  int fired = 0;
  const TimerHandle timer = fake.timer.after(1ms, [&] { ++fired; });
  fake.advance(1ms);
  EXPECT_EQ(timer.reschedule(1ms), RescheduleResult::kNotFound);
  EXPECT_EQ(timer.cancel(), CancelResult::kNotFound);
  fake.advance(1s);
  EXPECT_EQ(fired, 1);
}

TEST(ComingFrom, APeriodicTimerThatThrowsGoesOn) {
  int reported = 0;
  TimerOptions options;
  options.on_exception = [&](const std::exception_ptr&) { ++reported; };
  FakeTimer fake(options);
  int runs = 0;
  fake.timer.every(1ms, [&] {
    if (++runs == 2) {
      throw std::runtime_error("once");
    }
  });
  fake.advance(5ms);
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(reported, 1);
}

TEST(ComingFrom, APeriodicTimerKeepsItsGridHoweverLongARunTakes) {
  FakeTimer fake;
  std::vector<Span> begun;
  fake.timer.every(50ms, [&] {
    begun.push_back(fake.elapsed());
    fake.clock.advance(17ms);
  });
  fake.advance(220ms);
  EXPECT_EQ(begun, (std::vector<Span>{50ms, 100ms, 150ms, 200ms}));
}

TEST(ComingFrom, CancelledTimersLeaveNothingUntilTheirDelay) {
  FakeTimer fake;
  const auto witness = std::make_shared<int>(0);
  for (int i = 0; i < 100'000; ++i) {
    fake.timer.after(24h, [witness] {}).cancel();
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(fake.timer.pending(), 0U);
  EXPECT_LT(fake.timer.stats().memory_bytes, std::size_t{1} << 20);
  EXPECT_FALSE(fake.timer.next_deadline()) << "nothing to wake for";
}

TEST(ComingFrom, ADelayCountsFromTheCallAndNotFromTheLastTurnOfALoop) {
  FakeTimer fake;
  fake.timer.poll();
  fake.clock.advance(30ms);  // The loop was busy.
  fake.timer.after(10ms, [] {});
  EXPECT_EQ(fake.timer.next_deadline(), FakeTimer::kStart + 40ms);
}

}  // namespace
}  // namespace carillon
