// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Backups of a data folder: made of one that is open (RocksDatabase::back_up) or of one that is
/// not, and turned into a data folder again.
///
/// A backup is a folder with the files of a database and a list of them, BACKUP, which is written
/// last. Until it is whole it is called `<name>.incomplete`; what a kill leaves behind is called so
/// too, is refused by whoever reads backups, and is replaced by the next one of that name.
///
/// What is in it and what restoring means: docs/operating/backup.md.

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "carillon/base/result.h"

namespace carillon::store {

/// The list of a backup's files. Whoever opens a data folder refuses one that has it.
inline constexpr const char* kBackupFile = "BACKUP";
/// In a data folder that a restore has begun and not ended.
inline constexpr const char* kRestoringFile = "RESTORING";
/// Ids that a restored folder leaves out, for those that were given out after the backup was made.
inline constexpr std::uint64_t kRestoreIdGap = std::uint64_t{1} << 32;

struct BackupFile {
  std::string name;
  std::uint64_t bytes = 0;
  bool operator==(const BackupFile&) const = default;
};

struct BackupList {
  std::int64_t created_ms = 0;  ///< Unix time, by the clock of the machine.
  std::uint64_t group = 0;      ///< Every write up to this one is in it.
  std::vector<BackupFile> files;

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const BackupFile& file : files) sum += file.bytes;
    return sum;
  }
};

/// Makes a backup file by file.
///
/// Threads: one.
/// Errors:  create(): kAlreadyExists, kInvalidArgument, kNotFound (its parent), kUnavailable
///          (another is being made of that name); kNoSpace; kIo. After an error, or without
///          finish(), the destructor removes what there is.
class BackupWriter {
 public:
  /// Begins the backup `folder`, which must not exist, of the folder `data`, in which it must not
  /// be.
  [[nodiscard]] static Result<BackupWriter> create(const std::string& data,
                                                   const std::string& folder, std::stop_token stop);
  BackupWriter(BackupWriter&& other) noexcept;
  BackupWriter& operator=(BackupWriter&&) = delete;
  ~BackupWriter();

  /// Adds the first `bytes` bytes of the file at `path`. `may_link`: it never changes, so a link
  /// will do where the file system has them.
  Result<void> add(const std::string& path, const std::string& name, std::uint64_t bytes,
                   bool may_link);
  Result<void> add_contents(const std::string& name, const std::string& contents);
  /// Makes it durable and gives it its name.
  Result<BackupList> finish(std::uint64_t group);

 private:
  BackupWriter() = default;

  std::string folder_;
  std::string partial_;  // Empty: nothing to remove.
  int lock_ = -1;
  std::stop_token stop_;
  BackupList info_;
};

/// Reads the list of the backup `folder`, and looks whether its files are there in their sizes.
/// Errors: kNotFound: it is no backup; kCorrupt: names what is missing.
[[nodiscard]] Result<BackupList> read_backup(const std::string& folder);

/// Makes the backup `to` of the data folder `from`, which no server has open and which is not
/// changed.
/// Errors: as BackupWriter; kUnavailable: `from` is in use; kNotFound: no database there.
[[nodiscard]] Result<BackupList> back_up_folder(const std::string& from, const std::string& to);

/// Makes the data folder `to`, which must be empty or not exist, of the backup `from`. The jobs are
/// those of the backup; new ids begin kRestoreIdGap further on. After an error, `to` is as it was.
[[nodiscard]] Result<BackupList> restore_backup(const std::string& from, const std::string& to);

}  // namespace carillon::store
