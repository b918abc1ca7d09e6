// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/timer_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "carillon/timer/manual_driver.h"

namespace carillon {
namespace {

using namespace std::chrono_literals;

// Four Timers on manual time; the test says which the calling thread uses.
struct Four {
  TimerSetOptions options() {
    TimerSetOptions options;
    options.timers = 4;
    options.timer = time.options(options.timer);
    options.shard = [this](std::size_t timers) {
      EXPECT_EQ(timers, 4U);
      return shard;
    };
    return options;
  }

  ManualDriver time;
  std::size_t shard = 0;
  TimerSet set{options()};
};

TEST(TimerSet, SchedulesInTheShardThatIsChosen) {
  Four four;
  std::vector<int> order;
  for (int i = 3; i >= 0; --i) {
    four.shard = static_cast<std::size_t>(i);
    EXPECT_EQ(&four.set.local(), &four.set[four.shard]);
    four.set.after(i * 1ms + 1ms, [&order, i] { order.push_back(i); });
    four.set.at(four.time.now() + 10ms, [] {});
    EXPECT_EQ(four.set[four.shard].pending(), 2U);
  }
  four.set.every(1ms, [] {});
  EXPECT_EQ(four.set.pending(), 9U);
  four.time.advance(10ms);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3})) << "one clock drives all";
  EXPECT_EQ(four.set.pending(), 1U);
}

TEST(TimerSet, AHandleIsUsedFromAnyShard) {
  Four four;
  four.shard = 1;
  const TimerHandle timer = four.set.after(1h, [] {});
  four.shard = 2;
  EXPECT_EQ(timer.reschedule(2h), RescheduleResult::kRescheduled);
  EXPECT_EQ(timer.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(four.set.pending(), 0U);
}

TEST(TimerSet, AKeyHasOneTimerWhicheverShardAsks) {
  Four four;
  std::set<std::size_t> used;
  for (std::uint64_t key = 0; key < 64; ++key) {
    four.shard = 1;
    four.set.keyed(key).after(1h, [] {});
    four.shard = 3;
    four.set.keyed(key).after(2h, [] {});
    for (std::size_t i = 0; i < 4; ++i) {
      if (four.set[i].pending() != 0) {
        used.insert(i);
      }
    }
    EXPECT_EQ(four.set.pending(), 1U) << "the second replaces the first";
    EXPECT_EQ(four.set.keyed(key).cancel(), CancelResult::kCancelled);
  }
  EXPECT_EQ(used.size(), 4U) << "keys are spread";
  four.set.keyed("session").after(1h, [] {});
  EXPECT_EQ(four.set.keyed("session").state(), TimerState::kPending);
}

TEST(TimerSet, StatsAreTheSum) {
  Four four;
  for (four.shard = 0; four.shard < 4; ++four.shard) {
    for (std::size_t i = 0; i <= four.shard; ++i) {
      four.set.after(1ms, [] {});
    }
    four.set.after(1h, [] {});
    four.set.after(1h, [] {}).cancel();
  }
  four.shard = 0;
  four.time.advance(5ms);
  const TimerStats stats = four.set.stats();
  EXPECT_EQ(stats.fired, 10U);
  EXPECT_EQ(stats.pending, 4U);
  EXPECT_EQ(stats.cancelled, 4U);
  EXPECT_EQ(stats.scheduled, 18U);
  EXPECT_EQ(stats.lateness.count, 10U);
  EXPECT_GT(stats.memory_bytes, four.set[0].stats().memory_bytes);
}

TEST(TimerSet, PausesAndStopsAll) {
  Four four;
  std::vector<Span> fired;
  for (four.shard = 0; four.shard < 4; ++four.shard) {
    four.set.after(1ms, [&] { fired.push_back(1ms); });
    four.set.after((4 - static_cast<int>(four.shard)) * 1h, [] {});
  }
  four.shard = 0;
  four.set.pause();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(four.set[i].pending(), 2U);
  }
  four.set.resume();
  four.time.advance(1ms);
  EXPECT_EQ(fired.size(), 4U);
  const std::vector<UnfiredTimer> unfired = four.set.stop();
  ASSERT_EQ(unfired.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(unfired[i].deadline, ManualDriver::kStart + (static_cast<int>(i) + 1) * 1h);
  }
  EXPECT_EQ(four.set.after(1ms, [] {}).refusal(), Refusal::kStopped);
}

TEST(TimerSet, AShardThatDoesNotExistStopsTheProgram) {
  EXPECT_DEATH(
      {
        TimerSetOptions options;
        options.timers = 2;
        options.shard = [](std::size_t timers) { return timers; };
        TimerSet set(options);
        set.after(1ms, [] {});
      },
      "shard 2 of 2");
}

// Threads, processors and the drivers as they are.
TEST(TimerSet, OneForEachProcessor) {
  TimerSet set;
  EXPECT_EQ(set.size(), std::max(1U, std::thread::hardware_concurrency()));
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int> fired{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        set.after(std::chrono::microseconds(i * 10), [&] { ++fired; });
        set.after(1h, [] {}).cancel();
      }
    });
  }
  threads.clear();
  EXPECT_TRUE(set.drain(1min).empty());
  EXPECT_EQ(fired, kThreads * kEach);
  const TimerStats stats = set.stats();
  EXPECT_EQ(stats.fired, static_cast<std::uint64_t>(kThreads * kEach));
  EXPECT_EQ(stats.cancelled, static_cast<std::uint64_t>(kThreads * kEach));
  EXPECT_EQ(set.after(1ms, [] {}).refusal(), Refusal::kStopped);
}

}  // namespace
}  // namespace carillon
