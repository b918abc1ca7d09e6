// SPDX-License-Identifier: Apache-2.0
// Far jobs: in the store only, until they are needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

BrokerOptions far_options(Span horizon = seconds(10)) {
  BrokerOptions options;
  options.store_keeps_far_jobs = true;
  options.store_keeps_bodies = true;
  options.horizon = horizon;
  options.load_chunk = 3;
  return options;
}

TEST(BrokerFar, AFarJobIsInTheStoreOnlyAndCountsAsDelayed) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId far = world.put_id(s, "far", hours(1));
  const JobId near = world.put_id(s, "near", seconds(10));
  EXPECT_EQ(world.store().durable().jobs.at(far).job.place, Place::kFar);
  EXPECT_EQ(world.store().durable().jobs.at(near).job.place, Place::kNear);
  EXPECT_EQ(world.stats().far_jobs, 1U);
  EXPECT_EQ(world.stats().jobs.delayed, 2U);
  EXPECT_EQ(world.stats_tube("default").jobs.delayed, 2U);
  EXPECT_EQ(world.stats().body_bytes, 4U);
  EXPECT_EQ(world.store().durable().tube("default")->far_count, 1U);
}

TEST(BrokerFar, EveryFarJobIsServedAtItsTime) {
  for (const Span horizon : {Span(milliseconds(1)), Span(seconds(1)), Span(minutes(5))}) {
    World world(far_options(horizon));
    const SessionId producer = world.connect();
    std::map<JobId, WallTime> due;
    for (int i = 0; i < 50; ++i) {
      const Span delay = milliseconds(60'000 + (i * 7'919) % 1'000'000);
      due[world.put_id(producer, "x", delay)] = world.now() + delay;
    }
    const SessionId worker = world.connect();
    std::size_t served = 0;
    auto reply = world.reserve(worker);
    while (served < due.size()) {
      while (!reply) {
        ASSERT_TRUE(world.broker().next_deadline());
        world.pass_until(*world.broker().next_deadline());
        reply = world.answer(worker);
      }
      ASSERT_EQ(reply->answer, Answer::kReserved);
      EXPECT_EQ(world.now(), due.at(reply->id)) << "with a horizon of " << horizon.count() << " ns";
      world.del(worker, reply->id);
      ++served;
      reply = world.reserve(worker);
    }
    EXPECT_EQ(world.stats().far_jobs, 0U);
    EXPECT_EQ(world.broker().lateness().max_us, 0);
  }
}

TEST(BrokerFar, LoadingKeepsMemoryToTheHorizon) {
  World world(far_options(seconds(100)));
  const SessionId s = world.connect();
  for (int i = 0; i < 1'000; ++i) world.put_id(s, "x", seconds(1'000 + i));
  for (int i = 0; i < 2'000; ++i) {
    world.pass(seconds(1));
    const PartitionStats stats = world.broker().stats();
    EXPECT_LE(stats.jobs.delayed - stats.far_jobs, 101U);
  }
  EXPECT_EQ(world.broker().stats().jobs.ready, 1'000U);
  // A load a quarter of the horizon, in chunks of three: not one a job.
  EXPECT_LE(world.scan_count, 1'000U / 3 + 100);
}

TEST(BrokerFar, NothingWakesTheHostBeforeTheFirstLoad) {
  World world(far_options(seconds(100)));
  const SessionId s = world.connect();
  world.put_id(s, "x", seconds(1'000));
  EXPECT_EQ(world.broker().next_deadline(), WallTime(world.now() + seconds(925)));
  world.put_id(s, "x", seconds(500));
  EXPECT_EQ(world.broker().next_deadline(), WallTime(world.now() + seconds(425)));
}

TEST(BrokerFar, FarJobsOfAPausedTubeBecomeReadyInTime) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "x", minutes(5));
  world.pause(s, "default", hours(1));
  world.pass(minutes(5));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
}

TEST(BrokerFar, LookingAtAFarJobDoesNotLoadIt) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "body", hours(1), 7, seconds(30));
  world.pass(seconds(5));
  EXPECT_EQ(world.by_id(s, Verb::kPeek, id)->body.view(), "body");
  const JobStats stats = world.stats_job(id);
  EXPECT_EQ(stats.state, JobState::kDelayed);
  EXPECT_EQ(stats.priority, 7U);
  EXPECT_EQ(stats.tube, "default");
  EXPECT_EQ(stats.age_ms, 5'000);
  EXPECT_EQ(stats.delay_ms, 3'600'000);
  EXPECT_EQ(stats.ttr_ms, 30'000);
  EXPECT_EQ(stats.time_left_ms, 3'595'000);
  EXPECT_EQ(world.stats().far_jobs, 1U);
}

TEST(BrokerFar, DeleteErasesAFarJobWhereItLies) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "x", hours(1));
  EXPECT_EQ(world.del(s, id)->answer, Answer::kDeleted);
  EXPECT_EQ(world.del(s, id)->answer, Answer::kNotFound);
  EXPECT_EQ(world.stats_tube("default").delete_count, 1U);
  EXPECT_TRUE(world.store().durable().jobs.empty());
  EXPECT_EQ(world.broker().next_deadline(), std::nullopt);
}

