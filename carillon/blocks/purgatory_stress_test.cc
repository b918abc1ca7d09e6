// SPDX-License-Identifier: Apache-2.0
// Threads that watch, produce, check and cancel, while a Timer with a thread of its own expires.
// For the sanitizers, and for what they do not see: an operation that nobody completes.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/blocks/purgatory.h"

namespace carillon {
namespace {

using std::chrono::microseconds;
using Numbers = Purgatory<int>;

constexpr int kThreads = 4;

// Without deadlines: what nobody wakes would wait for ever.
TEST(PurgatoryStress, NoWakeUpIsLost) {
  constexpr int kKeys = 3;
  Timer timer;
  Numbers purgatory(timer, {.shards = 2});
  std::array<std::atomic<int>, kKeys> level{};
  std::atomic<int> watched{0};
  std::atomic<int> completed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<std::uint64_t>(t) + 1);
      for (int i = 0; i < 15'000; ++i) {
        const auto a = random.below(kKeys);
        const auto b = random.below(kKeys);
        if (random.one_in(2)) {
          const int wanted = level[a] + level[b] + static_cast<int>(random.below(4));
          ++watched;
          purgatory.watch(
              {static_cast<int>(a), static_cast<int>(b)}, kForever,
              [&level, a, b, wanted] { return level[a] + level[b] >= wanted; },
              [&completed](Outcome outcome) {
                EXPECT_EQ(outcome, Outcome::kCompleted);
                ++completed;
              });
        } else {
          ++level[a];
          purgatory.check(static_cast<int>(a));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  // Each that is left wants more than there is.
  const auto waiting = purgatory.watched();
  EXPECT_EQ(static_cast<std::size_t>(watched - completed), waiting);
  for (int key = 0; key < kKeys; ++key) {
    EXPECT_EQ(purgatory.check(key), 0U) << "a wake-up was lost";
  }
  for (int key = 0; key < kKeys; ++key) {
    level[static_cast<std::size_t>(key)] += 10;
  }
  for (int key = 0; key < kKeys; ++key) {
    purgatory.check(key);
  }
  EXPECT_EQ(completed, watched);
  EXPECT_EQ(purgatory.keys(), 0U);
}

// Completion, deadline and cancel race for each.
TEST(PurgatoryStress, EachOperationEndsExactlyOnce) {
  Timer timer({.tick = microseconds(50)});
  std::array<std::atomic<int>, 3> ended{};
  std::atomic<int> watched{0};
  std::atomic<int> level{0};
  {
    Numbers purgatory(timer, {.shards = 4});
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random random(static_cast<std::uint64_t>(t) + 1);
        std::vector<Numbers::Operation> operations(16);
        for (int i = 0; i < 15'000; ++i) {
          const int key = static_cast<int>(random.below(6));
          switch (random.below(4)) {
            case 0:
            case 1: {
              ++watched;
              auto once = std::make_shared<std::atomic<int>>(0);
              operations[random.below(16)] = purgatory.watch(
                  {key, static_cast<int>(random.below(6))}, microseconds(random.between(0, 400)),
                  [&level, wanted = level + static_cast<int>(random.below(50))] {
                    return level >= wanted;
                  },
                  [&ended, once = std::move(once)](Outcome outcome) {
                    EXPECT_EQ(once->fetch_add(1), 0);
                    ++ended[static_cast<std::size_t>(outcome)];
                  });
              break;
            }
            case 2: operations[random.below(16)].cancel(); break;
            default: ++level; purgatory.check(key);
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  EXPECT_EQ(ended[0] + ended[1] + ended[2], watched);
  EXPECT_GT(ended[0], 0);
  EXPECT_GT(ended[2], 0);
  EXPECT_EQ(timer.pending(), 0U);
}

// Kafka's own test of this kind: twenty threads race to complete one operation.
TEST(PurgatoryStress, TwentyThreadsCompleteOneOperationOnce) {
  Timer timer;
  Numbers purgatory(timer);
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> ready{false};
    std::atomic<int> answers{0};
    std::atomic<std::size_t> counted{0};
    purgatory.watch(
        {round}, std::chrono::hours(1), [&] { return ready.load(); }, [&](Outcome) { ++answers; });
    std::latch start(20);
    std::vector<std::thread> threads;
    for (int t = 0; t < 20; ++t) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        ready = true;
        counted += purgatory.check(round);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(answers, 1);
    EXPECT_EQ(counted, 1U);
  }
}

}  // namespace
}  // namespace carillon
