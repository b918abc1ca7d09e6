// SPDX-License-Identifier: Apache-2.0
// Looking at one job, cancelling it, changing its time or priority in place, handing it over.
#include <gtest/gtest.h>

#include "carillon/broker/testing/commands.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

class BrokerChange : public ::testing::Test {
 protected:
  World world{far_options()};
  SessionId s = world.connect();

  Place place(JobId id) { return world.store().durable().jobs.at(id).job.place; }
};

TEST_F(BrokerChange, GetShowsAllThereIsToKnow) {
  JobExtras extras = with_key("order-1");
  extras.content_type = "application/json";
  extras.max_attempts = 3;
  const JobId id = world.run(s, put_command("body", extras, seconds(5)))->id;
  JobView info = get(world, s, id);
  EXPECT_EQ(info.stats.id, id);
  EXPECT_EQ(info.stats.tube, "default");
  EXPECT_EQ(info.stats.state, JobState::kDelayed);
  EXPECT_EQ(*info.extras, extras);
  EXPECT_EQ(info.body_size, 4U);
  EXPECT_EQ(info.attempt, 0U);
  EXPECT_EQ(info.created_at_ms, world.now_ms());
  EXPECT_EQ(info.due_at_ms, world.now_ms() + 5'000);
  EXPECT_FALSE(info.reserved_until_ms);
  world.pass(seconds(5));
  Command reserve;
  reserve.verb = Verb::kReserve;
  reserve.with_view = true;
  const auto reserved = world.run(s, reserve);
  ASSERT_EQ(reserved->answer, Answer::kReserved);
  info = view_of(*reserved);
  EXPECT_EQ(info.attempt, 1U);
  EXPECT_EQ(info.reserved_until_ms, world.now_ms() + 60'000);
  EXPECT_EQ(info.extras->key, "order-1");
  EXPECT_EQ(reserved->body.view(), "body");
  world.pass(seconds(61));
  world.del(s, id);
  EXPECT_EQ(world.run(s, on_job(Verb::kGet, id))->answer, Answer::kNotFound);
}

TEST_F(BrokerChange, GetHasTheBodyIfAskedFor) {
  const JobId near = world.put_id(s, "near");
  const JobId far = world.put_id(s, "far", hours(1));
  for (const auto& [id, body] : {std::pair{near, "near"}, std::pair{far, "far"}}) {
    Command command = on_job(Verb::kGet, id);
    EXPECT_FALSE(world.run(s, command)->body);
    command.with_body = true;
    EXPECT_EQ(world.run(s, command)->body.view(), body);
  }
  EXPECT_EQ(place(far), Place::kFar) << "a look has brought it near";
  EXPECT_EQ(get(world, s, far).due_at_ms, world.now_ms() + 3'600'000);
}

TEST_F(BrokerChange, CancelDeletesWhateverIsNotReserved) {
  const JobId ready = world.put_id(s, "a");
  const JobId delayed = world.put_id(s, "b", seconds(9));
  const JobId far = world.put_id(s, "c", hours(1));
  for (const JobId id : {ready, delayed, far}) {
    EXPECT_EQ(world.run(s, on_job(Verb::kCancel, id))->answer, Answer::kDeleted);
    EXPECT_EQ(world.run(s, on_job(Verb::kCancel, id))->answer, Answer::kNotFound);
  }
  const JobId held = world.put_id(s, "d");
  ASSERT_EQ(world.poll(s)->id, held);
  const auto reply = world.run(s, on_job(Verb::kCancel, held));
  EXPECT_EQ(reply->answer, Answer::kConflict) << "a job that runs was cancelled";
  EXPECT_EQ(reply->id, held);
  EXPECT_EQ(world.del(s, held)->answer, Answer::kDeleted);
}

// Scenario F7: same id, old time void, atomic.
TEST_F(BrokerChange, AJobRescheduledKeepsItsIdAndItsOldTimeIsVoid) {
  const JobId id = world.put_id(s, "a", seconds(10));
  EXPECT_EQ(world.run(s, change_delay(id, seconds(30)))->answer, Answer::kChanged);
  world.pass(seconds(29));
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  world.pass(seconds(1));
  EXPECT_EQ(world.poll(s)->id, id);
}

TEST_F(BrokerChange, AJobRescheduledToBeSoonerIsReadyThen) {
  const JobId id = world.put_id(s, "a", seconds(50));
  world.run(s, change_delay(id, seconds(1)));
  world.restart();
  s = world.connect();
  world.pass(seconds(1));
  EXPECT_EQ(world.poll(s)->id, id);
}

TEST_F(BrokerChange, WhatIsReadyOrBuriedMayBeMadeToWaitAndWhatWaitsMadeReady) {
  const JobId id = world.put_id(s, "a");
  world.run(s, change_delay(id, seconds(5)));
  EXPECT_EQ(get(world, s, id).stats.state, JobState::kDelayed);
  world.run(s, change_delay(id, Span::zero()));
  EXPECT_EQ(world.poll(s)->id, id);
  EXPECT_EQ(world.run(s, change_delay(id, seconds(5)))->answer, Answer::kConflict);
  world.by_id(s, Verb::kBury, id);
  world.run(s, change_delay(id, seconds(5)));
  EXPECT_EQ(get(world, s, id).stats.state, JobState::kDelayed);
  world.restart();
  s = world.connect();
  world.pass(seconds(5));
  EXPECT_EQ(world.poll(s)->id, id);
}

TEST_F(BrokerChange, APriorityChangesInPlace) {
  const JobId first = world.put_id(s, "a", {}, 10);
  const JobId second = world.put_id(s, "b", {}, 10);
  Command command = on_job(Verb::kChange, second);
  command.sets_priority = true;
  command.priority = 1;
  EXPECT_EQ(world.run(s, command)->answer, Answer::kChanged);
  EXPECT_EQ(world.stats_tube("default").jobs.urgent, 2U);
  world.restart();
  s = world.connect();
  EXPECT_EQ(world.poll(s)->id, second);
  EXPECT_EQ(world.poll(s)->id, first);
  world.by_id(s, Verb::kBury, first, 10);
  world.by_id(s, Verb::kBury, second, 10);
  command.id = first;
  EXPECT_EQ(world.run(s, command)->answer, Answer::kChanged);
  EXPECT_EQ(get(world, s, first).stats.state, JobState::kBuried);
  EXPECT_EQ(get(world, s, first).stats.priority, 1U);
}

TEST_F(BrokerChange, AFarJobStaysFarWhenItIsMovedAndIsFoundWhereItIsNow) {
  const JobId id = world.run(s, put_command("body", with_key("k"), hours(1)))->id;
  EXPECT_EQ(world.run(s, change_delay(id, hours(3)))->answer, Answer::kChanged);
  EXPECT_EQ(place(id), Place::kFar);
  EXPECT_EQ(world.broker().stats().far_jobs, 1U);
  EXPECT_EQ(get(world, s, id).due_at_ms, world.now_ms() + 3 * 3'600'000);
  EXPECT_EQ(world.run(s, on_key(Verb::kGet, "k"))->id, id);
  world.run(s, change_delay(id, hours(2)));
  world.restart();
  s = world.connect();
  world.pass(hours(2) - milliseconds(1));
  EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut);
  world.pass(milliseconds(1));
  const auto reply = world.poll(s);
  EXPECT_EQ(reply->id, id);
  EXPECT_EQ(reply->body.view(), "body");
  EXPECT_EQ(world.del(s, id)->answer, Answer::kDeleted);
  EXPECT_TRUE(world.store().durable().jobs.empty());
}

TEST_F(BrokerChange, AFarJobComesNearWhenItIsToBeSoon) {
  const JobId id = world.put_id(s, "body", hours(1));
  world.run(s, change_delay(id, seconds(2)));
  EXPECT_EQ(place(id), Place::kSettled);
  world.pass(seconds(2));
  EXPECT_EQ(world.poll(s)->body.view(), "body");
  const JobId other = world.put_id(s, "other", hours(1));
  world.run(s, change_delay(other, hours(2)));
  world.run(s, change_delay(other, Span::zero()));
  EXPECT_EQ(world.poll(s)->body.view(), "other");
  const JobId third = world.put_id(s, "third", hours(1));
  world.run(s, change_delay(third, hours(2)));
  EXPECT_EQ(world.run(s, on_job(Verb::kCancel, third))->answer, Answer::kDeleted);
}

TEST(BrokerChangeInFlight, AJobMovedWhileItIsLoadedIsNotLoadedFromItsOldPlace) {
  World world(far_options(), true);
  const SessionId s = world.connect_bare();
  const auto settle = [&world] {
    while (!world.fetches.empty() || !world.scans.empty() || world.broker().has_batch() ||
           world.store().anything_in_flight()) {
      world.commit();
      if (!world.fetches.empty()) world.answer_fetch();
      if (!world.scans.empty()) world.answer_scan();
    }
  };
  world.put(s, "default", "moved", minutes(10));
  settle();
  const JobId id = world.answer(s)->id;
  world.reads_look_at_once = true;
  world.run(s, change_delay(id, hours(5)));
  world.pass(minutes(9) + seconds(30));
  ASSERT_EQ(world.scans.size(), 1U) << "it is not being loaded";
  ASSERT_EQ(world.fetches.size(), 1U);
  world.answer_fetch();
  world.commit();
  world.answer_scan();
  settle();
  EXPECT_EQ(world.answer(s)->answer, Answer::kChanged);
  EXPECT_EQ(world.store().durable().jobs.at(id).job.place, Place::kFar);
  world.run(s, change_delay(id, hours(6)));
  settle();
  EXPECT_EQ(world.answer(s)->answer, Answer::kChanged);
  // Moved and named again before the move is on its way.
  world.run(s, change_delay(id, hours(7)));
  world.answer_fetch();
  world.run(s, on_job(Verb::kCancel, id));
  settle();
  EXPECT_EQ(world.answer(s)->answer, Answer::kDeleted);
  EXPECT_TRUE(world.store().durable().jobs.empty());
}

TEST(BrokerHandOver, TheReservationIsTheOtherSessionsUntilTheSameMoment) {
  World world;
  const SessionId a = world.connect();
  const SessionId desk = world.connect();
  const JobId id = world.put_id(a, "x", {}, 0, seconds(10));
  ASSERT_EQ(world.poll(a)->id, id);
  world.pass(seconds(4));
  Command command = on_job(Verb::kHandOver, id);
  command.to = desk;
  EXPECT_EQ(world.run(a, command)->answer, Answer::kHandedOver);
  EXPECT_EQ(world.by_id(a, Verb::kTouch, id)->answer, Answer::kNotFound);
  world.close(a);
  EXPECT_EQ(get(world, desk, id).stats.state, JobState::kReserved);
  EXPECT_EQ(get(world, desk, id).stats.time_left_ms, 6'000);
  EXPECT_EQ(world.del(desk, id)->answer, Answer::kDeleted);
  EXPECT_EQ(world.run(desk, command)->answer, Answer::kNotFound);
  const JobId other = world.put_id(desk, "y");
  ASSERT_EQ(world.poll(desk)->id, other);
  command.id = other;
  command.to = a;
  EXPECT_EQ(world.run(desk, command)->answer, Answer::kNotFound) << "given to a closed session";
}

TEST(BrokerHandOver, ItSurvivesAFailedCommit) {
  World world({}, true);
  const SessionId a = world.connect_bare();
  const SessionId desk = world.connect_bare();
  world.watch(a, "default");
  world.put(desk, "default", "x");
  world.commit();
  const JobId id = world.answer(desk)->id;
  ASSERT_EQ(world.poll(a)->id, id);
  Command command = on_job(Verb::kHandOver, id);
  command.to = desk;
  EXPECT_EQ(world.run(a, command)->answer, Answer::kHandedOver);
  world.put(a, "default", "y");
  world.submit();
  world.fail_commits();
  world.finish_recovery();
  EXPECT_EQ(world.by_id(desk, Verb::kTouch, id)->answer, Answer::kTouched);
}

}  // namespace
}  // namespace carillon::broker::testing
