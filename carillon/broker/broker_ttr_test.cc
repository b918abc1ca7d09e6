// SPDX-License-Identifier: Apache-2.0
// Reservations end: TTR, touch, and the margin in which a reserve is told DEADLINE_SOON.
#include <gtest/gtest.h>

#include "carillon/broker/testing/commands.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;

TEST(BrokerTtr, AtItsEndTheJobIsReadyAndTheHolderHasLostIt) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", {}, 0, seconds(10));
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(milliseconds(9'999));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReserved);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 1);
  world.pass(milliseconds(1));
  const JobStats stats = world.stats_job(id);
  EXPECT_EQ(stats.state, JobState::kReady);
  EXPECT_EQ(stats.history.timeouts, 1U);
  EXPECT_EQ(stats.time_left_ms, 0);
  EXPECT_EQ(world.stats().timeouts, 1U);
  for (const Verb verb : {Verb::kTouch, Verb::kRelease, Verb::kBury}) {
    EXPECT_EQ(world.by_id(s, verb, id)->answer, Answer::kNotFound);
  }
  // It is ready again: anybody may delete it, the old holder too.
  EXPECT_EQ(world.del(s, id)->answer, Answer::kDeleted);
}

TEST(BrokerTtr, TheNextHoldersJobIsNotTheOldHoldersToDelete) {
  World world;
  const SessionId slow = world.connect();
  const SessionId next = world.connect();
  const JobId id = world.put_id(slow, "a", {}, 0, seconds(1));
  ASSERT_EQ(world.poll(slow)->id, id);
  EXPECT_FALSE(world.reserve(next));
  world.pass(seconds(1));
  EXPECT_EQ(world.answer(next)->id, id);
  EXPECT_EQ(world.del(slow, id)->answer, Answer::kNotFound);
  EXPECT_EQ(world.del(next, id)->answer, Answer::kDeleted);
}

TEST(BrokerTtr, AFractionOfAMillisecondIsNeverTakenAway) {
  World world;
  const SessionId s = world.connect();
  world.pass(Span(300'001));
  const JobId id = world.put_id(s, "a", {}, 0, Span(1'500'001));
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(Span(1'500'000));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReserved);
  world.pass(milliseconds(2));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
}

TEST(BrokerTtr, AReserveMaySayHowLongItsReservationLasts) {
  World world(far_options());  // Bodies are read for the reservation.
  const SessionId s = world.connect();
  const SessionId waiting = world.connect();
  Command reserve;
  reserve.verb = Verb::kReserve;
  reserve.ttr = seconds(3);
  const JobId id = world.put_id(s, "a", {}, 0, seconds(60));
  ASSERT_EQ(world.run(s, reserve)->id, id);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 3'000);
  EXPECT_EQ(world.stats_job(id).ttr_ms, 60'000) << "the job's own";
  // So for one that waited, and for one that names the job.
  reserve.ttr = hours(100);
  EXPECT_FALSE(world.run(waiting, reserve));
  world.pass(seconds(3));
  ASSERT_EQ(world.answer(waiting)->id, id);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 360'000'000);
  world.by_id(waiting, Verb::kRelease, id);
  Command by_id = on_job(Verb::kReserveJob, id);
  by_id.ttr = Span(1'500'001);
  ASSERT_EQ(world.run(s, by_id)->id, id);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 2) << "rounded up";
}

TEST(BrokerTtr, ATouchGivesTheTtrOfTheJobOrItsOwn) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", {}, 0, seconds(60));
  Command reserve;
  reserve.verb = Verb::kReserve;
  reserve.ttr = seconds(3);
  ASSERT_EQ(world.run(s, reserve)->id, id);
  Command touch = on_job(Verb::kTouch, id);
  touch.ttr = seconds(5);
  EXPECT_EQ(world.run(s, touch)->answer, Answer::kTouched);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 5'000);
  touch.ttr = Span::zero();
  world.run(s, touch);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 60'000);
  // A beanstalk client that reserves next, on the same connection, has the job's.
  world.by_id(s, Verb::kRelease, id);
  ASSERT_EQ(world.poll(s)->id, id);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 60'000);
}

