// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Has files full of tombstones compacted soon.

#include <memory>

#include <rocksdb/table_properties.h>

namespace carillon::store {

/// Asks for the compaction of a file in which some run of 10,000 entries is half tombstones: a scan
/// of far jobs walks over those of the cancelled. RocksDB's own CompactOnDeletion does not count
/// SingleDelete, which is what erases a far job.
[[nodiscard]] std::shared_ptr<rocksdb::TablePropertiesCollectorFactory>
make_tombstone_collector_factory();

}  // namespace carillon::store
