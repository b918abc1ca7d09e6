// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the tests of the RocksDB store share: a folder that vanishes, a database on a faulty disk.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/env.h>

#include "carillon/broker/store.h"
#include "carillon/store/rocksdb/fault_file_system.h"
#include "carillon/store/rocksdb/rocks_store.h"

namespace carillon::store::testing {

/// A fresh folder, removed with all that is in it when this goes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// Files, for tests that damage them.

/// Paths in `folder` that end with `suffix`, sorted.
[[nodiscard]] std::vector<std::string> files_ending(const std::string& folder,
                                                    std::string_view suffix);
[[nodiscard]] std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);
/// Name and bytes of every file in `folder`.
[[nodiscard]] std::map<std::string, std::string> contents(const std::string& folder);

/// Small memtables, so that tests flush and compact.
[[nodiscard]] RocksOptions small_options(std::string folder);

/// One partition of a database on a FaultFileSystem.
class FaultyDatabase {
 public:
  FaultyDatabase();
  ~FaultyDatabase();

  /// Opens the folder; a test failure if it cannot be.
  void open();
  Result<void> try_open();
  void close();
  /// Closes as a kill does.
  void kill();
  /// Closes as a power cut does.
  void cut_power(std::size_t torn_bytes = 0);

  [[nodiscard]] broker::Store& store() { return *store_; }
  [[nodiscard]] RocksDatabase& database() { return *database_; }
  [[nodiscard]] FaultFileSystem& disk() { return *disk_; }
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }
  RocksOptions options;

 private:
  TemporaryFolder folder_;
  std::shared_ptr<FaultFileSystem> disk_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<RocksDatabase> database_;
  std::unique_ptr<broker::Store> store_;
};

}  // namespace carillon::store::testing
