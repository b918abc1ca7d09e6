// SPDX-License-Identifier: Apache-2.0
// Opening, checking and closing the folder; rocks_engine_io.cc has the writes and reads.
#include "carillon/store/rocksdb/rocks_engine.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/store/rocksdb/manifest_watch.h"
#include "carillon/store/rocksdb/status_error.h"

namespace carillon::store {
namespace {

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(), [&name](std::string_view suffix) {
    return std::string_view(name).ends_with(suffix);
  });
}

}  // namespace

RocksEngine::RocksEngine(const RocksOptions& options)
    : options_(options),
      env_(rocksdb::NewCompositeEnv(std::make_shared<ManifestWatch>(
          (options.env != nullptr ? options.env : rocksdb::Env::Default())->GetFileSystem(),
          [this](std::uint64_t number, std::uint64_t bytes) {
            (void)mark_.set_manifest(number, bytes);
          }))),
      free_space_(options.folder, options.min_free_bytes, options.free_space_interval,
                  options.free_bytes),
      cache_(rocksdb::NewLRUCache(options.block_cache_bytes)) {}

RocksEngine::~RocksEngine() {
  CARILLON_CHECK(!db_, "close() first");
  if (lock_ != nullptr) (void)env_->UnlockFile(lock_);
}

Result<void> RocksEngine::open() {
  CARILLON_CHECK(!db_, "open already");
  if (Result<void> taken = take_folder(); !taken) return taken;
  const std::optional<AcknowledgedMark::Value> mark = mark_.value();
  bool exists = false;
  if (Result<void> checked = check_families(exists); !checked) return checked;
  if (mark && !options_.accept_loss) {
    Result<void> checked = exists ? check_manifest(*mark) : check_complete(*mark, 0);
    if (checked && exists && !mark->clean) checked = check_before_recovery(*mark);
    if (!checked) return checked;
  }
  if (Result<void> opened = open_database(); !opened) return opened;
  Result<void> checked = check_format();
  const Result<std::uint64_t> group = read_group(*db_);
  if (checked && !group) checked = group.error();
  if (checked && mark) checked = check_complete(*mark, *group);
  if (!checked) {
    close(false);
    return checked;
  }
  applied_group_.store(*group, std::memory_order_relaxed);
  synced_group_ = *group;
  mark_failed_ = false;
  on_acknowledged();
  return {};
}

Result<void> RocksEngine::take_folder() {
  if (lock_ != nullptr) return {};
  const std::string& folder = options_.folder;
  if (rocksdb::Status status = env_->CreateDirIfMissing(folder); !status.ok()) {
    return to_error(status, "create data folder " + folder);
  }
  // RocksDB has a lock of its own, but lets go of it while the folder is reopened, and does not
  // take it for the check before recovery.
  const std::string path = folder + "/IN-USE";
  if (rocksdb::Status status = env_->LockFile(path, &lock_); !status.ok()) {
    lock_ = nullptr;
    if (status.IsNoSpace()) return to_error(status, "lock " + path);
    return Error{ErrorCode::kUnavailable,
                 "data folder " + folder + " is in use by another process: " + status.ToString()};
  }
  return mark_.open(folder);
}

Result<void> RocksEngine::check_families(bool& exists) const {
  const std::string& folder = options_.folder;
  if (rocksdb::Status status = env_->FileExists(folder + "/CURRENT"); status.IsNotFound()) {
    exists = false;
    // RocksDB would start an empty database beside whatever is left of the old one.
    std::vector<std::string> children;
    if (status = env_->GetChildren(folder, &children); !status.ok()) {
      return to_error(status, "list data folder " + folder);
    }
    for (const std::string& name : children) {
      if (!ends_with_any(name, {".sst", ".log"})) continue;
      return Error{ErrorCode::kCorrupt, "data folder " + folder + " has " + name +
                                            " but no file CURRENT: it is not whole"};
    }
    return {};
  } else if (!status.ok()) {
    return to_error(status, "open data folder " + folder);
  }
  exists = true;

  std::vector<std::string> names;
  rocksdb::Status status = rocksdb::DB::ListColumnFamilies(db_options(), folder, &names);
  if (!status.ok()) return to_error(status, "open data folder " + folder);
  // All of ours and no other, in a folder that has its format record: that is written last.
  const auto stranger = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return std::find(kFamilyNames.begin(), kFamilyNames.end(), name) == kFamilyNames.end();
  });
  const auto missing =
      std::find_if(kFamilyNames.begin(), kFamilyNames.end(), [&names](const char* name) {
        return std::find(names.begin(), names.end(), name) == names.end();
      });
  if (stranger == names.end() && missing == kFamilyNames.end()) return {};

  // Only `default` is opened, and nothing is written.
  rocksdb::DB* db = nullptr;
  status = rocksdb::DB::OpenForReadOnly(rocksdb::Options(db_options(), {}), folder, &db);
  if (!status.ok()) return to_error(status, "open data folder " + folder);
  const std::unique_ptr<rocksdb::DB> owner(db);
  std::string value;
  status = db->Get(rocksdb::ReadOptions(), format_key().view(), &value);
  if (!status.ok() && !status.IsNotFound()) return to_error(status, "open data folder " + folder);
  if (status.ok()) {
    const Result<FormatRecord> format = decode_format(value);
    if (format && format->version > kFormatVersion) return newer_format(*format);
  }
  if (stranger != names.end()) {
    return Error{ErrorCode::kCorrupt,
                 "data folder " + folder + " has an unknown column family " + *stranger};
  }
  if (status.IsNotFound()) return {};  // A creation that was interrupted.
  return Error{ErrorCode::kCorrupt,
               "data folder " + folder + " has no column family " + std::string(*missing)};
}

