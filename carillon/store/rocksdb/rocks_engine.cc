// SPDX-License-Identifier: Apache-2.0
// Opening, checking and closing the folder; rocks_engine_write.cc and rocks_engine_read.cc
// have the writes and reads.
#include "carillon/store/rocksdb/rocks_engine.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/store/rocksdb/gap_filter.h"
#include "carillon/store/rocksdb/status_error.h"

namespace carillon::store {
namespace {

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(), [&name](std::string_view suffix) {
    return std::string_view(name).ends_with(suffix);
  });
}

/// Whether LockFile() failed because somebody has the lock, in this process or in another.
bool is_taken(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  return text.find("lock hold by current process") != std::string::npos ||
         text.find(std::generic_category().message(EAGAIN)) != std::string::npos;
}

/// 100000000 -> "95.3 MiB", rounded down.
std::string in_mib(std::uint64_t bytes) {
  const std::uint64_t tenths = bytes / 1024 * 10 / 1024;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

}  // namespace

RocksEngine::RocksEngine(const RocksOptions& options)
    : options_(options),
      files_(std::make_shared<FolderFileSystem>(
          (options.env != nullptr ? options.env : rocksdb::Env::Default())->GetFileSystem(),
          [this](std::uint64_t number, std::uint64_t bytes) {
            (void)mark_.set_manifest(number, bytes);
          },
          [this](const rocksdb::IOStatus& status) {
            const MutexLock lock(log_mutex_);
            if (log_failure_.ok()) log_failure_ = status;
          })),
      env_(rocksdb::NewCompositeEnv(files_)),
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
  Result<void> checked;
  if (mark) {
    checked = exists ? check_manifest(*mark) : check_complete(*mark, 0);
  } else if (exists) {
    checked = damaged(
        "its file ACKNOWLEDGED is missing or cannot be made out, so that nobody knows what else is "
        "missing");
  } else {
    checked = mark_.begin(options_.folder);
  }
  if (!checked) return checked;
  {
    const MutexLock lock(log_mutex_);
    log_failure_ = rocksdb::Status::OK();
  }
  files_->begin_opening(options_.folder);
  if (Result<void> opened = open_database(); !opened) {
    files_->give_up_opening();
    return opened;
  }
  if (checked = check_opened(mark); !checked) {
    close_database();
    if (checked.error().code == ErrorCode::kIo || checked.error().code == ErrorCode::kNoSpace) {
      files_->give_up_opening();
    } else {
      take_back(mark);
    }
    return checked;
  }
  if (Result<void> raised = raise_format(); !raised) {
    close_database();
    files_->give_up_opening();
    return raised;
  }
  files_->keep_opening();
  mark_failed_ = false;
  on_acknowledged();
  return {};
}

/// A folder of an older format has all that is new in this one by now, or can have it at any time:
/// an older build must not open it any more.
Result<void> RocksEngine::raise_format() {
  if (format_ == kFormatVersion) return {};
  rocksdb::WriteOptions durable;
  durable.sync = true;
  const rocksdb::Status status =
      db_->Put(durable, handle(kMeta), format_key().view(),
               encode_format({kFormatVersion, options_.partition_count}));
  if (!status.ok()) return to_error(status, "raise the format of data folder " + options_.folder);
  log(LogLevel::kInfo, "data folder " + options_.folder + " had format version " +
                           std::to_string(format_) + " and now has " +
                           std::to_string(kFormatVersion));
  format_ = kFormatVersion;
  return {};
}

Result<void> RocksEngine::check_opened(const std::optional<AcknowledgedMark::Value>& mark) {
  if (Result<void> checked = check_format(); !checked) return checked;
  std::string value;
  std::uint64_t group = 0;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), group_key().view(), &value);
  if (status.ok()) {
    Result<std::uint64_t> decoded = decode_group(value);
    if (!decoded) return std::move(decoded.error()).prefixed("data folder " + options_.folder);
    group = *decoded;
  } else if (!status.IsNotFound()) {
    return to_error(status, "read data folder " + options_.folder);
  }
  if (mark) {
    if (Result<void> checked = check_complete(*mark, group); !checked) return checked;
  }
  applied_group_.store(group, std::memory_order_relaxed);
  synced_group_ = group;
  return {};
}

