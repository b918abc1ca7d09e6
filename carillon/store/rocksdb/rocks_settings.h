// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// RocksDB's settings for a carillon folder: column families and options, each with its reason.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include "carillon/store/rocksdb/rocks_store.h"

namespace carillon::store {

/// Indexes into kFamilyNames and into the handles of an open database.
enum Family : std::size_t {
  kMeta = 0,
  kNear = 1,
  kState = 2,
  kCold = 3,
  kFar = 4,
  kKeys = 5,
  kFamilies = 6
};

/// `meta` is RocksDB's default family, which always exists.
inline constexpr std::array<const char*, kFamilies> kFamilyNames = {"default", "near", "state",
                                                                    "cold",    "far",  "keys"};

/// Families that a folder of an older format may lack; they are added when it is opened.
[[nodiscard]] constexpr bool may_lack(std::uint32_t format, std::size_t family) noexcept {
  return format == 1 && family == kKeys;
}

/// RocksDB's own messages of warning and above, forwarded.
[[nodiscard]] std::shared_ptr<rocksdb::Logger> make_logger(
    std::function<void(LogLevel, std::string_view)> log);

[[nodiscard]] rocksdb::DBOptions make_db_options(const RocksOptions& options);
[[nodiscard]] std::vector<rocksdb::ColumnFamilyDescriptor> make_families(
    const RocksOptions& options, std::shared_ptr<rocksdb::Cache> cache);

}  // namespace carillon::store
