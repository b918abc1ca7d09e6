// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/low_space_episode.h"

namespace carillon::store {

LowSpaceEpisode::News LowSpaceEpisode::note(bool enough) noexcept {
  if (enough) {
    if (!told_.load(std::memory_order_relaxed)) return News::kNone;
    return told_.exchange(false) ? News::kEnded : News::kNone;
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  if (told_.load(std::memory_order_relaxed)) return News::kNone;
  const Span::rep now = clock_.now().time_since_epoch().count();
  Span::rep told_at = told_at_.load(std::memory_order_relaxed);
  if (told_at != kNever && now - told_at < kQuiet.count()) return News::kNone;
  if (!told_at_.compare_exchange_strong(told_at, now, std::memory_order_relaxed)) {
    return News::kNone;  // Another thread is telling.
  }
  told_.store(true);
  return News::kBegan;
}

}  // namespace carillon::store
