// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/tombstone_collector.h"

#include <cstddef>
#include <cstdint>

namespace carillon::store {
namespace {

constexpr std::size_t kRun = 10'000;
constexpr std::size_t kTooMany = kRun / 2;

class TombstoneCollector final : public rocksdb::TablePropertiesCollector {
 public:
  rocksdb::Status AddUserKey(const rocksdb::Slice& /*key*/, const rocksdb::Slice& /*value*/,
                             rocksdb::EntryType type, rocksdb::SequenceNumber /*sequence*/,
                             std::uint64_t /*file_bytes*/) override {
    if (type == rocksdb::kEntryDelete || type == rocksdb::kEntrySingleDelete) ++tombstones_;
    if (tombstones_ >= kTooMany) needs_compaction_ = true;
    if (++entries_ == kRun) entries_ = tombstones_ = 0;
    return rocksdb::Status::OK();
  }
  rocksdb::Status Finish(rocksdb::UserCollectedProperties* /*properties*/) override {
    return rocksdb::Status::OK();
  }
  rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }
  const char* Name() const override { return "carillon.TombstoneCollector"; }
  bool NeedCompact() const override { return needs_compaction_; }

 private:
  std::size_t entries_ = 0;
  std::size_t tombstones_ = 0;
  bool needs_compaction_ = false;
};

class TombstoneCollectorFactory final : public rocksdb::TablePropertiesCollectorFactory {
 public:
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(
      rocksdb::TablePropertiesCollectorFactory::Context /*context*/) override {
    return new TombstoneCollector;
  }
  const char* Name() const override { return "carillon.TombstoneCollectorFactory"; }
};

}  // namespace

std::shared_ptr<rocksdb::TablePropertiesCollectorFactory> make_tombstone_collector_factory() {
  return std::make_shared<TombstoneCollectorFactory>();
}

}  // namespace carillon::store
