// SPDX-License-Identifier: Apache-2.0
// A commit fails: memory goes back to what is durable, clients are told, and nothing else is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

using ::testing::ElementsAre;

class BrokerRecovery : public ::testing::Test {
 protected:
  JobId durable_job(std::string_view body = "x", Span delay = {}, Span ttr = seconds(60)) {
    world.put(s, "default", body, delay, 0, ttr);
    world.commit();
    return world.answer(s)->id;
  }
  void fail_and_recover(std::size_t written = 0) {
    world.submit();
    world.fail_commits(written);
    world.finish_recovery();
    world.commit();
  }

  World world{BrokerOptions{}, true};
  SessionId s = world.connect();
  SessionId other = world.connect();
};

TEST_F(BrokerRecovery, APutWhoseBatchFailedIsRefusedAndNotThere) {
  const JobId before = durable_job();
  world.put(s, "default", "lost");
  world.put(other, "new tube", "lost");
  fail_and_recover();
  EXPECT_EQ(world.answer(s)->answer, Answer::kOutOfMemory);
  EXPECT_EQ(world.answer(other)->answer, Answer::kOutOfMemory);
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
  EXPECT_THAT(world.tubes(), ElementsAre("default"));
  EXPECT_EQ(world.poll(s)->id, before);
}

TEST_F(BrokerRecovery, IdsAreNotGivenOutAgain) {
  durable_job();
  world.put(s, "default", "lost");
  fail_and_recover();
  world.answer(s);
  EXPECT_EQ(durable_job(), 3U);
}

TEST_F(BrokerRecovery, AReservationThatTheClientKnowsOfIsStillIts) {
  const JobId id = durable_job("x", {}, seconds(10));
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(seconds(4));
  world.put(other, "default", "lost");
  fail_and_recover();
  EXPECT_EQ(world.stats_job(id).state, JobState::kReserved);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 6'000);
  EXPECT_EQ(world.stats_job(id).history.reserves, 1U);
  EXPECT_EQ(world.by_id(other, Verb::kReserveJob, id)->answer, Answer::kNotFound);
  EXPECT_EQ(world.by_id(s, Verb::kTouch, id)->answer, Answer::kTouched);
  world.del(s, id);
  world.commit();
  EXPECT_EQ(world.answer(s)->answer, Answer::kDeleted);
}

TEST_F(BrokerRecovery, AReservationWhoseReplyWasNotSentIsDropped) {
  world.put(other, "default", "x");
  // Its put is not durable, so neither is the reply to this.
  EXPECT_FALSE(world.poll(s));
  world.submit();
  world.fail_commits(1);  // The batch is there after all, but nobody was told.
  world.finish_recovery();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
  EXPECT_EQ(world.stats_job(1).state, JobState::kReady);
}

TEST_F(BrokerRecovery, SoIsOneThatWasGivenUpBeforeItWasTold) {
  world.put(other, "default", "x");
  world.submit();
  EXPECT_FALSE(world.poll(s));
  const SessionId third = world.connect();
  // The client pipelined a release of the id that it guessed, and another got the job.
  world.release(s, 1);
  world.by_id(third, Verb::kReserveJob, 1);
  world.submit();
  world.fail_commits(1);
  world.finish_recovery();
  EXPECT_EQ(world.stats_job(1).state, JobState::kReady);
}

TEST_F(BrokerRecovery, AFailedDeleteReleaseOrBuryLeavesTheJobWithItsHolder) {
  for (const Verb verb : {Verb::kDelete, Verb::kRelease, Verb::kBury}) {
    const JobId id = durable_job();
    ASSERT_EQ(world.by_id(s, Verb::kReserveJob, id)->answer, Answer::kReserved);
    world.by_id(s, verb, id, 7, seconds(3));
    // Another would have it, if that had become durable.
    if (verb == Verb::kRelease) world.by_id(other, Verb::kReserveJob, id);
    fail_and_recover();
    EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
    if (verb == Verb::kRelease) {
      EXPECT_EQ(world.answer(other)->answer, Answer::kInternalError);
    }
    EXPECT_EQ(world.stats_job(id).state, JobState::kReserved);
    EXPECT_EQ(world.by_id(s, Verb::kTouch, id)->answer, Answer::kTouched);
    world.del(s, id);
    world.commit();
    EXPECT_EQ(world.answer(s)->answer, Answer::kDeleted);
  }
}