TEST(BrokerFar, KickJobAndReserveJobBringItNear) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId kicked = world.put_id(s, "k", hours(1));
  const JobId taken = world.put_id(s, "t", hours(1));
  EXPECT_EQ(world.by_id(s, Verb::kKickJob, kicked)->answer, Answer::kJobKicked);
  EXPECT_EQ(world.stats_job(kicked).state, JobState::kReady);
  const auto reply = world.by_id(s, Verb::kReserveJob, taken);
  EXPECT_EQ(reply->answer, Answer::kReserved);
  EXPECT_EQ(reply->body.view(), "t");
  EXPECT_EQ(world.stats().far_jobs, 0U);
  EXPECT_EQ(world.store().durable().jobs.at(taken).job.place, Place::kSettled);
  EXPECT_EQ(world.poll(s)->body.view(), "k");
  for (const Verb verb : {Verb::kRelease, Verb::kBury, Verb::kDelete}) {
    const JobId id = world.put_id(s, "x", hours(2));
    ASSERT_EQ(world.by_id(s, Verb::kReserveJob, id)->answer, Answer::kReserved);
    EXPECT_NE(world.by_id(s, verb, id)->answer, Answer::kNotFound);
  }
}

TEST(BrokerFar, AnIdThatCannotBeFarIsNotLookedFor) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId near = world.put_id(s, "x");
  world.del(s, near);
  EXPECT_EQ(world.del(s, near)->answer, Answer::kNotFound);
  EXPECT_EQ(world.fetch_count, 0U);
  world.put_id(s, "x", hours(1));
  EXPECT_EQ(world.by_id(s, Verb::kPeek, 1'000'000)->answer, Answer::kNotFound);
  for (const Verb verb : {Verb::kRelease, Verb::kBury, Verb::kTouch}) {
    EXPECT_EQ(world.by_id(s, verb, 2)->answer, Answer::kNotFound);
  }
  EXPECT_EQ(world.fetch_count, 0U);
}

TEST(BrokerFar, KickOfDelayedJobsTakesTheSoonestOfNearAndFar) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId far_1 = world.put_id(s, "x", seconds(100));
  const JobId near = world.put_id(s, "x", seconds(5));
  const JobId far_2 = world.put_id(s, "x", seconds(50));
  const JobId far_3 = world.put_id(s, "x", seconds(200));
  EXPECT_EQ(world.kick(s, 1)->count, 1U);
  EXPECT_EQ(world.stats_job(near).state, JobState::kReady);
  EXPECT_EQ(world.stats().far_jobs, 3U);
  EXPECT_EQ(world.kick(s, 2)->count, 2U);
  EXPECT_EQ(world.stats_job(far_2).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(far_1).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(far_3).state, JobState::kDelayed);
  EXPECT_EQ(world.kick(s, 0)->count, 0U);
  EXPECT_EQ(world.kick(s, 0xffff'ffff)->count, 1U);
  EXPECT_EQ(world.kick(s, 1)->count, 0U);
}

TEST(BrokerFar, KickOfManyFarJobsIsOneStep) {
  World world(far_options());
  const SessionId s = world.connect();
  const SessionId worker = world.connect();
  world.put_id(s, "dull", seconds(100), 9);
  for (int i = 0; i < 10; ++i) world.put_id(s, "x", seconds(101 + i), 5);
  const JobId urgent = world.put_id(s, "urgent", seconds(200), 1);
  EXPECT_FALSE(world.reserve(worker));
  EXPECT_EQ(world.kick(s, 100)->count, 12U);
  EXPECT_EQ(world.answer(worker)->id, urgent);
}

TEST(BrokerFar, PeekDelayedShowsTheSoonestOfNearAndFar) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId far = world.put_id(s, "far", seconds(100));
  world.put_id(s, "later", seconds(300));
  const auto reply = world.by_tube(s, Verb::kPeekDelayed, "default");
  EXPECT_EQ(reply->id, far);
  EXPECT_EQ(reply->body.view(), "far");
  EXPECT_EQ(world.stats().far_jobs, 1U);
  const JobId near = world.put_id(s, "near", seconds(1));
  EXPECT_EQ(world.by_tube(s, Verb::kPeekDelayed, "default")->id, near);
  world.del(s, near);
  world.del(s, far);
  EXPECT_EQ(world.by_tube(s, Verb::kPeekDelayed, "default")->body.view(), "later");
}

