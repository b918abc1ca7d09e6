// SPDX-License-Identifier: Apache-2.0
// Payloads: when they are destroyed, and what their destructors may do.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "carillon/wheel/pooled_wheel.h"
#include "carillon/wheel/pooled_wheel_hooks.h"

namespace carillon {
namespace {

// Calls a function when it is destroyed, unless it has been moved away.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> f)
      : f_(std::make_unique<std::function<void()>>(std::move(f))) {}
  AtEnd(AtEnd&&) noexcept = default;
  AtEnd& operator=(AtEnd&&) = delete;
  ~AtEnd() {
    if (f_) {
      (*f_)();
    }
  }

 private:
  std::unique_ptr<std::function<void()>> f_;
};

constexpr auto kIgnore = [](auto&&) {};

template <class Shape>
class PooledWheelPayload : public ::testing::Test {};
using Shapes = ::testing::Types<PooledShape, TinyPool, MortalPool>;
TYPED_TEST_SUITE(PooledWheelPayload, Shapes);

TYPED_TEST(PooledWheelPayload, CancelReleasesItBeforeItReturns) {
  BasicPooledWheel<std::shared_ptr<int>, TypeParam> wheel;
  const auto large = std::make_shared<int>(1);
  const WheelHandle handle = wheel.schedule(1'000'000, large);
  EXPECT_EQ(large.use_count(), 2);
  EXPECT_TRUE(wheel.cancel(handle));
  EXPECT_EQ(large.use_count(), 1);
}

TYPED_TEST(PooledWheelPayload, ClearAndDestructorReleaseAll) {
  const auto large = std::make_shared<int>(1);
  {
    BasicPooledWheel<std::shared_ptr<int>, TypeParam> wheel;
    for (Tick i = 1; i < 50; ++i) {
      ASSERT_TRUE(wheel.schedule(i * i, large));
    }
    wheel.clear();
    EXPECT_EQ(large.use_count(), 1);
    for (Tick i = 1; i < 50; ++i) {
      ASSERT_TRUE(wheel.schedule(i * i, large));
    }
  }
  EXPECT_EQ(large.use_count(), 1);
}

TYPED_TEST(PooledWheelPayload, SinkMayKeepOrLeaveIt) {
  BasicPooledWheel<std::unique_ptr<int>, TypeParam> wheel;
  ASSERT_TRUE(wheel.schedule(1, std::make_unique<int>(1)));
  ASSERT_TRUE(wheel.schedule(2, std::make_unique<int>(2)));
  std::vector<std::unique_ptr<int>> kept;
  wheel.advance(2, [&](auto&& expired) {
    if (kept.empty()) {
      kept.push_back(std::move(expired.payload));
    }
  });
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(*kept[0], 1);
}

TYPED_TEST(PooledWheelPayload, ThrowingSinkReleasesIt) {
  BasicPooledWheel<std::shared_ptr<int>, TypeParam> wheel;
  const auto large = std::make_shared<int>(1);
  ASSERT_TRUE(wheel.schedule(1, large));
  EXPECT_THROW(wheel.advance(1, [](auto&&) { throw std::runtime_error("sink"); }),
               std::runtime_error);
  EXPECT_EQ(large.use_count(), 1);
}

TYPED_TEST(PooledWheelPayload, ThrowingConstructorLeavesNoTimer) {
  struct Throwing {
    explicit Throwing(int) { throw std::runtime_error("constructor"); }
    int value = 0;
  };
  BasicPooledWheel<Throwing, TypeParam> wheel;
  EXPECT_THROW((void)wheel.schedule(1, 1), std::runtime_error);
  EXPECT_TRUE(wheel.empty());
  EXPECT_EQ(wheel.advance(5, kIgnore).expired, 0U);
}

TYPED_TEST(PooledWheelPayload, ExtractGivesItBack) {
  BasicPooledWheel<std::unique_ptr<int>, TypeParam> wheel;
  const WheelHandle handle = wheel.schedule(1, std::make_unique<int>(7));
  EXPECT_EQ(**wheel.payload(handle), 7);
  const auto extracted = wheel.extract(handle);
  ASSERT_TRUE(extracted);
  EXPECT_EQ(**extracted, 7);
  EXPECT_TRUE(wheel.empty());
}

TYPED_TEST(PooledWheelPayload, DestructorCancelsItsNeighbours) {
  BasicPooledWheel<AtEnd, TypeParam> wheel;
  std::vector<WheelHandle> handles;
  int destroyed = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    handles.push_back(wheel.schedule(9, [&, i] {
      ++destroyed;
      // The one before, whose destructor cancels the one before that, and itself.
      EXPECT_FALSE(wheel.cancel(handles[i]));
      if (i > 0) {
        EXPECT_TRUE(wheel.cancel(handles[i - 1]));
      }
    }));
  }
  EXPECT_TRUE(wheel.cancel(handles[19]));
  EXPECT_EQ(destroyed, 20);
  EXPECT_TRUE(wheel.empty());
}

TYPED_TEST(PooledWheelPayload, DestructorAfterExpiryCancelsWhatIsDue) {
  BasicPooledWheel<AtEnd, TypeParam> wheel;
  std::vector<WheelHandle> handles;
  for (std::size_t i = 0; i < 10; ++i) {
    handles.push_back(wheel.schedule(9, [&, i] {
      if (i + 1 < handles.size()) {
        wheel.cancel(handles[i + 1]);
      }
    }));
  }
  EXPECT_EQ(wheel.advance(9, kIgnore).expired, 1U);
  EXPECT_TRUE(wheel.empty());
}

