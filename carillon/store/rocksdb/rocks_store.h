// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The embedded default store: one RocksDB folder for all partitions of a process.
///
///     partition 0 ─ commit ─┐            apply (not synced)        sync            callbacks
///     partition 1 ─ commit ─┼─► queue ─► one WriteBatch ──► WAL ─► fdatasync ─► durable up to seq
///     partition 2 ─ fetch ──┘               └─► reads (never wait for a sync)
///
/// A commit has two stages: everything queued is applied in one write, then one sync makes
/// everything applied so far durable; while it runs the next batches are applied. Three threads
/// take turns at the roles apply, sync and read (carillon/store/rocksdb/commit_pipeline.h); a lone
/// small commit is applied and synced by its caller.
///
/// Format and recovery: docs/internals/storage.md.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/base/time.h"
#include "carillon/broker/store.h"
#include "carillon/store/rocksdb/backup.h"
#include "carillon/store/rocksdb/rocks_stats.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace carillon::store {

enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };

struct RocksOptions {
  /// The data folder; created if it does not exist (its parent must).
  std::string folder;
  /// Partitions that share the folder, 1 to 1,024. Fixed when the folder is created.
  std::uint32_t partition_count = 1;

  /// RocksDB's memory, in bytes: what is written and not yet flushed ...
  std::size_t memtable_bytes = std::size_t{48} << 20;
  /// ... and blocks, indexes and filters of its files.
  std::size_t block_cache_bytes = std::size_t{48} << 20;
  /// Bounds the log that a start after a kill has to replay.
  std::size_t max_log_bytes = std::size_t{128} << 20;

  /// Commits with puts are refused (kNoSpace) while the file system has less free than this; erases
  /// and updates pass, and the rest lets RocksDB flush and compact. Then accepts_puts(), once
  /// asked, sees to it that what was erased is given back to the disk. 0: no limit.
  std::uint64_t min_free_bytes = std::uint64_t{128} << 20;
  /// How often the free space is asked for.
  Span free_space_interval = std::chrono::seconds(1);
  /// Free bytes of the file system of `folder`; default: statvfs. For tests.
  std::function<std::uint64_t()> free_bytes;

  /// A commit of at most this many mutations is written inside commit(), by the caller, unless that
  /// would have to wait. If it has at most two and finds nothing else in flight, it is synced there
  /// too, as long as the last sync took at most 1 ms and covered no more: a third faster for a
  /// client that waits for each reply, when nothing would overlap with it. 0: never.
  std::size_t small_mutations = 8;

  /// Opens a folder even if commits that had been acknowledged are missing from it (a damaged log,
  /// a backup that is not whole). Without it that is kCorrupt.
  bool accept_loss = false;

  /// Called from any thread; must not call back.
  std::function<void(LogLevel, std::string_view)> log;
  /// What RocksDB does its I/O with; default: the operating system. For tests. Must outlive the
  /// database.
  rocksdb::Env* env = nullptr;
};

/// An open data folder.
///
/// Threads:  open_partition and stats from any thread; each partition's store as broker::Store
///           says.
/// Lifetime: outlives the stores of its partitions. The destructor syncs and flushes.
/// Errors:   kNoSpace; kCorrupt (a damaged file, commits missing: names it); kUnavailable (another
///           process has the folder open); kInvalidArgument (another partition count, a newer
///           format); kIo.
/// Cost:     memory: memtable_bytes + block_cache_bytes + about 20 MB, whatever is stored.
class RocksDatabase {
 public:
  [[nodiscard]] static Result<std::unique_ptr<RocksDatabase>> open(RocksOptions options);
  ~RocksDatabase();
  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;

  /// The store of partition `index`. Pre: index < partition_count, and it is not open already.
  /// After a failure, recover() of any partition closes and reopens the folder for all of them, as
  /// after a kill; the others' commits wait for that. recover() must not be called from a callback.
  [[nodiscard]] std::unique_ptr<broker::Store> open_partition(std::uint32_t index);

  [[nodiscard]] RocksStats stats() const;
  /// Makes the backup `folder`, which must not exist, while everything goes on: every commit that
  /// was acknowledged before the call is in it. Blocking; from any thread. A recover() waits for
  /// its end.
  /// Errors: as BackupWriter; kUnavailable: the store has failed, or `stop` was requested.
  /// Cost:   links to the sorted files where the file system has them, else copies; copies the log.
  Result<BackupList> back_up(const std::string& folder, std::stop_token stop = {});
  /// Waits until everything written so far is in sorted files and compacted as far as it will be.
  /// For benchmarks.
  Result<void> compact();

 private:
  class Impl;
  explicit RocksDatabase(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace carillon::store
