// SPDX-License-Identifier: Apache-2.0
// Lists with a stable cursor, clears, and the wheel: walks over many jobs in bounded steps.
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/broker/testing/commands.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

using Ids = std::vector<JobId>;

class BrokerList : public ::testing::Test {
 protected:
  World world{far_options()};
  SessionId s = world.connect();

  JobPage page(const ListQuery& query, std::string_view tube = "default") {
    auto reply = world.run(s, list_command(tube, query));
    CARILLON_CHECK(reply && reply->answer == Answer::kListed, "a list failed");
    return std::get<JobPage>(std::move(*reply->detail));
  }
  static Ids ids(const JobPage& page) {
    Ids ids;
    for (const JobView& info : page.jobs) ids.push_back(info.stats.id);
    return ids;
  }
  /// Page by page; `between` is called after each.
  template <class Between>
  Ids all(ListQuery query, std::string_view tube, Between&& between) {
    Ids seen;
    for (;;) {
      const JobPage one = page(query, tube);
      EXPECT_LE(one.jobs.size(), query.limit);
      const Ids more = ids(one);
      seen.insert(seen.end(), more.begin(), more.end());
      if (!one.next) return seen;
      query.after = *one.next;
      between();
    }
  }
  Ids all(const ListQuery& query, std::string_view tube = "default") {
    return all(query, tube, [] {});
  }
  static ListQuery in_state(JobState state, std::size_t limit = 100) {
    ListQuery query;
    query.state = state;
    query.limit = limit;
    return query;
  }
};

TEST_F(BrokerList, DelayedJobsComeInOrderOfDueAndIdNearAndFarAlike) {
  const JobId a = world.put_id(s, "a", hours(2));
  const JobId b = world.put_id(s, "b", seconds(5));
  const JobId c = world.put_id(s, "c", hours(1));
  const JobId d = world.put_id(s, "d", seconds(5));
  const JobId e = world.put_id(s, "e", seconds(50));
  world.put_id(s, "ready");
  world.put_id(s, "elsewhere", seconds(1), 0, seconds(60), "t");
  for (const std::size_t limit : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{9}}) {
    EXPECT_EQ(all(in_state(JobState::kDelayed, limit)), (Ids{b, d, e, c, a})) << limit;
  }
  EXPECT_EQ(all(in_state(JobState::kDelayed, 2), "").size(), 6U);
  EXPECT_EQ(world.broker().stats().far_jobs, 2U) << "the list has brought them near";
  const JobPage first = page(in_state(JobState::kDelayed, 3));
  EXPECT_EQ(first.jobs[0].due_at_ms, world.now_ms() + 5'000);
  EXPECT_EQ(first.jobs[0].stats.tube, "default");
}

TEST_F(BrokerList, TheOtherStatesComeInOrderOfId) {
  Ids ready;
  Ids buried;
  for (int i = 0; i < 10; ++i) ready.push_back(world.put_id(s, "x", {}, 10U - unsigned(i)));
  for (int i = 0; i < 4; ++i) {
    const JobId id = world.poll(s)->id;
    if (i < 2) world.by_id(s, Verb::kBury, id);
    if (i < 2) buried.push_back(id);
    std::erase(ready, id);
  }
  std::sort(buried.begin(), buried.end());
  EXPECT_EQ(all(in_state(JobState::kReady, 4)), ready);
  EXPECT_EQ(all(in_state(JobState::kReady, 4), ""), ready);
  EXPECT_EQ(all(in_state(JobState::kBuried)), buried);
  EXPECT_EQ(all(in_state(JobState::kReserved)).size(), 2U);
  EXPECT_EQ(all(in_state(JobState::kReserved, 1), "").size(), 2U);
  EXPECT_EQ(world.run(s, list_command("nowhere", {}))->answer, Answer::kNotFound);
}

