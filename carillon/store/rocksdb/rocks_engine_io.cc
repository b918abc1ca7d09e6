// SPDX-License-Identifier: Apache-2.0
// Writes and reads of an open folder.
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/store/rocksdb/rocks_engine.h"
#include "carillon/store/rocksdb/status_error.h"

namespace carillon::store {

using broker::Batch;
using broker::Body;
using broker::FarChunk;
using broker::JobId;
using broker::Mutation;
using broker::Place;
using broker::StoredJob;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::SliceParts;
using rocksdb::Status;

namespace {

// A write batch larger than this is not kept for reuse.
constexpr std::size_t kKeptBatchBytes = std::size_t{8} << 20;

Error corrupt(std::string_view family, std::string_view key, Error error) {
  return std::move(error).prefixed("family " + std::string(family) + ", key " + to_hex(key));
}

Error closed() { return Error{ErrorCode::kUnavailable, "the store is closed after a failure"}; }

Place place_of(JobMark mark) {
  switch (mark) {
    case JobMark::kPut: break;
    case JobMark::kSettled: return Place::kSettled;
    case JobMark::kMoved: return Place::kFar;
  }
  return Place::kNear;
}

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

// An iterator over the keys of one partition in one family, which it decodes as job ids.
class JobIterator {
 public:
  JobIterator(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, PartitionIndex partition)
      : name_(family->GetName()),
        begin_(partition_begin(partition)),
        end_(partition_end(partition)),
        lower_(begin_.view()),
        upper_(end_.view()) {
    ReadOptions options;
    options.iterate_lower_bound = &lower_;
    options.iterate_upper_bound = &upper_;
    options.fill_cache = false;
    options.readahead_size = std::size_t{2} << 20;
    iterator_.reset(db.NewIterator(options, family));
    iterator_->SeekToFirst();
  }

  /// Moves to the first job, or to the next.
  Result<void> read_id() {
    if (!iterator_->Valid()) {
      ended_ = true;
      if (!iterator_->status().ok()) return to_error(iterator_->status(), "read " + name_);
      return {};
    }
    Result<JobId> id = parse_job_key(iterator_->key().ToStringView());
    if (!id) return corrupt(name_, iterator_->key().ToStringView(), std::move(id.error()));
    id_ = *id;
    return {};
  }
  Result<void> next() {
    iterator_->Next();
    return read_id();
  }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] JobId id() const noexcept { return id_; }
  [[nodiscard]] std::string_view value() const { return iterator_->value().ToStringView(); }
  [[nodiscard]] Error corrupt_here(Error error) const {
    return corrupt(name_, iterator_->key().ToStringView(), std::move(error));
  }

 private:
  const std::string name_;
  const Key begin_;
  const Key end_;
  const Slice lower_;
  const Slice upper_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  bool ended_ = false;
  JobId id_ = 0;
};

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

void RocksEngine::read(std::span<const PartitionRead> group) {
  // One snapshot, so that the families are seen as of one moment.
  const rocksdb::Snapshot* snapshot = db_ ? db_->GetSnapshot() : nullptr;
  for (const PartitionRead& read : group) {
    const auto partition = static_cast<PartitionIndex>(read.partition);
    if (const auto* get = std::get_if<FetchRequest>(read.request)) {
      if (db_) {
        get->done(fetch(partition, get->wanted, snapshot));
      } else {
        get->done(std::vector<Fetched>(get->wanted.size(), closed()));
      }
    } else if (const auto* scan = std::get_if<ScanRequest>(read.request)) {
      if (db_) {
        scan->done(scan_far(partition, *scan));
      } else {
        scan->done(closed());
      }
    } else if (const auto* key = std::get_if<KeyRequest>(read.request)) {
      if (db_) {
        key->done(find_key(partition, *key, snapshot));
      } else {
        key->done(closed());
      }
    } else if (db_) {
      reclaim();
    }
  }
  if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
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

std::vector<RocksEngine::Fetched> RocksEngine::fetch(PartitionIndex partition,
                                                     std::span<const broker::WantedJob> wanted,
                                                     const rocksdb::Snapshot* snapshot) const {
  std::vector<Fetched> answers(wanted.size(), std::optional<StoredJob>());
  std::vector<std::size_t> near;
  std::vector<std::size_t> settled;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].known_at == Place::kNear) {
      near.push_back(i);
    } else if (wanted[i].known_at == Place::kSettled) {
      settled.push_back(i);
    } else {
      answers[i] = fetch(partition, wanted[i].id, snapshot);
    }
  }
  fetch_bodies(partition, kNear, wanted, near, snapshot, answers);
  fetch_bodies(partition, kCold, wanted, settled, snapshot, answers);
  return answers;
}

