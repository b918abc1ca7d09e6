// SPDX-License-Identifier: Apache-2.0
// Delays, and what cuts them short: kick, kick-job, reserve-job; peek.
#include <gtest/gtest.h>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

TEST(BrokerDelay, NeverEarlyAndOneTickLateAtMost) {
  World world;
  const SessionId s = world.connect();
  world.pass(Span(777'777));
  const WallTime put_at = world.now();
  const JobId id = world.put_id(s, "a", Span(1'234'567'890));
  EXPECT_FALSE(world.reserve(s));
  world.pass_until(put_at + Span(1'234'567'889));
  EXPECT_FALSE(world.answered(s));
  world.pass_until(put_at + Span(1'235'567'890));
  EXPECT_EQ(world.answer(s)->id, id);
}

TEST(BrokerDelay, ADelayOfTheProtocolsMaximumIsKept) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", seconds(0xffff'ffff));
  EXPECT_EQ(world.stats_job(id).time_left_ms, 0xffff'ffffLL * 1'000);
  world.pass(std::chrono::hours(24 * 365 * 100));
  EXPECT_EQ(world.stats_job(id).state, JobState::kDelayed);
  const JobId never = world.put_id(s, "b", kForever);
  EXPECT_EQ(world.stats_job(never).state, JobState::kDelayed);
}

// beanstalkd #118, PR #174.
TEST(BrokerDelay, TimeLeftCountsDownToZero) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "a", seconds(50));
  world.pass(milliseconds(49'999));
  EXPECT_EQ(world.stats_job(id).time_left_ms, 1);
  world.pass(milliseconds(1));
  EXPECT_EQ(world.stats_job(id).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(id).time_left_ms, 0);
  EXPECT_EQ(world.stats_job(id).delay_ms, 50'000);
  EXPECT_EQ(world.stats_job(id).age_ms, 50'000);
}

TEST(BrokerDelay, AReleasedJobWaitsItsNewDelayWithItsNewPriority) {
  World world;
  const SessionId s = world.connect();
  const JobId a = world.put_id(s, "a", {}, 0);
  ASSERT_EQ(world.poll(s)->id, a);
  EXPECT_EQ(world.release(s, a, 20, seconds(3))->answer, Answer::kReleased);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  world.pass(seconds(3));
  const JobId b = world.put_id(s, "b", {}, 10);
  EXPECT_EQ(world.poll(s)->id, b);
  EXPECT_EQ(world.poll(s)->id, a);
  EXPECT_EQ(world.stats_job(a).history.releases, 1U);
  EXPECT_EQ(world.stats_job(a).history.reserves, 2U);
}

TEST(BrokerDelay, KickTakesBuriedJobsOnlyIfThereAreAnyOldestFirst) {
  World world;
  const SessionId s = world.connect();
  const JobId a = world.put_id(s, "a");
  const JobId b = world.put_id(s, "b");
  const JobId delayed = world.put_id(s, "d", seconds(9));
  ASSERT_EQ(world.poll(s)->id, a);
  ASSERT_EQ(world.poll(s)->id, b);
  EXPECT_EQ(world.by_id(s, Verb::kBury, b, 7)->answer, Answer::kBuried);
  EXPECT_EQ(world.by_id(s, Verb::kBury, a, 7)->answer, Answer::kBuried);
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  EXPECT_EQ(world.by_tube(s, Verb::kPeekBuried, "default")->id, b);
  EXPECT_EQ(world.kick(s, 1)->count, 1U);
  EXPECT_EQ(world.poll(s)->id, b);
  EXPECT_EQ(world.kick(s, 100)->count, 1U);
  EXPECT_EQ(world.poll(s)->id, a);
  EXPECT_EQ(world.stats_job(delayed).state, JobState::kDelayed);
  EXPECT_EQ(world.kick(s, 100)->count, 1U);
  EXPECT_EQ(world.poll(s)->id, delayed);
  EXPECT_EQ(world.stats_job(delayed).history.kicks, 1U);
  EXPECT_EQ(world.kick(s, 100)->count, 0U);
  EXPECT_EQ(world.kick(s, 1, "no such tube")->count, 0U);
}

TEST(BrokerDelay, KickOfDelayedJobsTakesTheSoonest) {
  World world;
  const SessionId s = world.connect();
  const JobId late = world.put_id(s, "late", seconds(30));
  const JobId soon = world.put_id(s, "soon", seconds(10));
  const JobId middle = world.put_id(s, "middle", seconds(20));
  EXPECT_EQ(world.kick(s, 2)->count, 2U);
  EXPECT_EQ(world.stats_job(soon).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(middle).state, JobState::kReady);
  EXPECT_EQ(world.stats_job(late).state, JobState::kDelayed);
}

TEST(BrokerDelay, AKickServesWhoWaits) {
  World world;
  const SessionId s = world.connect();
  const SessionId worker = world.connect();
  const JobId id = world.put_id(s, "a", seconds(10));
  EXPECT_FALSE(world.reserve(worker));
  EXPECT_EQ(world.kick(s, 1)->count, 1U);
  EXPECT_EQ(world.answer(worker)->id, id);
}

TEST(BrokerDelay, KickJobTakesBuriedAndDelayedJobsOfAnyTube) {
  World world;
  const SessionId s = world.connect();
  const JobId buried = world.put_id(s, "b");
  ASSERT_EQ(world.poll(s)->id, buried);
  EXPECT_EQ(world.by_id(s, Verb::kKickJob, buried)->answer, Answer::kNotFound);
  world.by_id(s, Verb::kBury, buried);
  const JobId delayed = world.put_id(s, "d", seconds(9), 0, seconds(60), "elsewhere");
  const JobId ready = world.put_id(s, "r");
  EXPECT_EQ(world.by_id(s, Verb::kKickJob, buried)->answer, Answer::kJobKicked);
  EXPECT_EQ(world.by_id(s, Verb::kKickJob, delayed)->answer, Answer::kJobKicked);
  EXPECT_EQ(world.by_id(s, Verb::kKickJob, ready)->answer, Answer::kNotFound);
  EXPECT_EQ(world.by_id(s, Verb::kKickJob, 999)->answer, Answer::kNotFound);
  EXPECT_EQ(world.stats_job(delayed).state, JobState::kReady);
}

TEST(BrokerDelay, PeeksShowWhatWouldComeNext) {
  World world;
  const SessionId s = world.connect();
  for (const Verb verb : {Verb::kPeekReady, Verb::kPeekDelayed, Verb::kPeekBuried}) {
    EXPECT_EQ(world.by_tube(s, verb, "default")->answer, Answer::kNotFound);
    EXPECT_EQ(world.by_tube(s, verb, "no such tube")->answer, Answer::kNotFound);
  }
  world.put_id(s, "dull", {}, 9);
  const JobId urgent = world.put_id(s, "urgent", {}, 1);
  world.put_id(s, "late", seconds(20));
  const JobId soon = world.put_id(s, "soon", seconds(10));
  const auto ready = world.by_tube(s, Verb::kPeekReady, "default");
  EXPECT_EQ(ready->answer, Answer::kFound);
  EXPECT_EQ(ready->id, urgent);
  EXPECT_EQ(ready->body.view(), "urgent");
  EXPECT_EQ(world.by_tube(s, Verb::kPeekDelayed, "default")->id, soon);
  world.del(s, soon);
  EXPECT_EQ(world.by_tube(s, Verb::kPeekDelayed, "default")->body.view(), "late");
  const auto by_id = world.by_id(s, Verb::kPeek, urgent);
  EXPECT_EQ(by_id->body.view(), "urgent");
  ASSERT_EQ(world.poll(s)->id, urgent);
  EXPECT_EQ(world.by_id(s, Verb::kPeek, urgent)->answer, Answer::kFound);
  EXPECT_EQ(world.by_id(s, Verb::kPeek, 999)->answer, Answer::kNotFound);
}

// sidekiq PR #1495: two that look for due jobs.
TEST(BrokerDelay, OfTwoWhoWaitForOneDueJobOneGetsIt) {
  World world;
  const SessionId a = world.connect();
  const SessionId b = world.connect();
  EXPECT_FALSE(world.reserve(a, seconds(20)));
  EXPECT_FALSE(world.reserve(b, seconds(20)));
  const JobId id = world.put_id(world.connect(), "x", seconds(10));
  world.pass(seconds(30));
  EXPECT_EQ(world.answer(a)->id, id);
  EXPECT_EQ(world.answer(b)->answer, Answer::kTimedOut);
}

TEST(BrokerDelay, AHerdDueAtOnceIsHandledInPiecesOfTheBudget) {
  World world;
  const SessionId s = world.connect();
  for (int i = 0; i < 100; ++i) world.put_id(s, "x", seconds(1));
  EXPECT_EQ(world.broker().next_deadline(), WallTime(world.now() + seconds(1)));
  const WallTime due = world.now() + seconds(1);
  int calls = 1;
  while (world.broker().advance(due, 10)) {
    EXPECT_EQ(world.broker().stats().jobs.ready, 10U * static_cast<unsigned>(calls));
    EXPECT_LE(world.broker().next_deadline(), due);
    ++calls;
  }
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(world.broker().stats().jobs.ready, 100U);
  EXPECT_EQ(world.broker().next_deadline(), std::nullopt);
}

TEST(BrokerDelay, LatenessIsWhatTheHostCameTooLate) {
  World world;
  const SessionId s = world.connect();
  world.put_id(s, "a", seconds(1));
  world.put_id(s, "b", seconds(2));
  world.pass(seconds(1));
  world.jump(milliseconds(1'300));
  const Broker::Lateness lateness = world.broker().lateness();
  EXPECT_EQ(lateness.count, 2U);
  EXPECT_EQ(lateness.total_us, 300'000);
  EXPECT_EQ(lateness.max_us, 300'000);
}

}  // namespace
}  // namespace carillon::broker::testing
