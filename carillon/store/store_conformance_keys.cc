// SPDX-License-Identifier: Apache-2.0
// What a store keeps of keys, moves and extras: more of StoreConformance.
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carillon/store/store_conformance.h"

namespace carillon::store::testing {
namespace {

using broker::FarChunk;
using broker::JobId;
using broker::JobRecord;
using broker::JobState;
using broker::Place;
using broker::StoredJob;
using broker::TubeNumber;
using broker::TubeRecord;

constexpr std::int64_t kMinTime = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxTime = std::numeric_limits<std::int64_t>::max();

using Ids = std::vector<JobId>;

Ids ids_of(const FarChunk& chunk) {
  Ids ids;
  for (const StoredJob& job : chunk.jobs) ids.push_back(job.record.id);
  return ids;
}

}  // namespace

TEST_P(StoreConformance, AFarJobIsFoundByItsKeyAsLongAsItIsFar) {
  JobRecord record = far_record(1, 3, 50);
  record.extras = with_key("order-17");
  JobRecord other = far_record(2, 4, 60);
  other.extras = with_key("order-17");
  JobRecord near = make_record(3, 3);
  near.extras = with_key("near");
  commit(make_batch(
      {put(record, Place::kFar, "a"), put(other, Place::kFar, "b"), put(near, Place::kNear, "c")}));
  EXPECT_EQ((*driver_.find_key(3, "order-17"))->id, 1U);
  EXPECT_EQ((*driver_.find_key(4, "order-17"))->due_ms, 60);
  EXPECT_FALSE((*driver_.find_key(5, "order-17")).has_value());
  EXPECT_FALSE((*driver_.find_key(3, "order-1")).has_value()) << "a prefix is another key";
  EXPECT_FALSE((*driver_.find_key(3, "near")).has_value()) << "near keys are in memory";
  expect_holds(driver_, model_, "put");
  record.body_size = 1;
  commit(make_batch({settle(record, 50)}));
  EXPECT_FALSE((*driver_.find_key(3, "order-17")).has_value());
  commit(make_batch({erase_far(*model_.find(2))}));
  EXPECT_FALSE((*driver_.find_key(4, "order-17")).has_value());
  restart();
  expect_holds(driver_, model_, "restarted");
  EXPECT_FALSE((*driver_.find_key(3, "order-17")).has_value());
}

TEST_P(StoreConformance, AKeyPassesFromOneFarJobToTheNextWithinABatch) {
  JobRecord record = far_record(1, 1, 50);
  record.extras = with_key("k");
  commit(make_batch({put(record, Place::kFar, "a")}));
  for (JobId id = 2; id <= 40; ++id) {
    record.id = id;
    record.due_ms = static_cast<std::int64_t>(id * 7 % 30);
    auto batch = make_batch({erase_far(*model_.find(id - 1)), put(record, Place::kFar, "b")});
    if (id % 5 == 0) {
      // Given up again, and taken by a third.
      batch->mutations.push_back(erase_far(record.id, 1, record.due_ms));
      batch->mutations.back().job.extras = record.extras;
      record.id = ++id;
      batch->mutations.push_back(put(record, Place::kFar, "c"));
    }
    commit(std::move(batch));
    const auto place = driver_.find_key(1, "k");
    ASSERT_TRUE(place && place->has_value()) << id;
    EXPECT_EQ((*place)->id, id);
    EXPECT_EQ((*place)->due_ms, record.due_ms);
  }
  cut_power();
  expect_holds(driver_, model_, "the power failed");
}

TEST_P(StoreConformance, AFarJobThatIsMovedIsFoundInItsNewPlaceAndKeepsItsBody) {
  JobRecord record = far_record(1, 2, 5'000);
  record.extras = with_key("k");
  commit(make_batch({put(record, Place::kFar, "far away")}));
  record.body_size = 8;
  for (const std::int64_t due_ms : {9'000, 1'000, 5'000, 5'000}) {
    const std::int64_t from_ms = model_.find(1)->record.due_ms;
    record.due_ms = due_ms;
    record.priority = static_cast<std::uint32_t>(due_ms);
    commit(make_batch({move(record, from_ms)}));
    expect_holds(driver_, model_, "moved to " + std::to_string(due_ms));
    const Result<FarChunk> chunk = driver_.scan(2, {kMinTime, 0}, kMaxTime, 10);
    EXPECT_EQ(ids_of(*chunk), Ids{1});
    EXPECT_TRUE(chunk->jobs[0].updated);
    EXPECT_EQ(chunk->jobs[0].record, record);
    EXPECT_EQ((*driver_.fetch(1))->body.view(), "far away");
    EXPECT_EQ((*driver_.find_key(2, "k"))->due_ms, due_ms);
  }
  kill();
  expect_holds(driver_, model_, "killed");
  JobRecord second = far_record(2, 2, 7);
  commit(make_batch({put(second, Place::kFar, "x")}));
  second.body_size = 1;
  second.due_ms = 8;
  commit(make_batch({move(second, 7)}));
  commit(make_batch({settle(record, 5'000), erase_far(*model_.find(2))}));
  expect_holds(driver_, model_, "one settled, one erased");
  commit(make_batch({erase_settled(1)}));
  restart();
  expect_holds(driver_, model_, "nothing left");
  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  EXPECT_TRUE(recovered.jobs.empty());
}

TEST_P(StoreConformance, ExtrasAndSettingsComeBackExactly) {
  broker::JobExtras extras;
  extras.key = std::string("odd \0 key\xff", 10);
  extras.content_type = "application/json";
  extras.max_attempts = std::numeric_limits<std::uint32_t>::max();
  extras.backoff_base_ms = 1;
  extras.backoff_cap_ms = kMaxTime;
  extras.backoff_jitter = true;
  extras.due_at_ms = kMinTime;
  extras.schedule = "nightly";
  const auto shared = std::make_shared<const broker::JobExtras>(extras);
  JobRecord near = make_record(1);
  near.extras = shared;
  JobRecord far = far_record(2, 1, 9);
  far.extras = shared;
  auto batch = make_batch({put(near, Place::kNear, "a"), put(far, Place::kFar, "b")});
  TubeRecord tube{1, "t", 1, 9, 0, 0};
  tube.settings = {7, std::string(5'000, '{')};
  tube.far_calendar_ms = -3;
  add_tube(*batch, tube);
  commit(std::move(batch));
  expect_holds(driver_, model_, "put");
  far.body_size = 1;
  near.body_size = 1;
  // Extras may change and vanish.
  auto without_date = extras;
  without_date.due_at_ms.reset();
  near.extras = std::make_shared<const broker::JobExtras>(without_date);
  commit(make_batch({update(near, Place::kNear), settle(far, 9)}));
  restart();
  expect_holds(driver_, model_, "restarted");
  near.extras.reset();
  commit(make_batch({update(near, Place::kNear)}));
  expect_holds(driver_, model_, "without");
}

}  // namespace carillon::store::testing
