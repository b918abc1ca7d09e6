// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Reads a data folder that nobody has open and says whether it is sound: every record can be read,
/// and they agree with each other. What is checked, in words: docs/operating/backup.md.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/result.h"

namespace carillon::store {

struct FolderCheckOptions {
  std::string folder;
  /// Faults that are described; the rest is counted.
  std::size_t max_faults = 50;
  /// Where a tube's jobs have to lie, and which partition gave out an id; empty: not checked.
  std::function<std::size_t(std::string_view tube, std::size_t partitions)> partition_of_tube;
  std::function<std::size_t(std::uint64_t id, std::size_t partitions)> partition_of_job;
};

/// Something that is not as it has to be.
struct FolderFault {
  std::string place;  ///< A column family, a file, or "folder".
  std::string key;    ///< In hexadecimal; empty if it is about no key.
  std::string what;   ///< Names job or tube if it can.
};

/// What a tube holds. Times are in milliseconds of the timeline, which is Unix time.
struct CheckedTube {
  std::uint32_t partition = 0;
  std::uint32_t number = 0;
  std::string name;
  std::uint64_t ready = 0;
  std::uint64_t delayed = 0;  ///< Near ones; `far` are delayed as well.
  std::uint64_t buried = 0;
  std::uint64_t far = 0;
  std::uint64_t body_bytes = 0;
  std::int64_t paused_until_ms = 0;
  std::optional<std::int64_t> next_due_ms;
};

struct FolderReport {
  std::uint32_t format = 0;
  std::uint32_t partitions = 0;
  std::uint64_t writes = 0;                   ///< The number of the last write that can be read ...
  std::optional<std::uint64_t> acknowledged;  ///< ... and of the last that was acknowledged.
  bool is_backup = false;
  std::vector<CheckedTube> tubes;  ///< By partition and number.
  std::uint64_t table_files = 0;
  std::uint64_t table_bytes = 0;
  std::uint64_t log_bytes = 0;
  std::vector<FolderFault> faults;
  std::uint64_t faults_found = 0;

  [[nodiscard]] bool sound() const noexcept { return faults_found == 0; }
};

/// Changes nothing, not even a time stamp that it can avoid, and needs no right to write. Keeps
/// others from opening the folder meanwhile, if there is a file IN-USE to lock.
///
/// Errors:  kNotFound: no folder, or no database in it; kUnavailable: a server has it open;
///          kInvalidArgument: a newer format. What is wrong with what it holds is in the report.
/// Memory:  16 to 48 bytes for each far job, the log (as at a start), the block being read.
/// Cost:    reads every byte once; RocksDB's checksums are verified.
[[nodiscard]] Result<FolderReport> check_folder(const FolderCheckOptions& options);

}  // namespace carillon::store
