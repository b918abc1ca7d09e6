// SPDX-License-Identifier: Apache-2.0
// The bodies of the jobs that are wanted next are read with the one that is wanted now.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

BrokerOptions ahead_options(std::size_t jobs) {
  BrokerOptions options;
  options.store_keeps_bodies = true;
  options.body_budget_bytes = 0;
  options.read_ahead_jobs = jobs;
  return options;
}

std::vector<JobId> asked(const World& world) {
  std::vector<JobId> ids;
  for (const auto& fetch : world.fetches) ids.push_back(fetch.id);
  return ids;
}

using Ids = std::vector<JobId>;

class ReadAhead : public ::testing::Test {
 protected:
  /// Jobs 1 to `count`, ready, with bodies of `size` bytes, none in memory.
  void put_jobs(std::size_t count, std::size_t size = 10) {
    const SessionId s = world_->connect();
    for (std::size_t i = 0; i < count; ++i) world_->put(s, "default", std::string(size, 'x'));
    world_->commit();
    ASSERT_EQ(world_->broker().stats().body_bytes, 0U);
  }
  void start(const BrokerOptions& options) { world_.emplace(options, true); }

  std::optional<World> world_;
};

TEST_F(ReadAhead, AReserveAsksForThoseBehindItsJobToo) {
  start(ahead_options(4));
  put_jobs(20);
  const SessionId s = world_->connect();
  EXPECT_FALSE(world_->reserve(s));
  EXPECT_EQ(asked(*world_), (Ids{1, 2, 3, 4, 5}));
  while (!world_->fetches.empty()) world_->answer_fetch();
  EXPECT_EQ(world_->answer(s)->id, 1U);
  EXPECT_EQ(world_->reserve(s)->id, 2U) << "at once";
  EXPECT_EQ(world_->reserve(s)->id, 3U);
  EXPECT_TRUE(world_->fetches.empty());
}

TEST_F(ReadAhead, TwiceAsManyEachTimeThoseWereWanted) {
  start(ahead_options(100));
  put_jobs(300);
  const SessionId s = world_->connect();
  std::vector<std::size_t> reads;
  for (JobId id = 1; id <= 120; ++id) {
    const auto reply = world_->reserve(s);
    if (!world_->fetches.empty()) reads.push_back(world_->fetches.size());
    while (!world_->fetches.empty()) world_->answer_fetch();
    ASSERT_EQ(reply ? reply->id : world_->answer(s)->id, id);
  }
  // The first with the one wanted; later ones but for what is there already.
  EXPECT_EQ(reads, (std::vector<std::size_t>{33, 57, 85}));
}

TEST_F(ReadAhead, TowardsTheEndOfThemTheNextAreRead) {
  start(ahead_options(4));
  put_jobs(20);
  const SessionId s = world_->connect();
  EXPECT_FALSE(world_->reserve(s));
  while (!world_->fetches.empty()) world_->answer_fetch();
  std::set<JobId> waited_for;
  for (JobId id = 2; id <= 20; ++id) {
    const auto reply = world_->reserve(s);
    if (!reply) waited_for.insert(id);
    while (!world_->fetches.empty()) world_->answer_fetch();
    EXPECT_EQ(reply ? reply->id : world_->answer(s)->id, id);
  }
  EXPECT_TRUE(waited_for.empty()) << *waited_for.begin();
  EXPECT_EQ(world_->fetch_count, 20U) << "each once";
  EXPECT_EQ(world_->broker().stats().body_bytes, 0U) << "and none stays";
}

TEST_F(ReadAhead, TheMostUrgentAreReadNotTheOldest) {
  start(ahead_options(2));
  const SessionId s = world_->connect();
  for (const std::uint32_t priority : {9U, 1U, 7U, 3U, 5U}) {
    world_->put(s, "default", "body", {}, priority);
  }
  world_->commit();
  EXPECT_FALSE(world_->reserve(s));
  EXPECT_EQ(asked(*world_), (Ids{2, 4, 5}));
}

