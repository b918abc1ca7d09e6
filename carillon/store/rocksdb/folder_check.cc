// SPDX-License-Identifier: Apache-2.0
// Long because every kind of record is checked against every other, with one state.
#include "carillon/store/rocksdb/folder_check.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <rocksdb/db.h>

#include "carillon/broker/job.h"
#include "carillon/store/rocksdb/acknowledged_mark.h"
#include "carillon/store/rocksdb/backup.h"
#include "carillon/store/rocksdb/folder_file_system.h"
#include "carillon/store/rocksdb/folder_lock.h"
#include "carillon/store/rocksdb/gap_filter.h"
#include "carillon/store/rocksdb/job_cursor.h"
#include "carillon/store/rocksdb/record_codec.h"
#include "carillon/store/rocksdb/rocks_settings.h"
#include "carillon/store/rocksdb/status_error.h"

namespace carillon::store {
namespace {

namespace fs = std::filesystem;
using broker::JobId;
using broker::JobRecord;
using broker::JobState;
using rocksdb::ReadOptions;
using rocksdb::Slice;

/// A far job as its record in `far` has it.
struct FarJob {
  JobId id = 0;
  std::uint32_t tube = 0;
  std::uint32_t body_size = 0;
};

std::string job_name(JobId id) { return "job " + std::to_string(id); }

}  // namespace

/// One reading of a folder.
class FolderCheck {
 public:
  explicit FolderCheck(const FolderCheckOptions& options) : options_(options) {}
  ~FolderCheck() {
    for (rocksdb::ColumnFamilyHandle* family : handles_) {
      if (family != nullptr) (void)db_->DestroyColumnFamilyHandle(family);
    }
  }

  Result<FolderReport> run();

 private:
  using Tubes = std::map<std::uint32_t, CheckedTube>;

  void fault(std::string place, std::string_view key, std::string what);
  void fault(Family family, std::string_view key, std::string what) {
    fault(kFamilyNames[family], key, std::move(what));
  }

  Result<bool> check_files();
  bool open();
  void check_meta();
  void check_meta_record(std::string_view key, std::string_view value);
  void check_partition_record(std::string_view key, std::string_view value);
  void check_tube_record(std::string_view key, std::string_view value);
  void check_schedule_record(std::string_view key, std::string_view value);
  void check_mark();
  void check_partition(PartitionIndex partition);
  std::vector<FarJob> read_far(PartitionIndex partition, Tubes& tubes);
  void check_jobs(PartitionIndex partition, Tubes& tubes, const std::vector<FarJob>& far);
  void check_job(PartitionIndex partition, Tubes& tubes, Family family, std::string_view key,
                 const JobRecord& job);
  void check_far_counts(PartitionIndex partition, Tubes& tubes);
  void check_key(PartitionIndex partition, std::string_view far, const JobRecord& job);
  void check_keys(PartitionIndex partition, const std::vector<FarJob>& far);
  void check_strangers();

  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> iterator(Family family,
                                                            const Slice* lower = nullptr,
                                                            const Slice* upper = nullptr) const {
    ReadOptions read;
    read.iterate_lower_bound = lower;
    read.iterate_upper_bound = upper;
    read.fill_cache = false;
    read.verify_checksums = true;
    read.readahead_size = std::size_t{2} << 20;
    return std::unique_ptr<rocksdb::Iterator>(db_->NewIterator(read, handles_[family]));
  }

