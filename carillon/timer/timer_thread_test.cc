// SPDX-License-Identifier: Apache-2.0
// The driver's thread and the pool of threads, on the system's clock: nothing here depends on how
// fast they are, only on what happens, and on what is never early.

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "carillon/timer/timer.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(TimerThread, RunsCallbacksAndNoneIsEarly) {
  constexpr int kTimers = 2000;
  std::latch ran(kTimers);
  std::atomic<int> early{0};
  Timer timer({.tick = microseconds(100)});
  for (int i = 0; i < kTimers; ++i) {
    const Instant earliest = timer.now() + microseconds(i * 7);
    timer.after(microseconds(i * 7), [&, earliest] {
      early += timer.now() < earliest ? 1 : 0;
      ran.count_down();
    });
  }
  ran.wait();
  EXPECT_EQ(early, 0);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(TimerThread, AnEarlierDeadlineWakesTheDriver) {
  Timer timer;
  timer.after(hours(1), [] {});
  for (int i = 0; i < 200; ++i) {
    std::latch ran(1);
    timer.after(microseconds(1), [&] { ran.count_down(); });
    ran.wait();
  }
  EXPECT_EQ(timer.pending(), 1U);
}

TEST(TimerThread, ABlockedCallbackDelaysNoOther) {
  std::latch release(1);
  std::latch others(100);
  Timer timer;
  timer.after(milliseconds(1), [&] { release.wait(); });
  for (int i = 0; i < 100; ++i) {
    timer.after(milliseconds(1 + i / 10), [&] { others.count_down(); });
  }
  others.wait();
  release.count_down();
}

TEST(TimerThread, MoreAreDueThanTheQueueOfThePoolHolds) {
  constexpr int kTimers = 5000;
  std::latch ran(kTimers);
  Timer timer({.pool = {.threads = 2, .capacity = 16}});
  for (int i = 0; i < kTimers; ++i) {
    timer.after(milliseconds(2), [&] { ran.count_down(); });
  }
  ran.wait();
  EXPECT_EQ(timer.stats().scheduled, static_cast<std::uint64_t>(kTimers));
}

TEST(TimerThread, TheDestructorWaitsForWhatIsRunning) {
  std::latch begun(1);
  std::atomic<bool> over{false};
  std::latch proceed(1);
  auto timer = std::make_unique<Timer>();
  timer->after(milliseconds(1), [&] {
    begun.count_down();
    proceed.wait();
    over = true;
  });
  begun.wait();
  std::thread releaser([&] { proceed.count_down(); });
  timer.reset();
  EXPECT_TRUE(over);
  releaser.join();
}

TEST(TimerThread, DestroyedInACallbackOfThePool) {
  for (int i = 0; i < 50; ++i) {
    auto* timer = new Timer;
    std::latch gone(1);
    timer->after(microseconds(1), [&, timer] {
      delete timer;
      gone.count_down();
    });
    gone.wait();
  }
}

TEST(TimerThread, DestroyedInACallbackOnTheDriversThread) {
  for (int i = 0; i < 50; ++i) {
    auto* timer = new Timer({.executor = inline_executor()});
    std::latch gone(1);
    timer->after(microseconds(1), [&, timer] {
      delete timer;
      gone.count_down();
    });
    gone.wait();
  }
}

TEST(TimerThread, ManyThreadsScheduleAndCancelEachOthers) {
  constexpr int kThreads = 4;
  constexpr int kTimers = 5000;
  std::atomic<int> ran{0};
  std::atomic<int> cancelled{0};
  {
    Timer timer({.tick = microseconds(100)});
    std::vector<std::thread> threads;
    std::vector<std::vector<TimerHandle>> handles(kThreads);
    std::latch scheduled(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kTimers; ++i) {
          handles[t].push_back(timer.after(microseconds(i % 1000), [&] { ++ran; }));
        }
        scheduled.arrive_and_wait();
        for (const TimerHandle& handle : handles[(t + 1) % kThreads]) {
          cancelled += handle.cancel() == CancelResult::kCancelled ? 1 : 0;
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(timer.pending(), 0U);
  }
  EXPECT_EQ(ran + cancelled, kThreads * kTimers);
}

}  // namespace
}  // namespace carillon
