// SPDX-License-Identifier: Apache-2.0
// Keys that clients choose: unique in a tube while the job exists, near and far.
#include <gtest/gtest.h>

#include "carillon/broker/testing/commands.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;

// With the delay of the first job: near or far.
class BrokerKey : public ::testing::TestWithParam<Span> {
 protected:
  World world{far_options()};
  SessionId s = world.connect();

  Reply put(std::string_view body, std::string key, OnConflict on_conflict = OnConflict::kReturn,
            std::optional<Span> delay = std::nullopt) {
    auto reply = world.run(
        s, put_command(body, with_key(std::move(key)), delay.value_or(GetParam()), on_conflict));
    CARILLON_CHECK(reply.has_value(), "a put has no answer");
    return std::move(*reply);
  }
  bool is_stored_far(JobId id) {
    return world.store().durable().jobs.at(id).job.place == Place::kFar;
  }
};

TEST_P(BrokerKey, ASecondPutIsToldOfTheFirst) {
  const JobId id = put("first", "k").id;
  EXPECT_EQ(is_stored_far(id), GetParam() > seconds(60));
  const Reply again = put("second", "k");
  EXPECT_EQ(again.answer, Answer::kExists);
  EXPECT_EQ(again.id, id);
  const Reply refused = put("third", "k", OnConflict::kRefuse);
  EXPECT_EQ(refused.answer, Answer::kConflict);
  EXPECT_EQ(refused.id, id);
  EXPECT_EQ(put("other", "l").answer, Answer::kInserted);
  EXPECT_EQ(world.store().durable().jobs.size(), 2U);
  // It did not come near for that.
  EXPECT_EQ(is_stored_far(id), GetParam() > seconds(60));
}

TEST_P(BrokerKey, AnotherTubeMayHaveTheSame) {
  put("here", "k");
  const auto there =
      world.run(s, put_command("there", with_key("k"), GetParam(), OnConflict::kRefuse, "another"));
  EXPECT_EQ(there->answer, Answer::kInserted);
}

TEST_P(BrokerKey, ReplaceErasesTheOldJobAndPutsTheNewOneInOneBatch) {
  const JobId old = put("old", "k").id;
  const Reply reply = put("new", "k", OnConflict::kReplace);
  EXPECT_EQ(reply.answer, Answer::kInserted);
  EXPECT_EQ(reply.count, 1U);
  EXPECT_FALSE(world.exists(old));
  EXPECT_EQ(world.run(s, on_key(Verb::kPeek, "k"))->body.view(), "new");
  EXPECT_EQ(put("x", "other", OnConflict::kReplace).count, 0U);
  // To the other place, and back.
  const Span elsewhere = GetParam() > seconds(60) ? Span::zero() : Span(hours(1));
  EXPECT_EQ(put("elsewhere", "k", OnConflict::kReplace, elsewhere).count, 1U);
  EXPECT_EQ(put("back", "k", OnConflict::kReplace).count, 1U);
  world.restart();
  s = world.connect();
  EXPECT_EQ(world.run(s, on_key(Verb::kPeek, "k"))->body.view(), "back");
  EXPECT_EQ(world.store().durable().jobs.size(), 2U);
}

TEST_P(BrokerKey, AJobIsFoundByItsKeyUntilItIsGone) {
  const JobId id = put("body", "k").id;
  EXPECT_EQ(world.run(s, on_key(Verb::kGet, "k"))->id, id);
  EXPECT_EQ(world.run(s, on_key(Verb::kGet, "l"))->answer, Answer::kNotFound);
  EXPECT_EQ(world.run(s, on_key(Verb::kGet, "k", "nowhere"))->answer, Answer::kNotFound);
  EXPECT_EQ(world.run(s, on_key(Verb::kStatsJob, "k"))->answer, Answer::kStats);
  EXPECT_EQ(world.run(s, on_key(Verb::kCancel, "k"))->answer, Answer::kDeleted);
  EXPECT_EQ(world.run(s, on_key(Verb::kCancel, "k"))->answer, Answer::kNotFound);
  EXPECT_EQ(put("next", "k").answer, Answer::kInserted);
}