  const FolderCheckOptions& options_;
  FolderReport report_;
  std::optional<AcknowledgedMark::Value> mark_;
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles_{};
  bool has_keys_ = true;
  std::map<std::uint32_t, broker::PartitionRecord> partitions_;
  std::map<std::uint32_t, Tubes> tubes_;
  std::set<std::string> schedules_;  // Whose progress has been seen, but not what they are.
  // What the record of a tube says: how many of its jobs are far, and none before when.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint64_t, std::int64_t>> far_;
};

void FolderCheck::fault(std::string place, std::string_view key, std::string what) {
  ++report_.faults_found;
  if (report_.faults.size() >= options_.max_faults) return;
  report_.faults.push_back({std::move(place), to_hex(key), std::move(what)});
}

Result<FolderReport> FolderCheck::run() {
  Result<bool> goes_on = check_files();
  if (!goes_on) return std::move(goes_on).error();
  if (!*goes_on || !open()) return std::move(report_);
  check_meta();
  if (report_.format > kFormatVersion) {
    return Error{ErrorCode::kInvalidArgument,
                 "data folder " + options_.folder + " has format version " +
                     std::to_string(report_.format) + ", this build reads up to version " +
                     std::to_string(kFormatVersion)};
  }
  if (!has_keys_ && report_.format > 1) fault(kKeys, {}, "there is no such column family");
  check_mark();
  for (std::uint32_t i = 0; i < report_.partitions; ++i) {
    check_partition(static_cast<PartitionIndex>(i));
  }
  check_strangers();
  for (auto& [partition, tubes] : tubes_) {
    for (auto& [number, tube] : tubes) report_.tubes.push_back(std::move(tube));
  }
  return std::move(report_);
}

/// False: there is a fault after which nothing can be read.
Result<bool> FolderCheck::check_files() {
  const std::string& folder = options_.folder;
  std::error_code error;
  if (fs::exists(folder + "/" + kRestoringFile, error)) {
    fault("folder", {}, "a restore into it was interrupted; remove it and restore again");
    return false;
  }
  if (fs::exists(folder + "/" + kBackupFile, error)) {
    report_.is_backup = true;
    Result<BackupList> backup = read_backup(folder);
    if (!backup) {
      fault(kBackupFile, {}, backup.error().message);
      return false;
    }
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    std::error_code ignored;
    const std::uintmax_t size = entry.file_size(ignored);
    if (extension == ".sst") {
      ++report_.table_files;
      report_.table_bytes += size;
    } else if (extension == ".log") {
      report_.log_bytes += size;
    }
  }
  if (error) {
    return Error{ErrorCode::kIo, "list folder " + folder + ": " + error.message()};
  }
  mark_ = AcknowledgedMark::read_only(folder);
  if (mark_) report_.acknowledged = mark_->group;
  if (!fs::exists(folder + "/CURRENT", error)) {
    if (report_.table_files == 0 && report_.log_bytes == 0 && !mark_) {
      return Error{ErrorCode::kNotFound, "there is no database in folder " + folder};
    }
    fault("CURRENT", {}, "is missing, so that nothing can be read: the folder is not whole");
    return false;
  }
  if (!mark_) {
    fault("ACKNOWLEDGED", {},
          "is missing or cannot be made out, so that nobody knows what else is missing");
    return true;
  }
  std::string current;
  if (!rocksdb::ReadFileToString(rocksdb::Env::Default(), folder + "/CURRENT", &current).ok()) {
    return true;  // Opening will say why.
  }
  current.erase(current.find_last_not_of('\n') + 1);
  if (manifest_number(current) != mark_->manifest_number) return true;
  const std::uintmax_t bytes = fs::file_size(folder + "/" + current, error);
  if (!error && bytes < mark_->manifest_bytes) {
    fault(current, {},
          "had " + std::to_string(mark_->manifest_bytes) + " bytes and now has " +
              std::to_string(bytes));
  }
  return true;
}

bool FolderCheck::open() {
  RocksOptions rocks;
  rocks.folder = options_.folder;
  rocks.log = [this](LogLevel level, std::string_view message) {
    if (level == LogLevel::kError) fault("folder", {}, std::string(message));
  };
  rocksdb::DBOptions db_options = make_db_options(rocks);
  db_options.create_if_missing = false;
  db_options.create_missing_column_families = false;
  GapFilter gaps;
  db_options.wal_filter = &gaps;
  std::vector<std::string> names;
  rocksdb::Status status = rocksdb::DB::ListColumnFamilies(db_options, options_.folder, &names);
  if (!status.ok()) {
    fault("folder", {}, "the list of column families: " + status.ToString());
    return false;
  }
  const auto is_there = [&names](std::string_view family) {
    return std::find(names.begin(), names.end(), family) != names.end();
  };
  has_keys_ = is_there(kFamilyNames[kKeys]);  // A folder of format 1 has not.
  bool complete = true;
  for (const char* family : kFamilyNames) {
    if (is_there(family) || family == kFamilyNames[kKeys]) continue;
    fault(family, {}, "there is no such column family");
    complete = false;
  }
  for (const std::string& name : names) {
    if (std::find(kFamilyNames.begin(), kFamilyNames.end(), name) != kFamilyNames.end()) continue;
    fault(name, {}, "this column family is not known");
  }
  if (!complete) return false;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  // A memtable is never flushed when the log is read without the right to write.
  auto families = make_families(rocks, rocksdb::NewLRUCache(rocks.block_cache_bytes));
  if (!has_keys_) families.pop_back();
  status = rocksdb::DB::OpenForReadOnly(db_options, options_.folder, families, &handles, &db);
  if (!status.ok()) {
    fault("folder", {}, "cannot be opened: " + status.ToString());
    return false;
  }
  db_.reset(db);
  std::copy(handles.begin(), handles.end(), handles_.begin());
  return true;
}

void FolderCheck::check_meta() {
  const std::unique_ptr<rocksdb::Iterator> at = iterator(kMeta);
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    check_meta_record(at->key().ToStringView(), at->value().ToStringView());
  }
  if (!at->status().ok()) {
    fault(kMeta, {}, "cannot be read to its end: " + at->status().ToString());
  }
  for (const std::string& name : schedules_) {
    fault(kMeta, "r" + name, "the progress of a schedule that is not there");
  }
  if (report_.format == 0 && (!partitions_.empty() || !tubes_.empty() || report_.writes != 0)) {
    fault(kMeta, format_key().view(), "there is no format record");
  }
}

