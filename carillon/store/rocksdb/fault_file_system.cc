// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/fault_file_system.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace carillon::store::testing {

using rocksdb::FileOptions;
using rocksdb::FSDirectory;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class FaultWritableFile final : public rocksdb::FSWritableFileWrapper {
 public:
  FaultWritableFile(FaultFileSystem& system, std::string path, std::unique_ptr<FSWritableFile> file)
      : FSWritableFileWrapper(file.get()),
        system_(system),
        path_(std::move(path)),
        file_(std::move(file)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return write(data, target()->GetFileSize(options, debug), options, debug, true);
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*info*/, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus PositionedAppend(const Slice& data, std::uint64_t offset, const IOOptions& options,
                            IODebugContext* debug) override {
    return write(data, offset, options, debug, false);
  }
  IOStatus PositionedAppend(const Slice& data, std::uint64_t offset, const IOOptions& options,
                            const rocksdb::DataVerificationInfo& /*info*/,
                            IODebugContext* debug) override {
    return PositionedAppend(data, offset, options, debug);
  }
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    IOStatus status = system_.begin_change(FaultFileSystem::Change::kOther, path_);
    return status.ok() ? system_.note_sync(path_) : status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  IOStatus RangeSync(std::uint64_t /*offset*/, std::uint64_t /*bytes*/,
                     const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return IOStatus::OK();
  }
  IOStatus Truncate(std::uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    // Cuts off space that was allocated or filled ahead when a file is closed: nothing is lost with
    // it, and nothing if it does not happen.
    if (!system_.is_powered()) return IOStatus::IOError("power is off");
    system_.note_truncate(path_, size);
    return target()->Truncate(size, options, debug);
  }

 private:
  IOStatus write(const Slice& data, std::uint64_t offset, const IOOptions& options,
                 IODebugContext* debug, bool appends) {
    IOStatus status = system_.begin_change(FaultFileSystem::Change::kOther, path_);
    Slice part = data;
    if (!status.ok()) {
      if (!system_.is_powered()) return status;
      part = Slice(data.data(), data.size() / 2);
    }
    std::string before(part.size(), '\0');
    std::ifstream in(path_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(offset));
    in.read(before.data(), static_cast<std::streamsize>(before.size()));
    before.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
    IOStatus real = appends ? target()->Append(part, options, debug)
                            : target()->PositionedAppend(part, offset, options, debug);
    if (!real.ok()) return real;
    system_.note_write(path_, offset, part.size(), std::move(before));
    return status;
  }

  FaultFileSystem& system_;
  const std::string path_;
  const std::unique_ptr<FSWritableFile> file_;
};

class FaultDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  FaultDirectory(FaultFileSystem& system, std::string path, std::unique_ptr<FSDirectory> directory)
      : FSDirectoryWrapper(std::move(directory)), system_(system), path_(std::move(path)) {}

  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    IOStatus status = system_.begin_change(FaultFileSystem::Change::kOther, path_);
    if (status.ok()) system_.note_directory_sync(path_);
    return status;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& /*what*/) override {
    return Fsync(options, debug);
  }

 private:
  FaultFileSystem& system_;
  const std::string path_;
};

FaultFileSystem::FaultFileSystem() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}

void FaultFileSystem::fail_change(std::uint64_t nth, Fault fault, bool sticky) {
  const MutexLock lock(mutex_);
  fail_at_ = changes_ + nth;
  fault_ = fault;
  sticky_ = sticky;
  struck_ = false;
}

void FaultFileSystem::heal() {
  const MutexLock lock(mutex_);
  fail_at_ = 0;
}

std::uint64_t FaultFileSystem::changes() const {
  const MutexLock lock(mutex_);
  return changes_;
}

bool FaultFileSystem::struck() const {
  const MutexLock lock(mutex_);
  return struck_;
}

void FaultFileSystem::power_off() {
  const MutexLock lock(mutex_);
  powered_ = false;
}

void FaultFileSystem::power_on() {
  const MutexLock lock(mutex_);
  powered_ = true;
}

