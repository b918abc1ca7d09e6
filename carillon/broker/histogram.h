// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A histogram of powers of two: coarse, small, added to in a few nanoseconds.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace carillon::broker {

/// Counts values by size. Bucket 0 holds zeros, bucket b values in [2^(b-1), 2^b), the last one all
/// that is larger.
///
/// Cost: 272 bytes.
struct Histogram {
  static constexpr std::size_t kBuckets = 32;

  std::array<std::uint64_t, kBuckets> counts{};
  std::uint64_t count = 0;
  std::uint64_t sum = 0;

  void add(std::uint64_t value) noexcept {
    ++counts[std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(value)), kBuckets - 1)];
    ++count;
    sum += value;
  }
  void add(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < kBuckets; ++i) counts[i] += other.counts[i];
    count += other.count;
    sum += other.sum;
  }
  /// The largest value that falls into `bucket`; of the last one there is none larger.
  [[nodiscard]] static constexpr std::uint64_t upper_bound(std::size_t bucket) noexcept {
    return bucket + 1 >= kBuckets ? ~std::uint64_t{0} : (std::uint64_t{1} << bucket) - 1;
  }
  /// A bound that `share` of the values (0 to 1) do not exceed, and fewer do not exceed half of it.
  [[nodiscard]] std::uint64_t quantile(double share) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(count));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += counts[i];
      if (seen > 0 && seen >= wanted) return upper_bound(i);
    }
    return 0;
  }
  bool operator==(const Histogram&) const = default;
};

}  // namespace carillon::broker
