// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/memory/memory_disk.h"

#include <algorithm>

#include "carillon/base/check.h"

namespace carillon::store {

using broker::Batch;
using broker::FarChunk;
using broker::FarCursor;
using broker::JobId;
using broker::JobState;
using broker::Mutation;
using broker::Place;
using broker::StoredJob;
using broker::TubeNumber;

void MemoryState::apply(const Batch& batch) {
  for (const Mutation& mutation : batch.mutations) {
    switch (mutation.kind) {
      case Mutation::Kind::kPut: put(mutation); break;
      case Mutation::Kind::kUpdate: update(mutation); break;
      case Mutation::Kind::kSettle: settle(mutation); break;
      case Mutation::Kind::kMove: move(mutation); break;
      case Mutation::Kind::kErase: erase(mutation); break;
      case Mutation::Kind::kTube: {
        CARILLON_CHECK(mutation.detail < batch.tubes.size(), "tube detail ", mutation.detail);
        const broker::TubeRecord& tube = batch.tubes[mutation.detail];
        tubes_[tube.number] = tube;
        break;
      }
      case Mutation::Kind::kEraseTube: {
        CARILLON_CHECK(mutation.detail < batch.tubes.size(), "tube detail ", mutation.detail);
        const TubeNumber number = batch.tubes[mutation.detail].number;
        CARILLON_CHECK(tubes_.erase(number) == 1, "erase of tube ", number,
                       ", which is not stored");
        break;
      }
      case Mutation::Kind::kPartition:
        CARILLON_CHECK(mutation.detail < batch.partitions.size(), "detail ", mutation.detail);
        partition_ = batch.partitions[mutation.detail];
        break;
      case Mutation::Kind::kSchedule:
      case Mutation::Kind::kScheduleProgress:
      case Mutation::Kind::kEraseSchedule:
        CARILLON_CHECK(mutation.detail < batch.schedules.size(), "detail ", mutation.detail);
        set_schedule(mutation.kind, batch.schedules[mutation.detail]);
        break;
    }
  }
}

void MemoryState::set_schedule(Mutation::Kind kind, const broker::ScheduleRecord& record) {
  const std::string& name = record.settings.name;
  CARILLON_CHECK(!name.empty(), "a nameless schedule");
  if (kind == Mutation::Kind::kSchedule) {
    schedules_[name] = record;
    return;
  }
  const auto found = schedules_.find(name);
  CARILLON_CHECK(found != schedules_.end(), "schedule ", name, " is not stored");
  if (kind == Mutation::Kind::kEraseSchedule) {
    schedules_.erase(found);
  } else {
    found->second.progress = record.progress;
  }
}

void MemoryState::put(const Mutation& mutation) {
  const broker::JobRecord& job = mutation.job;
  CARILLON_CHECK(job.id != 0, "put of job 0");
  CARILLON_CHECK(job.state != JobState::kReserved, "job ", job.id, " stored as reserved");
  CARILLON_CHECK(mutation.place != Place::kSettled, "put of job ", job.id, " as settled");
  CARILLON_CHECK(mutation.body, "put of job ", job.id, " without a body");
  CARILLON_CHECK(mutation.body.size() == job.body_size, "job ", job.id, " has a body of ",
                 mutation.body.size(), " bytes but says ", job.body_size);
  const bool added =
      jobs_.try_emplace(job.id, Entry{job, mutation.body, mutation.place, false}).second;
  CARILLON_CHECK(added, "put of job ", job.id, ", which is stored already");
  if (mutation.place != Place::kFar) return;
  far_[job.tube][FarKey(job.due_ms, job.id)] = job.id;
  add_key(job);
}

void MemoryState::add_key(const broker::JobRecord& job) {
  const std::string_view key = broker::key_of(job.extras);
  if (key.empty()) return;
  const bool added = keys_.try_emplace({job.tube, std::string(key)}, job.id).second;
  CARILLON_CHECK(added, "far job ", job.id, " has the key ", key, " of another");
}

/// Takes a job from its far place.
MemoryState::Entry& MemoryState::leave_far(const Mutation& mutation, const char* what) {
  const broker::JobRecord& job = mutation.job;
  const auto found = jobs_.find(job.id);
  CARILLON_CHECK(found != jobs_.end(), what, " of job ", job.id, ", which is not stored");
  Entry& entry = found->second;
  CARILLON_CHECK(entry.place == Place::kFar, what, " of job ", job.id, ", which is not far");
  const std::size_t removed = far_[job.tube].erase(FarKey(mutation.far_due_ms, job.id));
  CARILLON_CHECK(removed == 1, what, " of job ", job.id, ": not due at ", mutation.far_due_ms,
                 " in tube ", job.tube);
  const std::string_view key = broker::key_of(entry.record.extras);
  CARILLON_CHECK(key == broker::key_of(job.extras), what, " of job ", job.id, " without its key ",
                 key);
  if (!key.empty()) keys_.erase({job.tube, std::string(key)});
  return entry;
}

void MemoryState::move(const Mutation& mutation) {
  const broker::JobRecord& job = mutation.job;
  Entry& entry = leave_far(mutation, "move");
  CARILLON_CHECK(job.body_size == entry.record.body_size && mutation.place == Place::kFar,
                 "move of job ", job.id, " changes its body size or place");
  entry.record = job;
  entry.updated = true;
  far_[job.tube][FarKey(job.due_ms, job.id)] = job.id;
  add_key(job);
}

void MemoryState::update(const Mutation& mutation) {
  const broker::JobRecord& job = mutation.job;
  CARILLON_CHECK(job.state != JobState::kReserved, "job ", job.id, " stored as reserved");
  const auto found = jobs_.find(job.id);
  CARILLON_CHECK(found != jobs_.end(), "update of job ", job.id, ", which is not stored");
  Entry& entry = found->second;
  CARILLON_CHECK(entry.place != Place::kFar, "update of job ", job.id, ", which is far");
  CARILLON_CHECK(entry.place == mutation.place, "update of job ", job.id, " at the wrong place");
  CARILLON_CHECK(job.body_size == entry.record.body_size, "update of job ", job.id,
                 " changes its body size");
  entry.record = job;
  entry.updated = true;
}

void MemoryState::settle(const Mutation& mutation) {
  const broker::JobRecord& job = mutation.job;
  CARILLON_CHECK(job.state != JobState::kReserved, "job ", job.id, " stored as reserved");
  Entry& entry = leave_far(mutation, "settle");
  CARILLON_CHECK(job.body_size == entry.record.body_size, "settle of job ", job.id,
                 " changes its body size");
  entry.record = job;
  entry.place = Place::kSettled;
  entry.updated = true;
}

void MemoryState::erase(const Mutation& mutation) {
  const JobId id = mutation.job.id;
  const auto found = jobs_.find(id);
  CARILLON_CHECK(found != jobs_.end(), "erase of job ", id, ", which is not stored");
  const Entry& entry = found->second;
  CARILLON_CHECK(entry.place == mutation.place, "erase of job ", id, " at the wrong place");
  CARILLON_CHECK(mutation.updated || !entry.updated, "erase of job ", id, " forgets its update");
  if (entry.place == Place::kFar) leave_far(mutation, "erase");
  jobs_.erase(found);
}

FarChunk MemoryState::scan_far(TubeNumber tube, FarCursor from, std::int64_t until_ms,
                               std::size_t limit) const {
  FarChunk chunk;
  const auto jobs = far_.find(tube);
  if (jobs == far_.end()) return chunk;
  for (auto at = jobs->second.lower_bound(FarKey(from.due_ms, from.id)); at != jobs->second.end();
       ++at) {
    if (at->first.first > until_ms) {
      chunk.next_due_ms = at->first.first;
      break;
    }
    if (chunk.jobs.size() >= limit) {
      chunk.more = true;
      break;
    }
    const Entry& entry = jobs_.at(at->second);
    chunk.jobs.push_back(StoredJob{entry.record, Place::kFar, {}, entry.updated});
  }
  return chunk;
}

std::optional<StoredJob> MemoryState::find(JobId id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return std::nullopt;
  const Entry& entry = found->second;
  return StoredJob{entry.record, entry.place, entry.body, entry.updated};
}

std::optional<broker::FarPlace> MemoryState::find_key(TubeNumber tube,
                                                      const std::string& key) const {
  const auto found = keys_.find({tube, key});
  if (found == keys_.end()) return std::nullopt;
  const Entry& entry = jobs_.at(found->second);
  return broker::FarPlace{found->second, entry.record.due_ms, entry.updated};
}

void MemoryState::read_into(broker::RecoverySink& sink) const {
  if (partition_) sink.on_partition(*partition_);
  for (const auto& [number, tube] : tubes_) sink.on_tube(tube);
  for (const auto& [name, schedule] : schedules_) sink.on_schedule(schedule);
  for (const auto& [id, entry] : jobs_) {
    if (entry.place == Place::kFar) continue;
    const bool near = entry.place == Place::kNear;
    sink.on_job(
        StoredJob{entry.record, entry.place, near ? entry.body : broker::Body(), entry.updated});
  }
}

void MemoryDisk::write(std::shared_ptr<const Batch> batch) {
  visible_.apply(*batch);
  unsynced_.push_back(std::move(batch));
}

void MemoryDisk::sync_one() {
  durable_.apply(*unsynced_.front());
  unsynced_.pop_front();
}

void MemoryDisk::crash() {
  if (unsynced_.empty()) return;
  const std::size_t survivors =
      survivors_ ? std::min(survivors_(unsynced_.size()), unsynced_.size()) : 0;
  for (std::size_t i = 0; i < survivors; ++i) sync_one();
  unsynced_.clear();
  visible_ = durable_;
}

}  // namespace carillon::store