TEST_P(BrokerKey, ItOutlivesARestartAndTheComingNear) {
  const JobId id = put("body", "k").id;
  world.restart();
  s = world.connect();
  EXPECT_EQ(world.run(s, on_key(Verb::kGet, "k"))->id, id);
  EXPECT_EQ(put("again", "k").answer, Answer::kExists);
  world.pass(hours(1));
  EXPECT_EQ(put("again", "k").id, id);
  const Reply reserved = *world.poll(s);
  EXPECT_EQ(reserved.id, id);
  const Reply refused = put("again", "k", OnConflict::kReplace);
  EXPECT_EQ(refused.answer, Answer::kConflict) << "a reserved job is replaced";
  world.restart();
  s = world.connect();
  EXPECT_EQ(put("again", "k").id, id);
  EXPECT_EQ(world.del(s, id)->answer, Answer::kDeleted);
  EXPECT_EQ(put("again", "k").answer, Answer::kInserted);
}

INSTANTIATE_TEST_SUITE_P(Near, BrokerKey, ::testing::Values(Span::zero(), Span(seconds(5))));
INSTANTIATE_TEST_SUITE_P(Far, BrokerKey, ::testing::Values(Span(std::chrono::minutes(50))));

// Commands that cross on the way to the store and back.
class BrokerKeyInFlight : public ::testing::Test {
 protected:
  World world{far_options(), true};
  SessionId a = world.connect_bare();
  SessionId b = world.connect_bare();
  SessionId c = world.connect_bare();

  // A far job, on disk, and another that keeps the tube's far side alive.
  JobId put_far(std::string key) {
    put(a, "other", "other-" + key, hours(2));
    put(b, "far", std::move(key), hours(1));
    const JobId id = settled(b)->id;
    (void)world.answer(a);
    return id;
  }
  std::optional<Reply> put(SessionId session, std::string_view body, std::string key, Span delay,
                           OnConflict on_conflict = OnConflict::kReturn) {
    return world.run(session, put_command(body, with_key(std::move(key)), delay, on_conflict));
  }
  std::optional<Reply> settled(SessionId session) {
    while (!world.fetches.empty() || !world.scans.empty() || !world.keys.empty() ||
           world.broker().has_batch() || world.store().anything_in_flight()) {
      world.commit();
      if (!world.keys.empty()) world.answer_key();
      if (!world.fetches.empty()) world.answer_fetch();
      if (!world.scans.empty()) world.answer_scan();
    }
    world.broker().check_invariants();
    return world.answer(session);
  }
};

TEST_F(BrokerKeyInFlight, PutsOfOneKeyAreOrderedBehindItsLookup) {
  put_far("k0");
  EXPECT_FALSE(put(a, "first", "k", hours(1)));
  EXPECT_FALSE(put(b, "second", "k", hours(1)));
  EXPECT_FALSE(put(c, "third", "k", Span::zero(), OnConflict::kReplace));
  EXPECT_EQ(world.keys.size(), 1U) << "each asked for itself";
  settled(0);
  const auto first = world.answer(a);
  const auto second = world.answer(b);
  const auto third = world.answer(c);
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->answer, Answer::kInserted);
  EXPECT_EQ(second->answer, Answer::kExists);
  EXPECT_EQ(second->id, first->id);
  EXPECT_EQ(third->answer, Answer::kInserted);
  EXPECT_EQ(third->count, 1U);
}

TEST_F(BrokerKeyInFlight, AJobThatGoesWhileItsKeyIsLookedUpIsNotFoundByIt) {
  const JobId id = put_far("k");
  world.reads_look_at_once = true;
  EXPECT_FALSE(world.run(a, on_job(Verb::kCancel, id)));
  EXPECT_FALSE(put(b, "next", "k", hours(1)));
  // The lookup has seen the job; then the fetch is answered, the job erased, and that submitted.
  world.answer_fetch();
  world.commit();
  EXPECT_EQ(world.answer(a)->answer, Answer::kDeleted);
  world.answer_key();
  EXPECT_EQ(settled(b)->answer, Answer::kInserted);
}

