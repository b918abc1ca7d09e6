// SPDX-License-Identifier: Apache-2.0
// How a store reads jobs, one or many at once: more of StoreConformance.
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "carillon/store/store_conformance.h"

namespace carillon::store::testing {
namespace {

using broker::CommitSeq;
using broker::FarChunk;
using broker::JobId;
using broker::JobRecord;
using broker::JobState;
using broker::Place;
using broker::StoredJob;

using Fetched = Result<std::optional<StoredJob>>;

}  // namespace

TEST_P(StoreConformance, AReadSeesWhatWasSubmittedBeforeItWithoutWaiting) {
  // Submitted at once; nothing is waited for in between.
  constexpr JobId kJobs = 100;
  std::vector<std::promise<bool>> found(kJobs + 1);
  std::promise<std::size_t> scanned;
  std::promise<void> durable;
  for (JobId id = 1; id <= kJobs; ++id) {
    auto batch = make_batch({put(far_record(id, 1, 5), Place::kFar, std::to_string(id))});
    batch->seq = driver_.next_seq();
    model_.apply(*batch);
    const bool last = id == kJobs;
    driver_.store().commit(std::move(batch), [&durable, last](CommitSeq, Result<void> result) {
      EXPECT_TRUE(result.has_value());
      if (last) durable.set_value();
    });
    driver_.store().fetch({{id, std::nullopt}}, [&found, id](std::vector<Fetched> jobs) {
      const Fetched& job = jobs.at(0);
      found[id].set_value(job && *job && (*job)->body.view() == std::to_string(id));
    });
  }
  driver_.store().scan_far(1, {0, 0}, 5, 1'000, [&scanned](Result<FarChunk> chunk) {
    scanned.set_value(chunk ? chunk->jobs.size() : 0);
  });
  for (JobId id = 1; id <= kJobs; ++id) EXPECT_TRUE(found[id].get_future().get()) << id;
  EXPECT_EQ(scanned.get_future().get(), kJobs);
  durable.get_future().get();
  expect_holds(driver_, model_, "all there");
}

TEST_P(StoreConformance, ManyJobsAreReadAtOnceAndAnsweredInTheOrderAsked) {
  JobRecord settled = far_record(3, 1, 7);
  commit(make_batch({put(make_record(1), Place::kNear, "a"), put(make_record(2), Place::kNear, ""),
                     put(settled, Place::kFar, "c"), put(far_record(4, 1, 9), Place::kFar, "d")}));
  settled.state = JobState::kReady;
  settled.due_ms = 0;
  settled.body_size = 1;
  commit(make_batch({settle(settled, 7)}));
  const std::vector<Fetched> jobs = driver_.fetch({{4, std::nullopt},
                                                   {3, Place::kSettled},
                                                   {9, Place::kNear},
                                                   {1, Place::kNear},
                                                   {2, Place::kNear},
                                                   {9, Place::kSettled},
                                                   {3, std::nullopt},
                                                   {1, std::nullopt}});
  std::vector<std::string> found;
  for (const Fetched& job : jobs) {
    ASSERT_TRUE(job);
    found.push_back(!*job ? "none"
                          : std::to_string((*job)->record.id) + std::string((*job)->body.view()));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"4d", "3c", "none", "1a", "2", "none", "3c", "1a"}));
  EXPECT_EQ((*jobs[3])->record.body_size, 1U);
  EXPECT_EQ((*jobs[6])->record.state, JobState::kReady) << "its record as it is now";
  EXPECT_TRUE(driver_.fetch(std::vector<broker::WantedJob>{}).empty());
}

// Jobs put one after the other may be read in another way than those far apart.
TEST_P(StoreConformance, NeighboursWithGapsAreReadAsWellAsStrangers) {
  constexpr JobId kJobs = 300;
  for (JobId id = 1; id <= kJobs; ++id) {
    commit(make_batch({put(make_record(id), Place::kNear, std::to_string(id))}));
    if (id == kJobs / 2) restart();
  }
  const auto is_erased = [](JobId id) { return id % 3 == 0 || (id > 180 && id < 230); };
  for (JobId id = 1; id <= kJobs; ++id) {
    if (is_erased(id)) commit(make_batch({erase_near(id, false)}));
  }
  for (const JobId step : {1, 2, 7, 40}) {
    std::vector<broker::WantedJob> wanted;
    for (JobId id = kJobs + 20; id > step; id -= step) {
      wanted.push_back({id, Place::kNear});
      if (id % 5 == 0) wanted.push_back({id, Place::kNear});
    }
    const std::vector<Fetched> jobs = driver_.fetch(wanted);
    ASSERT_EQ(jobs.size(), wanted.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const JobId id = wanted[i].id;
      ASSERT_TRUE(jobs[i]) << jobs[i].error().message;
      ASSERT_EQ(jobs[i]->has_value(), id <= kJobs && !is_erased(id)) << id << ", step " << step;
      if (!*jobs[i]) continue;
      EXPECT_EQ((*jobs[i])->record.id, id);
      EXPECT_EQ((*jobs[i])->body.view(), std::to_string(id));
    }
  }
}

}  // namespace carillon::store::testing