bool FaultFileSystem::is_powered() const {
  const MutexLock lock(mutex_);
  return powered_;
}

void FaultFileSystem::lose_unsynced(std::size_t torn_bytes, const std::string& only_path) {
  const MutexLock lock(mutex_);
  for (auto at = files_.begin(); at != files_.end();) {
    auto& [path, file] = *at;
    if (!only_path.empty() && path != only_path) {
      ++at;
      continue;
    }
    if (!std::filesystem::exists(path)) {
      at = files_.erase(at);
      continue;
    }
    if (!file.entry_synced && file.synced == 0) {
      std::filesystem::remove(path);
      at = files_.erase(at);
      continue;
    }
    take_back_writes(path, file, torn_bytes);
    ++at;
  }
}

void FaultFileSystem::take_back_writes(const std::string& path, File& file,
                                       std::size_t torn_bytes) {
  std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
  // The first write that was lost, if it may be torn: nothing but zeros or the file's end was
  // there.
  std::string torn;
  std::uint64_t torn_at = 0;
  for (const Overwrite& write : file.writes) {
    const bool over_zeros = write.before.find_first_not_of('\0') == std::string::npos;
    std::string now(write.bytes, '\0');
    bytes.seekg(static_cast<std::streamoff>(write.offset));
    bytes.read(now.data(), static_cast<std::streamsize>(now.size()));
    bytes.clear();
    if (!over_zeros || now.find_first_not_of('\0') == std::string::npos) continue;
    torn = now.substr(0, torn_bytes);
    torn_at = write.offset;
    break;
  }
  for (auto write = file.writes.rbegin(); write != file.writes.rend(); ++write) {
    bytes.seekp(static_cast<std::streamoff>(write->offset));
    bytes.write(write->before.data(), static_cast<std::streamsize>(write->before.size()));
  }
  bytes.close();
  std::uint64_t size = file.synced;
  std::filesystem::resize_file(path, size);
  if (!torn.empty()) {
    torn.back() = '\x5A';
    std::fstream damaged(path, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(static_cast<std::streamoff>(torn_at));
    damaged.write(torn.data(), static_cast<std::streamsize>(torn.size()));
    size = std::max<std::uint64_t>(size, torn_at + torn.size());
  }
  file.writes.clear();
  file.size = size;
  file.synced = size;
}

void FaultFileSystem::on_sync(std::string part, std::function<bool()> hook) {
  const MutexLock lock(mutex_);
  hooked_part_ = std::move(part);
  hook_ = std::move(hook);
}

IOStatus FaultFileSystem::begin_change(Change change, const std::string& path) {
  const MutexLock lock(mutex_);
  if (!powered_) return IOStatus::IOError("power is off", path);
  ++changes_;
  const bool due = fail_at_ != 0 && (sticky_ ? changes_ >= fail_at_ : changes_ == fail_at_);
  if (!due) return IOStatus::OK();
  if (fault_ == Fault::kNoSpace && change == Change::kDelete) return IOStatus::OK();
  struck_ = true;
  return fault_ == Fault::kNoSpace ? IOStatus::NoSpace("injected", path)
                                   : IOStatus::IOError("injected", path);
}

void FaultFileSystem::note_write(const std::string& path, std::uint64_t offset, std::uint64_t bytes,
                                 std::string before) {
  const MutexLock lock(mutex_);
  File& file = files_[path];
  file.size = std::max(file.size, offset + bytes);
  file.writes.push_back({offset, bytes, std::move(before)});
}

IOStatus FaultFileSystem::note_sync(const std::string& path) {
  std::function<bool()> hook;
  {
    const MutexLock lock(mutex_);
    if (hook_ && path.find(hooked_part_) != std::string::npos) hook = hook_;
  }
  if (hook && !hook()) return IOStatus::IOError("sync failed by its hook", path);
  const MutexLock lock(mutex_);
  File& file = files_[path];
  file.synced = file.size;
  file.writes.clear();
  return IOStatus::OK();
}

void FaultFileSystem::note_truncate(const std::string& path, std::uint64_t size) {
  const MutexLock lock(mutex_);
  File& file = files_[path];
  file.size = std::min(file.size, size);
  file.synced = std::min(file.synced, size);
}

void FaultFileSystem::note_directory_sync(const std::string& path) {
  const MutexLock lock(mutex_);
  for (auto& [name, file] : files_) {
    if (name.starts_with(path)) file.entry_synced = true;
  }
}

IOStatus FaultFileSystem::NewWritableFile(const std::string& path, const FileOptions& options,
                                          std::unique_ptr<FSWritableFile>* file,
                                          IODebugContext* debug) {
  if (IOStatus status = begin_change(Change::kOther, path); !status.ok()) return status;
  std::unique_ptr<FSWritableFile> real;
  IOStatus status = target()->NewWritableFile(path, options, &real, debug);
  if (!status.ok()) return status;
  {
    const MutexLock lock(mutex_);
    files_[path] = File{};
  }
  *file = std::make_unique<FaultWritableFile>(*this, path, std::move(real));
  return status;
}

IOStatus FaultFileSystem::ReopenWritableFile(const std::string& path, const FileOptions& options,
                                             std::unique_ptr<FSWritableFile>* file,
                                             IODebugContext* debug) {
  if (IOStatus status = begin_change(Change::kOther, path); !status.ok()) return status;
  std::unique_ptr<FSWritableFile> real;
  IOStatus status = target()->ReopenWritableFile(path, options, &real, debug);
  if (status.ok()) *file = std::make_unique<FaultWritableFile>(*this, path, std::move(real));
  return status;
}

IOStatus FaultFileSystem::ReuseWritableFile(const std::string& path, const std::string& old_path,
                                            const FileOptions& options,
                                            std::unique_ptr<FSWritableFile>* file,
                                            IODebugContext* debug) {
  if (IOStatus status = RenameFile(old_path, path, {}, debug); !status.ok()) return status;
  return NewWritableFile(path, options, file, debug);
}

IOStatus FaultFileSystem::NewDirectory(const std::string& path, const IOOptions& options,
                                       std::unique_ptr<FSDirectory>* directory,
                                       IODebugContext* debug) {
  std::unique_ptr<FSDirectory> real;
  IOStatus status = target()->NewDirectory(path, options, &real, debug);
  if (status.ok()) *directory = std::make_unique<FaultDirectory>(*this, path, std::move(real));
  return status;
}

IOStatus FaultFileSystem::DeleteFile(const std::string& path, const IOOptions& options,
                                     IODebugContext* debug) {
  if (IOStatus status = begin_change(Change::kDelete, path); !status.ok()) return status;
  {
    const MutexLock lock(mutex_);
    files_.erase(path);
  }
  return target()->DeleteFile(path, options, debug);
}

IOStatus FaultFileSystem::RenameFile(const std::string& from, const std::string& to,
                                     const IOOptions& options, IODebugContext* debug) {
  if (IOStatus status = begin_change(Change::kOther, from); !status.ok()) return status;
  IOStatus status = target()->RenameFile(from, to, options, debug);
  if (!status.ok()) return status;
  const MutexLock lock(mutex_);
  if (auto file = files_.extract(from); !file.empty()) {
    files_.erase(to);
    file.key() = to;
    // Renames stand; so do the entries they make.
    file.mapped().entry_synced = true;
    files_.insert(std::move(file));
  }
  return status;
}

IOStatus FaultFileSystem::LinkFile(const std::string& from, const std::string& to,
                                   const IOOptions& options, IODebugContext* debug) {
  if (IOStatus status = begin_change(Change::kOther, from); !status.ok()) return status;
  return target()->LinkFile(from, to, options, debug);
}

IOStatus FaultFileSystem::Truncate(const std::string& path, std::size_t size,
                                   const IOOptions& options, IODebugContext* debug) {
  if (IOStatus status = begin_change(Change::kOther, path); !status.ok()) return status;
  return target()->Truncate(path, size, options, debug);
}

}  // namespace carillon::store::testing
