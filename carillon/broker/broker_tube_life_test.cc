// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

using ::testing::ElementsAre;

TEST(BrokerTubeLife, ATubeIsMadeByUseWatchAndPutAndListedInThatOrder) {
  World world;
  const SessionId s = world.connect();
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
  world.use(s, "used");
  world.watch(s, "watched");
  world.put_id(s, "a", {}, 0, seconds(60), "put");
  EXPECT_THAT(world.tubes(), ElementsAre("default", "used", "watched", "put"));
}

TEST(BrokerTubeLife, ItEndsWithItsLastJobAndItsLastSession) {
  World world;
  const SessionId s = world.connect();
  world.use(s, "t");
  world.watch(s, "t");
  const JobId id = world.put_id(s, "a", {}, 0, seconds(60), "t");
  world.use(s, "default");
  EXPECT_EQ(world.ignore(s, "t")->count, 1U);
  EXPECT_THAT(world.tubes(), ElementsAre("default", "t"));
  world.del(s, id);
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
  EXPECT_EQ(world.by_tube(s, Verb::kStatsTube, "t")->answer, Answer::kNotFound);
  EXPECT_EQ(world.store().durable().tube("t"), nullptr);
}

TEST(BrokerTubeLife, AClosedSessionLeavesNoEmptyTubeBehind) {
  World world;
  const SessionId s = world.connect();
  world.use(s, "a");
  world.watch(s, "b");
  world.watch(s, "c");
  EXPECT_FALSE(world.reserve(s));
  world.close(s);
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
}

TEST(BrokerTubeLife, APauseDoesNotKeepATube) {
  World world;
  const SessionId s = world.connect();
  world.use(s, "t");
  world.pause(s, "t", seconds(100));
  world.use(s, "default");
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
  EXPECT_EQ(world.store().durable().tube("t"), nullptr);
}

TEST(BrokerTubeLife, DefaultStaysIfItBelongsHere) {
  World world;
  const SessionId s = world.connect();
  world.close(s);
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
  BrokerOptions options;
  options.owns_default_tube = false;
  World other(options);
  EXPECT_THAT(other.tubes(), ElementsAre());
  const SessionId t = other.connect();
  EXPECT_THAT(other.tubes(), ElementsAre("default"));
  other.close(t);
  EXPECT_THAT(other.tubes(), ElementsAre());
}

TEST(BrokerTubeLife, WatchAndUseAreIdempotent) {
  World world;
  const SessionId s = world.connect();
  EXPECT_EQ(world.watch(s, "t")->count, 2U);
  EXPECT_EQ(world.watch(s, "t")->count, 2U);
  EXPECT_EQ(world.use(s, "t")->answer, Answer::kUsing);
  EXPECT_EQ(world.use(s, "t")->answer, Answer::kUsing);
  EXPECT_EQ(world.stats_tube("t").using_count, 1U);
  EXPECT_EQ(world.stats_tube("t").watching_count, 1U);
  EXPECT_EQ(world.stats_tube("default").using_count, 0U);
  EXPECT_EQ(world.ignore(s, "never watched")->count, 2U);
  EXPECT_EQ(world.ignore(s, "t")->count, 1U);
}

TEST(BrokerTubeLife, UseOfNoNameUsesNoTubeHere) {
  World world;
  const SessionId s = world.connect();
  world.use(s, "t");
  EXPECT_EQ(world.use(s, "")->answer, Answer::kUsing);
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
}

TEST(BrokerTubeLife, TubesAndTheirOrderOutliveARestart) {
  World world;
  const SessionId s = world.connect();
  for (const char* name : {"z", "y", "x"}) world.put_id(s, "a", {}, 0, seconds(60), name);
  world.restart();
  EXPECT_THAT(world.tubes(), ElementsAre("default", "z", "y", "x"));
  world.put_id(world.connect(), "a", {}, 0, seconds(60), "w");
  world.restart();
  EXPECT_THAT(world.tubes(), ElementsAre("default", "z", "y", "x", "w"));
}

TEST(BrokerTubeLife, ATubeThatLostItsSessionsInARestartIsForgotten) {
  World world;
  const SessionId s = world.connect();
  world.use(s, "t");
  world.del(s, world.put_id(s, "a", {}, 0, seconds(60), "t"));
  EXPECT_NE(world.store().durable().tube("t"), nullptr);
  world.restart();
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
  EXPECT_EQ(world.store().durable().tube("t"), nullptr);
}

TEST(BrokerTubeLife, ABatchHoldsOneRecordOfATubeHoweverOftenItChanges) {
  World world(BrokerOptions{}, true);
  const SessionId s = world.connect();
  for (int i = 0; i < 10; ++i) {
    world.put(s, "t", "a");
    world.pause(s, "t", seconds(1 + i));
  }
  const auto batch = world.broker().take_batch();
  int records = 0;
  for (const Mutation& mutation : batch->mutations) {
    records += mutation.kind == Mutation::Kind::kTube ? 1 : 0;
  }
  EXPECT_EQ(records, 1);
  EXPECT_EQ(batch->tubes.at(0).pause_ms, 10'000);
}

// beanstalkd #561: cost must not grow with the number of tubes. A thousand tubes beside it, and the
// work of a put and reserve is the same: what is counted here is that nothing but its own tube
// moves.
TEST(BrokerTubeLife, ManyTubesDoNotDisturbOne) {
  World world;
  const SessionId s = world.connect();
  const SessionId crowd = world.connect_bare();
  for (int i = 0; i < 1'000; ++i) world.watch(crowd, "t" + std::to_string(i));
  EXPECT_FALSE(world.reserve(crowd));
  const JobId id = world.put_id(s, "a");
  EXPECT_FALSE(world.answered(crowd));
  EXPECT_EQ(world.poll(s)->id, id);
  const JobId in_crowd = world.put_id(s, "b", {}, 0, seconds(60), "t500");
  EXPECT_EQ(world.answer(crowd)->id, in_crowd);
  EXPECT_EQ(world.stats_tube("t999").waiting_count, 0U);
}

}  // namespace
}  // namespace carillon::broker::testing
