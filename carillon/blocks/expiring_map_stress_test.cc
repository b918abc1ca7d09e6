// SPDX-License-Identifier: Apache-2.0
// Threads that put, touch, get and take, while a Timer with a thread of its own expires. What must
// hold however they interleave: each value that was put ends exactly once. For the sanitizers.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "carillon/blocks/expiring_map.h"

namespace carillon {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Counts how many of its kind there are.
class Counted {
 public:
  explicit Counted(std::atomic<int>& alive) noexcept : alive_(&alive) { ++alive; }
  Counted(Counted&& other) noexcept : alive_(std::exchange(other.alive_, nullptr)) {}
  Counted& operator=(Counted&& other) noexcept {
    std::swap(alive_, other.alive_);
    return *this;
  }
  ~Counted() {
    if (alive_ != nullptr) {
      --*alive_;
    }
  }

 private:
  std::atomic<int>* alive_;
};

TEST(ExpiringMapStress, EachValueEndsExactlyOnce) {
  constexpr int kThreads = 4;
  constexpr int kOperations = 40'000;
  std::atomic<int> alive{0};
  std::atomic<int> told{0};
  std::atomic<int> taken{0};
  std::atomic<int> replaced{0};
  std::atomic<int> put{0};
  {
    Timer timer({.tick = microseconds(100)});
    ExpiringMap<int, Counted> map(timer,
                                  {.ttl = milliseconds(2),
                                   .max_size = 2000,
                                   .on_removed = [&](const int&, Counted&, Removal) { ++told; },
                                   .resolution = microseconds(100),
                                   .budget = 32,
                                   .shards = 4});
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random random(static_cast<std::uint64_t>(t) + 1);
        for (int i = 0; i < kOperations; ++i) {
          const int key = static_cast<int>(random.below(5000));
          switch (random.below(4)) {
            case 0:
            case 1:
              ++put;
              replaced += map.put(key, Counted(alive), Span(random.between(1, 4'000'000))) ? 0 : 1;
              break;
            case 2: map.touch(key); break;
            default: taken += map.erase(key) ? 1 : 0;
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    // The Timer may be at it still; whatever it does not get to is removed here or by the end.
    map.expire(1'000'000);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_LE(told + taken + replaced, put);
  EXPECT_GT(told, 0);
}

}  // namespace
}  // namespace carillon
