// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

TEST(BrokerPutReserve, AJobComesBackAsItWasPut) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "hello");
  const auto reserved = world.poll(s);
  ASSERT_TRUE(reserved);
  EXPECT_EQ(reserved->answer, Answer::kReserved);
  EXPECT_EQ(reserved->id, id);
  EXPECT_EQ(reserved->body.view(), "hello");
  EXPECT_EQ(world.del(s, id)->answer, Answer::kDeleted);
  EXPECT_EQ(world.del(s, id)->answer, Answer::kNotFound);
  EXPECT_TRUE(world.store().durable().jobs.empty());
}

TEST(BrokerPutReserve, EmptyAndBinaryBodiesAreBodies) {
  World world;
  const SessionId s = world.connect();
  world.put_id(s, "");
  world.put_id(s, std::string_view("\0\r\n", 3));
  const auto empty = world.poll(s);
  EXPECT_TRUE(empty->body);
  EXPECT_EQ(empty->body.size(), 0U);
  EXPECT_EQ(world.poll(s)->body.view(), std::string_view("\0\r\n", 3));
  Command bodiless;
  bodiless.verb = Verb::kPut;
  bodiless.tube = "default";
  bodiless.ttr = seconds(1);
  EXPECT_EQ(world.run(s, bodiless)->answer, Answer::kInserted);
  EXPECT_TRUE(world.poll(s)->body);
}

