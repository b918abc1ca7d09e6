// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/store_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <limits>
#include <memory>
#include <utility>

namespace carillon::store::testing {

using broker::Batch;
using broker::Body;
using broker::CommitSeq;
using broker::FarChunk;
using broker::FarCursor;
using broker::JobId;
using broker::JobRecord;
using broker::JobState;
using broker::Mutation;
using broker::PartitionRecord;
using broker::Place;
using broker::StoredJob;
using broker::TubeNumber;
using broker::TubeRecord;

JobRecord make_record(JobId id, TubeNumber tube) {
  JobRecord record;
  record.id = id;
  record.tube = tube;
  record.priority = 1'024;
  record.ttr_ms = 60'000;
  record.created_ms = 1'700'000'000'000 + static_cast<std::int64_t>(id % 1'000);
  return record;
}

JobRecord far_record(JobId id, TubeNumber tube, std::int64_t due_ms) {
  JobRecord record = make_record(id, tube);
  record.state = JobState::kDelayed;
  record.due_ms = due_ms;
  return record;
}

Mutation put(JobRecord record, Place place, std::string_view body) {
  Mutation mutation;
  mutation.kind = Mutation::Kind::kPut;
  mutation.place = place;
  record.body_size = static_cast<std::uint32_t>(body.size());
  mutation.job = record;
  mutation.body = Body(body);
  return mutation;
}

Mutation update(const JobRecord& record, Place place) {
  Mutation mutation;
  mutation.kind = Mutation::Kind::kUpdate;
  mutation.place = place;
  mutation.job = record;
  return mutation;
}

Mutation settle(const JobRecord& record, std::int64_t far_due_ms) {
  Mutation mutation;
  mutation.kind = Mutation::Kind::kSettle;
  mutation.place = Place::kSettled;
  mutation.far_due_ms = far_due_ms;
  mutation.job = record;
  return mutation;
}

Mutation move(const JobRecord& record, std::int64_t far_due_ms) {
  Mutation mutation;
  mutation.kind = Mutation::Kind::kMove;
  mutation.place = Place::kFar;
  mutation.far_due_ms = far_due_ms;
  mutation.job = record;
  return mutation;
}

Mutation erase_near(JobId id, bool updated) {
  Mutation mutation;
  mutation.kind = Mutation::Kind::kErase;
  mutation.place = Place::kNear;
  mutation.updated = updated;
  mutation.job.id = id;
  return mutation;
}

Mutation erase_settled(JobId id) {
  Mutation mutation;
  mutation.kind = Mutation::Kind::kErase;
  mutation.place = Place::kSettled;
  mutation.updated = true;
  mutation.job.id = id;
  return mutation;
}

Mutation erase_far(JobId id, TubeNumber tube, std::int64_t far_due_ms) {
  Mutation mutation;
  mutation.kind = Mutation::Kind::kErase;
  mutation.place = Place::kFar;
  mutation.far_due_ms = far_due_ms;
  mutation.job.id = id;
  mutation.job.tube = tube;
  return mutation;
}

Mutation erase_far(const StoredJob& stored) {
  Mutation mutation = erase_far(stored.record.id, stored.record.tube, stored.record.due_ms);
  mutation.job.extras = stored.record.extras;
  mutation.updated = stored.updated;
  return mutation;
}

broker::SharedExtras with_key(std::string key) {
  auto extras = std::make_shared<broker::JobExtras>();
  extras->key = std::move(key);
  return extras;
}

std::unique_ptr<Batch> make_batch(std::vector<Mutation> mutations) {
  auto batch = std::make_unique<Batch>();
  batch->mutations = std::move(mutations);
  for (const Mutation& mutation : batch->mutations) batch->bytes += mutation.body.size();
  return batch;
}

void add_tube(Batch& batch, TubeRecord tube) {
  Mutation& mutation = batch.mutations.emplace_back();
  mutation.kind = Mutation::Kind::kTube;
  mutation.detail = static_cast<std::uint32_t>(batch.tubes.size());
  batch.tubes.push_back(std::move(tube));
}

void add_tube_erase(Batch& batch, TubeNumber number) {
  add_tube(batch, TubeRecord{});
  batch.mutations.back().kind = Mutation::Kind::kEraseTube;
  batch.tubes.back().number = number;
}

void add_partition(Batch& batch, PartitionRecord partition) {
  Mutation& mutation = batch.mutations.emplace_back();
  mutation.kind = Mutation::Kind::kPartition;
  mutation.detail = static_cast<std::uint32_t>(batch.partitions.size());
  batch.partitions.push_back(std::move(partition));
}

void add_schedule(Batch& batch, Mutation::Kind kind, broker::ScheduleRecord record) {
  Mutation& mutation = batch.mutations.emplace_back();
  mutation.kind = kind;
  mutation.detail = static_cast<std::uint32_t>(batch.schedules.size());
  batch.schedules.push_back(std::move(record));
}

std::unique_ptr<Batch> copy(const Batch& batch) { return std::make_unique<Batch>(batch); }

void Recovered::on_partition(const PartitionRecord& record) {
  EXPECT_FALSE(partition.has_value()) << "reported twice";
  EXPECT_TRUE(tubes.empty() && jobs.empty()) << "the partition comes first";
  partition = record;
}

void Recovered::on_tube(const TubeRecord& record) {
  EXPECT_TRUE(jobs.empty()) << "tubes come before jobs";
  tubes.push_back(record);
}

void Recovered::on_schedule(const broker::ScheduleRecord& record) {
  EXPECT_TRUE(jobs.empty()) << "schedules come before jobs";
  EXPECT_TRUE(schedules.emplace(record.settings.name, record).second) << "reported twice";
}

void Recovered::on_job(StoredJob job) {
  EXPECT_TRUE(jobs.empty() || jobs.back().record.id < job.record.id) << "jobs come in id order";
  jobs.push_back(std::move(job));
}

Result<void> StoreDriver::commit(std::unique_ptr<Batch> batch) {
  std::promise<Result<void>> told;
  batch->seq = next_seq();
  store_->commit(std::move(batch), [&told, expected = seq_](CommitSeq seq, Result<void> result) {
    EXPECT_EQ(seq, expected);
    told.set_value(std::move(result));
  });
  return told.get_future().get();
}

Result<std::optional<StoredJob>> StoreDriver::fetch(JobId id) {
  return std::move(fetch({{id, std::nullopt}}).front());
}

std::vector<Result<std::optional<StoredJob>>> StoreDriver::fetch(
    std::vector<broker::WantedJob> wanted) {
  std::promise<std::vector<Result<std::optional<StoredJob>>>> told;
  store_->fetch(std::move(wanted), [&told](std::vector<Result<std::optional<StoredJob>>> jobs) {
    told.set_value(std::move(jobs));
  });
  return told.get_future().get();
}

Result<FarChunk> StoreDriver::scan(TubeNumber tube, FarCursor from, std::int64_t until_ms,
                                   std::size_t limit) {
  std::promise<Result<FarChunk>> told;
  store_->scan_far(tube, from, until_ms, limit,
                   [&told](Result<FarChunk> chunk) { told.set_value(std::move(chunk)); });
  return told.get_future().get();
}

Result<std::vector<StoredJob>> StoreDriver::scan_all(TubeNumber tube, std::size_t chunk_size) {
  std::vector<StoredJob> jobs;
  FarCursor from{std::numeric_limits<std::int64_t>::min(), 0};
  for (bool more = true; more;) {
    Result<FarChunk> chunk = scan(tube, from, std::numeric_limits<std::int64_t>::max(), chunk_size);
    if (!chunk) return std::move(chunk.error());
    more = chunk->more;
    for (StoredJob& job : chunk->jobs) jobs.push_back(std::move(job));
    if (more) from = {jobs.back().record.due_ms, jobs.back().record.id + 1};
  }
  return jobs;
}

Result<std::optional<broker::FarPlace>> StoreDriver::find_key(TubeNumber tube, std::string key) {
  std::promise<Result<std::optional<broker::FarPlace>>> told;
  store_->find_key(tube, std::move(key), [&told](Result<std::optional<broker::FarPlace>> place) {
    told.set_value(std::move(place));
  });
  return told.get_future().get();
}

Result<void> StoreDriver::recover(Recovered& recovered) { return store_->recover(recovered); }

namespace {

bool same_job(const StoredJob& a, const StoredJob& b) {
  // Recovery may or may not read the body of a near job.
  const bool same_body = !a.body || !b.body || a.body.view() == b.body.view();
  return a.record == b.record && a.place == b.place && a.updated == b.updated && same_body;
}

Recovered near_state(const MemoryState& model) {
  Recovered expected;
  model.read_into(expected);
  return expected;
}

}  // namespace

namespace {

bool same_near_state(const Recovered& recovered, const MemoryState& model) {
  const Recovered expected = near_state(model);
  if (recovered.partition != expected.partition || recovered.tubes != expected.tubes) return false;
  if (recovered.schedules != expected.schedules) return false;
  return std::equal(recovered.jobs.begin(), recovered.jobs.end(), expected.jobs.begin(),
                    expected.jobs.end(), same_job);
}

FarChunk far_state(const MemoryState& model, TubeNumber tube) {
  return model.scan_far(tube, {std::numeric_limits<std::int64_t>::min(), 0},
                        std::numeric_limits<std::int64_t>::max(), model.jobs().size());
}

}  // namespace

bool same_state(StoreDriver& driver, const Recovered& recovered, const MemoryState& model) {
  if (!same_near_state(recovered, model)) return false;
  for (TubeNumber tube = 1; tube <= RandomProgram::kTubes; ++tube) {
    const Result<std::vector<StoredJob>> jobs = driver.scan_all(tube, 1'000);
    const FarChunk expected = far_state(model, tube);
    if (!jobs || !std::equal(jobs->begin(), jobs->end(), expected.jobs.begin(), expected.jobs.end(),
                             same_job)) {
      return false;
    }
  }
  return true;
}

void expect_holds(StoreDriver& driver, const MemoryState& model, const std::string& what) {
  SCOPED_TRACE(what);
  Recovered recovered;
  const Result<void> result = driver.recover(recovered);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(same_near_state(recovered, model))
      << recovered.jobs.size() << " jobs and " << recovered.tubes.size() << " tubes, expected "
      << near_state(model).jobs.size() << " and " << near_state(model).tubes.size();

  std::map<TubeNumber, std::vector<StoredJob>> far;
  for (const auto& [id, entry] : model.jobs()) {
    Result<std::optional<StoredJob>> job = driver.fetch(id);
    ASSERT_TRUE(job.has_value()) << job.error().message;
    ASSERT_TRUE(job->has_value()) << "job " << id << " is missing";
    EXPECT_EQ((*job)->record, entry.record) << "job " << id;
    EXPECT_EQ((*job)->place, entry.place) << "job " << id;
    EXPECT_EQ((*job)->updated, entry.updated) << "job " << id;
    if (const std::string_view key = broker::key_of(entry.record.extras); !key.empty()) {
      const auto place = driver.find_key(entry.record.tube, std::string(key));
      ASSERT_TRUE(place.has_value()) << place.error().message;
      const auto expected = model.find_key(entry.record.tube, std::string(key));
      ASSERT_EQ(place->has_value(), expected.has_value()) << "key " << key;
      if (expected) {
        EXPECT_EQ((*place)->id, expected->id) << "key " << key;
        EXPECT_EQ((*place)->due_ms, expected->due_ms) << "key " << key;
        EXPECT_EQ((*place)->moved, expected->moved) << "key " << key;
      }
    }
    ASSERT_TRUE((*job)->body) << "job " << id;
    EXPECT_EQ((*job)->body.view(), entry.body.view()) << "job " << id;
  }
  for (TubeNumber tube = 0; tube <= RandomProgram::kTubes; ++tube) {
    Result<std::vector<StoredJob>> jobs = driver.scan_all(tube, 7);
    ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
    const FarChunk expected = far_state(model, tube);
    ASSERT_EQ(jobs->size(), expected.jobs.size()) << "far jobs of tube " << tube;
    for (std::size_t i = 0; i < expected.jobs.size(); ++i) {
      EXPECT_EQ((*jobs)[i].record, expected.jobs[i].record);
      EXPECT_EQ((*jobs)[i].place, Place::kFar);
      EXPECT_EQ((*jobs)[i].updated, expected.jobs[i].updated);
    }
  }
}

std::unique_ptr<Batch> RandomProgram::next_batch() {
  auto batch = std::make_unique<Batch>();
  const std::uint64_t mutations = 1 + random_.below(random_.one_in(4) ? 30 : 4);
  for (std::uint64_t i = 0; i < mutations; ++i) {
    auto single = std::make_unique<Batch>();
    add_mutation(*single);
    state_.apply(*single);
    for (Mutation& mutation : single->mutations) {
      if (mutation.kind == Mutation::Kind::kTube || mutation.kind == Mutation::Kind::kEraseTube) {
        mutation.detail = static_cast<std::uint32_t>(batch->tubes.size());
        batch->tubes.push_back(single->tubes.front());
      } else if (mutation.kind == Mutation::Kind::kPartition) {
        mutation.detail = static_cast<std::uint32_t>(batch->partitions.size());
        batch->partitions.push_back(single->partitions.front());
      } else if (!single->schedules.empty()) {
        mutation.detail = static_cast<std::uint32_t>(batch->schedules.size());
        batch->schedules.push_back(single->schedules.front());
      }
      batch->bytes += mutation.body.size();
      batch->mutations.push_back(std::move(mutation));
    }
  }
  return batch;
}

void RandomProgram::add_mutation(Batch& batch) {
  const std::uint64_t choice = random_.below(20);
  if (choice < 8) {
    batch.mutations.push_back(make_put());
  } else if (choice < 10) {
    const Place place = random_.one_in(2) ? Place::kNear : Place::kSettled;
    if (const auto id = pick(place)) {
      batch.mutations.push_back(update(randomised(state_.jobs().at(*id).record), place));
    }
  } else if (choice < 12) {
    if (const auto id = pick(Place::kFar)) {
      const JobRecord record = state_.jobs().at(*id).record;
      if (random_.one_in(2)) {
        batch.mutations.push_back(move(randomised(record), record.due_ms));
      } else {
        batch.mutations.push_back(settle(randomised(record), record.due_ms));
      }
    }
  } else if (choice < 17) {
    const auto place = static_cast<Place>(random_.below(3));
    if (const auto id = pick(place)) {
      const MemoryState::Entry& entry = state_.jobs().at(*id);
      if (place == Place::kNear) {
        // It may say so without need, but not forget it.
        batch.mutations.push_back(erase_near(*id, entry.updated || random_.one_in(8)));
      } else if (place == Place::kSettled) {
        batch.mutations.push_back(erase_settled(*id));
      } else {
        batch.mutations.push_back(erase_far(*state_.find(*id)));
      }
    }
  } else if (choice < 19) {
    TubeRecord tube;
    tube.number = static_cast<TubeNumber>(1 + random_.below(kTubes));
    tube.name = std::string(random_.below(12), static_cast<char>('a' + tube.number));
    tube.far_count = random_.below(1'000);
    tube.far_from_ms = random_.between(-5, kDueSpan);
    tube.paused_until_ms = random_.between(0, 9);
    tube.pause_ms = random_.between(0, 9);
    if (random_.one_in(3)) tube.settings = {random_.below(100), std::string(random_.below(9), 's')};
    if (random_.one_in(4)) tube.far_calendar_ms = random_.between(-9, 9);
    add_tube(batch, tube);
    if (random_.one_in(3)) add_tube_erase(batch, tube.number);
  } else if (random_.one_in(2)) {
    add_schedule_mutation(batch);
  } else {
    PartitionRecord partition;
    partition.next_id = next_id_;
    partition.next_tube = kTubes + 1;
    partition.next_bury_order = random_();
    partition.latest_ms = random_.between(0, kDueSpan);
    partition.anchor.boot_id = std::string(random_.below(40), 'b');
    partition.anchor.offset = Span(random_.between(-1'000, 1'000));
    add_partition(batch, partition);
  }
}

void RandomProgram::add_schedule_mutation(Batch& batch) {
  broker::ScheduleRecord record;
  record.settings.name = "schedule-" + std::to_string(random_.below(5));
  record.settings.tube = "tube";
  record.settings.spec = std::string(random_.below(20), '*');
  record.settings.body = broker::Body(std::string(random_.below(300), 'b'));
  record.settings.priority = static_cast<std::uint32_t>(random_());
  record.settings.ttr_ms = random_.between(0, 1'000'000);
  record.settings.overlap = static_cast<broker::Overlap>(random_.below(3));
  record.settings.missed = static_cast<broker::Missed>(random_.below(2));
  record.settings.jitter_ms = random_.between(0, 86'400'000);
  if (random_.one_in(2)) {
    broker::JobExtras extras;
    extras.content_type = "text/plain";
    extras.max_attempts = static_cast<std::uint32_t>(random_.below(3));
    extras.backoff_jitter = random_.one_in(2);
    record.settings.extras = std::make_shared<const broker::JobExtras>(std::move(extras));
  }
  record.progress.as_of_ms = random_.between(-9, kDueSpan);
  if (random_.one_in(2)) record.progress.due_ms = random_.between(-9, kDueSpan);
  if (random_.one_in(2)) record.progress.queued_ms = random_.between(-9, kDueSpan);
  if (random_.one_in(2)) record.progress.last_ms = random_.between(-9, kDueSpan);
  record.progress.last_job = random_();
  record.progress.runs = random_.below(1'000);
  record.progress.missed = random_.below(1'000);
  record.progress.skipped = random_();
  Mutation::Kind kind = Mutation::Kind::kSchedule;
  if (state_.schedules().contains(record.settings.name) && !random_.one_in(3)) {
    kind = random_.one_in(2) ? Mutation::Kind::kScheduleProgress : Mutation::Kind::kEraseSchedule;
  }
  add_schedule(batch, kind, std::move(record));
}

Mutation RandomProgram::make_put() {
  // Gaps, as partitions that share a folder leave them.
  next_id_ += 1 + random_.below(3);
  JobRecord record = randomised(make_record(next_id_));
  record.tube = static_cast<TubeNumber>(1 + random_.below(kTubes));
  if (random_.one_in(2)) record.extras = some_extras(record.tube);
  std::string body(random_.one_in(10) ? random_.below(20'000) : random_.below(200), 'x');
  for (char& c : body) c = static_cast<char>(random_());
  return put(record, random_.one_in(2) ? Place::kNear : Place::kFar, body);
}

broker::SharedExtras RandomProgram::some_extras(TubeNumber tube) {
  broker::JobExtras extras;
  std::string key = "key-" + std::to_string(random_.below(12));
  if (!state_.find_key(tube, key)) extras.key = std::move(key);
  if (random_.one_in(2)) extras.content_type = "text/plain";
  extras.max_attempts = static_cast<std::uint32_t>(random_.below(3));
  if (random_.one_in(3)) extras.due_at_ms = random_.between(-kDueSpan, kDueSpan);
  return std::make_shared<const broker::JobExtras>(std::move(extras));
}

std::optional<JobId> RandomProgram::pick(Place place) {
  std::vector<JobId> ids;
  for (const auto& [id, entry] : state_.jobs()) {
    if (entry.place == place) ids.push_back(id);
  }
  if (ids.empty()) return std::nullopt;
  return ids[random_.below(ids.size())];
}

JobRecord RandomProgram::randomised(JobRecord record) {
  record.state = static_cast<JobState>(random_.below(3));
  record.priority = static_cast<std::uint32_t>(random_());
  record.due_ms = random_.between(0, kDueSpan);
  record.ttr_ms = static_cast<std::int64_t>(random_.below(1'000'000'000));
  record.delay_ms = random_.one_in(2) ? 0 : random_.between(0, 4'294'967'295'000);
  record.bury_order = random_.one_in(2) ? 0 : random_();
  if (random_.one_in(2)) {
    record.history.reserves = static_cast<std::uint32_t>(random_());
    record.history.kicks = static_cast<std::uint32_t>(random_.below(3));
  }
  return record;
}

}  // namespace carillon::store::testing