TEST(BrokerFar, AJobReleasedBeyondTheHorizonIsSoonerThanFarOnesIfItIs) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId released = world.put_id(s, "x");
  ASSERT_EQ(world.poll(s)->id, released);
  world.release(s, released, 0, seconds(100));
  const JobId far_sooner = world.put_id(s, "x", seconds(60));
  const JobId far_later = world.put_id(s, "x", seconds(160));
  EXPECT_EQ(world.by_tube(s, Verb::kPeekDelayed, "default")->id, far_sooner);
  EXPECT_EQ(world.kick(s, 2)->count, 2U);
  EXPECT_EQ(world.stats_job(released).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(far_later).state, JobState::kDelayed);
}

// pulsar PR #26230: known to the disk, not loaded in memory, and it falls due.
TEST(BrokerFar, AFarJobThatFellDueWhileTheServerWasDownIsServedAtOnce) {
  World world(far_options());
  SessionId s = world.connect();
  const JobId id = world.put_id(s, "x", hours(1));
  // RocketMQ: down for longer than the wheel spans.
  world.restart(hours(24 * 365 * 3));
  s = world.connect();
  EXPECT_FALSE(world.reserve(s));
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(s)->id, id);
}

// rocketmq #11156: a restart between coming near and its time.
TEST(BrokerFar, AJobLoadedBeforeARestartIsServedOnceAndWasWrittenOnce) {
  World world(far_options());
  SessionId s = world.connect();
  const JobId id = world.put_id(s, "x", hours(1));
  world.pass(hours(1) - seconds(5));
  EXPECT_EQ(world.store().durable().jobs.at(id).job.place, Place::kSettled);
  world.restart(seconds(1));
  s = world.connect();
  EXPECT_FALSE(world.reserve(s));
  world.pass(milliseconds(3'999));
  EXPECT_FALSE(world.answered(s));
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(s)->id, id);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
}

TEST(BrokerFar, ATubeWithFarJobsLivesWithoutSessions) {
  World world(far_options());
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "x", hours(1), 0, seconds(60), "t");
  world.close(s);
  EXPECT_THAT(world.tubes(), ::testing::ElementsAre("default", "t"));
  world.del(world.connect(), id);
  EXPECT_THAT(world.tubes(), ::testing::ElementsAre("default"));
}

TEST(BrokerFar, FarJobsDoNotCountAgainstTheLimitOfJobsInMemory) {
  BrokerOptions options = far_options();
  options.max_jobs_in_memory = 1;
  World world(options);
  const SessionId s = world.connect();
  for (int i = 0; i < 5; ++i) world.put_id(s, "x", hours(1));
  world.put_id(s, "x");
  EXPECT_EQ(world.put(s, "default", "x")->answer, Answer::kOutOfMemory);
}

// Races. The reads are answered by hand.

class BrokerFarRaces : public ::testing::Test {
 protected:
  /// A far job due in `delay`, durable.
  JobId far_job(Span delay, std::string_view tube = "default", std::string_view body = "x") {
    world.put(s, tube, body, delay);
    world.commit();
    return world.answer(s)->id;
  }
  std::optional<Reply> finished(SessionId session) {
    world.commit();
    return world.answer(session);
  }
  /// The same, of a command that may have had its reply at once.
  std::optional<Reply> finished(SessionId session, std::optional<Reply> reply) {
    return reply ? std::move(reply) : finished(session);
  }

  World world{far_options(), true};
  SessionId s = world.connect();
  SessionId other = world.connect();
};

