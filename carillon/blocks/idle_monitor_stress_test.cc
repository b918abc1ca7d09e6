// SPDX-License-Identifier: Apache-2.0
// Threads that watch, touch, cancel and destroy, while a Timer with a thread of its own looks
// around. For the sanitizers.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/blocks/idle_monitor.h"

namespace carillon {
namespace {

using std::chrono::microseconds;

TEST(IdleMonitorStress, EachItemIsCalledOnceOrCancelledOnce) {
  constexpr int kThreads = 4;
  constexpr int kItems = 64;
  std::atomic<int> watched{0};
  std::atomic<int> called{0};
  std::atomic<int> cancelled{0};
  Timer timer({.tick = microseconds(50)});
  {
    IdleMonitor monitor(timer, {.resolution = microseconds(200), .budget = 16});
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random random(static_cast<std::uint64_t>(t) + 1);
        std::vector<IdleMonitor::Item> items(kItems);
        for (int i = 0; i < 20'000 || called < 1000; ++i) {
          IdleMonitor::Item& item = items[random.below(kItems)];
          switch (random.below(8)) {
            case 0: {
              cancelled += item.cancel() == CancelResult::kCancelled ? 1 : 0;
              ++watched;
              // What the callback uses lives on the heap: the sanitizers see it used too late.
              item = monitor.watch(microseconds(random.between(0, 1500)),
                                   [&called, own = std::make_unique<int>(1)] { called += *own; });
              break;
            }
            case 1: cancelled += item.cancel() == CancelResult::kCancelled ? 1 : 0; break;
            case 2: item.set_timeout(microseconds(random.between(0, 1500))); break;
            default: item.touch();
          }
        }
        for (IdleMonitor::Item& item : items) {
          cancelled += item.cancel() == CancelResult::kCancelled ? 1 : 0;
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(monitor.size(), 0U);
  }
  EXPECT_EQ(called + cancelled, watched);
  EXPECT_GT(called, 0);
}

TEST(IdleMonitorStress, DestroyedWhileItCalls) {
  for (int round = 0; round < 100; ++round) {
    Timer timer({.tick = microseconds(20)});
    std::atomic<bool> alive{true};
    std::vector<IdleMonitor::Item> items;
    {
      IdleMonitor monitor(timer, {.resolution = microseconds(20)});
      for (int i = 0; i < 200; ++i) {
        items.push_back(
            monitor.watch(microseconds(20 * (i % 10)), [&alive] { EXPECT_TRUE(alive); }));
      }
      std::thread other([&items] { items.clear(); });
      other.join();
      for (int i = 0; i < 200; ++i) {
        items.push_back(
            monitor.watch(microseconds(20 * (i % 10)), [&alive] { EXPECT_TRUE(alive); }));
      }
    }
    alive = false;
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace carillon
