// SPDX-License-Identifier: Apache-2.0
// Writes of an open folder.
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/store/rocksdb/rocks_engine.h"
#include "carillon/store/rocksdb/status_error.h"

namespace carillon::store {

using broker::Batch;
using broker::Mutation;
using broker::Place;
using rocksdb::Slice;
using rocksdb::SliceParts;
using rocksdb::Status;

namespace {

// A write batch larger than this is not kept for reuse.
constexpr std::size_t kKeptBatchBytes = std::size_t{8} << 20;

std::size_t count_erases(const Batch& batch) {
  std::size_t erases = 0;
  for (const Mutation& mutation : batch.mutations) {
    if (mutation.kind == Mutation::Kind::kErase) ++erases;
  }
  return erases;
}

bool has_puts(const Batch& batch) {
  for (const Mutation& mutation : batch.mutations) {
    if (mutation.kind == Mutation::Kind::kPut) return true;
  }
  return false;
}

}  // namespace

std::optional<Error> RocksEngine::refuse(const Batch& batch) {
  if (free_space_.enough() || !has_puts(batch)) return std::nullopt;
  return Error{ErrorCode::kNoSpace,
               "data folder " + options_.folder + " has " + std::to_string(free_space_.bytes()) +
                   " bytes free, min-free-space is " + std::to_string(free_space_.min_bytes())};
}

Result<bool> RocksEngine::apply(std::span<const PartitionBatch> group, bool may_wait) {
  if (!db_) return closed();
  batch_.Clear();
  // All puts, then the rest. An id is put once and before anything else that names it, so the
  // outcome is the same; but puts come in id order and so do, more or less, erases, and a memtable
  // inserts next to its last insert without a search.
  for (const bool puts : {true, false}) {
    for (const PartitionBatch& part : group) {
      append(static_cast<PartitionIndex>(part.partition), *part.batch, puts);
    }
  }
  // A key may pass from one job to another within a batch: in the order of the mutations.
  for (const PartitionBatch& part : group) {
    append_keys(static_cast<PartitionIndex>(part.partition), *part.batch);
  }
  const std::uint64_t group_number = applied_group_.load(std::memory_order_relaxed) + 1;
  Status status = batch_.Put(handle(kMeta), group_key().view(), encode_group(group_number));
  const std::size_t size = batch_.GetDataSize();
  rocksdb::WriteOptions options;
  options.no_slowdown = !may_wait;
  if (status.ok()) status = db_->Write(options, &batch_);
  if (size > kKeptBatchBytes) batch_ = rocksdb::WriteBatch();
  if (!may_wait && status.IsIncomplete()) return false;
  if (!status.ok()) return to_error(status, "write to data folder " + options_.folder);
  std::size_t erases = 0;
  for (const PartitionBatch& part : group) erases += count_erases(*part.batch);
  erases_since_reclaim_.fetch_add(erases, std::memory_order_relaxed);
  bytes_written_.fetch_add(size, std::memory_order_relaxed);
  groups_.fetch_add(1, std::memory_order_relaxed);
  applied_group_.store(group_number, std::memory_order_release);
  return true;
}

Result<void> RocksEngine::sync() {
  if (!db_) return closed();
  const std::uint64_t group = applied_group_.load(std::memory_order_acquire);
  const Status status = sync_log();
  if (!status.ok()) return to_error(status, "sync data folder " + options_.folder);
  synced_group_ = group;
  return {};
}

Status RocksEngine::sync_log() {
  const MutexLock lock(log_mutex_);
  return log_failure_.ok() ? db_->SyncWAL() : log_failure_;
}

void RocksEngine::on_acknowledged() {
  if (mark_.acknowledge(synced_group_) || mark_failed_) return;
  mark_failed_ = true;
  log(LogLevel::kWarning,
      "cannot write " + options_.folder + "/ACKNOWLEDGED: a damaged log may go unnoticed");
}

void RocksEngine::append(PartitionIndex partition, const Batch& batch, bool puts) {
  for (const Mutation& mutation : batch.mutations) {
    if ((mutation.kind == Mutation::Kind::kPut) == puts) append(partition, batch, mutation);
  }
}

// near, cold and far keys are written once and erased once, which is what SingleDelete asks for: it
// and its put vanish together in the first compaction or flush that sees both, while a Delete has
// to sink to the last level. state keys are written again and again and need Delete.
void RocksEngine::append(PartitionIndex partition, const Batch& batch, const Mutation& mutation) {
  const broker::JobRecord& job = mutation.job;
  const Key key = job_key(partition, job.id);
  Status status;
  switch (mutation.kind) {
    case Mutation::Kind::kPut: {
      CARILLON_CHECK(mutation.body.size() == job.body_size, "job ", job.id, " has a body of ",
                     mutation.body.size(), " bytes but says ", job.body_size);
      value_.clear();
      encode_job(job, JobMark::kPut, value_);
      const Slice key_part(key.view());
      const Slice value_parts[] = {Slice(value_), Slice(mutation.body.view())};
      const bool near = mutation.place == Place::kNear;
      status = batch_.Put(handle(near ? kNear : kCold), SliceParts(&key_part, 1),
                          SliceParts(value_parts, 2));
      if (near || !status.ok()) break;
      status =
          batch_.Put(handle(kFar), far_key(partition, job.tube, job.due_ms, job.id).view(), value_);
      break;
    }
    case Mutation::Kind::kUpdate:
      value_.clear();
      encode_job(job, mutation.place == Place::kSettled ? JobMark::kSettled : JobMark::kPut,
                 value_);
      status = batch_.Put(handle(kState), key.view(), value_);
      break;
    case Mutation::Kind::kSettle:
      value_.clear();
      encode_job(job, JobMark::kSettled, value_);
      status = batch_.SingleDelete(
          handle(kFar), far_key(partition, job.tube, mutation.far_due_ms, job.id).view());
      if (status.ok()) status = batch_.Put(handle(kState), key.view(), value_);
      break;
    case Mutation::Kind::kMove:
      value_.clear();
      encode_job(job, JobMark::kMoved, value_);
      status = batch_.SingleDelete(
          handle(kFar), far_key(partition, job.tube, mutation.far_due_ms, job.id).view());
      if (status.ok()) {
        status = batch_.Put(handle(kFar), far_key(partition, job.tube, job.due_ms, job.id).view(),
                            value_);
      }
      if (status.ok()) status = batch_.Put(handle(kState), key.view(), value_);
      break;
    case Mutation::Kind::kErase:
      status =
          batch_.SingleDelete(handle(mutation.place == Place::kNear ? kNear : kCold), key.view());
      if (!status.ok()) break;
      if (mutation.place == Place::kFar) {
        status = batch_.SingleDelete(
            handle(kFar), far_key(partition, job.tube, mutation.far_due_ms, job.id).view());
      }
      if (status.ok() && (mutation.place == Place::kSettled || mutation.updated)) {
        status = batch_.Delete(handle(kState), key.view());
      }
      break;
    case Mutation::Kind::kTube: {
      const broker::TubeRecord& tube = batch.tubes.at(mutation.detail);
      status =
          batch_.Put(handle(kMeta), tube_key(partition, tube.number).view(), encode_tube(tube));
      break;
    }
    case Mutation::Kind::kEraseTube:
      status = batch_.Delete(handle(kMeta),
                             tube_key(partition, batch.tubes.at(mutation.detail).number).view());
      break;
    case Mutation::Kind::kPartition:
      status = batch_.Put(handle(kMeta), partition_key(partition).view(),
                          encode_partition(batch.partitions.at(mutation.detail)));
      break;
    case Mutation::Kind::kSchedule:
    case Mutation::Kind::kScheduleProgress: {
      const broker::ScheduleRecord& record = batch.schedules.at(mutation.detail);
      if (mutation.kind == Mutation::Kind::kSchedule) {
        status = batch_.Put(handle(kMeta), schedule_key(partition, record.settings.name),
                            encode_schedule(record.settings));
      }
      if (status.ok()) {
        status = batch_.Put(handle(kMeta), progress_key(partition, record.settings.name),
                            encode_progress(record.progress));
      }
      break;
    }
    case Mutation::Kind::kEraseSchedule: {
      const std::string& name = batch.schedules.at(mutation.detail).settings.name;
      status = batch_.Delete(handle(kMeta), schedule_key(partition, name));
      if (status.ok()) status = batch_.Delete(handle(kMeta), progress_key(partition, name));
      break;
    }
  }
  // Only a batch of more than 4 GB can fail here; limits far above keep it from that.
  CARILLON_CHECK(status.ok(), status.ToString());
}

void RocksEngine::append_keys(PartitionIndex partition, const Batch& batch) {
  for (const Mutation& mutation : batch.mutations) {
    const broker::JobRecord& job = mutation.job;
    if (!job.extras || job.extras->key.empty()) continue;
    const bool becomes_far =
        mutation.kind == Mutation::Kind::kMove ||
        (mutation.kind == Mutation::Kind::kPut && mutation.place == Place::kFar);
    const bool was_far = mutation.kind == Mutation::Kind::kSettle ||
                         (mutation.kind == Mutation::Kind::kErase && mutation.place == Place::kFar);
    Status status;
    if (becomes_far) {
      const bool moved = mutation.kind == Mutation::Kind::kMove;
      status = batch_.Put(handle(kKeys), key_key(partition, job.tube, job.extras->key),
                          encode_place({job.id, job.due_ms, moved}));
    } else if (was_far) {
      status = batch_.Delete(handle(kKeys), key_key(partition, job.tube, job.extras->key));
    }
    CARILLON_CHECK(status.ok(), status.ToString());
  }
}

bool RocksEngine::wants_reclaim() noexcept {
  if (erases_since_reclaim_.load(std::memory_order_relaxed) == 0) return false;
  const Span::rep now = clock_.now().time_since_epoch().count();
  Span::rep at = reclaimed_at_.load(std::memory_order_relaxed);
  if (now - at < options_.free_space_interval.count()) return false;
  return reclaimed_at_.compare_exchange_strong(at, now, std::memory_order_relaxed);
}

// Erases are in memory and in the log, a few bytes each: what they erased stays on the disk until
// they are flushed and compacted with it, which a drained folder might wait for without end.
void RocksEngine::reclaim() {
  erases_since_reclaim_.store(0, std::memory_order_relaxed);
  rocksdb::FlushOptions flush;
  flush.wait = false;
  flush.allow_write_stall = true;
  const std::vector<rocksdb::ColumnFamilyHandle*> handles(handles_.begin(), handles_.end());
  if (Status status = db_->Flush(flush, handles); !status.ok()) {
    log(LogLevel::kWarning,
        "make room in data folder " + options_.folder + ": " + status.ToString());
  }
}

}  // namespace carillon::store
