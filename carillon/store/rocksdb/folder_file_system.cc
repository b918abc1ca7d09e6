// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/folder_file_system.h"

#include <charconv>

#include "carillon/store/rocksdb/prefilled_log.h"

namespace carillon::store {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class WatchedManifest final : public rocksdb::FSWritableFileWrapper {
 public:
  WatchedManifest(std::unique_ptr<rocksdb::FSWritableFile> file, std::uint64_t number,
                  const FolderFileSystem::ManifestSynced& synced)
      : FSWritableFileWrapper(file.get()),
        file_(std::move(file)),
        number_(number),
        synced_(synced) {}

  // RocksDB appends to and syncs a manifest from one thread at a time.
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return count(data.size(), target()->Append(data, options, debug));
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    return count(data.size(), target()->Append(data, options, info, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return tell(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return tell(target()->Fsync(options, debug));
  }

 private:
  IOStatus count(std::size_t bytes, IOStatus status) {
    if (status.ok()) bytes_ += bytes;
    return status;
  }
  IOStatus tell(IOStatus status) {
    if (status.ok()) synced_(number_, bytes_);
    return status;
  }

  const std::unique_ptr<rocksdb::FSWritableFile> file_;
  const std::uint64_t number_;
  const FolderFileSystem::ManifestSynced& synced_;
  std::uint64_t bytes_ = 0;
};

class WatchedLog final : public rocksdb::FSWritableFileWrapper {
 public:
  WatchedLog(std::unique_ptr<rocksdb::FSWritableFile> file,
             const FolderFileSystem::LogFailed& failed)
      : FSWritableFileWrapper(file.get()), file_(std::move(file)), failed_(failed) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return tell(target()->Append(data, options, debug));
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    return tell(target()->Append(data, options, info, debug));
  }

 private:
  IOStatus tell(IOStatus status) {
    if (!status.ok()) failed_(status);
    return status;
  }

  const std::unique_ptr<rocksdb::FSWritableFile> file_;
  const FolderFileSystem::LogFailed& failed_;
};

}  // namespace

void FolderFileSystem::begin_opening(const std::string& folder) {
  std::string current;
  if (!rocksdb::ReadFileToString(target(), folder + "/CURRENT", &current).ok()) current.clear();
  const MutexLock lock(mutex_);
  opening_ = true;
  folder_ = folder;
  current_ = std::move(current);
  created_.clear();
  held_.clear();
}

void FolderFileSystem::keep_opening() {
  std::vector<std::string> held;
  {
    const MutexLock lock(mutex_);
    opening_ = false;
    held.swap(held_);
  }
  // What cannot be deleted now, RocksDB finds at the next start.
  for (const std::string& path : held) (void)target()->DeleteFile(path, IOOptions(), nullptr);
}

void FolderFileSystem::give_up_opening() {
  const MutexLock lock(mutex_);
  opening_ = false;
}

IOStatus FolderFileSystem::take_back_opening() {
  const MutexLock lock(mutex_);
  opening_ = false;
  if (current_.empty()) return IOStatus::OK();  // There was no database.
  const std::string path = folder_ + "/CURRENT";
  std::string now;
  IOStatus status = rocksdb::ReadFileToString(target(), path, &now);
  if (status.ok() && now != current_) {
    // First this, and durably: until then the new files are needed.
    const std::string temporary = path + ".as-found";
    status = rocksdb::WriteStringToFile(target(), current_, temporary, true);
    if (status.ok()) status = target()->RenameFile(temporary, path, IOOptions(), nullptr);
    std::unique_ptr<rocksdb::FSDirectory> directory;
    if (status.ok()) status = target()->NewDirectory(folder_, IOOptions(), &directory, nullptr);
    if (status.ok()) status = directory->Fsync(IOOptions(), nullptr);
  }
  if (!status.ok()) return status;
  for (const std::string& created : created_) {
    (void)target()->DeleteFile(created, IOOptions(), nullptr);
  }
  return status;
}

IOStatus FolderFileSystem::NewWritableFile(const std::string& path,
                                           const rocksdb::FileOptions& options,
                                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                                           IODebugContext* debug) {
  {
    const MutexLock lock(mutex_);
    if (opening_) created_.push_back(path);
  }
  IOStatus status = target()->NewWritableFile(path, options, file, debug);
  if (!status.ok()) return status;
  if (const std::uint64_t number = manifest_number(path); number != 0) {
    *file = std::make_unique<WatchedManifest>(std::move(*file), number, synced_);
  } else if (path.ends_with(".log")) {
    *file =
        std::make_unique<WatchedLog>(std::make_unique<PrefilledLog>(std::move(*file)), log_failed_);
  }
  return status;
}

IOStatus FolderFileSystem::RenameFile(const std::string& from, const std::string& to,
                                      const IOOptions& options, IODebugContext* debug) {
  {
    const MutexLock lock(mutex_);
    if (opening_ && !to.ends_with("/CURRENT")) created_.push_back(to);
  }
  return target()->RenameFile(from, to, options, debug);
}

IOStatus FolderFileSystem::DeleteFile(const std::string& path, const IOOptions& options,
                                      IODebugContext* debug) {
  {
    const MutexLock lock(mutex_);
    if (opening_) {
      held_.push_back(path);
      return IOStatus::OK();
    }
  }
  return target()->DeleteFile(path, options, debug);
}

std::uint64_t manifest_number(std::string_view path) noexcept {
  constexpr std::string_view kPrefix = "MANIFEST-";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(kPrefix)) return 0;
  const std::string_view digits = name.substr(kPrefix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

}  // namespace carillon::store