TEST(BrokerPutReserve, SmallestPriorityFirstAndPutOrderWithin) {
  World world;
  const SessionId s = world.connect();
  const JobId low = world.put_id(s, "low", {}, 10);
  const JobId high_1 = world.put_id(s, "high 1", {}, 1);
  const JobId high_2 = world.put_id(s, "high 2", {}, 1);
  const JobId highest = world.put_id(s, "highest", {}, 0);
  const JobId lowest = world.put_id(s, "lowest", {}, 0xffff'ffff);
  for (const JobId id : {highest, high_1, high_2, low, lowest}) {
    EXPECT_EQ(world.poll(s)->id, id);
  }
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
}

TEST(BrokerPutReserve, TiesGoByPutOrderNotByWhenTheyBecameReady) {
  World world;
  const SessionId s = world.connect();
  const JobId put_first = world.put_id(s, "a", seconds(2));
  const JobId put_second = world.put_id(s, "b", seconds(1));
  world.pass(seconds(3));
  EXPECT_EQ(world.poll(s)->id, put_first);
  EXPECT_EQ(world.poll(s)->id, put_second);
}

TEST(BrokerPutReserve, TheMostUrgentOfAllWatchedTubesIsServed) {
  World world;
  const SessionId s = world.connect();
  world.watch(s, "x");
  world.watch(s, "y");
  world.put_id(s, "unwatched", {}, 0, seconds(60), "z");
  const JobId in_y = world.put_id(s, "y", {}, 5, seconds(60), "y");
  const JobId in_x = world.put_id(s, "x", {}, 5, seconds(60), "x");
  const JobId in_default = world.put_id(s, "d", {}, 3);
  EXPECT_EQ(world.poll(s)->id, in_default);
  EXPECT_EQ(world.poll(s)->id, in_y);
  EXPECT_EQ(world.poll(s)->id, in_x);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
}

TEST(BrokerPutReserve, WaitingReservesAreServedInTheOrderTheyCame) {
  World world;
  const SessionId producer = world.connect();
  const SessionId first = world.connect();
  const SessionId second = world.connect();
  EXPECT_FALSE(world.reserve(first));
  EXPECT_EQ(world.outcome(), Broker::Outcome::kBlocked);
  EXPECT_FALSE(world.reserve(second));
  const JobId a = world.put_id(producer, "a");
  EXPECT_FALSE(world.answered(second));
  const JobId b = world.put_id(producer, "b");
  EXPECT_EQ(world.answer(first)->id, a);
  EXPECT_EQ(world.answer(second)->id, b);
}

TEST(BrokerPutReserve, OfSeveralJobsThatBecomeReadyAtOnceTheMostUrgentGoesFirst) {
  World world;
  const SessionId producer = world.connect();
  const SessionId worker = world.connect();
  world.put_id(producer, "late and dull", milliseconds(1'000), 9);
  const JobId urgent = world.put_id(producer, "urgent", milliseconds(1'000), 1);
  EXPECT_FALSE(world.reserve(worker));
  world.pass(seconds(1));
  EXPECT_EQ(world.answer(worker)->id, urgent);
}

TEST(BrokerPutReserve, ReserveWithTimeoutEndsWhenItSays) {
  World world;
  const SessionId s = world.connect();
  EXPECT_FALSE(world.reserve(s, seconds(5)));
  world.pass(milliseconds(4'999));
  EXPECT_FALSE(world.answered(s));
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(s)->answer, Answer::kTimedOut);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  EXPECT_EQ(world.stats_tube("default").waiting_count, 0U);
}

TEST(BrokerPutReserve, AJobDueAtTheMomentOfTheTimeoutIsServed) {
  World world;
  const SessionId s = world.connect();
  EXPECT_FALSE(world.reserve(s, seconds(5)));
  const SessionId producer = world.connect();
  const JobId id = world.put_id(producer, "just in time", seconds(5));
  world.pass(seconds(5));
  const auto answer = world.answer(s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->answer, Answer::kReserved);
  EXPECT_EQ(answer->id, id);
}

TEST(BrokerPutReserve, ASessionThatWatchesNothingHereWaitsForItsTimeoutOnly) {
  World world;
  const SessionId s = world.connect_bare();
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  EXPECT_FALSE(world.reserve(s, seconds(1)));
  world.pass(seconds(1));
  EXPECT_EQ(world.answer(s)->answer, Answer::kTimedOut);
}

TEST(BrokerPutReserve, AHalfClosedClientThatWaitsGetsTimedOut) {
  World world;
  const SessionId s = world.connect();
  EXPECT_FALSE(world.reserve(s));
  world.end_waiting(s);
  EXPECT_EQ(world.answer(s)->answer, Answer::kTimedOut);
  world.end_waiting(s);  // Not an error if it does not wait.
  const JobId id = world.put_id(s, "a");
  EXPECT_EQ(world.poll(s)->id, id);
}

TEST(BrokerPutReserve, ACancelledReserveTakesNoJob) {
  World world;
  const SessionId producer = world.connect();
  const SessionId s = world.connect();
  EXPECT_FALSE(world.reserve(s));
  world.by_id(s, Verb::kCancelReserve, 0);
  const JobId id = world.put_id(producer, "a");
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  world.by_id(s, Verb::kCancelReserve, 0);  // Not an error if none waits.
}

TEST(BrokerPutReserve, AReservationGivenBackUnseenLeavesNoTrace) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a");
  ASSERT_EQ(world.poll(s)->id, id);
  world.by_id(s, Verb::kUnreserve, id);
  const JobStats stats = world.stats_job(id);
  EXPECT_EQ(stats.state, JobState::kReady);
  EXPECT_EQ(stats.history, JobHistory{});
  world.by_id(s, Verb::kUnreserve, id);  // Not an error if it is not held.
}

TEST(BrokerPutReserve, AnUnreservedJobGoesToWhoWaitsForIt) {
  World world;
  const SessionId a = world.connect();
  const SessionId b = world.connect();
  const JobId id = world.put_id(a, "a");
  ASSERT_EQ(world.poll(a)->id, id);
  EXPECT_FALSE(world.reserve(b));
  world.by_id(a, Verb::kUnreserve, id);
  EXPECT_EQ(world.answer(b)->id, id);
}

TEST(BrokerPutReserve, ReserveJobTakesReadyDelayedAndBuriedJobsOfAnyTube) {
  World world;
  const SessionId s = world.connect();
  const SessionId other = world.connect();
  const JobId ready = world.put_id(s, "r", {}, 0, seconds(60), "unwatched");
  const JobId delayed = world.put_id(s, "d", seconds(50), 0, seconds(60), "unwatched");
  const JobId buried = world.put_id(s, "b");
  ASSERT_EQ(world.poll(s)->id, buried);
  ASSERT_EQ(world.by_id(s, Verb::kBury, buried)->answer, Answer::kBuried);
  world.pause(s, "unwatched", seconds(100));
  for (const JobId id : {ready, delayed, buried}) {
    const auto reply = world.by_id(s, Verb::kReserveJob, id);
    EXPECT_EQ(reply->answer, Answer::kReserved);
    EXPECT_EQ(reply->id, id);
    EXPECT_EQ(world.by_id(other, Verb::kReserveJob, id)->answer, Answer::kNotFound);
    EXPECT_EQ(world.by_id(s, Verb::kReserveJob, id)->answer, Answer::kNotFound);
  }
  EXPECT_EQ(world.by_id(s, Verb::kReserveJob, 999)->answer, Answer::kNotFound);
}

TEST(BrokerPutReserve, DeleteTakesAnyJobButOneThatAnotherHolds) {
  World world;
  const SessionId s = world.connect();
  const SessionId other = world.connect();
  const JobId ready = world.put_id(s, "r", {}, 9);
  const JobId delayed = world.put_id(s, "d", seconds(50));
  const JobId buried = world.put_id(s, "b", {}, 0);
  ASSERT_EQ(world.poll(s)->id, buried);
  world.by_id(s, Verb::kBury, buried);
  const JobId held = world.put_id(s, "h", {}, 0);
  ASSERT_EQ(world.poll(s)->id, held);
  EXPECT_EQ(world.del(other, held)->answer, Answer::kNotFound);
  for (const JobId id : {ready, delayed, buried}) {
    EXPECT_EQ(world.del(other, id)->answer, Answer::kDeleted);
  }
  EXPECT_EQ(world.del(s, held)->answer, Answer::kDeleted);
  EXPECT_TRUE(world.store().durable().jobs.empty());
  EXPECT_EQ(world.stats_tube("default").delete_count, 4U);
}

TEST(BrokerPutReserve, OnlyTheHolderReleasesBuriesOrTouches) {
  World world;
  const SessionId s = world.connect();
  const SessionId other = world.connect();
  const JobId id = world.put_id(s, "a");
  for (const Verb verb : {Verb::kRelease, Verb::kBury, Verb::kTouch}) {
    EXPECT_EQ(world.by_id(s, verb, id)->answer, Answer::kNotFound);
  }
  ASSERT_EQ(world.poll(s)->id, id);
  for (const Verb verb : {Verb::kRelease, Verb::kBury, Verb::kTouch}) {
    EXPECT_EQ(world.by_id(other, verb, id)->answer, Answer::kNotFound);
  }
  EXPECT_EQ(world.by_id(s, Verb::kTouch, id)->answer, Answer::kTouched);
  EXPECT_EQ(world.release(s, id, 7)->answer, Answer::kReleased);
  EXPECT_EQ(world.stats_job(id).priority, 7U);
}

TEST(BrokerPutReserve, AClosedSessionsJobsAreReadyAtOnceAndNoCounterRises) {
  World world;
  const SessionId s = world.connect();
  const SessionId worker = world.connect();
  const JobId a = world.put_id(s, "a");
  const JobId b = world.put_id(s, "b");
  ASSERT_EQ(world.poll(s)->id, a);
  ASSERT_EQ(world.poll(s)->id, b);
  EXPECT_FALSE(world.reserve(worker));
  world.close(s);
  EXPECT_EQ(world.answer(worker)->id, a);
  const JobHistory history = world.stats_job(b).history;
  EXPECT_EQ(history.reserves, 1U);
  EXPECT_EQ(history.timeouts + history.releases + history.kicks + history.buries, 0U);
}

// postel-sh #126: one tube's herd does not hold up another's worker.
TEST(BrokerPutReserve, AHerdInOneTubeDoesNotHoldUpAnother) {
  World world;
  const SessionId s = world.connect();
  const SessionId worker_of_b = world.connect_bare();
  world.watch(worker_of_b, "b");
  for (int i = 0; i < 500; ++i) world.put_id(s, "a", seconds(10), 0, seconds(60), "a");
  EXPECT_FALSE(world.reserve(worker_of_b));
  const JobId id = world.put_id(s, "b", seconds(10), 9, seconds(60), "b");
  world.pass(seconds(10));
  EXPECT_EQ(world.answer(worker_of_b)->id, id);
}

TEST(BrokerPutReserve, LimitsAreAnsweredAndChangeNothing) {
  BrokerOptions options;
  options.max_jobs_in_memory = 2;
  options.max_tubes = 2;
  World world(options);
  const SessionId s = world.connect();
  const JobId a = world.put_id(s, "a");
  world.put_id(s, "b");
  const auto shortage = [](const std::optional<Reply>& reply) {
    EXPECT_EQ(reply->answer, Answer::kOutOfMemory);
    return reply->shortage;
  };
  EXPECT_EQ(shortage(world.put(s, "default", "c")), Shortage::kJobs);
  EXPECT_EQ(shortage(world.put(s, "t", "c")), Shortage::kJobs);
  world.del(s, a);
  EXPECT_EQ(world.put(s, "t", "c")->answer, Answer::kInserted);
  EXPECT_EQ(shortage(world.watch(s, "u")), Shortage::kTubes);
  EXPECT_EQ(shortage(world.use(s, "u")), Shortage::kTubes);
  EXPECT_EQ(shortage(world.put(s, "u", "c")), Shortage::kJobs);
  EXPECT_THAT(world.tubes(), ::testing::ElementsAre("default", "t"));
}

TEST(BrokerPutReserve, IdsAscendByTheirStep) {
  BrokerOptions options;
  options.first_id = 3;
  options.id_step = 4;
  World world(options);
  const SessionId s = world.connect();
  EXPECT_EQ(world.put_id(s, "a"), 3U);
  EXPECT_EQ(world.put_id(s, "b"), 7U);
  world.restart();
  const JobId after = world.put_id(world.connect(), "c");
  EXPECT_GT(after, 7U);
  EXPECT_EQ(after % 4, 3U);
}

TEST(BrokerPutReserve, StatsCountJobsByState) {
  World world;
  const SessionId s = world.connect();
  world.put_id(s, "held", {}, 0);
  ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  const JobId buried = world.put_id(s, "buried", {}, 0);
  world.poll(s);
  world.by_id(s, Verb::kBury, buried, 5);
  world.put_id(s, "delayed", seconds(10));
  world.put_id(s, "urgent", {}, 1'023);
  world.put_id(s, "not urgent", {}, 1'024);
  const TubeStats tube = world.stats_tube("default");
  EXPECT_EQ(tube.jobs.urgent, 1U);
  EXPECT_EQ(tube.jobs.ready, 2U);
  EXPECT_EQ(tube.jobs.reserved, 1U);
  EXPECT_EQ(tube.jobs.delayed, 1U);
  EXPECT_EQ(tube.jobs.buried, 1U);
  EXPECT_EQ(tube.total_jobs, 5U);
  EXPECT_EQ(tube.using_count, 1U);
  EXPECT_EQ(tube.watching_count, 1U);
  const PartitionStats all = world.stats();
  EXPECT_EQ(all.jobs.ready, 2U);
  EXPECT_EQ(all.jobs.urgent, 1U);
  EXPECT_EQ(all.total_jobs, 5U);
  EXPECT_EQ(all.tubes, 1U);
  EXPECT_EQ(world.stats_job(buried).priority, 5U);
  EXPECT_EQ(world.stats_job(buried).history.buries, 1U);
}

// F17, postel-sh/postel#126.
TEST(BrokerTubesInTurn, AThousandJobsOfOneTubeDoNotStarveTheOneOfAnother) {
  World world;
  const SessionId s = world.connect();
  world.watch(s, "many");
  world.watch(s, "one");
  for (int i = 0; i < 1'000; ++i) world.put(s, "many", "x", {}, 5);
  world.put(s, "one", "x", {}, 5);
  Command reserve;
  reserve.verb = Verb::kReserve;
  reserve.timeout = Span::zero();
  const auto next = [&] { return world.run(s, reserve)->id; };
  EXPECT_EQ(next(), 1U);
  EXPECT_EQ(next(), 2U) << "the oldest of all, unless asked otherwise";
  reserve.tubes_in_turn = true;
  EXPECT_EQ(next(), 1'001U);
  EXPECT_EQ(next(), 3U);
  for (int i = 0; i < 3; ++i) world.put(s, "one", "x", {}, 5);
  world.put(s, "many", "urgent", {}, 1);
  world.put(s, "many", "urgent", {}, 1);
  EXPECT_EQ(next(), 1'005U) << "priority goes before turns";
  EXPECT_EQ(next(), 1'006U);
  EXPECT_EQ(next(), 1'002U);
  EXPECT_EQ(next(), 4U);
  EXPECT_EQ(next(), 1'003U);
}

TEST(BrokerTubesInTurn, TheTurnIsThatOfAllWorkersTogether) {
  World world;
  const SessionId s = world.connect();
  for (const std::string_view tube : {"a", "b", "c"}) {
    for (int i = 0; i < 10; ++i) world.put(s, tube, "x");
  }
  Command reserve;
  reserve.verb = Verb::kReserve;
  reserve.timeout = Span::zero();
  reserve.tubes_in_turn = true;
  std::vector<JobId> got;
  for (int i = 0; i < 6; ++i) {
    const SessionId worker = world.connect();
    for (const std::string_view tube : {"a", "b", "c"}) world.watch(worker, tube);
    got.push_back(world.run(worker, reserve)->id);
  }
  EXPECT_EQ(got, (std::vector<JobId>{1, 11, 21, 2, 12, 22}));
}

}  // namespace
}  // namespace carillon::broker::testing