TEST_F(BrokerList, FiltersByKeyAndByDate) {
  const std::int64_t now = world.calendar_ms();
  Ids ids;
  for (int i = 0; i < 8; ++i) {
    JobExtras extras = with_key((i % 2 == 0 ? "order-" : "mail-") + std::to_string(i));
    if (i >= 4) extras.due_at_ms = now + i * 1'000'000;
    ids.push_back(world.run(s, put_command("x", extras, seconds(i * 1'000)))->id);
  }
  world.put_id(s, "no key", seconds(3'500));
  ListQuery query = in_state(JobState::kDelayed, 2);
  query.key_prefix = "order-";
  EXPECT_EQ(all(query), (Ids{ids[2], ids[4], ids[6]}));
  query.due_from_ms = now + 4'000'000;
  query.due_until_ms = now + 6'000'000;
  EXPECT_EQ(all(query), Ids{ids[4]}) << "the end is not in the range";
  query.key_prefix = "";
  EXPECT_EQ(all(query), (Ids{ids[4], ids[5]}));
  query.key_prefix = "nothing";
  EXPECT_TRUE(all(query).empty());
  query = in_state(JobState::kReady);
  query.key_prefix = "order-0";
  EXPECT_EQ(all(query), Ids{ids[0]});
}

TEST_F(BrokerList, WhateverIsNotChangedIsOnExactlyOnePageThoughJobsComeNearMeanwhile) {
  Random random(7);
  std::set<JobId> kept;
  Ids others;
  for (int i = 0; i < 3'000; ++i) {
    const JobId id = world.put_id(s, "x", milliseconds(random.between(100'000, 400'000)), 0,
                                  seconds(60), random.one_in(3) ? "t" : "default");
    if (i % 3 == 0) {
      others.push_back(id);
    } else {
      kept.insert(id);
    }
  }
  for (const std::string_view tube : {"default", ""}) {
    std::multiset<JobId> seen;
    for (const JobId id : all(in_state(JobState::kDelayed, 70), tube, [&] {
           // Time brings far jobs near; some are deleted, moved or put.
           world.pass(milliseconds(300));
           for (int i = 0; i < 5 && !others.empty(); ++i) {
             const std::size_t which = random.below(others.size());
             if (random.one_in(2)) {
               world.del(s, others[which]);
             } else {
               world.run(
                   s, change_delay(others[which], milliseconds(random.between(90'000, 400'000))));
             }
             others.erase(others.begin() + static_cast<std::ptrdiff_t>(which));
             world.put_id(s, "new", milliseconds(random.between(90'000, 300'000)));
           }
         })) {
      seen.insert(id);
    }
    for (const JobId id : kept) {
      const JobView info = get(world, s, id);
      const std::size_t expected = tube.empty() || info.stats.tube == tube ? 1 : 0;
      ASSERT_EQ(seen.count(id), expected) << id << " in '" << tube << "'";
    }
  }
}

TEST_F(BrokerList, AWalkOverManyJobsIsMadeInSteps) {
  World big({}, true);
  const SessionId a = big.connect_bare();
  const SessionId b = big.connect_bare();
  for (int i = 0; i < 20'000; ++i) big.put(a, "default", "x", {}, 5);
  big.commit();
  EXPECT_FALSE(big.run(b, list_command("", in_state(JobState::kReady, 10))));
  int steps = 0;
  while (!big.answered(b)) {
    ASSERT_TRUE(big.broker().scanning());
    EXPECT_EQ(big.broker().next_deadline(), big.now());
    big.broker().advance(big.now(), 1'000);
    big.commit();
    ++steps;
  }
  EXPECT_GE(steps, 4);
  EXPECT_EQ(std::get<JobPage>(*big.answer(b)->detail).jobs.size(), 10U);
  EXPECT_FALSE(big.broker().scanning());
  // A session that closes takes its walk with it.
  EXPECT_FALSE(big.run(b, clear_command("default", 0xFF)));
  big.close(b);
  EXPECT_FALSE(big.broker().scanning());
  big.broker().check_invariants();
}

TEST_F(BrokerList, ClearDeletesTheStatesAskedForNearAndFar) {
  for (int i = 0; i < 10; ++i) world.put_id(s, "x");
  for (int i = 0; i < 6; ++i) world.put_id(s, "x", seconds(9));
  for (int i = 0; i < 2'500; ++i) world.put_id(s, "x", hours(3));
  const JobId held = world.poll(s)->id;
  world.by_id(s, Verb::kBury, world.poll(s)->id);
  const JobId elsewhere = world.put_id(s, "x", hours(1), 0, seconds(60), "t");
  auto reply = world.run(s, clear_command("default", bit_of(JobState::kDelayed)));
  EXPECT_EQ(reply->answer, Answer::kCleared);
  EXPECT_EQ(reply->count, 2'506U);
  EXPECT_EQ(world.stats_tube("default").jobs.delayed, 0U);
  EXPECT_EQ(world.stats_tube("default").jobs.ready, 8U);
  reply = world.run(s, clear_command("default", 0xFF));
  EXPECT_EQ(reply->count, 9U);
  EXPECT_TRUE(world.exists(held)) << "a reserved job was cleared";
  EXPECT_TRUE(world.exists(elsewhere));
  EXPECT_EQ(world.store().durable().jobs.size(), 2U);
  EXPECT_EQ(world.run(s, clear_command("t", 0xFF))->count, 1U);
  EXPECT_EQ(world.store().durable().tube("t"), nullptr);
  EXPECT_EQ(world.run(s, clear_command("nowhere", 0xFF))->answer, Answer::kNotFound);
}

TEST_F(BrokerList, ClearOfManyJobsSparesWhatIsPutMeanwhile) {
  World big({}, true);
  const SessionId a = big.connect_bare();
  const SessionId b = big.connect_bare();
  for (int i = 0; i < 20'000; ++i) big.put(a, "default", "x", {}, 5);
  big.commit();
  EXPECT_FALSE(big.run(b, clear_command("default", bit_of(JobState::kReady))));
  std::size_t most = 0;
  while (!big.answered(b)) {
    big.put(a, "default", "new");
    big.broker().advance(big.now(), 1'000);
    most = std::max(most, big.broker().batch_mutations());
    big.commit();
  }
  EXPECT_EQ(big.answer(b)->count, 20'000U);
  EXPECT_LT(most, 15'000U) << "one batch takes all";
  EXPECT_GE(big.broker().stats().jobs.ready, 4U);
  EXPECT_EQ(big.broker().stats().jobs.ready, big.store().durable().jobs.size());
}

TEST_F(BrokerList, AFailedReadOrCommitEndsIt) {
  World manual(far_options(), true);
  const SessionId a = manual.connect_bare();
  manual.put(a, "default", "x", hours(1));
  manual.commit();
  EXPECT_FALSE(manual.run(a, list_command("default", in_state(JobState::kDelayed))));
  manual.broker().advance(manual.now(), 10);
  ASSERT_EQ(manual.scans.size(), 1U);
  manual.fail_scan();
  EXPECT_EQ(manual.answer(a)->answer, Answer::kInternalError);
  EXPECT_FALSE(manual.run(a, clear_command("default", 0xFF)));
  const SessionId b = manual.connect_bare();
  manual.put(b, "default", "y");
  manual.submit();
  manual.fail_commits();
  EXPECT_EQ(manual.answer(a)->answer, Answer::kInternalError);
  manual.finish_recovery();
  EXPECT_EQ(manual.broker().stats().far_jobs, 1U);
}

TEST_F(BrokerList, TheWheelShowsWhatLiesWhere) {
  world.put_id(s, "a", milliseconds(500));
  world.put_id(s, "b", seconds(5));
  world.put_id(s, "c", seconds(59));
  world.put_id(s, "d", hours(2));
  world.put_id(s, "e");
  world.poll(s);
  Command command;
  command.verb = Verb::kWheel;
  const auto reply = world.run(s, command);
  const auto wheel = std::get<WheelView>(*reply->detail);
  EXPECT_EQ(wheel.far, 1U);
  EXPECT_EQ(wheel.delayed[0], 1U);
  EXPECT_EQ(wheel.delayed[1], 1U);
  EXPECT_EQ(wheel.delayed[2], 1U);
  std::uint64_t sum = 0;
  ASSERT_GE(wheel.levels.size(), 4U);
  for (const WheelView::Level& level : wheel.levels) {
    EXPECT_EQ(level.counts.size(), 64U);
    sum += std::accumulate(level.counts.begin(), level.counts.end(), std::uint64_t{0});
  }
  EXPECT_EQ(sum, 4U) << "three delayed, one reserved";
  EXPECT_EQ(wheel.levels[1].slot_ms, 64);
}

}  // namespace
}  // namespace carillon::broker::testing