/// The bodies of those jobs of `wanted`, all of which lie in `family`.
void RocksEngine::fetch_bodies(PartitionIndex partition, Family family,
                               std::span<const broker::WantedJob> wanted,
                               std::span<const std::size_t> which,
                               const rocksdb::Snapshot* snapshot,
                               std::vector<Fetched>& answers) const {
  if (which.empty()) return;
  std::vector<Key> keys;
  keys.reserve(which.size());
  std::vector<Slice> slices;
  for (const std::size_t i : which) {
    keys.push_back(job_key(partition, wanted[i].id));
    slices.emplace_back(keys.back().view());
  }
  std::vector<rocksdb::PinnableSlice> values(which.size());
  std::vector<Status> statuses(which.size());
  ReadOptions options;
  options.snapshot = snapshot;
  db_->MultiGet(options, handle(family), which.size(), slices.data(), values.data(),
                statuses.data());
  for (std::size_t n = 0; n < which.size(); ++n) {
    const JobId id = wanted[which[n]].id;
    Fetched& answer = answers[which[n]];
    if (statuses[n].IsNotFound()) continue;
    if (!statuses[n].ok()) {
      answer = to_error(statuses[n], "read job " + std::to_string(id));
      continue;
    }
    Result<DecodedJob> stored = decode_job_with_body(values[n].ToStringView(), id);
    if (!stored) {
      answer = corrupt(kFamilyNames[family], keys[n].view(), std::move(stored.error()));
      continue;
    }
    StoredJob job;
    job.record = stored->record;
    job.place = family == kNear ? Place::kNear : Place::kSettled;
    job.body = Body(stored->rest);
    answer = std::optional<StoredJob>(std::move(job));
  }
}

Result<std::optional<StoredJob>> RocksEngine::fetch(PartitionIndex partition, JobId id,
                                                    const rocksdb::Snapshot* snapshot) const {
  ReadOptions options;
  options.snapshot = snapshot;
  const Key key = job_key(partition, id);
  StoredJob job;
  bool has_state = false;

  rocksdb::PinnableSlice value;
  Status status = db_->Get(options, handle(kState), key.view(), &value);
  if (status.ok()) {
    Result<DecodedJob> state = decode_job_alone(value.ToStringView(), id);
    if (!state) return corrupt("state", key.view(), std::move(state.error()));
    has_state = true;
    job.record = state->record;
    job.place = place_of(state->mark);
    job.updated = true;
  } else if (!status.IsNotFound()) {
    return to_error(status, "read job " + std::to_string(id));
  }

  Family family = job.place == Place::kNear ? kNear : kCold;
  value.Reset();
  status = db_->Get(options, handle(family), key.view(), &value);
  if (status.IsNotFound() && !has_state) {
    job.place = Place::kFar;
    family = kCold;
    status = db_->Get(options, handle(family), key.view(), &value);
    if (status.IsNotFound()) return std::optional<StoredJob>();
  }
  if (status.IsNotFound()) {
    return corrupt("state", key.view(), Error{ErrorCode::kCorrupt, "job has no body"});
  }
  if (!status.ok()) return to_error(status, "read job " + std::to_string(id));
  Result<DecodedJob> stored = decode_job_with_body(value.ToStringView(), id);
  if (!stored) return corrupt(kFamilyNames[family], key.view(), std::move(stored.error()));
  if (!has_state) job.record = stored->record;
  if (job.record.body_size != stored->record.body_size) {
    return corrupt("state", key.view(),
                   Error{ErrorCode::kCorrupt, "job announces a body of another size"});
  }
  job.body = Body(stored->rest);
  return std::optional<StoredJob>(std::move(job));
}

Result<std::optional<broker::FarPlace>> RocksEngine::find_key(
    PartitionIndex partition, const KeyRequest& request, const rocksdb::Snapshot* snapshot) const {
  ReadOptions options;
  options.snapshot = snapshot;
  const std::string key = key_key(partition, request.tube, request.key);
  rocksdb::PinnableSlice value;
  const Status status = db_->Get(options, handle(kKeys), key, &value);
  if (status.IsNotFound()) return std::optional<broker::FarPlace>();
  if (!status.ok()) return to_error(status, "look up a key");
  Result<broker::FarPlace> place = decode_place(value.ToStringView());
  if (!place) return corrupt("keys", key, std::move(place.error()));
  return std::optional<broker::FarPlace>(*place);
}

Result<FarChunk> RocksEngine::scan_far(PartitionIndex partition, const ScanRequest& request) const {
  const Key begin = far_key(partition, request.tube, request.from.due_ms, request.from.id);
  const Key end = far_end_key(partition, request.tube);
  const Slice lower(begin.view());
  const Slice upper(end.view());
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, handle(kFar)));
  FarChunk chunk;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key = at->key().ToStringView();
    Result<FarKeyParts> parts = parse_far_key(key);
    if (!parts) return corrupt("far", key, std::move(parts.error()));
    if (parts->due_ms > request.until_ms) {
      chunk.next_due_ms = parts->due_ms;
      break;
    }
    if (chunk.jobs.size() >= request.limit) {
      chunk.more = true;
      break;
    }
    Result<DecodedJob> job = decode_job_alone(at->value().ToStringView(), parts->id);
    if (!job) return corrupt("far", key, std::move(job.error()));
    if (job->record.tube != parts->tube || job->record.due_ms != parts->due_ms) {
      return corrupt("far", key, Error{ErrorCode::kCorrupt, "key and record disagree"});
    }
    chunk.jobs.push_back(StoredJob{job->record, Place::kFar, {}, job->mark == JobMark::kMoved});
  }
  if (!at->status().ok()) return to_error(at->status(), "scan far jobs");
  return chunk;
}