TYPED_TEST(PooledWheelPayload, DestructorSchedulesDuringCancel) {
  BasicPooledWheel<AtEnd, TypeParam> wheel;
  WheelHandle second;
  const WheelHandle first = wheel.schedule(5, [&] { second = wheel.schedule(6, [] {}); });
  EXPECT_TRUE(wheel.cancel(first));
  EXPECT_TRUE(wheel.contains(second));
  EXPECT_EQ(wheel.size(), 1U);
  EXPECT_EQ(wheel.next_deadline(), Tick{6});
}

TYPED_TEST(PooledWheelPayload, WhatDestructorsScheduleDuringClearStays) {
  BasicPooledWheel<AtEnd, TypeParam> wheel;
  std::vector<WheelHandle> later;
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(wheel.schedule(5, [&] { later.push_back(wheel.schedule(6, [] {})); }));
  }
  wheel.clear();
  EXPECT_EQ(wheel.size(), 30U);
  for (const WheelHandle handle : later) {
    EXPECT_TRUE(wheel.contains(handle));
  }
  EXPECT_EQ(wheel.advance(6, kIgnore).expired, 30U);
}

// Each finds room for one, its own, and the wheel is full between.
TYPED_TEST(PooledWheelPayload, DestructorsFillTheWheelDuringClear) {
  constexpr std::size_t kMost = 8000;
  BasicPooledWheel<AtEnd, TypeParam> wheel(0, kMost);
  std::size_t scheduled = 0;
  for (std::size_t i = 0; i < kMost; ++i) {
    ASSERT_TRUE(wheel.schedule(5, [&] {
      ASSERT_NO_THROW({
        while (wheel.schedule(7, [] {})) {
          ++scheduled;
        }
      });
      EXPECT_LE(wheel.size(), kMost);
    }));
  }
  wheel.clear();
  EXPECT_EQ(scheduled, kMost);
  EXPECT_EQ(wheel.size(), kMost);
  EXPECT_EQ(wheel.max_size(), kMost);
  EXPECT_EQ(wheel.advance(7, kIgnore).expired, kMost);
}

// And again and again: each clear() inside finds as many payloads as there were.
TYPED_TEST(PooledWheelPayload, DestructorsFillTheWheelDuringClearsWithinClear) {
  constexpr std::size_t kMost = 3000;
  // Before the wheel, whose destructor runs what refers to them.
  int depth = 0;
  std::function<void()> at_end;
  BasicPooledWheel<AtEnd, TypeParam> wheel(0, kMost);
  at_end = [&] {
    ASSERT_NO_THROW({
      while (wheel.schedule(7, at_end)) {
      }
    });
    if (++depth < 4) {
      wheel.clear();
    }
  };
  while (wheel.schedule(5, at_end)) {
  }
  wheel.clear();
  EXPECT_LE(wheel.size(), kMost);
}

TYPED_TEST(PooledWheelPayload, DestructorClearsDuringClear) {
  BasicPooledWheel<AtEnd, TypeParam> wheel;
  int destroyed = 0;
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(wheel.schedule(static_cast<Tick>(5 + i), [&] {
      ++destroyed;
      ASSERT_TRUE(wheel.schedule(99, [] {}));
      wheel.clear();
    }));
  }
  wheel.clear();
  EXPECT_EQ(destroyed, 30);
  EXPECT_TRUE(wheel.empty());
}

TYPED_TEST(PooledWheelPayload, DestructorDestroysTheWheel) {
  using Wheel = BasicPooledWheel<AtEnd, TypeParam>;
  int destroyed = 0;
  const auto make = [&](std::unique_ptr<Wheel>& wheel) {
    wheel = std::make_unique<Wheel>();
    WheelHandle last;
    for (int i = 0; i < 10; ++i) {
      last = wheel->schedule(5, [&] {
        ++destroyed;
        wheel.reset();
      });
    }
    return last;
  };
  // reset() takes the pointer before it destroys, so the other nine find none.
  std::unique_ptr<Wheel> wheel;
  const WheelHandle handle = make(wheel);
  EXPECT_TRUE(wheel->cancel(handle));
  EXPECT_EQ(std::exchange(destroyed, 0), 10);
  make(wheel);
  wheel->clear();
  EXPECT_EQ(std::exchange(destroyed, 0), 10);
  make(wheel);
  EXPECT_EQ(wheel->advance(5, kIgnore).expired, 1U);
  EXPECT_EQ(std::exchange(destroyed, 0), 10);
  EXPECT_EQ(wheel, nullptr);
}

TYPED_TEST(PooledWheelPayload, DyingWheelRefusesWhatDestructorsSchedule) {
  int refused = 0;
  {
    BasicPooledWheel<AtEnd, TypeParam> wheel;
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(wheel.schedule(5, [&] { refused += wheel.schedule(6, [] {}) ? 0 : 1; }));
    }
  }
  EXPECT_EQ(refused, 5);
}

TEST(PooledWheel, TimersWithoutPayloadHaveNone) {
  PooledWheel<> wheel;
  const WheelHandle handle = wheel.schedule(5);
  EXPECT_TRUE(wheel.extract(handle));
  ASSERT_TRUE(wheel.schedule(5));
  EXPECT_EQ(
      wheel.advance(5, [](PooledWheel<>::Expired expired) { EXPECT_EQ(expired.deadline, 5U); })
          .expired,
      1U);
}

}  // namespace
}  // namespace carillon
