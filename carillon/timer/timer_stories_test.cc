// SPDX-License-Identifier: Apache-2.0
// What went wrong for users of other timers, and does not here; each by the phenomenon, with the
// letter that docs/internals/testing.md has for it. Others of them are in the tests beside this.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::FakeTimer;

// A1: 100 ms ticks; a turn of the finest level is 25.6 s, of a ring of 512 slots 51.2 s.
TEST(TimerStory, OneThatRearmsItselfFiresOnTimeAlsoAfterAWholeTurn) {
  FakeTimer fake({.tick = milliseconds(100)});
  std::vector<Span> fired;
  std::function<void()> again = [&] {
    fired.push_back(fake.elapsed());
    fake.timer.after(seconds(10), again);
  };
  fake.timer.after(seconds(10), again);
  fake.advance(seconds(123));
  ASSERT_EQ(fired.size(), 12U);
  for (std::size_t i = 0; i < fired.size(); ++i) {
    EXPECT_EQ(fired[i], seconds(10) * static_cast<int>(i + 1));
  }
}

// A6, A8: whole turns of each level, and a tick beside them, from several phases.
TEST(TimerStory, WholeTurnsOfTheWheelAreNeitherEarlyNorLate) {
  for (const int phase : {0, 1, 100, 255, 256, 65535}) {
    FakeTimer fake;
    fake.advance(milliseconds(phase));
    const Span begin = fake.elapsed();
    int fired = 0;
    int expected = 0;
    for (const int turn : {256, 512, 768, 65'536, 131'072, 196'608, 16'777'216}) {
      for (const int beside : {-1, 0, 1}) {
        const Span delay = milliseconds(turn + beside);
        ++expected;
        fake.timer.after(delay, [&, delay] {
          ++fired;
          EXPECT_EQ(fake.elapsed() - begin, delay);
        });
      }
    }
    fake.advance(hours(5));
    EXPECT_EQ(fired, expected);
  }
}

// A10: sub-tick phases.
TEST(TimerStory, NoneIsEarlyAndNoneMoreThanATickLateAtAnyPhase) {
  FakeTimer fake;
  Random random(10);
  int fired = 0;
  for (int i = 0; i < 10'000; ++i) {
    fake.advance(nanoseconds(random.between(0, 100'000)));
    const Instant due = fake.timer.now() + nanoseconds(random.between(1'000'000, 1'000'000'000));
    fake.timer.at(due, [&, due] {
      ++fired;
      EXPECT_GE(fake.timer.now(), due);
      EXPECT_LT(fake.timer.now() - due, milliseconds(1));
    });
  }
  fake.advance(seconds(2));
  EXPECT_EQ(fired, 10'000);
}

// A13: the clock has jumped past a deadline, and nobody has looked yet.
TEST(TimerStory, AShortTimerAfterAJumpIsNotHeldUpByALongOne) {
  FakeTimer fake;
  std::vector<std::pair<char, Span>> fired;
  fake.timer.after(hours(1), [&] { fired.emplace_back('l', fake.elapsed()); });
  fake.timer.poll();
  fake.clock.advance(hours(2));
  fake.timer.after(milliseconds(10), [&] { fired.emplace_back('s', fake.elapsed()); });
  fake.advance(seconds(1));
  EXPECT_EQ(fired, (std::vector<std::pair<char, Span>>{{'l', hours(2)},
                                                       {'s', hours(2) + milliseconds(10)}}));
}

// A15: equal deadlines.
TEST(TimerStory, EqualDeadlinesOfOneThreadFireInTheOrderScheduled) {
  for (const std::size_t batch : {1U, 7U, 128U}) {
    FakeTimer fake({.batch = batch});
    std::vector<int> order;
    std::vector<int> expected;
    for (int i = 0; i < 1000; ++i) {
      expected.push_back(i);
      fake.timer.at(FakeTimer::kStart + seconds(1), [&, i] { order.push_back(i); });
    }
    fake.advance(seconds(1));
    EXPECT_EQ(order, expected);
  }
}

// B5: the first of eleven in a slot blocks, while the others are cancelled.
TEST(TimerStory, PendingIsExactWhileACallbackBlocks) {
  std::latch begun(1);
  std::latch proceed(1);
  Timer timer({.executor = inline_executor(), .max_pending = 11});
  std::vector<TimerHandle> handles;
  const Instant due = timer.now() + milliseconds(2);
  for (int i = 0; i < 11; ++i) {
    handles.push_back(timer.at(due, [&, i] {
      if (i != 0) {
        ADD_FAILURE() << i;
        return;
      }
      begun.count_down();
      proceed.wait();
    }));
  }
  begun.wait();
  EXPECT_EQ(handles[0].cancel(), CancelResult::kRunning);
  for (int i = 1; i < 11; ++i) {
    EXPECT_EQ(handles[static_cast<std::size_t>(i)].cancel(), CancelResult::kCancelled);
  }
  EXPECT_EQ(timer.pending(), 0U);
  for (int i = 0; i < 11; ++i) {
    EXPECT_TRUE(timer.after(hours(1), [] {})) << i;
  }
  EXPECT_FALSE(timer.after(hours(1), [] {}));
  proceed.count_down();
}

// B13: all are cancelled, then the timer is destroyed.
TEST(TimerStory, CancelAllAndDestroyLeavesNothing) {
  std::vector<TimerHandle> handles;
  const auto payload = std::make_shared<int>(1);
  {
    Timer timer;
    for (int i = 0; i < 1000; ++i) {
      handles.push_back(timer.after(milliseconds(1000 + i), [payload] { FAIL(); }));
    }
    for (const TimerHandle& handle : handles) {
      EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
    }
    EXPECT_EQ(timer.pending(), 0U);
    EXPECT_EQ(payload.use_count(), 1);
  }
  EXPECT_EQ(handles[0].state(), TimerState::kNotFound);
}

// B14: stopped with a hundred pending, from several threads.
TEST(TimerStory, StopReturnsEachOfAHundredOnce) {
  Timer timer;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        timer.after(hours(1) + milliseconds(i), [] { FAIL(); });
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const auto unfired = timer.stop();
  EXPECT_EQ(unfired.size(), 100U);
  for (std::size_t i = 1; i < unfired.size(); ++i) {
    EXPECT_LE(unfired[i - 1].deadline, unfired[i].deadline);
  }
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.after(seconds(1), [] { FAIL(); }).refusal(), Refusal::kStopped);
  EXPECT_EQ(timer.pending(), 0U);
}

// Of many stops at a time one gets each timer.
TEST(TimerStory, ConcurrentStopsLoseNothing) {
  for (int round = 0; round < 50; ++round) {
    Timer timer;
    for (int i = 0; i < 20; ++i) {
      timer.after(hours(1), [] {});
    }
    std::atomic<std::size_t> returned{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] { returned += timer.stop().size(); });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(returned, 20U);
  }
}

// D1: a million timeouts of 300 s, each cancelled soon; 64 live at a time.
TEST(TimerStory, MemoryFollowsWhatIsPendingAndNotWhatWasScheduled) {
  FakeTimer fake;
  std::vector<TimerHandle> live(64);
  std::size_t early = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    TimerHandle& handle = live[static_cast<std::size_t>(i) % live.size()];
    handle.cancel();
    handle = fake.timer.after(seconds(300), [] {});
    if (i % 100 == 0) {
      fake.clock.advance(milliseconds(1));
      fake.timer.poll();
    }
    if (i == 100'000) {
      early = fake.timer.stats().memory_bytes;
    }
  }
  EXPECT_LE(fake.timer.stats().memory_bytes, early + 65'536);
  EXPECT_EQ(fake.timer.pending(), 64U);
}

// D5: a hundred thousand in one tick are taken out in batches, so that the lock is free in between.
TEST(TimerStory, AHerdDueAtOnceIsTakenOutInBatches) {
  class Measuring final : public Executor {
   public:
    std::size_t try_execute(std::span<Firing> firings, RoomListener&) override {
      largest = std::max(largest, firings.size());
      for (Firing& firing : firings) {
        firing();
      }
      return firings.size();
    }
    std::size_t largest = 0;
  };
  const auto measuring = std::make_shared<Measuring>();
  FakeTimer fake({.executor = measuring, .batch = 50});
  int fired = 0;
  for (int i = 0; i < 100'000; ++i) {
    fake.timer.at(FakeTimer::kStart + seconds(1), [&] { ++fired; });
  }
  fake.timer.at(FakeTimer::kStart + milliseconds(1001), [&] { EXPECT_EQ(fired, 100'000); });
  fake.advance(seconds(2));
  EXPECT_EQ(fired, 100'000);
  EXPECT_EQ(measuring->largest, 50U);
}

// D7, D8: nothing is due, nothing wakes. A timer is one wake-up; so is being told of it.
TEST(TimerStory, WakesForWhatIsDueOnly) {
  std::latch ran(1);
  Timer timer({.start_now = true});
  EXPECT_EQ(timer.stats().wakeups, 0U);
  timer.after(hours(1), [] {});
  timer.after(milliseconds(20), [&] { ran.count_down(); });
  ran.wait();
  const std::uint64_t woken = timer.stats().wakeups;
  EXPECT_GE(woken, 1U);
  EXPECT_LE(woken, 3U);
  // What is later than what it sleeps for does not wake it.
  timer.after(milliseconds(1), [] {}).cancel();
  for (int i = 0; i < 10'000; ++i) {
    timer.after(hours(2), [] {}).cancel();
  }
  EXPECT_LE(timer.stats().wakeups, woken + 3);
}

}  // namespace
}  // namespace carillon
