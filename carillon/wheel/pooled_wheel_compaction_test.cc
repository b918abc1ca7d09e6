// SPDX-License-Identifier: Apache-2.0
// Stale entries: how many there may be, and that what is live survives their removal.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/wheel/pooled_wheel.h"
#include "carillon/wheel/pooled_wheel_hooks.h"

namespace carillon {
namespace {

constexpr auto kIgnore = [](auto&&) {};

// Beyond as many stale as live: kFewStale, and what is added while the sweep crosses empty slots.
template <class Shape>
std::size_t allowed_stale(std::size_t live) {
  return live + Shape::kFewStale + 16 * (std::size_t{1} << Shape::kChunkBits) + 64;
}

template <class Shape>
class PooledWheelCompaction : public ::testing::Test {};
using Shapes = ::testing::Types<PooledShape, TinyPool, SmallPool>;
TYPED_TEST_SUITE(PooledWheelCompaction, Shapes);

// So a client whose requests have timeouts of 300 s and are answered within milliseconds.
TYPED_TEST(PooledWheelCompaction, StaleDoNotExceedLiveWhileTimeoutsComeAndGo) {
  for (const std::size_t live : {1U, 100U, 5000U}) {
    BasicPooledWheel<int, TypeParam> wheel;
    std::deque<WheelHandle> pending;
    Random random(live);
    std::size_t memory = 0;
    for (std::size_t round = 0; round < 30 * live + 20'000; ++round) {
      pending.push_back(wheel.schedule(wheel.now() + 300'000 + random.below(1000), 0));
      if (pending.size() > live) {
        ASSERT_TRUE(wheel.cancel(pending.front()));
        pending.pop_front();
      }
      ASSERT_LE(wheel.stale_entries(), allowed_stale<TypeParam>(live)) << round;
      if (round % 50 == 0) {
        wheel.advance(wheel.now() + 1, kIgnore);
      }
      if (round == 10 * live + 10'000) {
        memory = wheel.memory_bytes();
      }
    }
    EXPECT_EQ(wheel.memory_bytes(), memory) << "still growing with " << live << " timers";
  }
}

// Each pulled forward leaves a stale entry too.
TYPED_TEST(PooledWheelCompaction, StaleDoNotExceedLiveWhileTimersArePulledForward) {
  constexpr std::size_t kLive = 500;
  BasicPooledWheel<int, TypeParam> wheel;
  std::vector<WheelHandle> handles;
  for (std::size_t i = 0; i < kLive; ++i) {
    handles.push_back(wheel.schedule(kLastTick, 0));
  }
  Random random(1);
  for (Tick round = 1; round < 50'000; ++round) {
    ASSERT_TRUE(wheel.reschedule(handles[random.below(kLive)], kLastTick - round * 1'000'000));
    ASSERT_LE(wheel.stale_entries(), allowed_stale<TypeParam>(kLive));
  }
  EXPECT_EQ(wheel.size(), kLive);
}

TYPED_TEST(PooledWheelCompaction, KeepsTheOrderOfATick) {
  BasicPooledWheel<int, TypeParam> wheel;
  Random random(2);
  std::vector<std::pair<WheelHandle, int>> live;
  for (int i = 0; i < 20'000; ++i) {
    live.emplace_back(wheel.schedule(1'000'000 + random.below(3), i), i);
    if (live.size() > 300) {
      const auto victim = live.begin() + static_cast<std::ptrdiff_t>(random.below(live.size()));
      ASSERT_TRUE(wheel.cancel(victim->first));
      live.erase(victim);
    }
  }
  std::vector<std::pair<Tick, int>> wanted;
  for (const auto& [handle, number] : live) {
    wanted.emplace_back(wheel.deadline(handle).value(), number);
  }
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<Tick, int>> got;
  wheel.advance(2'000'000,
                [&](auto&& expired) { got.emplace_back(expired.deadline, expired.payload); });
  EXPECT_EQ(got, wanted);
}

TYPED_TEST(PooledWheelCompaction, AllCancelledLeavesNothingAndMemoryIsUsedAgain) {
  BasicPooledWheel<int, TypeParam> wheel;
  Random random(4);
  std::size_t memory = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<WheelHandle> handles;
    for (int i = 0; i < 3000; ++i) {
      handles.push_back(wheel.schedule(1 + random.below(1'000'000), i));
    }
    std::shuffle(handles.begin(), handles.end(), random);
    for (const WheelHandle handle : handles) {
      ASSERT_TRUE(wheel.cancel(handle));
    }
    EXPECT_TRUE(wheel.empty());
    EXPECT_EQ(wheel.stale_entries(), 0U);
    if (round == 0) {
      memory = wheel.memory_bytes();
    }
  }
  EXPECT_EQ(wheel.memory_bytes(), memory);
}

// Of all but one: nothing is swept by cancels, but what comes next brings the stale down.
TYPED_TEST(PooledWheelCompaction, StaleGoDownWhenTimersAreAddedAfterMostWereCancelled) {
  BasicPooledWheel<int, TypeParam> wheel;
  Random random(5);
  std::vector<WheelHandle> handles;
  for (int i = 0; i < 10'000; ++i) {
    handles.push_back(wheel.schedule(kLastTick - random.below(1'000'000'000), i));
  }
  for (std::size_t i = 1; i < handles.size(); ++i) {
    ASSERT_TRUE(wheel.cancel(handles[i]));
  }
  const std::size_t memory = wheel.memory_bytes();
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(wheel.schedule(kLastTick - random.below(1'000'000'000), i));
  }
  EXPECT_LE(wheel.stale_entries(), allowed_stale<TypeParam>(wheel.size()));
  EXPECT_LE(wheel.memory_bytes(), memory);
}

// Without it a driver that asks before each sleep would walk the slot for each cancel.
TYPED_TEST(PooledWheelCompaction, AskingWhileTheEarliestAreCancelledIsNotQuadratic) {
  constexpr int kTimers = 30'000;
  BasicPooledWheel<int, TypeParam> wheel;
  std::vector<WheelHandle> handles;
  for (int i = 0; i < kTimers; ++i) {
    handles.push_back(wheel.schedule(5'000'000 + static_cast<Tick>(i), i));
  }
  for (int i = 0; i < kTimers; ++i) {
    ASSERT_EQ(wheel.next_deadline(), 5'000'000 + static_cast<Tick>(i));
    ASSERT_TRUE(wheel.cancel(handles[static_cast<std::size_t>(i)]));
  }
  // And within one tick.
  for (int i = 0; i < kTimers; ++i) {
    handles[static_cast<std::size_t>(i)] = wheel.schedule(6'000'000, i);
  }
  for (const WheelHandle handle : handles) {
    ASSERT_EQ(wheel.next_deadline(), Tick{6'000'000});
    ASSERT_TRUE(wheel.cancel(handle));
  }
}

TEST(PooledWheelMemory, AtMost32BytesForATimer) {
  constexpr std::size_t kTimers = 1'000'000;
  PooledWheel<> wheel;
  Random random(6);
  std::vector<WheelHandle> handles;
  for (std::size_t i = 0; i < kTimers; ++i) {
    handles.push_back(wheel.schedule(1 + random.below(60'000)));
  }
  EXPECT_LE(wheel.memory_bytes(), 32 * kTimers);
  // Nor with all the stale entries that there may be.
  for (std::size_t i = 0; i < 3 * kTimers; ++i) {
    WheelHandle& handle = handles[random.below(kTimers)];
    ASSERT_TRUE(wheel.cancel(handle));
    handle = wheel.schedule(1 + random.below(60'000));
  }
  EXPECT_LE(wheel.memory_bytes(), 32 * kTimers);
}

TEST(PooledWheelMemory, ReservedIsNotHadAgain) {
  constexpr std::size_t kTimers = 50'000;
  PooledWheel<int> wheel;
  wheel.reserve(kTimers);
  const std::size_t memory = wheel.memory_bytes();
  Random random(7);
  for (std::size_t i = 0; i < kTimers; ++i) {
    ASSERT_TRUE(wheel.schedule(1 + random.below(1'000'000'000), 0));
  }
  while (const auto next = wheel.next_deadline()) {
    wheel.advance(*next, kIgnore);
  }
  EXPECT_EQ(wheel.memory_bytes(), memory);
}

}  // namespace
}  // namespace carillon
