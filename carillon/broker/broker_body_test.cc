// SPDX-License-Identifier: Apache-2.0
// Bodies leave memory when the store can give them back and there are too many.
#include <gtest/gtest.h>

#include <string>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

BrokerOptions body_options(std::size_t budget) {
  BrokerOptions options;
  options.store_keeps_bodies = true;
  options.body_budget_bytes = budget;
  return options;
}

TEST(BrokerBodies, StayInMemoryWithinTheBudget) {
  World world(body_options(1'000));
  const SessionId s = world.connect();
  for (int i = 0; i < 10; ++i) world.put_id(s, std::string(100, 'x'), seconds(i));
  EXPECT_EQ(world.stats().body_bytes, 1'000U);
  world.pass(seconds(10));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.poll(s)->body.size(), 100U);
  EXPECT_EQ(world.fetch_count, 0U);
}

TEST(BrokerBodies, BeyondItTheyAreReadWhenReserved) {
  World world(body_options(1'000));
  const SessionId s = world.connect();
  for (int i = 0; i < 100; ++i) world.put_id(s, std::to_string(i) + std::string(100, 'x'));
  EXPECT_LE(world.stats().body_bytes, 1'000U);
  for (int i = 0; i < 100; ++i) {
    const auto reply = world.poll(s);
    ASSERT_EQ(reply->answer, Answer::kReserved);
    EXPECT_EQ(reply->body.view(), std::to_string(i) + std::string(100, 'x'));
    world.del(s, reply->id);
  }
  EXPECT_GT(world.fetch_count, 80U);
  EXPECT_EQ(world.stats().body_bytes, 0U);
}

TEST(BrokerBodies, ReadyJobsKeepTheirsBeforeDelayedOnes) {
  World world(body_options(1'000));
  const SessionId s = world.connect();
  for (int i = 0; i < 10; ++i) world.put_id(s, std::string(100, 'd'), seconds(100));
  for (int i = 0; i < 10; ++i) world.put_id(s, std::string(100, 'r'));
  EXPECT_LE(world.stats().body_bytes, 1'000U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(world.poll(s)->body.size(), 100U);
  EXPECT_EQ(world.fetch_count, 0U);
}

TEST(BrokerBodies, AreKeptUntilTheirBatchIsDurable) {
  World world(body_options(0), true);
  const SessionId s = world.connect();
  world.put(s, "default", "body");
  EXPECT_EQ(world.broker().stats().body_bytes, 4U);
  world.submit();
  EXPECT_EQ(world.broker().stats().body_bytes, 4U);
  world.make_durable();
  EXPECT_EQ(world.broker().stats().body_bytes, 0U);
}

TEST(BrokerBodies, PeeksOfAJobReadItsBody) {
  World world(body_options(0));
  const SessionId s = world.connect();
  const JobId id = world.put_id(s, "body");
  EXPECT_EQ(world.by_id(s, Verb::kPeek, id)->body.view(), "body");
  EXPECT_EQ(world.by_tube(s, Verb::kPeekReady, "default")->body.view(), "body");
  EXPECT_EQ(world.fetch_count, 2U);
}

TEST(BrokerBodies, TheTtrBeginsWhenTheBodyIsThere) {
  World world(body_options(0), true);
  const SessionId s = world.connect();
  world.put(s, "default", "a", {}, 5, seconds(2));
  world.commit();
  EXPECT_FALSE(world.reserve(s));
  // However long the store takes to read it.
  world.pass(seconds(7));
  EXPECT_FALSE(world.answered(s));
  EXPECT_EQ(world.broker().stats().jobs.reserved, 1U);
  ASSERT_EQ(world.fetches.size(), 1U);
  world.answer_fetch(0);
  EXPECT_EQ(world.answer(s)->body.view(), "a");
  world.pass(milliseconds(1'999));
  EXPECT_EQ(world.broker().stats().jobs.reserved, 1U);
  world.pass(milliseconds(2));
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
  EXPECT_EQ(world.broker().stats().timeouts, 1U);
}

TEST(BrokerBodies, ABuriedJobIsNotLostToItsReserveJobWhileItsBodyIsRead) {
  World world(body_options(0), true);
  const SessionId s = world.connect();
  const SessionId other = world.connect();
  world.put(s, "default", "a", {}, 5, seconds(2));
  world.commit();
  EXPECT_FALSE(world.reserve(s));
  world.answer_fetch(0);
  const JobId id = world.answer(s)->id;
  world.by_id(s, Verb::kBury, id);
  world.commit();
  EXPECT_FALSE(world.by_id(s, Verb::kReserveJob, id));
  EXPECT_FALSE(world.reserve(other));
  world.pass(seconds(5));
  EXPECT_FALSE(world.answered(other));
  ASSERT_EQ(world.fetches.size(), 1U);
  world.answer_fetch(0);
  EXPECT_EQ(world.answer(s)->answer, Answer::kReserved);
}

TEST(BrokerBodies, ASessionThatClosesWhileABodyIsReadGivesTheJobBack) {
  World world(body_options(0), true);
  const SessionId s = world.connect();
  world.put(s, "default", "a");
  world.commit();
  EXPECT_FALSE(world.reserve(s));
  world.close(s);
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
  world.answer_fetch();
}

TEST(BrokerBodies, ACancelledReserveGivesTheJobBackToWhoWaits) {
  World world(body_options(0), true);
  const SessionId s = world.connect();
  const SessionId other = world.connect();
  world.put(s, "default", "a");
  world.commit();
  EXPECT_FALSE(world.reserve(s));
  EXPECT_FALSE(world.reserve(other));
  world.by_id(s, Verb::kCancelReserve, 0);
  world.answer_fetch();
  EXPECT_EQ(world.answer(other)->body.view(), "a");
}

TEST(BrokerBodies, ABodyThatCannotBeReadIsAnErrorAndTheJobStaysReady) {
  World world(body_options(0), true);
  const SessionId s = world.connect();
  world.put(s, "default", "a");
  world.commit();
  EXPECT_FALSE(world.reserve(s));
  world.fail_fetch();
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
  EXPECT_EQ(world.broker().stats().jobs.ready, 1U);
  EXPECT_FALSE(world.reserve(s));
  world.answer_fetch();
  EXPECT_EQ(world.answer(s)->body.view(), "a");
}

TEST(BrokerBodies, AStoreThatLostAJobIsAnErrorAndNotAnEndlessWait) {
  World world(body_options(0), true);
  const SessionId s = world.connect();
  world.put(s, "default", "a");
  world.commit();
  EXPECT_FALSE(world.reserve(s));
  world.fetches.clear();
  world.broker().on_fetched(1, std::nullopt, world.now());
  EXPECT_EQ(world.answer(s)->answer, Answer::kInternalError);
}

TEST(BrokerBodies, AfterARestartTheyAreReadWhenNeeded) {
  World world(body_options(10));
  world.put_id(world.connect(), "long body, long body");
  world.restart({}, false);
  EXPECT_EQ(world.poll(world.connect())->body.view(), "long body, long body");
}

}  // namespace
}  // namespace carillon::broker::testing
