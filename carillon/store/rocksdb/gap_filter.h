// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Ends the replay of a log where a write is missing.

#include <cstdint>
#include <string>

#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

namespace carillon::store {

/// A power cut may take the unsynced end of one log file and leave the beginning of the next,
/// which RocksDB would go on to replay: later writes without the earlier ones that they build on.
/// Our writes are numbered, so the gap shows, and replay ends there; nothing behind it had been
/// acknowledged, or the acknowledged mark will say so.
///
/// Threads: one opening each.
class GapFilter final : public rocksdb::WalFilter {
 public:
  static const char* kClassName() { return "GapFilter"; }
  const char* Name() const override { return kClassName(); }

  WalProcessingOption LogRecordFound(unsigned long long log_number, const std::string& log_name,
                                     const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch* new_batch, bool* batch_changed) override;

  /// The last write before a gap; 0: there was none.
  [[nodiscard]] std::uint64_t gap_after() const noexcept { return gap_after_; }

 private:
  std::uint64_t last_ = 0;
  std::uint64_t gap_after_ = 0;
};

/// The number that a write carries; 0: none.
[[nodiscard]] std::uint64_t group_of(const rocksdb::WriteBatch& batch);

}  // namespace carillon::store