TEST(BrokerTtr, TouchStartsItAnew) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", {}, 0, seconds(10));
  ASSERT_EQ(world.poll(s)->id, id);
  for (int i = 0; i < 5; ++i) {
    world.pass(seconds(8));
    EXPECT_EQ(world.by_id(s, Verb::kTouch, id)->answer, Answer::kTouched);
  }
  world.pass(milliseconds(9'999));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReserved);
  world.pass(milliseconds(1));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
}

// beanstalkd #646: with ready jobs a reserve in the margin gets one.
TEST(BrokerTtr, AReserveInTheMarginGetsAReadyJobIfThereIsOne) {
  World world;
  const SessionId s = world.connect();
  for (int i = 0; i < 4; ++i) world.put_id(s, "a", {}, 0, seconds(2));
  ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  world.pass(milliseconds(1'500));
  EXPECT_EQ(world.reserve(s)->answer, Answer::kReserved);
}

TEST(BrokerTtr, AReserveInTheMarginIsToldDeadlineSoonIfNoneIsReady) {
  World world;
  const SessionId s = world.connect();
  world.put_id(s, "a", {}, 0, seconds(2));
  ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  world.pass(milliseconds(998));
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  world.pass(milliseconds(1));  // The margin begins in the tick before the last second.
  EXPECT_EQ(world.poll(s)->answer, Answer::kDeadlineSoon);
  EXPECT_EQ(world.reserve(s)->answer, Answer::kDeadlineSoon);
  EXPECT_EQ(world.reserve(s, seconds(100))->answer, Answer::kDeadlineSoon);
}

TEST(BrokerTtr, AJobOfOneSecondIsInTheMarginFromTheMomentItIsReserved) {
  World world;
  const SessionId s = world.connect();
  world.pass(std::chrono::microseconds(300));
  world.put_id(s, "a", {}, 0, seconds(1));
  ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  EXPECT_EQ(world.poll(s)->answer, Answer::kDeadlineSoon);
  world.pass(std::chrono::microseconds(100));
  EXPECT_EQ(world.poll(s)->answer, Answer::kDeadlineSoon);
}

TEST(BrokerTtr, AWaitingReserveIsToldDeadlineSoonWhenTheMarginBegins) {
  World world;
  const SessionId s = world.connect();
  world.put_id(s, "a", {}, 0, seconds(10));
  ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  EXPECT_FALSE(world.reserve(s));
  world.pass(milliseconds(8'998));
  EXPECT_FALSE(world.answered(s));
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(s)->answer, Answer::kDeadlineSoon);
}

TEST(BrokerTtr, OfSeveralHeldJobsTheSoonestGoverns) {
  World world;
  const SessionId s = world.connect();
  const JobId late = world.put_id(s, "late", {}, 0, seconds(100));
  const JobId soon = world.put_id(s, "soon", {}, 0, seconds(5));
  const JobId later = world.put_id(s, "later", {}, 0, seconds(50));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  EXPECT_FALSE(world.reserve(s));
  world.pass(seconds(4));
  EXPECT_EQ(world.answer(s)->answer, Answer::kDeadlineSoon);
  world.by_id(s, Verb::kTouch, soon);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  world.del(s, soon);
  EXPECT_FALSE(world.reserve(s));
  world.pass(seconds(44));
  EXPECT_FALSE(world.answered(s));
  world.pass(seconds(1));
  EXPECT_EQ(world.answer(s)->answer, Answer::kDeadlineSoon);
  world.del(s, later);
  world.del(s, late);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
}

TEST(BrokerTtr, ReserveJobNeverSaysDeadlineSoon) {
  World world;
  const SessionId s = world.connect();
  world.put_id(s, "a", {}, 0, seconds(1));
  ASSERT_EQ(world.poll(s)->answer, Answer::kReserved);
  const JobId delayed = world.put_id(s, "b", seconds(50));
  EXPECT_EQ(world.poll(s)->answer, Answer::kDeadlineSoon);
  EXPECT_EQ(world.by_id(s, Verb::kReserveJob, delayed)->answer, Answer::kReserved);
}

// beanstalkd #118, #380: a job reserved through a reserve with a timeout, then an idle client.
TEST(BrokerTtr, AnIdleClientLosesItsJobThoughItsReserveHadATimeout) {
  World world;
  const SessionId s = world.connect();
  EXPECT_FALSE(world.reserve(s, seconds(5)));
  const SessionId producer = world.connect();
  const JobId id = world.put_id(producer, "a", {}, 0, seconds(10));
  EXPECT_EQ(world.answer(s)->id, id);
  for (int i = 0; i < 10; ++i) {
    const std::int64_t left = world.stats_job(id).time_left_ms;
    EXPECT_EQ(left, 10'000 - 1'000 * i);
    world.pass(seconds(1));
  }
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 0);
}

// celery #2481: a delay far longer than the lease is not handed out again and again.
TEST(BrokerTtr, WaitingForADelayIsNotALease) {
  BrokerOptions options;
  options.store_keeps_far_jobs = options.store_keeps_bodies = true;
  World world(options);
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", std::chrono::hours(6), 0, std::chrono::hours(1));
  const SessionId worker = world.connect();
  EXPECT_FALSE(world.reserve(worker));
  world.pass(std::chrono::hours(6) - milliseconds(1));
  EXPECT_FALSE(world.answered(worker));
  world.pass(milliseconds(1));
  EXPECT_EQ(world.answer(worker)->id, id);
  EXPECT_EQ(world.stats_job(id).history.reserves, 1U);
  EXPECT_EQ(world.stats_job(id).history.timeouts, 0U);
}

TEST(BrokerTtr, ALongTtrIsNotAShortOne) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", {}, 0, seconds(0xffff'ffff));
  ASSERT_EQ(world.poll(s)->id, id);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 0xffff'ffffLL * 1'000);
  EXPECT_EQ(world.stats_job(id).ttr_ms, 0xffff'ffffLL * 1'000);
  world.pass(std::chrono::hours(24 * 365));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReserved);
}

}  // namespace
}  // namespace carillon::broker::testing
