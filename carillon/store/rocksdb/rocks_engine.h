// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The RocksDB folder itself: opens, writes, syncs, reads. What the CommitPipeline drives.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "carillon/base/clock.h"
#include "carillon/base/mutex.h"
#include "carillon/base/result.h"
#include "carillon/broker/store.h"
#include "carillon/store/rocksdb/acknowledged_mark.h"
#include "carillon/store/rocksdb/backup.h"
#include "carillon/store/rocksdb/commit_pipeline.h"
#include "carillon/store/rocksdb/folder_file_system.h"
#include "carillon/store/rocksdb/free_space.h"
#include "carillon/store/rocksdb/low_space_episode.h"
#include "carillon/store/rocksdb/record_codec.h"
#include "carillon/store/rocksdb/rocks_settings.h"
#include "carillon/store/rocksdb/rocks_store.h"

namespace carillon::store {

/// Threads: as PipelineEngine; open and close while nothing else runs. accepts_puts from any
///          thread.
/// Errors:  after a failed apply or sync: close(), open().
class RocksEngine final : public PipelineEngine {
 public:
  explicit RocksEngine(const RocksOptions& options);
  ~RocksEngine() override;

  /// Takes the folder (its lock is held until destruction) and opens the database in it.
  Result<void> open();
  /// Pre: open. `clean`: syncs and flushes first, best effort.
  void close(bool clean);
  /// close() after a failure, and open().
  Result<void> reopen();

  std::optional<Error> refuse(const broker::Batch& batch) override;
  Result<bool> apply(std::span<const PartitionBatch> group, bool may_wait) override;
  Result<void> sync() override;
  void on_acknowledged() override;
  void read(std::span<const PartitionRead> group) override;

  /// Reads the near state of a partition.
  Result<void> load(PartitionIndex partition, broker::RecoverySink& sink);
  /// Logs when puts begin to be refused, and when they no longer are.
  [[nodiscard]] bool accepts_puts() noexcept;
  /// Whether a ReclaimRequest would be of use: something has been erased since the last, and that
  /// was an interval of asking for free space ago. Says so once. From any thread.
  [[nodiscard]] bool wants_reclaim() noexcept;

  /// Adds what the engine counts. Pre: not being reopened.
  void add_to(RocksStats& stats) const;
  Result<void> compact();
  /// Makes a backup; from any thread. Pre: not being reopened.
  Result<BackupList> back_up(const std::string& folder, std::stop_token stop);

 private:
  Result<void> take_folder();
  [[nodiscard]] Result<void> check_no_backup() const;
  Result<void> add_live_files(BackupWriter& writer);
  Result<void> check_families(bool& exists) const;
  [[nodiscard]] Error newer_format(const FormatRecord& format) const;
  Result<void> check_manifest(const AcknowledgedMark::Value& mark) const;
  Result<void> check_complete(const AcknowledgedMark::Value& mark, std::uint64_t group) const;
  Result<void> open_database();
  Result<void> check_opened(const std::optional<AcknowledgedMark::Value>& mark);
  void close_database();
  // Leaves the folder as it was found.
  void take_back(const std::optional<AcknowledgedMark::Value>& mark);
  Result<void> check_format();
  Result<void> raise_format();

  Result<void> load_meta(PartitionIndex partition, broker::RecoverySink& sink);
  template <class Visit>
  Result<void> for_each_meta(std::string_view begin, std::string_view end, const char* what,
                             Visit visit);
  Result<void> load_tubes(PartitionIndex partition, broker::RecoverySink& sink);
  Result<void> load_schedules(PartitionIndex partition, broker::RecoverySink& sink);
  Result<void> load_jobs(PartitionIndex partition, broker::RecoverySink& sink);

  // The puts of a batch, or all else in it.
  void append(PartitionIndex partition, const broker::Batch& batch, bool puts);
  void append(PartitionIndex partition, const broker::Batch& batch,
              const broker::Mutation& mutation);
  void append_keys(PartitionIndex partition, const broker::Batch& batch);
  using Fetched = Result<std::optional<broker::StoredJob>>;
  std::vector<Fetched> fetch(PartitionIndex partition, std::span<const broker::WantedJob> wanted,
                             const rocksdb::Snapshot* snapshot) const;
  void fetch_bodies(PartitionIndex partition, broker::Place place,
                    std::span<const broker::WantedJob> wanted, std::vector<std::size_t> which,
                    const rocksdb::Snapshot* snapshot, std::vector<Fetched>& answers) const;
  void get_bodies(PartitionIndex partition, broker::Place place,
                  std::span<const broker::WantedJob> wanted, std::span<const std::size_t> which,
                  const rocksdb::Snapshot* snapshot, std::vector<Fetched>& answers) const;
  std::size_t scan_bodies(PartitionIndex partition, broker::Place place,
                          std::span<const broker::WantedJob> wanted,
                          std::span<const std::size_t> which, const rocksdb::Snapshot* snapshot,
                          std::vector<Fetched>& answers) const;
  Result<std::optional<broker::StoredJob>> fetch(PartitionIndex partition, broker::JobId id,
                                                 const rocksdb::Snapshot* snapshot) const;
  Result<std::optional<broker::FarPlace>> find_key(PartitionIndex partition,
                                                   const KeyRequest& request,
                                                   const rocksdb::Snapshot* snapshot) const;
  Result<broker::FarChunk> scan_far(PartitionIndex partition, const ScanRequest& request) const;

  [[nodiscard]] static Error closed();
  // kCorrupt, or with accept_loss a message in the log.
  Result<void> damaged(const std::string& how) const;
  [[nodiscard]] rocksdb::DBOptions db_options() const;
  void reclaim();
  void log(LogLevel level, std::string_view message) const;
  // The only way to sync the log.
  rocksdb::Status sync_log() CARILLON_EXCLUDES(log_mutex_);
  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle(Family family) const {
    return handles_[family];
  }

  const RocksOptions options_;
  AcknowledgedMark mark_;
  // What RocksDB does its I/O with, on top of the environment of the options.
  const std::shared_ptr<FolderFileSystem> files_;
  const std::unique_ptr<rocksdb::Env> env_;
  FreeSpace free_space_;
  std::shared_ptr<rocksdb::Cache> cache_;
  rocksdb::FileLock* lock_ = nullptr;

  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles_{};

  // Owned by the apply role.
  rocksdb::WriteBatch batch_;
  std::string value_;
  // Written by the apply role: the number of the last group in the log. Groups are numbered by us,
  // since RocksDB's own sequence number may go back when what a flush drops was the newest.
  std::atomic<std::uint64_t> applied_group_{0};
  // Owned by the sync role.
  std::uint64_t synced_group_ = 0;
  // Of the folder as it was found.
  std::uint32_t format_ = kFormatVersion;
  bool mark_failed_ = false;

  // Held while the log is synced. A log whose first append has failed must not be synced: Debian's
  // RocksDB is built with assertions, and one of them ends the process then. So a failing append
  // waits for the sync that runs, and no other begins until the folder is opened again.
  Mutex log_mutex_;
  rocksdb::Status log_failure_ CARILLON_GUARDED_BY(log_mutex_);

  const SteadyClock clock_;
  LowSpaceEpisode low_space_{clock_};
  std::atomic<std::uint64_t> erases_since_reclaim_{0};
  std::atomic<Span::rep> reclaimed_at_{0};

  std::atomic<std::uint64_t> groups_{0};
  std::atomic<std::uint64_t> bytes_written_{0};
};

}  // namespace carillon::store
