// SPDX-License-Identifier: Apache-2.0
// What outlives the process, killed or stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

TEST(BrokerRestart, AReplyThatPromisesDurabilityWaitsForIt) {
  World world(BrokerOptions{}, true);
  const SessionId s = world.connect();
  EXPECT_FALSE(world.put(s, "default", "x"));
  world.submit();
  EXPECT_FALSE(world.answered(s));
  world.make_durable();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInserted);
}

TEST(BrokerRestart, WhatNobodyDependsOnIsAnsweredAtOnce) {
  World world(BrokerOptions{}, true);
  const SessionId s = world.connect();
  const SessionId busy = world.connect();
  world.put(s, "default", "x", {}, 0, seconds(1));
  world.commit();
  ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  world.put(busy, "default", "pending", seconds(10));
  EXPECT_EQ(world.by_id(s, Verb::kTouch, 1)->answer, Answer::kTouched);
  EXPECT_EQ(world.poll(s)->answer, Answer::kDeadlineSoon);
  EXPECT_EQ(world.use(s, "t")->answer, Answer::kUsing);
  EXPECT_EQ(world.by_id(s, Verb::kPeek, 1)->answer, Answer::kFound);
  const SessionId idle = world.connect();
  EXPECT_EQ(world.poll(idle)->answer, Answer::kTimedOut);
  // What shows the pending job, or the lack of one, waits for it.
  EXPECT_FALSE(world.by_id(s, Verb::kPeek, 2));
  EXPECT_FALSE(world.by_id(idle, Verb::kPeek, 77));
  world.commit();
  EXPECT_EQ(world.answer(s)->answer, Answer::kFound);
  EXPECT_EQ(world.answer(idle)->answer, Answer::kNotFound);
}

