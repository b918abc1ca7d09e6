// SPDX-License-Identifier: Apache-2.0
// Limited attempts, backoff, and the number of an attempt as a fence.
#include <gtest/gtest.h>

#include "carillon/broker/testing/commands.h"

namespace carillon::broker::testing {
namespace {

JobExtras attempts(std::uint32_t most, std::int64_t base_ms = 0, std::int64_t cap_ms = 0,
                   bool jitter = false) {
  JobExtras extras;
  extras.max_attempts = most;
  extras.backoff_base_ms = base_ms;
  extras.backoff_cap_ms = cap_ms;
  extras.backoff_jitter = jitter;
  return extras;
}

class BrokerAttempts : public ::testing::Test {
 protected:
  World world;
  SessionId s = world.connect();

  JobId put(const JobExtras& extras) { return world.run(s, put_command("x", extras))->id; }
  std::optional<Reply> fail(JobId id) {
    Command command = on_job(Verb::kRelease, id);
    command.use_backoff = true;
    return world.run(s, command);
  }
  JobState state(JobId id) { return world.stats_job(id).state; }
};

TEST_F(BrokerAttempts, TheLastOneThatFailsBuriesTheJob) {
  const JobId id = put(attempts(3));
  for (int attempt = 1; attempt < 3; ++attempt) {
    ASSERT_EQ(world.poll(s)->id, id);
    EXPECT_EQ(fail(id)->answer, Answer::kReleased);
    EXPECT_EQ(state(id), JobState::kReady);
  }
  ASSERT_EQ(world.poll(s)->id, id);
  EXPECT_EQ(fail(id)->answer, Answer::kBuried);
  EXPECT_EQ(state(id), JobState::kBuried);
  // A kick gives it one more.
  world.kick(s, 1);
  ASSERT_EQ(world.poll(s)->id, id);
  EXPECT_EQ(world.release(s, id, 0, seconds(1))->answer, Answer::kBuried);
}

TEST_F(BrokerAttempts, ATtrThatRunsOutAndAConnectionThatClosesAreAttempts) {
  const JobId id = put(attempts(2));
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(seconds(60));
  EXPECT_EQ(state(id), JobState::kReady);
  const SessionId other = world.connect();
  ASSERT_EQ(world.poll(other)->id, id);
  world.close(other);
  EXPECT_EQ(state(id), JobState::kBuried);
  EXPECT_EQ(world.stats_job(id).history.buries, 1U);
}

TEST_F(BrokerAttempts, TheyAreCountedAcrossARestart) {
  const JobId id = put(attempts(2));
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(seconds(60));
  world.restart();
  s = world.connect();
  ASSERT_EQ(world.poll(s)->id, id);
  EXPECT_EQ(fail(id)->answer, Answer::kBuried);
  world.restart();
  EXPECT_EQ(state(id), JobState::kBuried);
}

TEST_F(BrokerAttempts, ABackoffDoublesUpToItsCap) {
  const JobId id = put(attempts(0, 100, 350));
  for (const int delay_ms : {100, 200, 350, 350}) {
    ASSERT_EQ(world.poll(s)->id, id);
    EXPECT_EQ(fail(id)->answer, Answer::kReleased);
    EXPECT_EQ(world.stats_job(id).time_left_ms, delay_ms);
    EXPECT_EQ(world.stats_job(id).delay_ms, delay_ms);
    world.pass(milliseconds(delay_ms - 1));
    EXPECT_EQ(world.poll(s)->answer, Answer::kTimedOut) << "early after " << delay_ms;
    world.pass(milliseconds(1));
  }
  // A delay that is asked for counts instead; and a TTR that runs out backs off too.
  ASSERT_EQ(world.poll(s)->id, id);
  world.release(s, id, 0, seconds(7));
  EXPECT_EQ(world.stats_job(id).time_left_ms, 7'000);
  world.pass(seconds(7));
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(seconds(60));
  EXPECT_EQ(world.stats_job(id).time_left_ms, 350);
}

TEST_F(BrokerAttempts, ABackoffWithoutACapIsItsBaseAndAHugeOneDoesNotWrap) {
  const JobId id = put(attempts(0, 100));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(world.poll(s)->id, id);
    fail(id);
    EXPECT_EQ(world.stats_job(id).time_left_ms, 100);
    world.pass(milliseconds(100));
  }
  world.del(s, id);
  const JobId huge =
      put(attempts(0, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max()));
  for (int i = 0; i < 70; ++i) {
    ASSERT_EQ(world.by_id(s, Verb::kReserveJob, huge)->id, huge);
    fail(huge);
    EXPECT_GE(world.stats_job(huge).time_left_ms, std::int64_t{1} << 40);
  }
}

TEST_F(BrokerAttempts, JitterIsAnythingUpToTheDelayAndTheSameForOneSeed) {
  const auto delays = [](std::uint64_t seed) {
    BrokerOptions options;
    options.random_seed = seed;
    World own(options);
    const SessionId session = own.connect();
    const JobId id = own.run(session, put_command("x", attempts(0, 1'000, 1'000, true)))->id;
    std::vector<std::int64_t> seen;
    for (int i = 0; i < 50; ++i) {
      own.poll(session);
      Command command = on_job(Verb::kRelease, id);
      command.use_backoff = true;
      own.run(session, command);
      seen.push_back(own.stats_job(id).time_left_ms);
      own.pass(milliseconds(1'000));
    }
    return seen;
  };
  const std::vector<std::int64_t> seen = delays(1);
  EXPECT_LE(*std::max_element(seen.begin(), seen.end()), 1'000);
  EXPECT_GT(*std::max_element(seen.begin(), seen.end()), 800);
  EXPECT_LT(*std::min_element(seen.begin(), seen.end()), 200);
  EXPECT_EQ(seen, delays(1));
  EXPECT_NE(seen, delays(2));
}

TEST_F(BrokerAttempts, AnAckOfAnEarlierReservationNeverHitsTheNext) {
  const JobId id = world.put_id(s, "x", {}, 0, seconds(1));
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(seconds(1));
  ASSERT_EQ(world.poll(s)->id, id);
  for (const Verb verb : {Verb::kDelete, Verb::kRelease, Verb::kBury, Verb::kTouch}) {
    Command stale = on_job(verb, id);
    stale.attempt = 1;
    EXPECT_EQ(world.run(s, stale)->answer, Answer::kNotFound);
  }
  Command fresh = on_job(Verb::kTouch, id);
  fresh.attempt = 2;
  EXPECT_EQ(world.run(s, fresh)->answer, Answer::kTouched);
  world.pass(seconds(1));
  fresh.verb = Verb::kDelete;
  EXPECT_EQ(world.run(s, fresh)->answer, Answer::kNotFound) << "it is ready, not held";
  EXPECT_TRUE(world.exists(id));
}

TEST(BrokerAttemptNumbers, AreNotGivenOutTwiceAcrossAFailedCommit) {
  World world({}, true);
  const SessionId s = world.connect_bare();
  world.watch(s, "default");
  Command put = put_command("x", {});
  put.ttr = seconds(1);
  world.run(s, put);
  world.commit();
  const JobId id = world.answer(s)->id;
  ASSERT_EQ(world.poll(s)->id, id);
  world.pass(seconds(1));
  world.put(s, "default", "y", {}, 1);
  world.submit();
  world.fail_commits();
  world.finish_recovery();
  ASSERT_EQ(world.poll(s)->id, id);
  Command stale = on_job(Verb::kDelete, id);
  stale.attempt = 1;
  world.run(s, stale);
  world.commit();
  EXPECT_EQ(world.answer(s)->answer, Answer::kNotFound);
}

TEST_F(BrokerAttempts, AReservationNobodySawIsNone) {
  const JobId id = put(attempts(1));
  ASSERT_EQ(world.poll(s)->id, id);
  world.by_id(s, Verb::kUnreserve, id);
  EXPECT_EQ(state(id), JobState::kReady);
  EXPECT_EQ(world.stats_job(id).history.reserves, 0U);
}

TEST_F(BrokerAttempts, ATubeMayBeFull) {
  TubeSettings settings;
  settings.max_jobs = 2;
  settings.document = "{\"webhook\":1}";
  EXPECT_EQ(world.run(s, set_tube_command("limited", settings))->answer, Answer::kTubeSet);
  EXPECT_EQ(world.put(s, "limited", "a")->answer, Answer::kInserted);
  EXPECT_EQ(
      world.run(s, put_command("b", with_key("k"), {}, OnConflict::kReturn, "limited"))->answer,
      Answer::kInserted);
  EXPECT_EQ(world.put(s, "limited", "c")->answer, Answer::kTubeFull);
  EXPECT_EQ(world.put(s, "default", "c")->answer, Answer::kInserted);
  // To replace makes nothing fuller.
  EXPECT_EQ(
      world.run(s, put_command("b", with_key("k"), {}, OnConflict::kReplace, "limited"))->answer,
      Answer::kInserted);
  world.restart();
  s = world.connect();
  EXPECT_EQ(world.stats_tube("limited").settings, settings);
  EXPECT_EQ(world.put(s, "limited", "c")->answer, Answer::kTubeFull);
  world.run(s, clear_command("limited", 0xFF));
  EXPECT_EQ(world.stats_tube("limited").jobs.ready, 0U);
  EXPECT_EQ(world.put(s, "limited", "c")->answer, Answer::kInserted);
  world.run(s, clear_command("limited", 0xFF));
  world.restart();
  s = world.connect();
  EXPECT_EQ(world.stats_tube("limited").settings, settings) << "it lives without jobs";
  world.run(s, set_tube_command("limited", {}));
  EXPECT_EQ(world.store().durable().tube("limited"), nullptr);
}

TEST_F(BrokerAttempts, StatisticsCountAndTellAges) {
  world.put_id(s, "a", {}, 5);
  world.pass(seconds(3));
  world.put_id(s, "b", {}, 1);
  world.put_id(s, "c", seconds(9));
  TubeStats stats = world.stats_tube("default");
  EXPECT_GE(stats.oldest_ready_age_ms, 2'800);
  EXPECT_LE(stats.oldest_ready_age_ms, 3'200);
  EXPECT_EQ(stats.next_due_ms, 9'000);
  EXPECT_EQ(stats.fired_count, 0U);
  world.poll(s);
  world.poll(s);
  EXPECT_EQ(world.stats_tube("default").oldest_ready_age_ms, 0);
  world.pass(seconds(4));
  world.jump(seconds(6));
  stats = world.stats_tube("default");
  EXPECT_EQ(stats.fired_count, 1U);
  EXPECT_EQ(stats.reserve_count, 2U);
  EXPECT_EQ(stats.total_jobs, 3U);
  EXPECT_FALSE(stats.next_due_ms);
  EXPECT_EQ(stats.lateness_us.count, 1U);
  EXPECT_EQ(stats.lateness_us.sum, 1'000'000U);
  const PartitionStats all = world.stats();
  EXPECT_EQ(all.put_count, 3U);
  EXPECT_EQ(all.reserve_count, 2U);
  EXPECT_EQ(all.lateness_us.quantile(0.5), (1U << 20) - 1);
}

}  // namespace
}  // namespace carillon::broker::testing
