// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For how long the oldest ready job of a tube has been ready.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "carillon/base/check.h"

namespace carillon::broker::internal {

/// Counts ready jobs by the quarter of a second in which they became ready: the heap of ready jobs
/// is in another order, and a list of them in this one would cost each job its links.
///
/// Cost: enter O(1) amortised, leave O(1) for the oldest and the youngest, else O(log of the
///       distinct times); 8 bytes for each of those, at most two for each job.
class ReadyAges {
 public:
  /// A moment to 256 ms; wraps after 34 years.
  [[nodiscard]] static std::uint32_t moment(std::int64_t now_ms) noexcept {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now_ms) >> 8);
  }

  /// Pre: moments do not descend, but for the wrap.
  void enter(std::uint32_t moment) {
    if (first_ < spans_.size() && spans_.back().moment == moment) {
      ++spans_.back().jobs;
    } else {
      if (spans_.size() - first_ >= drop_empty_at_) drop_empty();
      spans_.push_back({moment, 1});
    }
  }
  void leave(std::uint32_t moment) {
    Span* span = &spans_[first_];
    if (span->moment != moment) span = &spans_.back();
    if (span->moment != moment) {
      const std::uint32_t oldest = spans_[first_].moment;
      span = &*std::lower_bound(
          spans_.begin() + static_cast<std::ptrdiff_t>(first_), spans_.end(), moment - oldest,
          [oldest](const Span& s, std::uint32_t since) { return s.moment - oldest < since; });
    }
    CARILLON_DCHECK(span->moment == moment && span->jobs > 0, "a ready job of no time");
    --span->jobs;
    while (first_ < spans_.size() && spans_[first_].jobs == 0) ++first_;
    if (first_ == spans_.size()) {
      spans_.clear();
      first_ = 0;
      if (spans_.capacity() > kKept) spans_.shrink_to_fit();
    } else if (first_ > kKept && first_ > spans_.size() / 2) {
      spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }
  void clear() noexcept {
    spans_ = {};
    first_ = 0;
    drop_empty_at_ = kKept;
  }

  /// 0 if there is none.
  [[nodiscard]] std::int64_t oldest_age_ms(std::int64_t now_ms) const noexcept {
    if (first_ == spans_.size()) return 0;
    return std::int64_t{moment(now_ms) - spans_[first_].moment} << 8;
  }
  /// The jobs counted.
  [[nodiscard]] std::uint64_t count() const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = first_; i < spans_.size(); ++i) sum += spans_[i].jobs;
    return sum;
  }

 private:
  struct Span {
    std::uint32_t moment;
    std::uint32_t jobs;
  };
  static constexpr std::size_t kKept = 64;

  void drop_empty() {
    spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
    std::erase_if(spans_, [](const Span& span) { return span.jobs == 0; });
    drop_empty_at_ = std::max(kKept, 2 * spans_.size());
  }

  // Ascending from first_ on; the first of those has jobs, later ones may have none left.
  std::vector<Span> spans_;
  std::size_t first_ = 0;
  std::size_t drop_empty_at_ = kKept;
};

}  // namespace carillon::broker::internal