// beanstalkd #62; bullmq #168: schedule in 10 s, restart at 5 s.
TEST(BrokerRestart, ItShiftsNoDueTime) {
  World world;
  SessionId s = world.connect();
  const JobId id = world.put_id(s, "x", seconds(10));
  world.pass(seconds(2));
  world.restart(seconds(3));
  s = world.connect();
  EXPECT_EQ(world.stats_job(id).time_left_ms, 5'000);
  EXPECT_FALSE(world.reserve(s));
  world.pass(milliseconds(4'999));
  EXPECT_FALSE(world.answered(s));
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(s)->id, id);
}

TEST(BrokerRestart, WhatFellDueMeanwhileIsServedAtOnce) {
  World world;
  world.put_id(world.connect(), "x", seconds(10));
  world.restart(std::chrono::hours(1));
  const SessionId s = world.connect();
  EXPECT_FALSE(world.reserve(s));
  world.advance();
  EXPECT_EQ(world.answer(s)->answer, Answer::kReserved);
  EXPECT_EQ(world.broker().lateness().max_us, (3'600 - 10) * 1'000'000LL);
}

// beanstalkd #597: there the new priority was lost.
TEST(BrokerRestart, AReleaseWithoutDelayKeepsItsNewPriority) {
  World world;
  SessionId s = world.connect();
  const JobId a = world.put_id(s, "a", {}, 0);
  const JobId b = world.put_id(s, "b", {}, 10);
  ASSERT_EQ(world.poll(s)->id, a);
  world.release(s, a, 20);
  world.restart();
  s = world.connect();
  EXPECT_EQ(world.poll(s)->id, b);
  EXPECT_EQ(world.poll(s)->id, a);
}

// pulsar #20638: consumed and acknowledged is not delivered again.
TEST(BrokerRestart, ADeletedJobStaysDeleted) {
  World world;
  const SessionId s = world.connect();
  const JobId a = world.put_id(s, "a");
  ASSERT_EQ(world.poll(s)->id, a);
  world.del(s, a);
  const JobId b = world.put_id(s, "b", seconds(10));
  world.del(s, b);
  world.restart(seconds(20));
  EXPECT_EQ(world.poll(world.connect())->answer, Answer::kTimedOut);
  EXPECT_FALSE(world.exists(a));
  EXPECT_FALSE(world.exists(b));
}

TEST(BrokerRestart, AReservedJobIsReadyAgain) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a");
  ASSERT_EQ(world.poll(s)->id, id);
  world.restart();
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
}

// beanstalkd #668: there the count grew and the order changed.
TEST(BrokerRestart, BuriedJobsKeepTheirOrderAndTheirCounts) {
  World world;
  SessionId s = world.connect();
  const JobId a = world.put_id(s, "a");
  const JobId b = world.put_id(s, "b");
  for (const JobId id : {b, a}) {
    world.by_id(s, Verb::kReserveJob, id);
    world.by_id(s, Verb::kBury, id, 3);
  }
  for (int i = 0; i < 3; ++i) world.restart();
  s = world.connect();
  EXPECT_EQ(world.by_tube(s, Verb::kPeekBuried, "default")->id, b);
  EXPECT_EQ(world.stats_job(b).history.buries, 1U);
  EXPECT_EQ(world.stats_job(b).history.reserves, 1U);
  const JobId c = world.put_id(s, "c");
  world.by_id(s, Verb::kReserveJob, c);
  world.by_id(s, Verb::kBury, c);
  for (const JobId id : {b, a, c}) {
    world.kick(s, 1);
    EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  }
}

TEST(BrokerRestart, AKickedJobStaysKicked) {
  World world;
  SessionId s = world.connect();
  const JobId delayed = world.put_id(s, "d", std::chrono::hours(1));
  const JobId buried = world.put_id(s, "b");
  ASSERT_EQ(world.poll(s)->id, buried);
  world.by_id(s, Verb::kBury, buried);
  world.by_id(s, Verb::kKickJob, delayed);
  world.by_id(s, Verb::kKickJob, buried);
  world.restart();
  EXPECT_EQ(world.stats_job(delayed).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(buried).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(buried).history.kicks, 1U);
}

TEST(BrokerRestart, ABuriedJobThatWasReservedByIdAndLostStaysReady) {
  World world;
  SessionId s = world.connect();
  const JobId timed_out = world.put_id(s, "t", {}, 0, seconds(5));
  const JobId dropped = world.put_id(s, "d");
  const JobId killed = world.put_id(s, "k", std::chrono::hours(1));
  for (const JobId id : {timed_out, dropped}) {
    world.by_id(s, Verb::kReserveJob, id);
    world.by_id(s, Verb::kBury, id);
    world.by_id(s, Verb::kReserveJob, id);
  }
  world.by_id(s, Verb::kReserveJob, killed);
  world.pass(seconds(5));
  world.by_id(s, Verb::kTouch, dropped);
  EXPECT_EQ(world.stats_job(timed_out).state, JobState::kReady);
  world.restart();
  EXPECT_EQ(world.stats_job(timed_out).state, JobState::kReady);
  // Held to the end: as it was before it was reserved.
  EXPECT_EQ(world.stats_job(dropped).state, JobState::kBuried);
  EXPECT_EQ(world.stats_job(killed).state, JobState::kDelayed);
}

TEST(BrokerRestart, IdsAreNeverUsedAgainAndExactAfterACleanStop) {
  World world;
  SessionId s = world.connect();
  JobId last = 0;
  for (int i = 0; i < 25'000; ++i) {
    last = world.put_id(s, "x");
    world.del(s, last);
  }
  EXPECT_EQ(last, 25'000U);
  world.restart();
  const JobId after_kill = world.put_id(world.connect(), "x");
  EXPECT_GT(after_kill, last);
  EXPECT_LE(after_kill, last + 10'001);
  world.broker().checkpoint(world.now());
  world.commit();
  world.restart();
  EXPECT_EQ(world.put_id(world.connect(), "x"), after_kill + 1);
}

TEST(BrokerRestart, AnIdAboveAllThatIsRememberedIsPassedToo) {
  // A folder whose partition record was lost with the last batches.
  BrokerOptions options;
  options.first_id = 2;
  options.id_step = 3;
  class Quiet final : public Effects {
   public:
    void reply(Ticket, Reply answer, CommitSeq) override { id = answer.id; }
    void fetch(const WantedJob&) override {}
    void scan_far(TubeNumber, FarCursor, std::int64_t, std::size_t) override {}
    void read_far(std::uint64_t, TubeNumber, FarCursor, std::int64_t, std::size_t) override {}
    void find_key(TubeNumber, const std::string&) override {}
    JobId id = 0;
  } effects;
  Broker broker(options, effects);
  TubeRecord tube;
  tube.number = 9;
  tube.name = "t";
  broker.restore_tube(tube);
  StoredJob job;
  job.record.id = 100;  // From a time when ids were dealt out otherwise.
  job.record.tube = 9;
  job.record.ttr_ms = 1'000;
  job.body = Body("");
  broker.restore_job(job);
  const WallTime now{seconds(1'000'000)};
  broker.finish_recovery(now, {});
  broker.open_session(1);
  Command put;
  put.verb = Verb::kPut;
  put.ticket = {1, 1};
  put.tube = "t";
  broker.execute(put, now);
  EXPECT_EQ(effects.id, 101U);
}

TEST(BrokerRestart, TheTimeReachedIsWrittenWithWhatIsCommitted) {
  World world;
  const SessionId s = world.connect();
  EXPECT_EQ(world.store().durable().partition->latest_ms, world.now_ms());
  EXPECT_EQ(world.store().durable().partition->anchor, (TimeAnchor{"boot", Span(7)}));
  for (int i = 0; i < 10; ++i) {
    world.pass(milliseconds(700));
    world.put_id(s, "x");
    EXPECT_LT(world.now_ms() - world.store().durable().partition->latest_ms, 1'000);
  }
}

// rocketmq #6984: one write of a batch cannot be stored. Batches are stored whole or not at all,
// and a job that fell due writes nothing.
TEST(BrokerRestart, ComingDueWritesNothing) {
  World world;
  const SessionId s = world.connect();
  for (int i = 0; i < 100; ++i) world.put_id(s, "x", seconds(1), 0, seconds(1));
  world.pass(milliseconds(1'500));
  EXPECT_FALSE(world.broker().has_batch());
  for (int i = 0; i < 100; ++i) world.poll(s);
  world.pass(milliseconds(1'500));
  EXPECT_EQ(world.stats().timeouts, 100U);
  EXPECT_FALSE(world.broker().has_batch());
}

// sidekiq PR #843: killed in the middle of handing out a herd of due jobs.
TEST(BrokerRestart, AKillWhileAHerdComesDueLosesNone) {
  World world;
  const SessionId s = world.connect();
  for (int i = 0; i < 1'000; ++i) world.put_id(s, "x", seconds(1));
  world.broker().advance(world.now() + seconds(1), 300);
  world.restart(seconds(1));
  world.advance(10);
  EXPECT_EQ(world.stats().jobs.ready, 1'000U);
}

// asynq #649: reschedule a waiting job: beanstalk's way is reserve-job and release.
TEST(BrokerRestart, ARescheduledJobHasOneDueTimeTheNewOne) {
  World world;
  SessionId s = world.connect();
  const JobId id = world.put_id(s, "x", seconds(10));
  world.by_id(s, Verb::kReserveJob, id);
  world.release(s, id, 0, seconds(100));
  world.restart();
  s = world.connect();
  EXPECT_FALSE(world.reserve(s));
  world.pass(milliseconds(99'999));
  EXPECT_FALSE(world.answered(s));
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(s)->id, id);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
}

}  // namespace
}  // namespace carillon::broker::testing
