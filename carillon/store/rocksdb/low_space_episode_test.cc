// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/low_space_episode.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace carillon::store {
namespace {

using News = LowSpaceEpisode::News;

TEST(LowSpaceEpisode, IsToldOnceWhenItBeginsAndOnceWhenItEnds) {
  const ManualClock clock;
  LowSpaceEpisode episode(clock);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(episode.note(true), News::kNone);
  EXPECT_EQ(episode.note(false), News::kBegan);
  for (int i = 0; i < 99; ++i) EXPECT_EQ(episode.note(false), News::kNone);
  EXPECT_EQ(episode.note(true), News::kEnded);
  EXPECT_EQ(episode.take_refused(), 100U);
  EXPECT_EQ(episode.note(true), News::kNone);
  EXPECT_EQ(episode.take_refused(), 0U);
}

TEST(LowSpaceEpisode, OneThatFollowsAtOnceIsNotTold) {
  ManualClock clock;
  LowSpaceEpisode episode(clock);
  EXPECT_EQ(episode.note(false), News::kBegan);
  EXPECT_EQ(episode.note(true), News::kEnded);
  EXPECT_EQ(episode.take_refused(), 1U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(episode.note(false), News::kNone);
    EXPECT_EQ(episode.note(true), News::kNone);
  }
  // One that goes on is.
  clock.advance(LowSpaceEpisode::kQuiet);
  EXPECT_EQ(episode.note(false), News::kBegan);
  EXPECT_EQ(episode.note(true), News::kEnded);
  EXPECT_EQ(episode.take_refused(), 11U);
}

TEST(LowSpaceEpisode, IsToldOnceByManyThreads) {
  const ManualClock clock;
  LowSpaceEpisode episode(clock);
  std::atomic<int> began{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1'000; ++k) began += episode.note(false) == News::kBegan ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(began, 1);
  EXPECT_EQ(episode.take_refused(), 4'000U);
}

}  // namespace
}  // namespace carillon::store