void FolderCheck::check_meta_record(std::string_view key, std::string_view value) {
  if (key == format_key().view()) {
    Result<FormatRecord> format = decode_format(value);
    if (!format) return fault(kMeta, key, format.error().message);
    report_.format = format->version;
    report_.partitions = format->partition_count;
  } else if (key == group_key().view()) {
    Result<std::uint64_t> group = decode_group(value);
    if (!group) return fault(kMeta, key, group.error().message);
    report_.writes = *group;
  } else if (key.size() == 3 && key.front() == 'p') {
    check_partition_record(key, value);
  } else if (key.size() == 7 && key.front() == 't') {
    check_tube_record(key, value);
  } else if (key.size() > 3 && (key.front() == 's' || key.front() == 'r')) {
    check_schedule_record(key, value);
  } else {
    fault(kMeta, key, "this key is not known");
  }
}

void FolderCheck::check_partition_record(std::string_view key, std::string_view value) {
  Result<broker::PartitionRecord> record = decode_partition(value);
  if (!record) return fault(kMeta, key, record.error().message);
  const auto index = static_cast<std::uint32_t>(static_cast<std::uint8_t>(key[1]) << 8 |
                                                static_cast<std::uint8_t>(key[2]));
  partitions_.emplace(index, std::move(*record));
}

void FolderCheck::check_tube_record(std::string_view key, std::string_view value) {
  Result<broker::TubeRecord> record = decode_tube(value);
  if (!record) return fault(kMeta, key, record.error().message);
  const auto partition = static_cast<std::uint32_t>(static_cast<std::uint8_t>(key[1]) << 8 |
                                                    static_cast<std::uint8_t>(key[2]));
  if (key != tube_key(static_cast<PartitionIndex>(partition), record->number).view()) {
    return fault(kMeta, key, "tube " + record->name + ": key and record disagree");
  }
  far_[{partition, record->number}] = {record->far_count, record->far_from_ms};
  CheckedTube tube;
  tube.partition = partition;
  tube.number = record->number;
  tube.name = record->name;
  tube.paused_until_ms = record->paused_until_ms;
  tubes_[partition].emplace(record->number, std::move(tube));
}

