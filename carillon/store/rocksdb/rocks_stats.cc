// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/rocks_stats.h"

#include <cmath>

namespace carillon::store {

std::uint64_t LatencyCounts::quantile_us(double q) const noexcept {
  if (count == 0) return 0;
  const auto rank = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets[i];
    if (seen >= rank) return i + 1 == kBuckets ? max_us : std::uint64_t{1} << i;
  }
  return max_us;
}

}  // namespace carillon::store
