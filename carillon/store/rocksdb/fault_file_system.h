// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A file system for tests that fails when told, loses power when told, and counts what it was
/// asked.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <rocksdb/file_system.h>

#include "carillon/base/mutex.h"

namespace carillon::store::testing {

/// Wraps the operating system's file system.
///
/// Every operation that changes something is counted, and is one of: create, write, sync, rename,
/// delete, link, truncate, directory sync. Syncs are remembered but not carried out: tests end
/// processes, not machines.
///
/// Threads: safe.
class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  enum class Fault { kIo, kNoSpace };

  FaultFileSystem();

  static const char* kClassName() { return "FaultFileSystem"; }
  const char* Name() const override { return kClassName(); }

  /// The N-th change from now (from 1) fails, and with `sticky` every one after it. Under kNoSpace
  /// deletes succeed. A failing write leaves half of its bytes behind.
  void fail_change(std::uint64_t nth, Fault fault, bool sticky);
  /// Faults end.
  void heal();
  [[nodiscard]] std::uint64_t changes() const;
  /// Whether a fault has struck since fail_change().
  [[nodiscard]] bool struck() const;

  /// Nothing is changed any more until power_on(): every change fails without effect. What is open
  /// can then be destroyed as if the process had been killed.
  void power_off();
  void power_on();
  /// Pre: power is off. Takes back what was not synced: bytes appended after the last sync of their
  /// file (but for `torn_bytes` of them, the last of which is damaged), files whose creation was
  /// not synced. Renames and deletes stand.
  void lose_unsynced(std::size_t torn_bytes = 0, const std::string& only_path = {});

  /// Called in a sync of a file whose name contains `part`; it fails if that says false.
  void on_sync(std::string part, std::function<bool()> hook);

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* file,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(const std::string& path, std::size_t size,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;

 private:
  friend class FaultWritableFile;
  friend class FaultDirectory;

  enum class Change { kOther, kDelete };
  // What an operation must ask first; not ok: it fails.
  rocksdb::IOStatus begin_change(Change change, const std::string& path);
  // `before`: what was there before the write, as far as the file reached.
  void note_write(const std::string& path, std::uint64_t offset, std::uint64_t bytes,
                  std::string before);
  rocksdb::IOStatus note_sync(const std::string& path);
  void note_truncate(const std::string& path, std::uint64_t size);
  void note_directory_sync(const std::string& path);
  [[nodiscard]] bool is_powered() const;

  struct Overwrite {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::string before;
  };
  struct File {
    std::uint64_t size = 0;
    std::uint64_t synced = 0;       // Its size when it was last synced.
    std::vector<Overwrite> writes;  // Since then, in order.
    bool entry_synced = false;
  };
  static void take_back_writes(const std::string& path, File& file, std::size_t torn_bytes);

  mutable Mutex mutex_;
  std::uint64_t changes_ CARILLON_GUARDED_BY(mutex_) = 0;
  std::uint64_t fail_at_ CARILLON_GUARDED_BY(mutex_) = 0;  // 0: never
  Fault fault_ CARILLON_GUARDED_BY(mutex_) = Fault::kIo;
  bool sticky_ CARILLON_GUARDED_BY(mutex_) = false;
  bool struck_ CARILLON_GUARDED_BY(mutex_) = false;
  bool powered_ CARILLON_GUARDED_BY(mutex_) = true;
  std::map<std::string, File> files_ CARILLON_GUARDED_BY(mutex_);
  std::string hooked_part_ CARILLON_GUARDED_BY(mutex_);
  std::function<bool()> hook_ CARILLON_GUARDED_BY(mutex_);
};

}  // namespace carillon::store::testing