/// Of each schedule there are two records: in the order of the keys, all of its progress first.
void FolderCheck::check_schedule_record(std::string_view key, std::string_view value) {
  const std::string name(key.substr(1));  // And the partition.
  if (key.front() == 'r') {
    const Result<broker::ScheduleProgress> progress = decode_progress(value);
    if (!progress) fault(kMeta, key, progress.error().message);
    schedules_.insert(name);
    return;
  }
  const Result<broker::ScheduleSettings> settings = decode_schedule(value, key.substr(3));
  if (!settings) fault(kMeta, key, settings.error().message);
  if (schedules_.erase(name) == 0) fault(kMeta, key, "the schedule has no progress");
}

void FolderCheck::check_mark() {
  if (!mark_ || mark_->group <= report_.writes) return;
  fault("ACKNOWLEDGED", {},
        "write " + std::to_string(mark_->group) + " was acknowledged, but only those up to " +
            std::to_string(report_.writes) + " can be read");
}

void FolderCheck::check_partition(PartitionIndex partition) {
  Tubes& tubes = tubes_[partition];
  std::set<std::string_view> names;
  for (const auto& [number, tube] : tubes) {
    const Key key = tube_key(partition, number);
    if (!names.insert(tube.name).second) {
      fault(kMeta, key.view(), "tube " + tube.name + " is there twice");
    }
    if (options_.partition_of_tube &&
        options_.partition_of_tube(tube.name, report_.partitions) != partition) {
      fault(kMeta, key.view(), "tube " + tube.name + " belongs to another partition");
    }
  }
  const std::vector<FarJob> far = read_far(partition, tubes);
  check_jobs(partition, tubes, far);
  check_far_counts(partition, tubes);
  if (has_keys_) check_keys(partition, far);
}

/// A far job that has a key is found by it.
void FolderCheck::check_key(PartitionIndex partition, std::string_view far, const JobRecord& job) {
  if (!has_keys_ || !job.extras || job.extras->key.empty()) return;
  std::string value;
  const rocksdb::Status status = db_->Get(ReadOptions(), handles_[kKeys],
                                          key_key(partition, job.tube, job.extras->key), &value);
  const Result<broker::FarPlace> place = decode_place(value);
  if (status.ok() && place && place->id == job.id && place->due_ms == job.due_ms) return;
  fault(kFar, far, job_name(job.id) + " is not found by its key");
}

/// Each key names a far job.
void FolderCheck::check_keys(PartitionIndex partition, const std::vector<FarJob>& far) {
  const Key begin = partition_begin(partition);
  const Slice lower(begin.view());
  const Key end = partition_end(partition);
  const Slice upper(end.view());
  const auto at = iterator(kKeys, &lower, &upper);
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key = at->key().ToStringView();
    const Result<broker::FarPlace> place = decode_place(at->value().ToStringView());
    if (!place) {
      fault(kKeys, key, place.error().message);
    } else if (!std::binary_search(far.begin(), far.end(), FarJob{place->id, 0, 0},
                                   [](const FarJob& a, const FarJob& b) { return a.id < b.id; })) {
      fault(kKeys, key, job_name(place->id) + " has this key and is not far");
    }
  }
  if (!at->status().ok()) fault(kKeys, {}, "cannot be read to its end: " + at->status().ToString());
}

