// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/heap_timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <vector>

namespace carillon::bench {
namespace {

using std::chrono::hours;

TEST(HeapTimer, FiresWhatIsDueAndEarlierOnesFirst) {
  HeapTimer timer;
  std::vector<int> order;
  std::latch done(3);
  const auto note = [&](int which) {
    return [&order, &done, which] {
      order.push_back(which);
      done.count_down();
    };
  };
  timer.add(hours(1), [] { FAIL() << "an hour has not passed"; });
  timer.add(std::chrono::milliseconds(2), note(2));
  timer.add(std::chrono::milliseconds(4), note(3));
  timer.add(Span(0), note(1));
  done.wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(timer.close(), 1U);
}

TEST(HeapTimer, CancelReleasesTheCallbackOnce) {
  HeapTimer timer;
  const auto owned = std::make_shared<int>(0);
  HeapTimer::Handle handle = timer.add(hours(1), [owned] {});
  HeapTimer::Handle copy = handle;
  EXPECT_TRUE(timer.cancel(handle));
  EXPECT_EQ(owned.use_count(), 1);
  EXPECT_FALSE(timer.cancel(copy));
  HeapTimer::Handle none;
  EXPECT_FALSE(timer.cancel(none));
  EXPECT_EQ(timer.close(), 0U);
}

TEST(HeapTimer, AHandleOfAnEarlierUseFindsNothing) {
  HeapTimer timer;
  HeapTimer::Handle first = timer.add(hours(1), [] {});
  HeapTimer::Handle stale = first;
  EXPECT_TRUE(timer.cancel(first));
  HeapTimer::Handle second = timer.add(hours(1), [] {});
  EXPECT_FALSE(timer.cancel(stale));
  EXPECT_TRUE(timer.cancel(second));
}

}  // namespace
}  // namespace carillon::bench