void RocksEngine::take_back(const std::optional<AcknowledgedMark::Value>& mark) {
  const rocksdb::IOStatus status = files_->take_back_opening();
  if (!status.ok()) {
    log(LogLevel::kError,
        "cannot leave data folder " + options_.folder + " as it was found: " + status.ToString());
  } else if (mark) {
    (void)mark_.set_manifest(mark->manifest_number, mark->manifest_bytes);
  }
}

Result<void> RocksEngine::take_folder() {
  if (lock_ != nullptr) return {};
  if (Result<void> checked = check_no_backup(); !checked) return checked;
  const std::string& folder = options_.folder;
  if (rocksdb::Status status = env_->CreateDirIfMissing(folder); !status.ok()) {
    return to_error(status, "create data folder " + folder);
  }
  // RocksDB has a lock of its own, but lets go of it while the folder is reopened, and does not
  // take it for the check before recovery.
  const std::string path = folder + "/IN-USE";
  if (rocksdb::Status status = env_->LockFile(path, &lock_); !status.ok()) {
    lock_ = nullptr;
    if (!is_taken(status)) return to_error(status, "lock " + path);
    return Error{ErrorCode::kUnavailable,
                 "data folder " + folder + " is in use by another process"};
  }
  return mark_.open(folder);
}

Result<void> RocksEngine::check_no_backup() const {
  const std::string& folder = options_.folder;
  if (env_->FileExists(folder + "/" + kBackupFile).ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 "folder " + folder + " is a backup: carillon restore makes a data folder of it"};
  }
  if (env_->FileExists(folder + "/" + kRestoringFile).ok()) {
    return Error{ErrorCode::kCorrupt, "a restore into data folder " + folder +
                                          " was interrupted: remove it and restore again"};
  }
  return {};
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
  const auto find_missing = [&names](std::uint32_t format) {
    std::size_t family = 0;
    for (; family < kFamilies; ++family) {
      const bool there = std::find(names.begin(), names.end(), kFamilyNames[family]) != names.end();
      if (!there && !may_lack(format, family)) break;
    }
    return family;
  };
  if (stranger == names.end() && find_missing(kFormatVersion) == kFamilies) return {};

  // Only `default` is opened, and nothing is written.
  rocksdb::DB* db = nullptr;
  status = rocksdb::DB::OpenForReadOnly(rocksdb::Options(db_options(), {}), folder, &db);
  if (!status.ok()) return to_error(status, "open data folder " + folder);
  const std::unique_ptr<rocksdb::DB> owner(db);
  std::string value;
  status = db->Get(rocksdb::ReadOptions(), format_key().view(), &value);
  if (!status.ok() && !status.IsNotFound()) return to_error(status, "open data folder " + folder);
  std::uint32_t version = kFormatVersion;
  if (status.ok()) {
    const Result<FormatRecord> format = decode_format(value);
    if (format && format->version > kFormatVersion) return newer_format(*format);
    if (format) version = format->version;
  }
  if (stranger != names.end()) {
    return Error{ErrorCode::kCorrupt,
                 "data folder " + folder + " has an unknown column family " + *stranger};
  }
  if (status.IsNotFound()) return {};  // A creation that was interrupted.
  const std::size_t missing = find_missing(version);
  if (missing == kFamilies) return {};
  return Error{ErrorCode::kCorrupt,
               "data folder " + folder + " has no column family " + kFamilyNames[missing]};
}

Error RocksEngine::newer_format(const FormatRecord& format) const {
  return Error{ErrorCode::kInvalidArgument,
               "data folder " + options_.folder + " has format version " +
                   std::to_string(format.version) + ", this build reads up to version " +
                   std::to_string(kFormatVersion)};
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
  return damaged("write " + std::to_string(mark.group) +
                 " was acknowledged, but only those up to " + std::to_string(group) +
                 " can be read");
}