TEST_F(BrokerFarRaces, CommandsOnOneFarJobShareOneRead) {
  const JobId id = far_job(hours(1));
  EXPECT_FALSE(world.by_id(s, Verb::kPeek, id));
  EXPECT_FALSE(world.del(other, id));
  const SessionId third = world.connect();
  EXPECT_FALSE(world.by_id(third, Verb::kReserveJob, id));
  ASSERT_EQ(world.fetches.size(), 1U);
  world.answer_fetch();
  EXPECT_EQ(finished(s)->answer, Answer::kFound);
  EXPECT_EQ(world.answer(other)->answer, Answer::kDeleted);
  EXPECT_EQ(world.answer(third)->answer, Answer::kNotFound);
}

TEST_F(BrokerFarRaces, AJobThatComesNearWhileItIsReadIsTakenFromMemory) {
  const JobId id = far_job(seconds(12));
  EXPECT_FALSE(world.by_id(s, Verb::kReserveJob, id));
  world.reads_look_at_once = true;
  world.pass(seconds(5));
  ASSERT_EQ(world.scans.size(), 1U);
  world.answer_scan();
  world.answer_fetch();
  EXPECT_EQ(finished(s)->answer, Answer::kReserved);
  EXPECT_EQ(world.stats().far_jobs, 0U);
}

TEST_F(BrokerFarRaces, AReadThatIsOutOfDateDoesNotBringADeletedJobBack) {
  world.reads_look_at_once = true;
  const JobId id = far_job(seconds(12));
  far_job(hours(1));
  EXPECT_FALSE(world.by_id(s, Verb::kPeek, id));
  world.pass(seconds(5));
  world.answer_scan();
  // It is near now; another deletes it, and asks for it again, before the first read comes.
  EXPECT_EQ(finished(other, world.del(other, id))->answer, Answer::kDeleted);
  EXPECT_EQ(finished(other, world.by_id(other, Verb::kReserveJob, id))->answer, Answer::kNotFound);
  world.answer_fetch();
  EXPECT_EQ(finished(s)->answer, Answer::kNotFound);
  EXPECT_EQ(world.broker().stats().jobs.delayed, 1U);
}

TEST_F(BrokerFarRaces, AScanThatIsOutOfDateDoesNotBringADeletedJobBack) {
  world.reads_look_at_once = true;
  const JobId id = far_job(seconds(12));
  const JobId stays = far_job(seconds(13));
  world.pass(seconds(5));
  ASSERT_EQ(world.scans.size(), 1U);
  EXPECT_FALSE(world.del(other, id));
  world.answer_fetch();
  EXPECT_EQ(finished(other)->answer, Answer::kDeleted);
  world.answer_scan();
  world.commit();
  const PartitionStats stats = world.broker().stats();
  EXPECT_EQ(stats.jobs.delayed, 1U);
  EXPECT_EQ(stats.far_jobs, 0U);
  EXPECT_TRUE(world.store().durable().jobs.contains(stays));
}

TEST_F(BrokerFarRaces, AScanAskedBeforeTheEraseWasSubmittedDoesNotBringTheJobBack) {
  world.reads_look_at_once = true;
  const JobId id = far_job(seconds(12));
  const JobId stays = far_job(seconds(13));
  EXPECT_FALSE(world.del(other, id));
  world.answer_fetch();
  // The erase is in the batch being filled; the scan does not see it.
  EXPECT_FALSE(world.kick(s, 10));
  world.commit();
  ASSERT_EQ(world.scans.size(), 1U);
  world.answer_scan();
  EXPECT_EQ(finished(s)->count, 1U);
  EXPECT_EQ(world.stats_job(stays).state, JobState::kReady);
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
}

TEST_F(BrokerFarRaces, AJobSettledAndErasedInOneBatchIsNotFoundInTheStore) {
  world.reads_look_at_once = true;
  const JobId id = far_job(hours(1));
  far_job(hours(2));
  EXPECT_FALSE(world.by_id(s, Verb::kReserveJob, id));
  world.answer_fetch();
  world.del(s, id);
  // The store still has it far: neither the settle nor the erase was submitted.
  world.by_id(other, Verb::kReserveJob, id);
  EXPECT_EQ(world.fetches.size(), 0U);
  EXPECT_EQ(finished(other)->answer, Answer::kNotFound);
}

