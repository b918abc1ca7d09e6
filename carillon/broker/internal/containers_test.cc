// SPDX-License-Identifier: Apache-2.0
// The containers that jobs lie in, against plain ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/broker/histogram.h"
#include "carillon/broker/internal/delayed_front.h"
#include "carillon/broker/internal/extras_table.h"
#include "carillon/broker/internal/job_table.h"
#include "carillon/broker/internal/ready_ages.h"
#include "carillon/broker/internal/ready_heap.h"
#include "carillon/broker/internal/slab.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon::broker::internal {
namespace {

struct Counted {
  explicit Counted(int start) : value(start) { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int value;
  static inline int alive = 0;
};

TEST(Slab, KeepsObjectsUnderTheirIndexes) {
  Random random(1);
  {
    Slab<Counted, 6> slab;
    std::map<std::uint32_t, int> model;
    for (int i = 0; i < 20'000; ++i) {
      // Grows and shrinks in waves, so that chunks come and go.
      const bool grow = random.below(100) < ((i / 2'000) % 2 == 0 ? 70U : 30U);
      if (grow || model.empty()) {
        const std::uint32_t index = slab.make(i);
        ASSERT_TRUE(model.emplace(index, i).second) << "an index is given twice";
      } else {
        auto it = model.lower_bound(static_cast<std::uint32_t>(random.below(slab.index_limit())));
        if (it == model.end()) it = model.begin();
        ASSERT_EQ(slab[it->first].value, it->second);
        slab.destroy(it->first);
        ASSERT_FALSE(slab.contains(it->first));
        model.erase(it);
      }
      ASSERT_EQ(slab.size(), model.size());
      ASSERT_EQ(Counted::alive, static_cast<int>(model.size()));
    }
    std::vector<std::uint32_t> seen;
    slab.for_each([&](std::uint32_t index, Counted& counted) {
      ASSERT_EQ(model.at(index), counted.value);
      seen.push_back(index);
    });
    ASSERT_EQ(seen.size(), model.size());
    // Round the ring: each once.
    std::uint32_t at = kNil;
    for (const auto& [index, value] : model) {
      at = slab.next_after(at);
      ASSERT_EQ(at, index);
    }
    ASSERT_EQ(slab.next_after(at), model.begin()->first);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(Slab, GivesMemoryBackAndFillsLowPlacesFirst) {
  Slab<Counted, 6> slab;
  for (int i = 0; i < 6'400; ++i) slab.make(i);
  for (std::uint32_t i = 0; i < 6'400; ++i) {
    if (i != 3'000) slab.destroy(i);
  }
  EXPECT_EQ(slab.make(1), 0U);
  EXPECT_EQ(slab.next_after(0), 3'000U);
  slab.clear();
  EXPECT_EQ(slab.size(), 0U);
  EXPECT_EQ(slab.next_after(5), kNil);
}

TEST(JobTable, FindsJobsByIdAndForgetsThem) {
  JobTable jobs;
  std::set<JobId> ids;
  Random random(2);
  for (JobId id = 1; id < 100'000; ++id) {
    jobs.add(id);
    ids.insert(id);
    while (ids.size() > 1'000 || (random.one_in(50) && !ids.empty())) {
      auto it = ids.lower_bound(random.below(id));
      if (it == ids.end()) it = ids.begin();
      Job* job = jobs.find(*it);
      ASSERT_NE(job, nullptr);
      ASSERT_EQ(job->id, *it);
      if (random.one_in(2)) ++jobs.mutable_history(*job).kicks;
      jobs.remove(*job);
      ASSERT_EQ(jobs.find(*it), nullptr);
      ids.erase(it);
    }
  }
  EXPECT_EQ(jobs.size(), ids.size());
}

TEST(JobTable, ListsKeepTheirOrder) {
  JobTable jobs;
  JobList list;
  std::vector<JobId> model;
  Random random(3);
  for (JobId id = 1; id < 2'000; ++id) {
    jobs.push_back(list, jobs.add(id));
    model.push_back(id);
    if (random.one_in(3)) {
      const auto which = model.begin() + static_cast<std::ptrdiff_t>(random.below(model.size()));
      jobs.unlink(list, *jobs.find(*which));
      model.erase(which);
    }
  }
  std::vector<JobId> listed;
  for (std::uint32_t i = list.first; i != kNil; i = jobs[i].next) listed.push_back(jobs[i].id);
  EXPECT_EQ(listed, model);
  EXPECT_EQ(list.count, model.size());
}

TEST(Millis48, HoldsAnyTimeOfTheTimeline) {
  Millis48 ms;
  EXPECT_EQ(ms.get(), 0);
  for (const std::int64_t value : {std::int64_t{1}, std::int64_t{0xffff'ffff} * 1'000,
                                   ceil_ms(WallTime::max()), (std::int64_t{1} << 48) - 1}) {
    ms.set(value);
    EXPECT_EQ(ms.get(), value);
  }
  ms.set(-1);
  EXPECT_EQ(ms.get(), 0);
}

TEST(ReadyHeap, GivesTheSmallestPriorityThenTheSmallestId) {
  Random random(4);
  JobTable jobs;
  ReadyHeap heap;
  std::set<std::pair<std::uint32_t, JobId>> model;
  for (JobId id = 1; id < 20'000; ++id) {
    Job& job = jobs.add(id);
    job.priority = static_cast<std::uint32_t>(random.below(random.one_in(2) ? 4 : 4'000'000'000));
    heap.push(jobs, job);
    model.emplace(job.priority, id);
    while (!model.empty() && random.below(100) < 48) {
      // Mostly the top, sometimes any.
      auto it = model.begin();
      if (random.one_in(4)) {
        it = model.lower_bound({static_cast<std::uint32_t>(random.below(4)), random.below(id)});
        if (it == model.end()) it = model.begin();
      } else {
        ASSERT_EQ(jobs[heap.top()].id, it->second);
      }
      heap.remove(jobs, *jobs.find(it->second));
      model.erase(it);
    }
    ASSERT_EQ(heap.size(), model.size());
  }
  heap.check(jobs);
  while (!model.empty()) {
    ASSERT_EQ(heap.top_key().id, model.begin()->second);
    heap.remove(jobs, jobs[heap.top()]);
    model.erase(model.begin());
  }
  EXPECT_TRUE(heap.empty());
}

TEST(ReadyAges, KnowTheOldestWhateverComesAndGoes) {
  Random random(8);
  ReadyAges ages;
  std::multiset<std::uint32_t> model;
  // Across the wrap.
  std::int64_t now_ms = (std::int64_t{0xffff'ff00} << 8) + 7;
  for (int i = 0; i < 50'000; ++i) {
    now_ms += static_cast<std::int64_t>(random.below(400));
    const std::uint64_t what = random.below(100);
    if (what < ((i / 5'000) % 2 == 0 ? 60U : 40U) || model.empty()) {
      ages.enter(ReadyAges::moment(now_ms));
      model.insert(ReadyAges::moment(now_ms));
    } else {
      // Mostly the oldest, sometimes any.
      const std::uint32_t oldest =
          ReadyAges::moment(now_ms) - static_cast<std::uint32_t>(ages.oldest_age_ms(now_ms) >> 8);
      auto it = model.find(oldest);
      ASSERT_NE(it, model.end());
      if (random.one_in(3)) {
        it = model.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(random.below(model.size())));
      }
      ages.leave(*it);
      model.erase(it);
    }
    ASSERT_EQ(ages.count(), model.size());
    std::uint32_t most = 0;
    for (const std::uint32_t moment : model) {
      most = std::max(most, ReadyAges::moment(now_ms) - moment);
    }
    ASSERT_EQ(ages.oldest_age_ms(now_ms), std::int64_t{most} << 8);
    if (model.size() > 300) {
      ages.clear();
      model.clear();
    }
  }
}

TEST(ExtrasTable, FindsJobsByTheirKeysAndDates) {
  JobTable jobs;
  ExtrasTable table;
  Job& first = jobs.add(1);
  first.tube = 3;
  Job& second = jobs.add(2);
  second.tube = 4;
  JobExtras extras;
  extras.key = "k";
  extras.due_at_ms = 5;
  table.set(first, std::make_shared<const JobExtras>(extras));
  extras.due_at_ms.reset();
  table.set(second, std::make_shared<const JobExtras>(extras));
  EXPECT_EQ(table.find(3, "k"), first.index);
  EXPECT_EQ(table.find(4, "k"), second.index);
  EXPECT_EQ(table.find(5, "k"), kNil);
  EXPECT_EQ(table.by_calendar().size(), 1U);
  // Others instead, whose key is another string.
  table.set(first, std::make_shared<const JobExtras>(extras));
  EXPECT_EQ(table.find(3, std::string("k")), first.index);
  EXPECT_TRUE(table.by_calendar().empty());
  table.set(first, std::make_shared<const JobExtras>());
  EXPECT_FALSE(first.has_extras) << "extras with nothing in them";
  EXPECT_EQ(table.find(3, "k"), kNil);
  table.remove(second);
  EXPECT_EQ(table.size() + table.keys(), 0U);
}

TEST(Histogram, CountsByPowersOfTwo) {
  Histogram histogram;
  for (const std::uint64_t value : {0U, 1U, 2U, 3U, 1'000U}) histogram.add(value);
  histogram.add(~std::uint64_t{0} / 2);
  EXPECT_EQ(histogram.counts[0], 1U);
  EXPECT_EQ(histogram.counts[1], 1U);
  EXPECT_EQ(histogram.counts[2], 2U);
  EXPECT_EQ(histogram.counts[10], 1U);
  EXPECT_EQ(histogram.counts[Histogram::kBuckets - 1], 1U);
  EXPECT_EQ(histogram.quantile(0.5), 3U);
  EXPECT_EQ(histogram.quantile(0), 0U);
  EXPECT_EQ(Histogram().quantile(0.99), 0U);
}

class DelayedFrontTest : public ::testing::Test {
 protected:
  void add(Tick due) {
    Job& job = jobs.add(++last_id);
    job.state = JobState::kDelayed;
    wheel.schedule(job, due);
    jobs.push_back(delayed, job);
    front.note(jobs, job);
    model.insert(due_key(job));
  }
  void remove(DueKey key) {
    Job& job = *jobs.find(key.id);
    wheel.cancel(job);
    jobs.unlink(delayed, job);
    jobs.remove(job);
    model.erase(key);
  }
  void expect_soonest() {
    const std::uint32_t soonest = front.soonest(jobs, delayed);
    ASSERT_EQ(soonest == kNil, model.empty());
    if (soonest != kNil) {
      ASSERT_EQ(jobs[soonest].id, model.begin()->id);
    }
  }

  HierarchicalWheel wheel;
  JobTable jobs;
  JobList delayed;
  DelayedFront front;
  std::set<DueKey> model;
  JobId last_id = 0;
};

TEST_F(DelayedFrontTest, KnowsTheSoonestWhateverComesAndGoes) {
  Random random(5);
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t what = random.below(100);
    const bool growing = (i / 3'000) % 2 == 0;
    if (what < (growing ? 60U : 30U) || model.empty()) {
      add(1 + random.below(random.one_in(10) ? 50 : 100'000));
    } else if (what < 75) {
      remove(*model.begin());
    } else if (what < 90) {
      auto it = model.lower_bound({static_cast<std::int64_t>(random.below(100'000)), 0});
      remove(it == model.end() ? *model.begin() : *it);
    } else if (what < 98) {
      expect_soonest();
    } else if (!model.empty()) {
      const DueKey key{static_cast<std::int64_t>(random.below(100'000)), random.below(last_id)};
      const std::uint64_t at_most = random.below(2'000);
      const auto before =
          static_cast<std::uint64_t>(std::distance(model.begin(), model.lower_bound(key)));
      ASSERT_EQ(front.count_before(jobs, delayed, key, at_most), std::min(before, at_most));
    }
    if (i % 1'000 == 0) front.check(jobs, delayed);
    if (HasFatalFailure()) return;
  }
}

TEST_F(DelayedFrontTest, TakingAllInOrderWalksTheListSeldom) {
  Random random(6);
  for (int i = 0; i < 20'000; ++i) add(1 + random.below(1'000'000));
  while (!model.empty()) {
    expect_soonest();
    if (HasFatalFailure()) return;
    remove(*model.begin());
  }
  expect_soonest();
}

}  // namespace
}  // namespace carillon::broker::internal
