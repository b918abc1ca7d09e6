// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Backups of the data folder while it is served, one at a time, on a thread of their own.

#include <boost/asio/io_context.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "carillon/base/result.h"
#include "carillon/server/log.h"
#include "carillon/server/made_backup.h"

namespace carillon::store {
class RocksDatabase;
}  // namespace carillon::store

namespace carillon::server {

/// Threads:  the network thread.
/// Lifetime: the loop and the database must outlive it. The destructor gives up a backup that is
///           being made, and waits for that.
class BackupRunner {
 public:
  /// Backups are made in `folder`, which is made if it does not exist; empty: none are made.
  /// `database` null: there is nothing to back up.
  BackupRunner(boost::asio::io_context& loop, store::RocksDatabase* database, std::string folder,
               Log log);
  ~BackupRunner();
  BackupRunner(const BackupRunner&) = delete;
  BackupRunner& operator=(const BackupRunner&) = delete;

  /// Begins the backup `name`, or, if that is empty, one named after the time. `done` is called on
  /// the network thread unless this is destroyed first: with kAlreadyExists, kNoSpace, kIo, or as
  /// RocksDatabase::back_up has it.
  /// Errors at once: kInvalidArgument: not a name; kLimitExceeded: one is being made; kNotFound:
  /// there is no backup-folder, or nothing on disk.
  Result<void> start(std::string_view name, BackupDone done);

  /// That of the next backup.
  void set_folder(std::string folder) { folder_ = std::move(folder); }

  /// Whether `name` is one: 1 to 100 of A-Z a-z 0-9 . _ -, not a dot first.
  [[nodiscard]] static bool is_name(std::string_view name) noexcept;

 private:
  void finish(Result<MadeBackup> result);

  boost::asio::io_context& loop_;
  store::RocksDatabase* const database_;
  std::string folder_;
  const Log log_;
  BackupDone done_;
  std::jthread thread_;
};

}  // namespace carillon::server
