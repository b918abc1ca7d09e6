// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The file system as RocksDB sees it in a carillon folder: an opening can be taken back, it is
/// known how much of the manifest has been synced, and logs are quick to sync (PrefilledLog).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/file_system.h>

#include "carillon/base/mutex.h"

namespace carillon::store {

/// Passes everything on to another file system.
///
/// RocksDB recovers a folder while it opens it: writes what it could read of the log into new
/// files, makes a new manifest current, deletes the log. Only then can be asked whether everything
/// that was acknowledged is there; and if it is not, what could not be read must not have been
/// deleted. So while an opening is being tried, deletes are held back.
///
/// Threads: safe. `synced` is called by whichever thread has synced a manifest, with the number in
///          its name and the bytes up to which it is durable.
class FolderFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using ManifestSynced = std::function<void(std::uint64_t number, std::uint64_t bytes)>;
  /// An append to a log has failed; called before RocksDB learns of it.
  using LogFailed = std::function<void(const rocksdb::IOStatus& status)>;

  FolderFileSystem(const std::shared_ptr<rocksdb::FileSystem>& target, ManifestSynced synced,
                   LogFailed log_failed)
      : rocksdb::FileSystemWrapper(target),
        synced_(std::move(synced)),
        log_failed_(std::move(log_failed)) {}

  // NOLINTNEXTLINE(readability-identifier-naming): RocksDB's name for it.
  static const char* kClassName() { return "FolderFileSystem"; }
  const char* Name() const override { return kClassName(); }

  /// From here on deletes are held back.
  void begin_opening(const std::string& folder);
  /// It is as it should be: the deletes are carried out.
  void keep_opening();
  /// Leaves the folder to the next attempt: the deletes are forgotten.
  void give_up_opening();
  /// Makes the folder as it was found: its manifest current again, what was created deleted.
  /// Pre: the database is closed. On an error the folder is left usable as it is.
  rocksdb::IOStatus take_back_opening();

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

 private:
  const ManifestSynced synced_;
  const LogFailed log_failed_;
  Mutex mutex_;
  bool opening_ CARILLON_GUARDED_BY(mutex_) = false;
  std::string folder_ CARILLON_GUARDED_BY(mutex_);
  std::string current_
      CARILLON_GUARDED_BY(mutex_);  // What the file CURRENT held; empty: no such file.
  std::vector<std::string> created_ CARILLON_GUARDED_BY(mutex_);
  std::vector<std::string> held_ CARILLON_GUARDED_BY(mutex_);
};

/// The number in a manifest's name, "MANIFEST-000123" with or without folders before it; 0 if it
/// is none.
[[nodiscard]] std::uint64_t manifest_number(std::string_view path) noexcept;

}  // namespace carillon::store
