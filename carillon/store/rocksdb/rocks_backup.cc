// SPDX-License-Identifier: Apache-2.0
// Backups in RocksDB's terms: of the open folder, and what a restore writes into its copy.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "carillon/store/rocksdb/backup.h"
#include "carillon/store/rocksdb/gap_filter.h"
#include "carillon/store/rocksdb/record_codec.h"
#include "carillon/store/rocksdb/restore_ids.h"
#include "carillon/store/rocksdb/rocks_engine.h"
#include "carillon/store/rocksdb/rocks_settings.h"
#include "carillon/store/rocksdb/status_error.h"

namespace carillon::store {

using rocksdb::Status;

Result<BackupList> RocksEngine::back_up(const std::string& folder, std::stop_token stop) {
  if (!db_) return Error{ErrorCode::kUnavailable, "the store is closed after a failure"};
  // Before the list of files: what is acknowledged later may be in the backup or not.
  const std::optional<AcknowledgedMark::Value> mark = mark_.value();
  const std::uint64_t group = mark ? mark->group : 0;
  Result<BackupWriter> writer = BackupWriter::create(options_.folder, folder, std::move(stop));
  if (!writer) return std::move(writer).error();
  if (const Status status = db_->DisableFileDeletions(); !status.ok()) {
    return to_error(status, "back up " + options_.folder);
  }
  Result<void> added = add_live_files(*writer);
  if (const Status status = db_->EnableFileDeletions(false); !status.ok()) {
    log(LogLevel::kWarning, "after a backup, files are not deleted: " + status.ToString());
  }
  if (added) {
    AcknowledgedMark::Value value;
    value.group = group;
    added = writer->add_contents("ACKNOWLEDGED", AcknowledgedMark::file_of(value));
  }
  if (!added) return std::move(added).error().prefixed("back up " + options_.folder);
  return writer->finish(group);
}

Result<void> RocksEngine::add_live_files(BackupWriter& writer) {
  rocksdb::LiveFilesStorageInfoOptions options;
  // The log is copied, so nothing need be flushed: a backup costs those who work no stall.
  options.wal_size_for_flush = std::numeric_limits<std::uint64_t>::max();
  std::vector<rocksdb::LiveFileStorageInfo> files;
  if (const Status status = db_->GetLiveFilesStorageInfo(options, &files); !status.ok()) {
    return to_error(status, "list files");
  }
  for (const rocksdb::LiveFileStorageInfo& file : files) {
    Result<void> added =
        !file.replacement_contents.empty()
            ? writer.add_contents(file.relative_filename, file.replacement_contents)
            : writer.add(file.directory + "/" + file.relative_filename, file.relative_filename,
                         file.size, file.file_type == rocksdb::kTableFile);
    if (!added) return added;
  }
  return {};
}

namespace {

/// An open database that closes itself.
class OpenFolder {
 public:
  explicit OpenFolder(rocksdb::DB* db, std::vector<rocksdb::ColumnFamilyHandle*> handles)
      : db_(db), handles_(std::move(handles)) {}
  ~OpenFolder() {
    for (rocksdb::ColumnFamilyHandle* family : handles_) {
      (void)db_->DestroyColumnFamilyHandle(family);
    }
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;
  rocksdb::DB* operator->() const { return db_.get(); }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* meta() const { return handles_.at(kMeta); }

 private:
  const std::unique_ptr<rocksdb::DB> db_;
  const std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

/// Appends the records of the partitions, with their next ids moved on.
Result<void> move_ids(const OpenFolder& folder, std::uint64_t gap, std::uint32_t partitions,
                      rocksdb::WriteBatch& batch) {
  for (std::uint32_t i = 0; i < partitions; ++i) {
    const Key key = partition_key(static_cast<PartitionIndex>(i));
    std::string value;
    const Status status = folder->Get(rocksdb::ReadOptions(), folder.meta(), key.view(), &value);
    if (status.IsNotFound()) continue;  // Nothing was ever put there.
    if (!status.ok()) return to_error(status, "read partition " + std::to_string(i));
    Result<broker::PartitionRecord> record = decode_partition(value);
    if (!record) return std::move(record).error().prefixed("partition " + std::to_string(i));
    record->next_id += gap;
    (void)batch.Put(folder.meta(), key.view(), encode_partition(*record));
  }
  return {};
}

}  // namespace

Result<void> pass_ids(const std::string& folder, std::uint64_t gap) {
  RocksOptions rocks;
  rocks.folder = folder;
  rocksdb::DBOptions options = make_db_options(rocks);
  options.create_if_missing = false;
  options.create_missing_column_families = false;
  GapFilter gaps;
  options.wal_filter = &gaps;
  std::vector<std::string> names;
  Status status = rocksdb::DB::ListColumnFamilies(options, folder, &names);
  if (!status.ok()) return to_error(status, "open the restored folder " + folder);
  // A folder of an older format stays what it is: it may lack a family.
  auto families = make_families(rocks, rocksdb::NewLRUCache(rocks.block_cache_bytes));
  std::erase_if(families, [&names](const rocksdb::ColumnFamilyDescriptor& family) {
    return std::find(names.begin(), names.end(), family.name) == names.end();
  });
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  status = rocksdb::DB::Open(options, folder, families, &handles, &db);
  if (!status.ok()) return to_error(status, "open the restored folder " + folder);
  const OpenFolder opened(db, std::move(handles));
  std::string value;
  status = opened->Get(rocksdb::ReadOptions(), opened.meta(), format_key().view(), &value);
  if (!status.ok()) return to_error(status, "read the format of the backup");
  Result<FormatRecord> format = decode_format(value);
  if (!format) return std::move(format).error();
  if (format->version > kFormatVersion) {
    return Error{ErrorCode::kInvalidArgument,
                 "the backup has format version " + std::to_string(format->version) +
                     ", this build reads up to version " + std::to_string(kFormatVersion)};
  }
  std::uint64_t group = 0;
  status = opened->Get(rocksdb::ReadOptions(), opened.meta(), group_key().view(), &value);
  if (status.ok()) {
    Result<std::uint64_t> decoded = decode_group(value);
    if (!decoded) return std::move(decoded).error();
    group = *decoded;
  } else if (!status.IsNotFound()) {
    return to_error(status, "read the backup");
  }
  rocksdb::WriteBatch batch;
  if (Result<void> moved = move_ids(opened, gap, format->partition_count, batch); !moved) {
    return moved;
  }
  if (batch.Count() == 0) return {};
  (void)batch.Put(opened.meta(), group_key().view(), encode_group(group + 1));
  rocksdb::WriteOptions durable;
  durable.sync = true;
  status = opened->Write(durable, &batch);
  if (!status.ok()) return to_error(status, "write to the restored folder " + folder);
  return {};
}

}  // namespace carillon::store