Result<void> RocksEngine::load(PartitionIndex partition, broker::RecoverySink& sink) {
  if (!db_) return closed();
  if (Result<void> loaded = load_meta(partition, sink); !loaded) return loaded;
  return load_jobs(partition, sink);
}

Result<void> RocksEngine::load_meta(PartitionIndex partition, broker::RecoverySink& sink) {
  const Key own = partition_key(partition);
  std::string value;
  const Status status = db_->Get(ReadOptions(), handle(kMeta), own.view(), &value);
  if (status.ok()) {
    Result<broker::PartitionRecord> record = decode_partition(value);
    if (!record) return corrupt("meta", own.view(), std::move(record.error()));
    sink.on_partition(*record);
  } else if (!status.IsNotFound()) {
    return to_error(status, "read partition " + std::to_string(partition));
  }

  const Key begin = Key().u8('t').u16(partition);
  const Key end = Key().u8('t').u16(static_cast<PartitionIndex>(partition + 1));
  const Slice lower(begin.view());
  const Slice upper(end.view());
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, handle(kMeta)));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key = at->key().ToStringView();
    Result<broker::TubeRecord> tube = decode_tube(at->value().ToStringView());
    if (!tube) return corrupt("meta", key, std::move(tube.error()));
    if (key != tube_key(partition, tube->number).view()) {
      return corrupt("meta", key, Error{ErrorCode::kCorrupt, "key and record disagree"});
    }
    sink.on_tube(*tube);
  }
  if (!at->status().ok()) return to_error(at->status(), "read tubes");
  return load_schedules(partition, sink);
}

Result<void> RocksEngine::load_schedules(PartitionIndex partition, broker::RecoverySink& sink) {
  const std::string begin = schedule_key(partition, "");
  const std::string end(Key().u8('s').u16(static_cast<PartitionIndex>(partition + 1)).view());
  const Slice lower(begin);
  const Slice upper(end);
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, handle(kMeta)));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key = at->key().ToStringView();
    const std::string_view name = key.substr(begin.size());
    Result<broker::ScheduleSettings> settings = decode_schedule(at->value().ToStringView(), name);
    if (!settings) return corrupt("meta", key, std::move(settings.error()));
    std::string value;
    const Status status =
        db_->Get(ReadOptions(), handle(kMeta), progress_key(partition, name), &value);
    if (status.IsNotFound()) {
      return corrupt("meta", key, Error{ErrorCode::kCorrupt, "the schedule has no progress"});
    }
    if (!status.ok()) return to_error(status, "read schedules");
    Result<broker::ScheduleProgress> progress = decode_progress(value);
    if (!progress) {
      return corrupt("meta", progress_key(partition, name), std::move(progress.error()));
    }
    sink.on_schedule({*std::move(settings), *progress});
  }
  if (!at->status().ok()) return to_error(at->status(), "read schedules");
  return {};
}

Result<void> RocksEngine::load_jobs(PartitionIndex partition, broker::RecoverySink& sink) {
  JobIterator near(*db_, handle(kNear), partition);
  JobIterator state(*db_, handle(kState), partition);
  if (Result<void> read = near.read_id(); !read) return read;
  if (Result<void> read = state.read_id(); !read) return read;
  while (!near.ended() || !state.ended()) {
    const bool takes_near = !near.ended() && (state.ended() || near.id() <= state.id());
    const bool takes_state = !state.ended() && (near.ended() || state.id() <= near.id());
    StoredJob job;
    if (takes_near) {
      Result<DecodedJob> put = decode_job_with_body(near.value(), near.id());
      if (!put) return near.corrupt_here(std::move(put.error()));
      job = StoredJob{put->record, Place::kNear, Body(put->rest), false};
    }
    if (takes_state) {
      Result<DecodedJob> updated = decode_job_alone(state.value(), state.id());
      if (!updated) return state.corrupt_here(std::move(updated.error()));
      // A near job has a put to go with its update; a settled one has its body in `cold` and no
      // put.
      // One that was moved from one far place to another is still far.
      const bool needs_put = updated->mark == JobMark::kPut;
      if (needs_put != takes_near ||
          (takes_near && updated->record.body_size != job.record.body_size)) {
        return state.corrupt_here(Error{ErrorCode::kCorrupt, "the job's put does not match"});
      }
      job.record = updated->record;
      job.place = place_of(updated->mark);
      job.updated = true;
    }
    if (job.place != Place::kFar) sink.on_job(std::move(job));
    if (takes_near) {
      if (Result<void> moved = near.next(); !moved) return moved;
    }
    if (takes_state) {
      if (Result<void> moved = state.next(); !moved) return moved;
    }
  }
  return {};
}

}  // namespace carillon::store