TEST_F(ReadAhead, AReserveWaitsForWhatIsBeingReadAndDoesNotAskAgain) {
  start(ahead_options(4));
  put_jobs(3);
  const SessionId a = world_->connect();
  const SessionId b = world_->connect();
  EXPECT_FALSE(world_->reserve(a));
  EXPECT_FALSE(world_->reserve(b));
  EXPECT_EQ(asked(*world_), (Ids{1, 2, 3}));
  world_->answer_fetch(1);
  EXPECT_EQ(world_->answer(b)->id, 2U);
}

TEST_F(ReadAhead, BytesAreLimited) {
  BrokerOptions options = ahead_options(10);
  options.read_ahead_bytes = 250;
  start(options);
  put_jobs(10, 100);
  EXPECT_FALSE(world_->reserve(world_->connect()));
  EXPECT_EQ(asked(*world_), (Ids{1, 2, 3}));
}

TEST_F(ReadAhead, BytesOfAllTubesAreLimitedAndThoseNobodyWantsMakeRoom) {
  BrokerOptions options = ahead_options(10);
  options.read_ahead_budget_bytes = 250;
  start(options);
  put_jobs(10, 100);
  const SessionId s = world_->connect();
  for (int i = 0; i < 5; ++i) world_->put(s, "other", std::string(100, 'x'));
  world_->commit();
  EXPECT_FALSE(world_->reserve(s));
  EXPECT_EQ(asked(*world_), (Ids{1, 2, 3}));
  while (!world_->fetches.empty()) world_->answer_fetch();
  EXPECT_EQ(world_->broker().stats().body_bytes, 200U);

  const SessionId other = world_->connect();
  world_->watch(other, "other");
  world_->by_tube(other, Verb::kIgnore, "default");
  EXPECT_FALSE(world_->reserve(other));
  EXPECT_EQ(asked(*world_), (Ids{11})) << "there is no room";
  while (!world_->fetches.empty()) world_->answer_fetch();
  world_->pass(std::chrono::milliseconds(1'000));
  EXPECT_FALSE(world_->reserve(other));
  EXPECT_EQ(asked(*world_), (Ids{12, 13, 14}));
  EXPECT_EQ(world_->broker().stats().body_bytes, 0U);
}

TEST_F(ReadAhead, AReadThatFailsIsNobodysErrorUntilTheJobIsWanted) {
  start(ahead_options(2));
  put_jobs(2);
  const SessionId s = world_->connect();
  EXPECT_FALSE(world_->reserve(s));
  world_->answer_fetch(0);
  world_->fail_fetch(0);
  EXPECT_EQ(world_->answer(s)->id, 1U);
  EXPECT_FALSE(world_->reserve(s));
  EXPECT_EQ(asked(*world_), (Ids{2}));
  world_->answer_fetch(0);
  EXPECT_EQ(world_->answer(s)->id, 2U);
}

TEST_F(ReadAhead, AJobThatIsDeletedMeanwhileIsGone) {
  start(ahead_options(2));
  put_jobs(3);
  const SessionId s = world_->connect();
  EXPECT_FALSE(world_->reserve(s));
  world_->by_id(world_->connect(), Verb::kDelete, 2);
  while (!world_->fetches.empty()) world_->answer_fetch();
  EXPECT_EQ(world_->answer(s)->id, 1U);
  EXPECT_EQ(world_->reserve(s)->id, 3U);
}

TEST_F(ReadAhead, NoneIsReadAheadWithBodiesInMemory) {
  BrokerOptions options = ahead_options(4);
  options.body_budget_bytes = 1'000;
  start(options);
  const SessionId s = world_->connect();
  for (int i = 0; i < 10; ++i) world_->put(s, "default", "body");
  world_->commit();
  EXPECT_EQ(world_->reserve(s)->id, 1U);
  EXPECT_EQ(world_->fetch_count, 0U);
}

}  // namespace
}  // namespace carillon::broker::testing
