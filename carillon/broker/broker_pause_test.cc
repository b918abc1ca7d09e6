// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

TEST(BrokerPause, NothingIsReservedFromAPausedTubeUntilItsEnd) {
  World world;
  const SessionId s = world.connect();
  const SessionId worker = world.connect();
  const JobId id = world.put_id(s, "a");
  EXPECT_EQ(world.pause(s, "default", seconds(5))->answer, Answer::kPaused);
  EXPECT_EQ(world.poll(worker)->answer, Answer::kTimedOut);
  EXPECT_FALSE(world.reserve(worker));
  world.pass(milliseconds(4'999));
  EXPECT_FALSE(world.answered(worker));
  EXPECT_EQ(world.stats_tube("default").pause_left_ms, 1);
  EXPECT_EQ(world.stats_tube("default").pause_ms, 5'000);
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(worker)->id, id);
  EXPECT_EQ(world.stats_tube("default").pause_ms, 0);
  EXPECT_EQ(world.stats_tube("default").pause_count, 1U);
}

// beanstalkd #113.
TEST(BrokerPause, UnpausingServesWaitingClientsAtOnce) {
  World world;
  const SessionId s = world.connect();
  const SessionId worker = world.connect();
  world.pause(s, "default", seconds(86'400));
  EXPECT_FALSE(world.reserve(worker));
  const JobId id = world.put_id(s, "a");
  EXPECT_FALSE(world.answered(worker));
  EXPECT_EQ(world.pause(s, "default", Span::zero())->answer, Answer::kPaused);
  EXPECT_EQ(world.answer(worker)->id, id);
}

TEST(BrokerPause, DelayedJobsOfAPausedTubeStillBecomeReady) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", seconds(1));
  world.pause(s, "default", seconds(10));
  world.pass(seconds(2));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  EXPECT_EQ(world.by_id(s, Verb::kReserveJob, id)->answer, Answer::kReserved);
}

TEST(BrokerPause, OtherTubesGoOn) {
  World world;
  const SessionId s = world.connect();
  world.watch(s, "other");
  world.put_id(s, "a", {}, 0);
  const JobId other = world.put_id(s, "b", {}, 9, seconds(60), "other");
  world.pause(s, "default", seconds(10));
  EXPECT_EQ(world.poll(s)->id, other);
}

TEST(BrokerPause, AnotherPauseReplacesTheFirst) {
  World world;
  const SessionId s = world.connect();
  world.pause(s, "default", seconds(10));
  world.pass(seconds(5));
  world.pause(s, "default", seconds(2));
  EXPECT_EQ(world.stats_tube("default").pause_left_ms, 2'000);
  world.put_id(s, "a");
  world.pass(seconds(2));
  EXPECT_EQ(world.poll(s)->answer, Answer::kReserved);
  EXPECT_EQ(world.pause(s, "no such tube", seconds(1))->answer, Answer::kNotFound);
}

TEST(BrokerPause, APauseOutlivesARestart) {
  World world;
  SessionId s = world.connect();
  world.put_id(s, "a");
  world.pause(s, "default", seconds(10));
  world.restart(seconds(4));
  s = world.connect();
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  EXPECT_EQ(world.stats_tube("default").pause_left_ms, 6'000);
  EXPECT_EQ(world.stats_tube("default").pause_ms, 10'000);
  world.pass(seconds(6));
  EXPECT_EQ(world.poll(s)->answer, Answer::kReserved);
}

TEST(BrokerPause, APauseThatEndsWhileTheServerIsDownHasEnded) {
  World world;
  const SessionId s = world.connect();
  world.put_id(s, "a");
  world.pause(s, "default", seconds(10));
  world.restart(seconds(11));
  EXPECT_EQ(world.poll(world.connect())->answer, Answer::kReserved);
  EXPECT_EQ(world.stats_tube("default").pause_ms, 0);
}

}  // namespace
}  // namespace carillon::broker::testing
