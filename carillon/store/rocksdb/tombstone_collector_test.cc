// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/tombstone_collector.h"

#include <gtest/gtest.h>

#include <memory>

namespace carillon::store {
namespace {

std::unique_ptr<rocksdb::TablePropertiesCollector> make_collector() {
  return std::unique_ptr<rocksdb::TablePropertiesCollector>(
      make_tombstone_collector_factory()->CreateTablePropertiesCollector({}));
}

void add(rocksdb::TablePropertiesCollector& collector, rocksdb::EntryType type, int count) {
  for (int i = 0; i < count; ++i) ASSERT_TRUE(collector.AddUserKey("k", "", type, 1, 0).ok());
}

TEST(TombstoneCollector, AsksForCompactionWhenARunIsHalfTombstones) {
  for (const rocksdb::EntryType type : {rocksdb::kEntryDelete, rocksdb::kEntrySingleDelete}) {
    const auto collector = make_collector();
    add(*collector, rocksdb::kEntryPut, 5'000);
    add(*collector, type, 4'999);
    EXPECT_FALSE(collector->NeedCompact());
    add(*collector, type, 1);
    EXPECT_TRUE(collector->NeedCompact());
    // And does not forget it.
    add(*collector, rocksdb::kEntryPut, 50'000);
    EXPECT_TRUE(collector->NeedCompact());
  }
}

TEST(TombstoneCollector, LetsScatteredTombstonesBe) {
  const auto collector = make_collector();
  for (int i = 0; i < 20'000; ++i) {
    add(*collector, rocksdb::kEntryPut, 2);
    add(*collector, rocksdb::kEntrySingleDelete, 1);
  }
  EXPECT_FALSE(collector->NeedCompact());
}

}  // namespace
}  // namespace carillon::store