TEST_F(BrokerFarRaces, AJobPutFarInThisBatchCanBeNamedAndLoaded) {
  world.reads_look_at_once = true;
  world.put(s, "default", "x", hours(1));
  // A pipelined command guesses the id.
  EXPECT_FALSE(world.by_id(other, Verb::kPeek, 1));
  EXPECT_TRUE(world.fetches.empty());
  EXPECT_EQ(finished(other)->answer, Answer::kFound);
  EXPECT_EQ(world.broker().stats().far_jobs, 0U);

  world.put(s, "t", "y", hours(1));
  world.put(s, "t", "z", hours(2));
  EXPECT_FALSE(world.by_tube(other, Verb::kPeekDelayed, "t"));
  EXPECT_EQ(world.broker().stats().far_jobs, 1U) << "only what was asked for comes near";
  world.answer_scan();
  EXPECT_EQ(finished(other)->body.view(), "y");
}

TEST_F(BrokerFarRaces, AJobPutFarWhileItsTubeIsScannedIsLoadedInItsTurn) {
  world.reads_look_at_once = true;
  far_job(hours(1));
  EXPECT_FALSE(world.kick(other, 2));
  const JobId id = far_job(minutes(30));
  world.answer_scan();
  while (!world.scans.empty()) world.answer_scan();
  EXPECT_EQ(finished(other)->count, 2U);
  EXPECT_EQ(world.broker().stats().far_jobs, 0U);
  world.by_id(other, Verb::kReserveJob, id);
  ASSERT_EQ(world.fetches.size(), 1U) << "for the body";
  world.answer_fetch();
  EXPECT_EQ(finished(other)->answer, Answer::kReserved);
}

TEST_F(BrokerFarRaces, ASessionMayCloseWhileItWaitsForARead) {
  const JobId id = far_job(hours(1));
  EXPECT_FALSE(world.by_id(s, Verb::kReserveJob, id));
  EXPECT_FALSE(world.kick(other, 5));
  world.close(s);
  world.close(other);
  world.answer_fetch();
  world.answer_scan();
  world.commit();
  EXPECT_EQ(world.broker().stats().jobs.reserved, 0U);
  EXPECT_EQ(world.broker().stats().jobs.ready, 0U);
}

TEST_F(BrokerFarRaces, ATubeMayVanishWhileItIsScanned) {
  const JobId id = far_job(seconds(12), "t");
  world.pass(seconds(5));
  ASSERT_EQ(world.scans.size(), 1U);
  EXPECT_FALSE(world.del(s, id));
  world.answer_fetch();
  EXPECT_EQ(finished(s)->answer, Answer::kDeleted);
  EXPECT_EQ(world.store().durable().tube("t"), nullptr);
  world.answer_scan();
}

TEST_F(BrokerFarRaces, AFailedReadIsAnsweredAndALoadIsTriedAgain) {
  const JobId id = far_job(seconds(12));
  EXPECT_FALSE(world.by_id(s, Verb::kPeek, id));
  world.fail_fetch();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
  EXPECT_FALSE(world.by_tube(s, Verb::kPeekDelayed, "default"));
  world.fail_scan();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
  world.pass(seconds(5));
  ASSERT_EQ(world.scans.size(), 1U);
  world.fail_scan();
  // bullmq #1656: the store comes back, and nothing else happens.
  world.pass(seconds(1));
  ASSERT_EQ(world.scans.size(), 1U);
  world.answer_scan();
  world.pass(seconds(6));
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
}

TEST_F(BrokerFarRaces, AJobDueWhileItsReadIsLateIsServedLateAndNotLost) {
  const JobId id = far_job(seconds(12));
  EXPECT_FALSE(world.reserve(other));
  world.pass(seconds(20));
  ASSERT_EQ(world.scans.size(), 1U);
  world.answer_scan();
  world.answer_fetch();
  EXPECT_EQ(finished(other)->id, id);
  EXPECT_EQ(world.broker().lateness().max_us, 8'000'000);
}

TEST_F(BrokerFarRaces, ABufferOfFarPutsIsNotSearchedForEveryTube) {
  // Loads of one tube leave the far puts of another in the same batch far.
  far_job(seconds(12), "t");
  world.put(s, "u", "x", hours(1));
  world.pass(seconds(5));
  world.answer_scan();
  EXPECT_EQ(world.broker().stats().far_jobs, 1U);
}

}  // namespace
}  // namespace carillon::broker::testing
