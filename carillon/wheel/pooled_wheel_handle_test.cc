// SPDX-License-Identifier: Apache-2.0
// Handles that are out of date, nodes that are used again, and the pool that is full.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "carillon/wheel/pooled_wheel.h"
#include "carillon/wheel/pooled_wheel_hooks.h"

namespace carillon {
namespace {

constexpr auto kIgnore = [](auto&&) {};

TEST(PooledWheelHandle, NullHandleNamesNoTimer) {
  PooledWheel<> wheel;
  EXPECT_FALSE(WheelHandle{});
  EXPECT_FALSE(wheel.cancel(WheelHandle{}));
  const WheelHandle first = wheel.schedule(5);
  EXPECT_TRUE(first);
  EXPECT_FALSE(wheel.cancel(WheelHandle{}));
  EXPECT_FALSE(wheel.reschedule(WheelHandle{}, 9));
  EXPECT_TRUE(wheel.contains(first));
}

TEST(PooledWheelHandle, StaleHandleDoesNothing) {
  PooledWheel<int> wheel;
  const WheelHandle cancelled = wheel.schedule(5, 1);
  const WheelHandle expired = wheel.schedule(6, 2);
  EXPECT_TRUE(wheel.cancel(cancelled));
  wheel.advance(6, kIgnore);
  for (const WheelHandle stale : {cancelled, expired}) {
    EXPECT_FALSE(wheel.contains(stale));
    EXPECT_FALSE(wheel.cancel(stale));
    EXPECT_FALSE(wheel.reschedule(stale, 100));
    EXPECT_FALSE(wheel.deadline(stale));
    EXPECT_FALSE(wheel.extract(stale));
    EXPECT_EQ(wheel.payload(stale), nullptr);
  }
  EXPECT_TRUE(wheel.empty());
}

// Kept from a wheel that is no more, it has the generation that a free node of this one comes to.
TEST(PooledWheelHandle, HandleOfAnotherWheelNamesNoFreeNode) {
  for (int times = 0; times < 4; ++times) {
    PooledWheel<int> other;
    PooledWheel<int> wheel;
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(wheel.cancel(wheel.schedule(6, i)));
    }
    for (int i = 0; i < 6; ++i) {
      const WheelHandle kept = other.schedule(5, i);
      EXPECT_FALSE(wheel.contains(kept));
      EXPECT_FALSE(wheel.deadline(kept));
      EXPECT_EQ(wheel.payload(kept), nullptr);
      EXPECT_FALSE(wheel.reschedule(kept, 9));
      EXPECT_FALSE(wheel.extract(kept));
      EXPECT_FALSE(wheel.cancel(kept));
      ASSERT_TRUE(other.cancel(kept));
    }
    EXPECT_EQ(wheel.size(), 0U);
    EXPECT_EQ(wheel.next_deadline(), std::nullopt);
    ASSERT_TRUE(wheel.schedule(7, 1));
    EXPECT_EQ(wheel.advance(7, kIgnore).expired, 1U);
  }
}

// A node that clear() has taken the timer from, and not yet the payload.
TEST(PooledWheelHandle, HandleOfAnotherWheelNamesNoDoomedNode) {
  struct Asking {
    std::function<void()> ask;
    explicit Asking(std::function<void()> f) : ask(std::move(f)) {}
    Asking(Asking&& other) noexcept : ask(std::exchange(other.ask, nullptr)) {}
    Asking& operator=(Asking&&) = delete;
    ~Asking() {
      if (ask) {
        ask();
      }
    }
  };
  PooledWheel<Asking> wheel;
  int asked = 0;
  const auto ask = [&] {
    ++asked;
    PooledWheel<> fresh;
    for (int i = 0; i < 5; ++i) {
      const WheelHandle first = fresh.schedule(5);
      const WheelHandle second = fresh.schedule(5);
      EXPECT_FALSE(wheel.cancel(first));
      EXPECT_FALSE(wheel.cancel(second));
      fresh.cancel(first);
      fresh.cancel(second);
    }
    EXPECT_EQ(wheel.size(), 0U);
  };
  ASSERT_TRUE(wheel.schedule(5, ask));
  ASSERT_TRUE(wheel.schedule(5, ask));
  wheel.clear();
  EXPECT_EQ(asked, 2);
}

TEST(PooledWheelHandle, StaleHandleSparesTheNodesNextTimer) {
  PooledWheel<int> wheel;
  const WheelHandle old = wheel.schedule(5, 1);
  wheel.cancel(old);
  const WheelHandle next = wheel.schedule(5, 2);
  ASSERT_EQ(next.index, old.index) << "the node was not used again, so this tests nothing";
  EXPECT_FALSE(wheel.cancel(old));
  EXPECT_FALSE(wheel.reschedule(old, 50));
  int seen = 0;
  wheel.advance(5, [&](auto&& expired) { seen = expired.payload; });
  EXPECT_EQ(seen, 2);
}

// The entry of the first timer is still in the slot when its node is another timer of that slot.
TEST(PooledWheelHandle, StaleEntryOfAReusedNodeIsNotTakenForIt) {
  PooledWheel<int> wheel;
  const WheelHandle old = wheel.schedule(1000, 1);
  ASSERT_TRUE(wheel.schedule(1000, 2));
  wheel.cancel(old);
  const WheelHandle again = wheel.schedule(1000, 3);
  ASSERT_EQ(again.index, old.index);
  std::vector<int> order;
  wheel.advance(2000, [&](auto&& expired) { order.push_back(expired.payload); });
  EXPECT_EQ(order, (std::vector{2, 3}));
}

TEST(PooledWheelHandle, StaleEntryOfAReusedNodeDoesNotExpireItEarly) {
  PooledWheel<int> wheel;
  const WheelHandle old = wheel.schedule(100, 1);
  ASSERT_TRUE(wheel.schedule(100, 2));
  wheel.cancel(old);
  const WheelHandle again = wheel.schedule(100'000, 3);
  ASSERT_EQ(again.index, old.index);
  std::vector<int> order;
  wheel.advance(99'999, [&](auto&& expired) { order.push_back(expired.payload); });
  EXPECT_EQ(order, (std::vector{2}));
  EXPECT_TRUE(wheel.contains(again));
}

TEST(PooledWheelHandle, GenerationsThatAreUsedUpRetireTheNode) {
  BasicPooledWheel<int, MortalPool> wheel;
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
  WheelHandle before;
  for (int i = 0; i < 500; ++i) {
    const WheelHandle handle = wheel.schedule(wheel.now() + 1 + static_cast<Tick>(i % 50), i);
    ASSERT_TRUE(handle);
    ASSERT_TRUE(seen.insert({handle.index, handle.generation}).second) << "a handle came again";
    ASSERT_LT(handle.generation, MortalPool::kLastGeneration);
    ASSERT_FALSE(wheel.cancel(before));
    if (i % 3 == 0) {
      wheel.clear();
    } else if (i % 3 == 1) {
      ASSERT_TRUE(wheel.cancel(handle));
    } else {
      wheel.advance(wheel.now() + 60, kIgnore);
    }
    before = handle;
  }
  EXPECT_TRUE(wheel.empty());
}

TEST(PooledWheelHandle, FullPoolIsToldAndTheArgumentIsLeft) {
  PooledWheel<std::unique_ptr<int>> wheel(0, 2);
  EXPECT_EQ(wheel.max_size(), 2U);
  const WheelHandle first = wheel.schedule(5, std::make_unique<int>(1));
  ASSERT_TRUE(wheel.schedule(6, std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(wheel.schedule(7, std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(wheel.size(), 2U);
  wheel.cancel(first);
  EXPECT_TRUE(wheel.schedule(7, std::move(third)));
  EXPECT_EQ(third, nullptr);
}

TEST(PooledWheelHandle, WheelForNoTimersRefusesAll) {
  PooledWheel<> wheel(0, 0);
  EXPECT_FALSE(wheel.schedule(1));
  EXPECT_EQ(wheel.next_deadline(), std::nullopt);
  EXPECT_EQ(wheel.advance(kLastTick, kIgnore), (AdvanceResult{0, false}));
}

// The first callback takes long; what it cancels counts no more at once, and makes room.
TEST(PooledWheelHandle, CancelledInACallbackMakesRoomAtOnce) {
  PooledWheel<int> wheel(0, 11);
  std::vector<WheelHandle> handles;
  for (int i = 0; i < 11; ++i) {
    handles.push_back(wheel.schedule(200, i));
  }
  wheel.advance(200, [&](auto&&) {
    for (std::size_t i = 1; i < handles.size(); ++i) {
      EXPECT_TRUE(wheel.cancel(handles[i]));
    }
    EXPECT_EQ(wheel.size(), 0U);
    for (int i = 0; i < 11; ++i) {
      EXPECT_TRUE(wheel.schedule(300, i));
    }
    EXPECT_FALSE(wheel.schedule(300, 11));
  });
  EXPECT_EQ(wheel.size(), 11U);
}

}  // namespace
}  // namespace carillon