TEST_F(BrokerRecovery, ABuryThatWasThereAllTheSameIsUndoneByItsHolderOnly) {
  const JobId id = durable_job();
  ASSERT_EQ(world.poll(s)->id, id);
  world.by_id(s, Verb::kBury, id, 7);
  world.submit();
  world.fail_commits(1);
  world.finish_recovery();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
  EXPECT_EQ(world.stats_job(id).state, JobState::kReserved);
  // Buried in the store: when the holder goes, it is ready, and stays so.
  world.close(s);
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  world.commit();
  world.restart();
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
}

TEST_F(BrokerRecovery, ADeleteThatWasThereAllTheSameStaysDone) {
  const JobId id = durable_job();
  ASSERT_EQ(world.poll(s)->id, id);
  world.del(s, id);
  world.submit();
  world.fail_commits(1);
  world.finish_recovery();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
  world.del(s, id);
  world.commit();
  EXPECT_EQ(world.answer(s)->answer, Answer::kNotFound);
}

TEST_F(BrokerRecovery, AReservationThatRanOutMeanwhileEndsAtOnce) {
  const JobId id = durable_job("x", {}, seconds(10));
  ASSERT_EQ(world.poll(s)->id, id);
  world.put(other, "default", "lost");
  world.submit();
  world.fail_commits();
  world.pass(seconds(20));
  world.finish_recovery();
  world.pass(milliseconds(1));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(id).history.timeouts, 1U);
}

TEST_F(BrokerRecovery, TheReservationsOfASessionThatClosedMeanwhileAreFree) {
  const JobId id = durable_job();
  ASSERT_EQ(world.poll(s)->id, id);
  world.put(other, "default", "lost");
  world.submit();
  world.fail_commits();
  world.close(s);
  world.finish_recovery();
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
}

TEST_F(BrokerRecovery, WaitingReservesWaitOnAndAreServedAfterwards) {
  const SessionId third = world.connect();
  EXPECT_FALSE(world.reserve(s));
  EXPECT_FALSE(world.reserve(third, seconds(5)));
  // Served by a put whose batch fails: they are told of an error.
  world.put(other, "default", "lost");
  EXPECT_FALSE(world.answered(s));
  fail_and_recover();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
  world.answer(other);
  EXPECT_FALSE(world.answered(third));
  const JobId id = durable_job();
  EXPECT_EQ(world.answer(third)->id, id);
}

TEST_F(BrokerRecovery, DuringItCommandsGetErrorsAndReservesWait) {
  const JobId id = durable_job();
  const JobId held = durable_job();
  ASSERT_EQ(world.by_id(s, Verb::kReserveJob, held)->id, held);
  world.put(other, "default", "lost");
  world.submit();
  world.fail_commits();
  world.answer(other);
  EXPECT_FALSE(world.broker().available());
  EXPECT_EQ(world.put(s, "default", "x")->answer, Answer::kOutOfMemory);
  for (const Verb verb :
       {Verb::kDelete, Verb::kRelease, Verb::kBury, Verb::kTouch, Verb::kReserveJob, Verb::kKickJob,
        Verb::kPeek, Verb::kStatsJob, Verb::kKick, Verb::kPeekReady, Verb::kPeekDelayed,
        Verb::kPeekBuried, Verb::kPauseTube, Verb::kStatsTube, Verb::kStats, Verb::kListTubes}) {
    EXPECT_EQ(world.by_id(s, verb, held)->answer, Answer::kInternalError);
  }
  EXPECT_EQ(world.use(s, "u")->answer, Answer::kUsing);
  EXPECT_EQ(world.watch(s, "w")->count, 2U);
  EXPECT_EQ(world.ignore(s, "w")->count, 1U);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  EXPECT_FALSE(world.reserve(s, seconds(1)));
  EXPECT_FALSE(world.reserve(other));
  EXPECT_EQ(world.broker().has_batch(), false);
  world.pass(seconds(1));
  EXPECT_EQ(world.answer(s)->answer, Answer::kTimedOut);
  world.finish_recovery();
  EXPECT_EQ(world.answer(other)->id, id);
  EXPECT_EQ(world.by_id(s, Verb::kTouch, held)->answer, Answer::kTouched);
}

