// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A log file whose syncs need not record that it has grown.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <rocksdb/file_system.h>

namespace carillon::store {

/// Appends into zeros that were written ahead.
///
/// To sync a file that has grown since the last sync, a file system has to commit its size or its
/// extents in its own journal as well: 144 against 113 us on ext4 (space that was only allocated
/// ahead gains nothing). So while syncs are small and frequent, the next 256 KiB are filled with
/// zeros at a time; under load, when a sync covers much, they are not, since that would write
/// everything twice. After a kill zeros remain at the end, which RocksDB's log reader passes over;
/// an orderly close cuts them off.
///
/// Threads:  as RocksDB uses a log: one thread appends, any may sync meanwhile.
/// Errors:   those of the file below; filling is best effort.
class PrefilledLog final : public rocksdb::FSWritableFileWrapper {
 public:
  explicit PrefilledLog(std::unique_ptr<rocksdb::FSWritableFile> file);

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info,
                           rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Truncate(std::uint64_t size, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus Close(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* debug) override;
  std::uint64_t GetFileSize(const rocksdb::IOOptions& options,
                            rocksdb::IODebugContext* debug) override;

 private:
  void fill_ahead(std::size_t bytes, const rocksdb::IOOptions& options,
                  rocksdb::IODebugContext* debug);

  const std::unique_ptr<rocksdb::FSWritableFile> file_;
  std::uint64_t end_ = 0;     // Of what was appended.
  std::uint64_t filled_ = 0;  // Of the zeros.
  std::uint64_t decide_at_ = 0;
  // Since when it was last decided whether to fill.
  std::uint64_t decided_end_ = 0;
  std::atomic<std::uint64_t> syncs_{0};
};

}  // namespace carillon::store
