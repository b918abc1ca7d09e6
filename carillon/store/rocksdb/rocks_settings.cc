// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/rocks_settings.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <utility>

#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include "carillon/store/rocksdb/tombstone_collector.h"

namespace carillon::store {
namespace {

/// What RocksDB says when deletions of files are forbidden twice, and then allowed once. Each
/// backup has that, since listing the files forbids them too while it goes on: nothing is wrong.
constexpr std::string_view kNestedDeletions[] = {
    "File Deletions Disabled, but already disabled.",
    "File Deletions Enable, but not really enabled.",
};

bool is_of_nested_deletions(std::string_view format) {
  return std::any_of(
      std::begin(kNestedDeletions), std::end(kNestedDeletions),
      [format](std::string_view text) { return format.find(text) != std::string_view::npos; });
}

class ForwardingLogger final : public rocksdb::Logger {
 public:
  explicit ForwardingLogger(std::function<void(LogLevel, std::string_view)> log)
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), log_(std::move(log)) {}

  using rocksdb::Logger::Logv;
  void Logv(const rocksdb::InfoLogLevel level, const char* format, std::va_list args) override {
    if (!log_ || level < rocksdb::InfoLogLevel::WARN_LEVEL ||
        level == rocksdb::InfoLogLevel::HEADER_LEVEL) {
      return;
    }
    if (is_of_nested_deletions(format)) return;
    char text[1'024];
    const int size = std::vsnprintf(text, sizeof text, format, args);
    if (size <= 0) return;
    std::string message = "rocksdb: ";
    message.append(text, std::min<std::size_t>(static_cast<std::size_t>(size), sizeof text - 1));
    log_(level >= rocksdb::InfoLogLevel::ERROR_LEVEL ? LogLevel::kError : LogLevel::kWarning,
         message);
  }
  void Logv(const char* /*format*/, std::va_list /*args*/) override {}

 private:
  const std::function<void(LogLevel, std::string_view)> log_;
};

bool has_lz4() {
  static const bool kSupported = [] {
    const auto supported = rocksdb::GetSupportedCompressions();
    return std::find(supported.begin(), supported.end(), rocksdb::kLZ4Compression) !=
           supported.end();
  }();
  return kSupported;
}

struct FamilyShape {
  std::size_t memtable_bytes;
  std::size_t block_bytes;
  bool filter;
  bool dense_deletes;
};

rocksdb::ColumnFamilyOptions make_family(const FamilyShape& shape,
                                         const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions family;
  // The memory of the whole is the sum of these, plus as much again at worst while they are
  // flushed.
  family.write_buffer_size = shape.memtable_bytes;
  family.max_write_buffer_number = 3;
  family.level0_file_num_compaction_trigger = 4;
  family.target_file_size_base = std::uint64_t{32} << 20;
  family.max_bytes_for_level_base = std::uint64_t{128} << 20;
  // Young files are read and rewritten soon: not worth compressing.
  const rocksdb::CompressionType compression =
      has_lz4() ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
  family.compression_per_level = {rocksdb::kNoCompression,
                                  rocksdb::kNoCompression,
                                  compression,
                                  compression,
                                  compression,
                                  compression,
                                  compression};
  if (shape.dense_deletes) {
    family.table_properties_collector_factories.push_back(make_tombstone_collector_factory());
  }

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = shape.block_bytes;
  table.format_version = 5;
  // Else the indexes and filters of all files stay in memory outside the cache, without bound.
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  if (shape.filter) table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return family;
}

}  // namespace

std::shared_ptr<rocksdb::Logger> make_logger(std::function<void(LogLevel, std::string_view)> log) {
  return std::make_shared<ForwardingLogger>(std::move(log));
}

rocksdb::DBOptions make_db_options(const RocksOptions& options) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.info_log = make_logger(options.log);
  db.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;

  // A torn tail must not keep the server from starting; what acknowledged data it may hide is found
  // by the acknowledged mark. docs/decisions/0009-acknowledged-mark.md
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // Recovery writes what it replayed into sorted files and syncs them. That is what makes it
  // durable: the log it came from may not be (its last sync may have failed and left it in the page
  // cache).
  db.avoid_flush_during_recovery = false;
  db.track_and_verify_wals_in_manifest = true;
  db.recycle_log_file_num = 0;  // A recycled log cannot tell an old record from a torn one.
  db.max_total_wal_size = options.max_log_bytes;
  db.max_manifest_file_size = std::uint64_t{16} << 20;

  // One thread writes: the lock-free memtable insert costs and gains nothing.
  db.allow_concurrent_memtable_write = false;
  db.enable_write_thread_adaptive_yield = false;
  db.max_background_jobs = 2;
  db.bytes_per_sync = std::uint64_t{1} << 20;
  db.avoid_unnecessary_blocking_io = true;

  // A failure is answered by closing and opening again, never by RocksDB's own attempts to resume:
  // one path, the one that a kill takes too.
  db.max_bgerror_resume_count = 0;

  db.max_open_files = 512;
  db.max_file_opening_threads =
      2;  // The default starts 16 threads a family, however few its files.
  db.skip_stats_update_on_db_open = true;
  db.skip_checking_sst_file_sizes_on_db_open = true;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  return db;
}

std::vector<rocksdb::ColumnFamilyDescriptor> make_families(const RocksOptions& options,
                                                           std::shared_ptr<rocksdb::Cache> cache) {
  const std::size_t share = std::max<std::size_t>(options.memtable_bytes / 13, 64 << 10);
  std::array<FamilyShape, kFamilies> shapes{};
  //                    memtable   block      filter dense deletes
  shapes[kMeta] = {share, 4 << 10, false, false};
  shapes[kNear] = {share * 4, 16 << 10, true, true};
  shapes[kState] = {share * 2, 4 << 10, true, true};
  // The last place in which an id is looked for, and ordered by it: a filter would only serve ids
  // that do not exist, and costs 12 MB for 10 million jobs.
  shapes[kCold] = {share * 4, 16 << 10, false, true};
  shapes[kFar] = {share * 2, 16 << 10, false, true};
  // Most keys that are looked for belong to no far job.
  shapes[kKeys] = {share, 4 << 10, true, true};

  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (std::size_t i = 0; i < kFamilies; ++i) {
    families.emplace_back(kFamilyNames[i], make_family(shapes[i], cache));
  }
  return families;
}

}  // namespace carillon::store