Error RocksEngine::newer_format(const FormatRecord& format) const {
  return Error{ErrorCode::kInvalidArgument,
               "data folder " + options_.folder + " has format version " +
                   std::to_string(format.version) + ", this build reads up to version " +
                   std::to_string(kFormatVersion)};
}

Result<void> RocksEngine::check_before_recovery(const AcknowledgedMark::Value& mark) const {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  rocksdb::DBOptions reading = db_options();
  reading.create_if_missing = false;
  reading.create_missing_column_families = false;
  std::vector<rocksdb::ColumnFamilyDescriptor> families = make_families(options_, cache_);
  std::vector<std::string> names;
  if (rocksdb::Status status = rocksdb::DB::ListColumnFamilies(reading, options_.folder, &names);
      !status.ok()) {
    return to_error(status, "open data folder " + options_.folder);
  }
  // A creation that was interrupted has not all of them.
  std::erase_if(families, [&names](const rocksdb::ColumnFamilyDescriptor& family) {
    return std::find(names.begin(), names.end(), family.name) == names.end();
  });
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(reading, options_.folder, families, &handles, &db);
  if (!status.ok()) return to_error(status, "check data folder " + options_.folder);
  const Result<std::uint64_t> group = read_group(*db);
  for (rocksdb::ColumnFamilyHandle* family : handles) (void)db->DestroyColumnFamilyHandle(family);
  delete db;
  if (!group) return group.error();
  return check_complete(mark, *group);
}

Result<std::uint64_t> RocksEngine::read_group(rocksdb::DB& db) const {
  std::string value;
  const rocksdb::Status status = db.Get(rocksdb::ReadOptions(), group_key().view(), &value);
  if (status.IsNotFound()) return std::uint64_t{0};
  if (!status.ok()) return to_error(status, "read data folder " + options_.folder);
  Result<std::uint64_t> group = decode_group(value);
  if (!group) return std::move(group.error()).prefixed("data folder " + options_.folder);
  return group;
}

Result<void> RocksEngine::check_manifest(const AcknowledgedMark::Value& mark) const {
  std::string current;
  rocksdb::Status status =
      rocksdb::ReadFileToString(env_.get(), options_.folder + "/CURRENT", &current);
  if (!status.ok()) return to_error(status, "open data folder " + options_.folder);
  current.erase(current.find_last_not_of('\n') + 1);
  // Another one is as good: it was begun and synced before the mark, or after it and never used.
  if (manifest_number(current) != mark.manifest_number) return {};
  std::uint64_t bytes = 0;
  status = env_->GetFileSize(options_.folder + "/" + current, &bytes);
  if (!status.ok()) return to_error(status, "open data folder " + options_.folder);
  if (bytes >= mark.manifest_bytes) return {};
  return damaged(current + " had " + std::to_string(mark.manifest_bytes) + " bytes and now has " +
                 std::to_string(bytes));
}

Result<void> RocksEngine::check_complete(const AcknowledgedMark::Value& mark,
                                         std::uint64_t group) const {
  if (mark.group <= group) return {};
  Error error =
      damaged("write " + std::to_string(mark.group) + " was acknowledged, but only those up to " +
              std::to_string(group) + " can be read");
  if (!options_.accept_loss) return error;
  log(LogLevel::kError, error.message + "; the loss is accepted as asked");
  return {};
}