std::vector<FarJob> FolderCheck::read_far(PartitionIndex partition, Tubes& tubes) {
  const Key begin = partition_begin(partition);
  const Key end = partition_end(partition);
  const Slice lower(begin.view());
  const Slice upper(end.view());
  const std::unique_ptr<rocksdb::Iterator> at = iterator(kFar, &lower, &upper);
  std::vector<FarJob> far;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    const std::string_view key = at->key().ToStringView();
    Result<FarKeyParts> parts = parse_far_key(key);
    if (!parts) {
      fault(kFar, key, parts.error().message);
      continue;
    }
    Result<DecodedJob> job = decode_job_alone(at->value().ToStringView(), parts->id);
    if (!job) {
      fault(kFar, key, job_name(parts->id) + ": " + job.error().message);
      continue;
    }
    const JobRecord& record = job->record;
    if (record.tube != parts->tube || record.due_ms != parts->due_ms) {
      fault(kFar, key, job_name(record.id) + ": key and record disagree");
    } else if (record.state != JobState::kDelayed) {
      fault(kFar, key, job_name(record.id) + " is far and not delayed");
    }
    check_key(partition, key, record);
    far.push_back({record.id, parts->tube, record.body_size});
    const auto tube = tubes.find(parts->tube);
    if (tube == tubes.end()) continue;  // Said where its body is.
    ++tube->second.far;
    tube->second.body_bytes += record.body_size;
    std::optional<std::int64_t>& next = tube->second.next_due_ms;
    next = std::min(next.value_or(parts->due_ms), parts->due_ms);
    if (parts->due_ms < far_[{partition, parts->tube}].second) {
      fault(kFar, key, job_name(record.id) + " is due before its tube's scan of far jobs begins");
    }
  }
  if (!at->status().ok()) {
    fault(kFar, {}, "cannot be read to its end: " + at->status().ToString());
  }
  std::sort(far.begin(), far.end(), [](const FarJob& a, const FarJob& b) { return a.id < b.id; });
  return far;
}

/// What every record of a job has to be.
void FolderCheck::check_job(PartitionIndex partition, Tubes& tubes, Family family,
                            std::string_view key, const JobRecord& job) {
  if (!tubes.contains(job.tube)) {
    fault(family, key,
          job_name(job.id) + " is in tube number " + std::to_string(job.tube) +
              ", which does not exist");
  }
  if (options_.partition_of_job &&
      options_.partition_of_job(job.id, report_.partitions) != partition) {
    fault(family, key, job_name(job.id) + " has an id of another partition");
  }
  const auto own = partitions_.find(partition);
  if (own == partitions_.end()) {
    fault(family, key, job_name(job.id) + " is in a partition that has no record");
  } else if (job.id == 0 || job.id >= own->second.next_id) {
    fault(family, key, job_name(job.id) + " has an id that was not given out yet");
  }
}

