// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a RocksDB folder has done since it was opened.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace carillon::store {

/// Counts durations by power of two: bucket i holds those of [2^(i-1), 2^i) us, bucket 0 those
/// below 1 us, the last one all above.
struct LatencyCounts {
  static constexpr std::size_t kBuckets = 26;
  std::array<std::uint64_t, kBuckets> buckets{};
  std::uint64_t count = 0;
  std::uint64_t total_us = 0;
  std::uint64_t max_us = 0;

  void add(std::uint64_t us) noexcept {
    std::size_t bucket = us == 0 ? 0 : static_cast<std::size_t>(64 - __builtin_clzll(us));
    if (bucket >= kBuckets) bucket = kBuckets - 1;
    ++buckets[bucket];
    ++count;
    total_us += us;
    if (us > max_us) max_us = us;
  }
  /// The upper bound, in us, of the bucket that holds the quantile `q` of [0, 1].
  [[nodiscard]] std::uint64_t quantile_us(double q) const noexcept;
};

struct RocksStats {
  std::uint64_t commits = 0;  ///< Batches made durable.
  std::uint64_t failed_commits = 0;
  std::uint64_t refused_commits = 0;  ///< Of the failed ones: for lack of free space.
  std::uint64_t mutations = 0;
  std::uint64_t groups = 0;  ///< Writes; each applied one batch or more.
  std::uint64_t syncs = 0;
  std::uint64_t bytes_written = 0;  ///< Handed to the log.
  std::uint64_t reads = 0;
  std::uint64_t reopenings = 0;  ///< After a failure.
  LatencyCounts commit_us;       ///< From commit() to the callback.
  LatencyCounts sync_us;
  std::uint64_t free_bytes = 0;    ///< Of the file system, when last asked.
  std::uint64_t stored_bytes = 0;  ///< Size of the sorted files.
  bool accepts_puts = true;
  bool failed = false;     ///< Between a failure and the recovery from it.
  std::string last_error;  ///< Empty: none yet.
};

}  // namespace carillon::store
