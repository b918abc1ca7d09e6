// SPDX-License-Identifier: Apache-2.0
// Reads of an open folder.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/store/rocksdb/rocks_engine.h"
#include "carillon/store/rocksdb/status_error.h"

namespace carillon::store {

using broker::Body;
using broker::FarChunk;
using broker::JobId;
using broker::Place;
using broker::StoredJob;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

Error corrupt(std::string_view family, std::string_view key, Error error) {
  return std::move(error).prefixed("family " + std::string(family) + ", key " + to_hex(key));
}

Place place_of(JobMark mark) {
  switch (mark) {
    case JobMark::kPut: break;
    case JobMark::kSettled: return Place::kSettled;
    case JobMark::kMoved: return Place::kFar;
  }
  return Place::kNear;
}

// The family in which the body of a job at `place` is.
Family body_family(Place place) { return place == Place::kNear ? kNear : kCold; }

// A walk instead of a lookup each: for so many jobs, and if not more than so many ids were given
// per job between the first and the last.
constexpr std::size_t kScanFrom = 16;
constexpr JobId kScanGap = 8;

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

// What was read under `key` of `family`, for a job that lies at `place`.
Result<std::optional<StoredJob>> fetched(std::string_view family, Place place, std::string_view key,
                                         std::string_view value, JobId id) {
  Result<DecodedJob> stored = decode_job_with_body(value, id);
  if (!stored) return corrupt(family, key, std::move(stored.error()));
  StoredJob job;
  job.record = stored->record;
  job.place = place;
  job.body = Body(stored->rest);
  return std::optional<StoredJob>(std::move(job));
}

}  // namespace

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
  fetch_bodies(partition, Place::kNear, wanted, near, snapshot, answers);
  fetch_bodies(partition, Place::kSettled, wanted, settled, snapshot, answers);
  return answers;
}

/// Those jobs of `wanted`, all of which lie at `place`, where the body is beside the record.
void RocksEngine::fetch_bodies(PartitionIndex partition, Place place,
                               std::span<const broker::WantedJob> wanted,
                               std::vector<std::size_t> which, const rocksdb::Snapshot* snapshot,
                               std::vector<Fetched>& answers) const {
  if (which.empty()) return;
  std::sort(which.begin(), which.end(),
            [&wanted](std::size_t a, std::size_t b) { return wanted[a].id < wanted[b].id; });
  // Jobs that were put one after the other fall due one after the other more often than not, and a
  // walk costs a fraction of looking each up in every table.
  const JobId span = wanted[which.back()].id - wanted[which.front()].id;
  if (which.size() >= kScanFrom && span / kScanGap < which.size()) {
    const std::size_t read = scan_bodies(partition, place, wanted, which, snapshot, answers);
    which.erase(which.begin(), which.begin() + static_cast<std::ptrdiff_t>(read));
    if (which.empty()) return;
  }
  get_bodies(partition, place, wanted, which, snapshot, answers);
}

/// As fetch_bodies, each job by itself; `which` is sorted by id.
void RocksEngine::get_bodies(PartitionIndex partition, Place place,
                             std::span<const broker::WantedJob> wanted,
                             std::span<const std::size_t> which, const rocksdb::Snapshot* snapshot,
                             std::vector<Fetched>& answers) const {
  const Family family = body_family(place);
  std::vector<Key> keys;
  keys.reserve(which.size());
  std::vector<Slice> slices;
  slices.reserve(which.size());
  for (const std::size_t i : which) {
    keys.push_back(job_key(partition, wanted[i].id));
    slices.emplace_back(keys.back().view());
  }
  std::vector<rocksdb::PinnableSlice> values(which.size());
  std::vector<Status> statuses(which.size());
  ReadOptions options;
  options.snapshot = snapshot;
  db_->MultiGet(options, handle(family), which.size(), slices.data(), values.data(),
                statuses.data(), /*sorted_input=*/true);
  for (std::size_t n = 0; n < which.size(); ++n) {
    const JobId id = wanted[which[n]].id;
    Fetched& answer = answers[which[n]];
    if (statuses[n].IsNotFound()) continue;
    if (!statuses[n].ok()) {
      answer = to_error(statuses[n], "read job " + std::to_string(id));
      continue;
    }
    answer = fetched(kFamilyNames[family], place, keys[n].view(), values[n].ToStringView(), id);
  }
}