TEST_F(BrokerKeyInFlight, AJobErasedInTheBatchBeingFilledHasGivenUpItsKey) {
  const JobId id = put_far("k");
  EXPECT_FALSE(world.run(a, on_job(Verb::kCancel, id)));
  world.answer_fetch();
  // The store still has it under its key.
  EXPECT_FALSE(put(b, "next", "k", hours(1)));
  EXPECT_TRUE(world.keys.empty()) << "the store was asked for what it cannot know";
  EXPECT_EQ(settled(b)->answer, Answer::kInserted);
}

TEST_F(BrokerKeyInFlight, AJobReplacedWhileItIsReadIsNotFoundByWhoReadsIt) {
  const JobId id = put_far("k");
  world.reads_look_at_once = true;
  EXPECT_FALSE(world.run(a, on_job(Verb::kCancel, id)));
  EXPECT_FALSE(put(b, "next", "k", hours(1), OnConflict::kReplace));
  world.answer_key();
  world.commit();
  EXPECT_EQ(world.answer(b)->count, 1U);
  world.answer_fetch();
  EXPECT_EQ(settled(a)->answer, Answer::kNotFound);
}

TEST_F(BrokerKeyInFlight, AFailedLookupIsAnErrorToAllWhoWaitForIt) {
  put_far("k");
  EXPECT_FALSE(put(a, "x", "k2", hours(1)));
  EXPECT_FALSE(world.run(b, on_key(Verb::kGet, "k2")));
  world.fail_key();
  EXPECT_EQ(world.answer(a)->answer, Answer::kInternalError);
  EXPECT_EQ(world.answer(b)->answer, Answer::kInternalError);
  EXPECT_FALSE(put(a, "x", "k2", hours(1)));
  EXPECT_EQ(settled(a)->answer, Answer::kInserted);
}

TEST_F(BrokerKeyInFlight, WhoeverClosesWaitsForNothing) {
  put_far("k");
  EXPECT_FALSE(put(a, "x", "k2", hours(1)));
  world.close(a);
  settled(b);
  EXPECT_FALSE(put(b, "x", "k2", hours(1)));
  EXPECT_EQ(settled(b)->answer, Answer::kInserted);
}

TEST_F(BrokerKeyInFlight, ARecoveryEndsThemWithAnError) {
  put_far("k");
  EXPECT_FALSE(put(a, "x", "k2", hours(1)));
  EXPECT_FALSE(put(b, "y", "near", Span::zero()));
  world.submit();
  world.fail_commits();
  EXPECT_EQ(world.answer(a)->answer, Answer::kInternalError);
  world.finish_recovery();
  EXPECT_FALSE(put(a, "x", "k2", hours(1)));
  EXPECT_EQ(settled(a)->answer, Answer::kInserted);
  EXPECT_FALSE(world.run(a, on_key(Verb::kGet, "k")));
  EXPECT_EQ(settled(a)->answer, Answer::kFound);
}

TEST(BrokerKeyOrder, TenThousandPutsOfOneKeyMakeOneJob) {
  World world;
  const SessionId s = world.connect();
  const JobId id = world.run(s, put_command("x", with_key("k")))->id;
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(world.run(s, put_command("x", with_key("k")))->id, id);
  }
  EXPECT_EQ(world.stats().jobs.ready, 1U);
}

// Scenario F11: unique per period of the due time is a key with that period in it.
TEST(BrokerKeyOrder, JobsOfTwoPeriodsAreBothTaken) {
  World world;
  const SessionId s = world.connect();
  const auto first =
      world.run(s, put_command("x", with_key("report-1"), seconds(1), OnConflict::kRefuse));
  const auto second = world.run(
      s, put_command("x", with_key("report-2"), std::chrono::minutes(13), OnConflict::kRefuse));
  EXPECT_EQ(first->answer, Answer::kInserted);
  EXPECT_EQ(second->answer, Answer::kInserted);
}

}  // namespace
}  // namespace carillon::broker::testing