Error RocksEngine::closed() {
  return Error{ErrorCode::kUnavailable, "the store is closed after a failure"};
}

Result<void> RocksEngine::damaged(const std::string& how) const {
  const std::string message = "data folder " + options_.folder + " is damaged or not whole: " + how;
  if (!options_.accept_loss) {
    return Error{ErrorCode::kCorrupt, message + " (accept-loss opens it without what is missing)"};
  }
  log(LogLevel::kError, message + "; the loss is accepted as asked");
  return {};
}

rocksdb::DBOptions RocksEngine::db_options() const {
  rocksdb::DBOptions options = make_db_options(options_);
  options.env = env_.get();
  return options;
}

Result<void> RocksEngine::open_database() {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  GapFilter gaps;
  rocksdb::DBOptions options = db_options();
  options.wal_filter = &gaps;
  const rocksdb::Status status =
      rocksdb::DB::Open(options, options_.folder, make_families(options_, cache_), &handles, &db);
  if (!status.ok()) return to_error(status, "open data folder " + options_.folder);
  db_.reset(db);
  CARILLON_CHECK(handles.size() == kFamilies, handles.size(), " column families");
  std::copy(handles.begin(), handles.end(), handles_.begin());
  if (gaps.gap_after() != 0) {
    log(LogLevel::kWarning, "the log of data folder " + options_.folder +
                                " has a gap after write " + std::to_string(gaps.gap_after()) +
                                "; replay ended there");
  }
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
    format_ = kFormatVersion;
    return {};
  }
  if (!status.ok()) return to_error(status, "read format of data folder " + folder);
  Result<FormatRecord> format = decode_format(value);
  if (!format) return std::move(format.error()).prefixed("data folder " + folder);
  if (format->version > kFormatVersion) return newer_format(*format);
  format_ = format->version;
  if (format->partition_count != options_.partition_count) {
    return Error{ErrorCode::kInvalidArgument,
                 "data folder " + folder + " has " + std::to_string(format->partition_count) +
                     (format->partition_count == 1 ? " partition" : " partitions") +
                     ", but the option partitions is " + std::to_string(options_.partition_count) +
                     "; the number is fixed when the folder is made"};
  }
  return {};
}

void RocksEngine::close(bool clean) {
  if (!db_) return;
  if (clean) {
    const std::vector<rocksdb::ColumnFamilyHandle*> handles(handles_.begin(), handles_.end());
    rocksdb::Status status = sync_log();
    // With nothing left in the log the next start has nothing to replay.
    if (status.ok()) status = db_->Flush(rocksdb::FlushOptions(), handles);
    if (status.ok()) {
      (void)mark_.acknowledge(applied_group_.load(std::memory_order_relaxed));
      (void)mark_.sync();
    } else {
      log(LogLevel::kWarning, "close data folder " + options_.folder + ": " + status.ToString());
    }
  }
  close_database();
}

void RocksEngine::close_database() {
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

bool RocksEngine::accepts_puts() noexcept {
  const bool enough = free_space_.enough();
  switch (low_space_.note(enough)) {
    case LowSpaceEpisode::News::kNone: break;
    case LowSpaceEpisode::News::kBegan:
      log(LogLevel::kWarning, "data folder " + options_.folder + ": " +
                                  in_mib(free_space_.bytes()) +
                                  " are free, less than min-free-space (" +
                                  in_mib(free_space_.min_bytes()) + "): puts are refused");
      break;
    case LowSpaceEpisode::News::kEnded:
      log(LogLevel::kInfo, "data folder " + options_.folder + ": " + in_mib(free_space_.bytes()) +
                               " are free: puts are taken again; " +
                               std::to_string(low_space_.take_refused()) + " were refused");
      break;
  }
  return enough;
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