/// Side by side, by id: each job is in the families that one of four kinds of it is in.
void FolderCheck::check_jobs(PartitionIndex partition, Tubes& tubes,
                             const std::vector<FarJob>& far) {
  const auto cursor = [&](Family family) {
    return JobCursor(*db_, handles_[family], partition,
                     [this, family](std::string_view key, std::string what) {
                       fault(family, key, std::move(what));
                     });
  };
  JobCursor near = cursor(kNear);
  JobCursor state = cursor(kState);
  JobCursor cold = cursor(kCold);
  auto next_far = far.begin();
  while (!near.ended() || !state.ended() || !cold.ended() || next_far != far.end()) {
    JobId id = ~JobId{0};
    for (const JobCursor* each : {&near, &state, &cold}) {
      if (!each->ended()) id = std::min(id, each->id());
    }
    if (next_far != far.end()) id = std::min(id, next_far->id);

    const JobRecord* counts = nullptr;
    DecodedJob updated;
    bool has_state = state.is_at(id);
    if (has_state) {
      Result<DecodedJob> job = decode_job_alone(state.value(), id);
      if (job) {
        updated = *job;
        counts = &updated.record;
      } else {
        fault(kState, state.key(), job_name(id) + ": " + job.error().message);
      }
    }
    const auto body_of = [&](const JobCursor& at, Family family) -> std::optional<JobRecord> {
      Result<DecodedJob> job = decode_job_with_body(at.value(), id);
      if (!job) {
        fault(family, at.key(), job_name(id) + ": " + job.error().message);
        return std::nullopt;
      }
      check_job(partition, tubes, family, at.key(), job->record);
      return job->record;
    };
    std::optional<JobRecord> put;
    const bool is_far = next_far != far.end() && next_far->id == id;
    if (near.is_at(id)) {
      put = body_of(near, kNear);
      if (cold.is_at(id)) fault(kCold, cold.key(), job_name(id) + " is in near as well");
      if (is_far) fault(kFar, near.key(), job_name(id) + " is in near as well");
      if (counts != nullptr && updated.mark != JobMark::kPut) {
        fault(kState, state.key(), job_name(id) + " came from afar, but was put near");
      }
    } else if (cold.is_at(id)) {
      put = body_of(cold, kCold);
      if (is_far && counts != nullptr && updated.mark != JobMark::kMoved) {
        fault(kState, state.key(), job_name(id) + " is far as well");
      } else if (!is_far && !has_state) {
        fault(kCold, cold.key(), job_name(id) + " is an orphan: it is neither far nor settled");
      } else if (!is_far && counts != nullptr && updated.mark != JobMark::kSettled) {
        fault(kState, state.key(), job_name(id) + " is not settled, but was put far");
      }
      if (is_far && put && next_far->body_size != put->body_size) {
        fault(kCold, cold.key(), job_name(id) + " has a body of another size than its far record");
      }
      if (is_far && put && !tubes.contains(next_far->tube)) {
        fault(kFar, cold.key(), job_name(id) + " is far in a tube that does not exist");
      }
    } else if (has_state) {
      fault(kState, state.key(), job_name(id) + " has no body: its put is missing");
    } else {
      const Key key = job_key(partition, id);
      fault(kFar, key.view(), job_name(id) + " has no body: its put is missing");
    }
    if (counts != nullptr && put && counts->body_size != put->body_size) {
      fault(kState, state.key(), job_name(id) + " announces a body of another size");
    }
    if (counts == nullptr && !is_far && put) counts = &*put;
    if (counts != nullptr && !is_far) {
      if (const auto tube = tubes.find(counts->tube); tube != tubes.end()) {
        CheckedTube& in = tube->second;
        in.body_bytes += counts->body_size;
        switch (counts->state) {
          case JobState::kReady: ++in.ready; break;
          case JobState::kDelayed:
            ++in.delayed;
            in.next_due_ms = std::min(in.next_due_ms.value_or(counts->due_ms), counts->due_ms);
            break;
          case JobState::kBuried: ++in.buried; break;
          case JobState::kReserved: break;  // No record decodes to it.
        }
      } else if (has_state) {
        check_job(partition, tubes, kState, state.key(), *counts);
      }
    }

    if (near.is_at(id)) near.next();
    if (has_state) state.next();
    if (cold.is_at(id)) cold.next();
    for (bool first = true; next_far != far.end() && next_far->id == id; first = false) {
      if (!first) {
        const Key key = job_key(partition, id);
        fault(kFar, key.view(), job_name(id) + " is far twice");
      }
      ++next_far;
    }
  }
}

void FolderCheck::check_far_counts(PartitionIndex partition, Tubes& tubes) {
  for (const auto& [number, tube] : tubes) {
    const std::uint64_t announced = far_[{partition, number}].first;
    if (announced == tube.far) continue;
    const Key key = tube_key(partition, number);
    fault(kMeta, key.view(),
          "tube " + tube.name + " announces " + std::to_string(announced) + " far jobs and has " +
              std::to_string(tube.far));
  }
}

/// What lies behind the last partition.
void FolderCheck::check_strangers() {
  if (report_.partitions == 0 || report_.partitions > 0xFFFF) return;
  const Key end = partition_end(static_cast<PartitionIndex>(report_.partitions - 1));
  const Slice lower(end.view());
  for (const Family family : {kNear, kState, kCold, kFar, kKeys}) {
    if (family == kKeys && !has_keys_) continue;
    const std::unique_ptr<rocksdb::Iterator> at = iterator(family, &lower);
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      fault(family, at->key().ToStringView(), "belongs to a partition that does not exist");
    }
    if (!at->status().ok()) {
      fault(family, {}, "cannot be read to its end: " + at->status().ToString());
    }
  }
  for (const auto& [index, record] : partitions_) {
    if (index < report_.partitions) continue;
    const Key key = partition_key(static_cast<PartitionIndex>(index));
    fault(kMeta, key.view(), "belongs to a partition that does not exist");
  }
}

Result<FolderReport> check_folder(const FolderCheckOptions& options) {
  const Result<FolderReadLock> lock = FolderReadLock::take(options.folder);
  if (!lock) return lock.error();
  return FolderCheck(options).run();
}

}  // namespace carillon::store