/// As get_bodies, by one walk from the first id to the last. Returns how many of `which` are
/// answered: fewer than all if something on the way cannot be read, for which the others are not to
/// blame.
std::size_t RocksEngine::scan_bodies(PartitionIndex partition, Place place,
                                     std::span<const broker::WantedJob> wanted,
                                     std::span<const std::size_t> which,
                                     const rocksdb::Snapshot* snapshot,
                                     std::vector<Fetched>& answers) const {
  const Family family = body_family(place);
  const Key first = job_key(partition, wanted[which.front()].id);
  const Key last = job_key(partition, wanted[which.back()].id);
  const Slice lower(first.view());
  ReadOptions options;
  options.snapshot = snapshot;
  options.iterate_lower_bound = &lower;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, handle(family)));
  std::size_t n = 0;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key = at->key().ToStringView();
    if (key > last.view()) break;
    const Result<JobId> id = parse_job_key(key);
    if (!id) continue;  // No key of a job: `check` tells of it.
    while (wanted[which[n]].id < *id) ++n;
    for (; n < which.size() && wanted[which[n]].id == *id; ++n) {
      answers[which[n]] =
          fetched(kFamilyNames[family], place, key, at->value().ToStringView(), *id);
    }
    if (n == which.size()) break;
  }
  return at->status().ok() ? which.size() : n;
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

  Family family = body_family(job.place);
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

  Result<void> tubes = load_tubes(partition, sink);
  return tubes ? load_schedules(partition, sink) : std::move(tubes);
}

/// Visits the records of the family meta from `begin` on, before `end`, until one is refused.
template <class Visit>
Result<void> RocksEngine::for_each_meta(std::string_view begin, std::string_view end,
                                        const char* what, Visit visit) {
  const Slice lower(begin);
  const Slice upper(end);
  ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(options, handle(kMeta)));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    Result<void> visited = visit(at->key().ToStringView(), at->value().ToStringView());
    if (!visited) return visited;
  }
  if (!at->status().ok()) return to_error(at->status(), what);
  return {};
}

Result<void> RocksEngine::load_tubes(PartitionIndex partition, broker::RecoverySink& sink) {
  const Key begin = Key().u8('t').u16(partition);
  const Key end = Key().u8('t').u16(static_cast<PartitionIndex>(partition + 1));
  return for_each_meta(begin.view(), end.view(), "read tubes",
                       [&](std::string_view key, std::string_view value) -> Result<void> {
                         Result<broker::TubeRecord> tube = decode_tube(value);
                         if (!tube) return corrupt("meta", key, std::move(tube.error()));
                         if (key != tube_key(partition, tube->number).view()) {
                           return corrupt("meta", key,
                                          Error{ErrorCode::kCorrupt, "key and record disagree"});
                         }
                         sink.on_tube(*tube);
                         return {};
                       });
}

Result<void> RocksEngine::load_schedules(PartitionIndex partition, broker::RecoverySink& sink) {
  const std::string begin = schedule_key(partition, "");
  const Key end = Key().u8('s').u16(static_cast<PartitionIndex>(partition + 1));
  return for_each_meta(
      begin, end.view(), "read schedules",
      [&](std::string_view key, std::string_view value) -> Result<void> {
        const std::string_view name = key.substr(begin.size());
        Result<broker::ScheduleSettings> settings = decode_schedule(value, name);
        if (!settings) return corrupt("meta", key, std::move(settings.error()));
        std::string progress_value;
        const Status status =
            db_->Get(ReadOptions(), handle(kMeta), progress_key(partition, name), &progress_value);
        if (status.IsNotFound()) {
          return corrupt("meta", key, Error{ErrorCode::kCorrupt, "the schedule has no progress"});
        }
        if (!status.ok()) return to_error(status, "read schedules");
        Result<broker::ScheduleProgress> progress = decode_progress(progress_value);
        if (!progress) {
          return corrupt("meta", progress_key(partition, name), std::move(progress.error()));
        }
        sink.on_schedule({*std::move(settings), *progress});
        return {};
      });
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