Error RocksEngine::damaged(const std::string& how) const {
  return Error{ErrorCode::kCorrupt,
               "data folder " + options_.folder + " is damaged or not whole: " + how};
}

rocksdb::DBOptions RocksEngine::db_options() const {
  rocksdb::DBOptions options = make_db_options(options_);
  options.env = env_.get();
  return options;
}

Result<void> RocksEngine::open_database() {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(db_options(), options_.folder,
                                                   make_families(options_, cache_), &handles, &db);
  if (!status.ok()) return to_error(status, "open data folder " + options_.folder);
  db_.reset(db);
  CARILLON_CHECK(handles.size() == kFamilies, handles.size(), " column families");
  std::copy(handles.begin(), handles.end(), handles_.begin());
  return {};
}

Result<void> RocksEngine::check_format() {
  const std::string& folder = options_.folder;
  const FormatRecord mine{kFormatVersion, options_.partition_count};
  std::string value;
  rocksdb::Status status =
      db_->Get(rocksdb::ReadOptions(), handle(kMeta), format_key().view(), &value);
  if (status.IsNotFound()) {
    // Written before anything else: only a creation that was interrupted lacks it.
    if (db_->GetLatestSequenceNumber() != 0) {
      return Error{ErrorCode::kCorrupt, "data folder " + folder + " has no format record"};
    }
    rocksdb::WriteOptions durable;
    durable.sync = true;
    status = db_->Put(durable, handle(kMeta), format_key().view(), encode_format(mine));
    if (!status.ok()) return to_error(status, "create data folder " + folder);
    return {};
  }
  if (!status.ok()) return to_error(status, "read format of data folder " + folder);
  Result<FormatRecord> format = decode_format(value);
  if (!format) return std::move(format.error()).prefixed("data folder " + folder);
  if (format->version > kFormatVersion) return newer_format(*format);
  if (format->partition_count != options_.partition_count) {
    return Error{ErrorCode::kInvalidArgument,
                 "data folder " + folder + " has " + std::to_string(format->partition_count) +
                     " partitions, partition_count is " + std::to_string(options_.partition_count) +
                     "; the number is fixed when the folder is created"};
  }
  return {};
}

void RocksEngine::close(bool clean) {
  if (!db_) return;
  if (clean) {
    const std::vector<rocksdb::ColumnFamilyHandle*> handles(handles_.begin(), handles_.end());
    rocksdb::Status status = db_->SyncWAL();
    // With nothing left in the log the next start has nothing to replay.
    if (status.ok()) status = db_->Flush(rocksdb::FlushOptions(), handles);
    if (status.ok()) {
      (void)mark_.acknowledge(applied_group_.load(std::memory_order_relaxed));
      (void)mark_.set_clean();
    } else {
      log(LogLevel::kWarning, "close data folder " + options_.folder + ": " + status.ToString());
    }
  }
  for (rocksdb::ColumnFamilyHandle*& family : handles_) {
    (void)db_->DestroyColumnFamilyHandle(std::exchange(family, nullptr));
  }
  if (rocksdb::Status status = db_->Close(); !status.ok()) {
    log(LogLevel::kWarning, "close data folder " + options_.folder + ": " + status.ToString());
  }
  db_.reset();
}

Result<void> RocksEngine::reopen() {
  close(false);
  return open();
}

void RocksEngine::add_to(RocksStats& stats) const {
  stats.groups = groups_.load(std::memory_order_relaxed);
  stats.bytes_written = bytes_written_.load(std::memory_order_relaxed);
  stats.free_bytes = free_space_.bytes();
  stats.accepts_puts = free_space_.enough();
  if (!db_) return;
  for (rocksdb::ColumnFamilyHandle* family : handles_) {
    std::uint64_t bytes = 0;
    if (db_->GetIntProperty(family, rocksdb::DB::Properties::kTotalSstFilesSize, &bytes)) {
      stats.stored_bytes += bytes;
    }
  }
}

Result<void> RocksEngine::compact() {
  if (!db_) return Error{ErrorCode::kUnavailable, "the store is closed"};
  for (rocksdb::ColumnFamilyHandle* family : handles_) {
    const rocksdb::Status status =
        db_->CompactRange(rocksdb::CompactRangeOptions(), family, nullptr, nullptr);
    if (!status.ok()) return to_error(status, "compact " + family->GetName());
  }
  return {};
}

void RocksEngine::log(LogLevel level, std::string_view message) const {
  if (options_.log) options_.log(level, message);
}

}  // namespace carillon::store
