// SPDX-License-Identifier: Apache-2.0
// Lists that are longer than what is walked over in one turn: pages behind the first are taken from
// what an earlier walk has found, and a job that is there all the while is on one of them.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/broker/internal/list_runs.h"
#include "carillon/broker/testing/commands.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;

constexpr int kMany = 12'000;  // Some three turns of walking.

class BrokerLongList : public ::testing::Test {
 protected:
  // Manual: the other looks through all jobs after each command.
  World world{{}, true};
  SessionId s = world.connect_bare();

  void put_many(Span step) {
    for (int i = 0; i < kMany; ++i) {
      world.put(s, "default", "x", step * (1 + i % 50), static_cast<std::uint32_t>(i % 3));
    }
    world.commit();
  }

  /// The next page, and whether it was there at once: a walk over all takes several turns.
  std::pair<JobPage, bool> page(const ListQuery& query, std::string_view tube) {
    auto reply = world.run(s, list_command(tube, query));
    const bool at_once = reply.has_value();
    for (int turn = 0; !reply && turn < 100; ++turn) {
      world.broker().advance(world.now(), 1'000);
      if (world.answered(s)) reply = world.answer(s);
    }
    CARILLON_CHECK(reply && reply->answer == Answer::kListed, "a list failed");
    return {std::get<JobPage>(std::move(*reply->detail)), at_once};
  }
  static ListQuery in_state(JobState state, std::size_t limit) {
    ListQuery query;
    query.state = state;
    query.limit = limit;
    return query;
  }
};

TEST_F(BrokerLongList, PagesBehindTheFirstNeedNoWalk) {
  put_many(seconds(1));
  put_many(Span::zero());
  for (const JobState state : {JobState::kDelayed, JobState::kReady}) {
    for (const std::string_view tube : {"default", ""}) {
      ListQuery query = in_state(state, 500);
      std::set<JobId> seen;
      std::pair<std::int64_t, JobId> last{INT64_MIN, 0};
      int pages = 0;
      for (;;) {
        const auto [one, at_once] = page(query, tube);
        EXPECT_EQ(at_once, pages > 0) << "page " << pages;
        ++pages;
        for (const JobView& job : one.jobs) {
          EXPECT_TRUE(seen.insert(job.stats.id).second) << job.stats.id << " twice";
          const std::pair key{job.due_at_ms.value_or(0), job.stats.id};
          EXPECT_LT(last, key);
          last = key;
        }
        if (!one.next) break;
        query.after = *one.next;
      }
      EXPECT_EQ(seen.size(), std::size_t{kMany});
      EXPECT_EQ(pages, kMany / 500);
    }
  }
}

TEST_F(BrokerLongList, AListingThatBeginsSeesWhatIsThere) {
  put_many(seconds(10));
  const ListQuery query = in_state(JobState::kDelayed, 10);
  page(query, "default");
  world.put(s, "default", "y", seconds(1));
  world.commit();
  const JobId sooner = world.answer(s)->id;
  EXPECT_EQ(page(query, "default").first.jobs.front().stats.id, sooner);
  // Another filter is another listing.
  ListQuery other = query;
  other.key_prefix = "none";
  other.after = {world.now_ms(), 1};
  EXPECT_TRUE(page(other, "default").first.jobs.empty());
}

/// Jobs are put, deleted, changed, fall due and come near from afar between the pages.
TEST_F(BrokerLongList, WhatIsThereAllTheWhileIsOnOnePage) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    World big(far_options());
    const SessionId a = big.connect();
    Random random(seed);
    std::set<JobId> stay;
    for (int i = 0; i < 3'500; ++i) {
      // The horizon is a minute: of those beyond it many come near while the listing goes on.
      const Span delay = milliseconds(random.between(20'000, 80'000));
      const auto reply = big.put(a, "default", "x", delay);
      stay.insert(reply->id);
    }
    ListQuery query = in_state(JobState::kDelayed, 150);
    std::map<JobId, int> seen;
    std::set<JobId> touched;
    for (;;) {
      auto reply = big.run(a, list_command("default", query));
      for (int turn = 0; !reply && turn < 100; ++turn) {
        big.pass(Span::zero());
        if (big.answered(a)) reply = big.answer(a);
      }
      ASSERT_TRUE(reply);
      const auto& one = std::get<JobPage>(*reply->detail);
      for (const JobView& job : one.jobs) ++seen[job.stats.id];
      if (!one.next) break;
      query.after = *one.next;
      big.pass(milliseconds(random.between(0, 400)));
      for (int i = 0; i < 5; ++i) {
        const auto at = stay.lower_bound(static_cast<JobId>(random.between(1, 3'500)));
        if (at == stay.end()) continue;
        touched.insert(*at);
        if (random.one_in(2)) {
          big.by_id(a, Verb::kDelete, *at);
        } else {
          big.run(a, change_delay(*at, seconds(random.between(1, 500))));
        }
        stay.erase(at);
        big.put(a, "default", "new", seconds(random.between(30, 300)));
      }
    }
    std::size_t missing = 0;
    for (const JobId id : stay) {
      const auto found = seen.find(id);
      missing += found == seen.end() ? 1 : 0;
      EXPECT_LE(found == seen.end() ? 1 : found->second, 1) << id << " seed " << seed;
    }
    EXPECT_EQ(missing, 0U) << "seed " << seed;
  }
}

TEST(ListRuns, KeepFewAndForgetThem) {
  internal::ListRuns runs;
  const auto run = [](TubeNumber tube) {
    internal::ListRun made;
    made.tube = tube;
    return made;
  };
  for (TubeNumber tube = 1; tube <= 6; ++tube) runs.keep(run(tube), tube);
  EXPECT_EQ(runs.find(1, {}, {1, 1}, 10), nullptr) << "more than kRuns";
  EXPECT_NE(runs.find(6, {}, {1, 1}, 10), nullptr);
  EXPECT_EQ(runs.find(5, {}, {1, 1}, 10 + internal::ListRuns::kKeptMs), nullptr);
  EXPECT_EQ(runs.find(6, {}, {1, 1}, 11 + internal::ListRuns::kKeptMs), nullptr);
  EXPECT_TRUE(runs.empty());
}

TEST(ListRuns, ARunHasAllUpToItsBound) {
  Random random(7);
  internal::ListRun run;
  std::vector<internal::DueKey> all;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    all.push_back({random.between(0, 50'000), i});
    run.collect(all.back(), 0);
  }
  run.sort();
  std::sort(all.begin(), all.end());
  ASSERT_EQ(run.entries.size(), internal::ListRun::kMost);
  for (std::size_t i = 0; i < run.entries.size(); ++i) ASSERT_EQ(run.entries[i].key, all[i]);
  EXPECT_EQ(run.bound, all[internal::ListRun::kMost]);
  EXPECT_TRUE(run.covers(all[100]));
  EXPECT_FALSE(run.covers(run.bound));
}

}  // namespace
}  // namespace carillon::broker::testing