TEST_F(BrokerRecovery, AnUnreserveDuringItCounts) {
  const JobId id = durable_job();
  ASSERT_EQ(world.poll(s)->id, id);
  world.put(other, "default", "lost");
  world.submit();
  world.fail_commits();
  world.by_id(s, Verb::kUnreserve, id);
  world.finish_recovery();
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
}

TEST_F(BrokerRecovery, MayBreakOffAndBeginAnew) {
  const JobId id = durable_job();
  const JobId held = durable_job();
  ASSERT_EQ(world.by_id(s, Verb::kReserveJob, held)->id, held);
  world.put(other, "t", "lost");
  world.submit();
  world.fail_commits();
  for (int i = 0; i < 3; ++i) world.store().recover(world.broker());
  world.finish_recovery();
  EXPECT_EQ(world.stats_job(held).state, JobState::kReserved);
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
}

TEST_F(BrokerRecovery, BatchNumbersGoOn) {
  durable_job();
  world.put(s, "default", "x");
  world.put(other, "default", "x");
  const CommitSeq lost = world.needs(other);
  fail_and_recover();
  world.answer(s);
  world.put(s, "default", "x");
  EXPECT_GT(world.needs(s), lost);
}

TEST_F(BrokerRecovery, PausesAndBuriedOrderComeBack) {
  std::array<JobId, 3> ids{durable_job("a"), durable_job("b"), durable_job("c")};
  for (const JobId id : {ids[2], ids[0], ids[1]}) {
    world.by_id(s, Verb::kReserveJob, id);
    world.by_id(s, Verb::kBury, id);
    world.commit();
    world.answer(s);
  }
  world.pause(s, "default", seconds(30));
  world.commit();
  world.answer(s);
  world.put(other, "default", "lost");
  fail_and_recover();
  EXPECT_EQ(world.stats_tube("default").pause_left_ms, 30'000);
  for (const JobId id : {ids[2], ids[0], ids[1]}) {
    world.kick(s, 1);
    world.commit();
    world.answer(s);
    EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  }
}

TEST(BrokerRecoveryOfReads, CommandsThatWaitForTheStoreGetAnErrorAndReservesGoOn) {
  BrokerOptions options;
  options.store_keeps_far_jobs = options.store_keeps_bodies = true;
  options.body_budget_bytes = 0;
  options.horizon = seconds(1);
  World world(options, true);
  const SessionId s = world.connect();
  world.put(s, "default", "near");
  world.put(s, "far", "far", std::chrono::hours(1));
  world.commit();
  const SessionId peeks = world.connect();
  const SessionId kicks = world.connect();
  const SessionId reserves = world.connect();
  EXPECT_FALSE(world.by_id(peeks, Verb::kPeek, 2));
  EXPECT_FALSE(world.kick(kicks, 1, "far"));
  EXPECT_FALSE(world.reserve(reserves));
  ASSERT_EQ(world.fetches.size(), 2U);
  world.put(s, "default", "lost");
  world.submit();
  world.fail_commits();
  EXPECT_EQ(world.answer(peeks)->answer, Answer::kInternalError);
  EXPECT_EQ(world.answer(kicks)->answer, Answer::kInternalError);
  EXPECT_FALSE(world.answered(reserves));
  world.finish_recovery(false);
  ASSERT_EQ(world.fetches.size(), 1U);
  world.answer_fetch();
  EXPECT_EQ(world.answer(reserves)->body.view(), "near");
}

TEST(BrokerRecoveryOfReads, FarJobsAreLoadedInTimeAfterwards) {
  BrokerOptions options;
  options.store_keeps_far_jobs = options.store_keeps_bodies = true;
  options.horizon = seconds(10);
  World world(options, true);
  const SessionId s = world.connect();
  world.put(s, "default", "far", seconds(15));
  world.commit();
  world.answer(s);
  world.pass(seconds(8));
  ASSERT_EQ(world.scans.size(), 1U);
  world.put(s, "default", "lost");
  world.submit();
  world.fail_commits();
  world.finish_recovery();
  world.pass(milliseconds(1));
  ASSERT_EQ(world.scans.size(), 1U);
  world.answer_scan();
  world.pass(seconds(7));
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
}

}  // namespace
}  // namespace carillon::broker::testing
