// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The extras of the jobs in memory, beside the jobs: those that have none pay nothing.

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "carillon/base/check.h"
#include "carillon/broker/extras.h"
#include "carillon/broker/internal/job_table.h"

namespace carillon::broker::internal {

/// Extras by job, jobs by key, and which jobs follow the calendar.
///
/// Cost: O(1) each. 24 bytes a job with extras, 33 more with a key, 5 more with a date.
class ExtrasTable {
 public:
  /// Gives `job` extras instead of those it has. Null or empty: none.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved.
  void set(Job& job, SharedExtras extras) {
    remove(job);
    if (!extras || extras->empty()) return;
    if (!extras->key.empty()) {
      // The view is of what the table keeps.
      const bool added =
          by_key_.emplace(Key{job.tube, extras->key}, std::uint32_t{job.index}).second;
      CARILLON_CHECK(added, "two jobs have the key ", extras->key);
    }
    if (extras->date()) by_calendar_.insert(job.index);
    job.has_extras = true;
    extras_.emplace(std::uint32_t{job.index}, std::move(extras));
  }
  void remove(Job& job) {
    if (!job.has_extras) return;
    const auto found = extras_.find(job.index);
    if (!found->second->key.empty()) by_key_.erase(Key{job.tube, found->second->key});
    if (found->second->date()) by_calendar_.erase(job.index);
    extras_.erase(found);
    job.has_extras = false;
  }

  /// Null: none.
  [[nodiscard]] SharedExtras shared(const Job& job) const {
    return job.has_extras ? extras_.at(job.index) : nullptr;
  }
  [[nodiscard]] const JobExtras* of(const Job& job) const {
    return job.has_extras ? extras_.at(job.index).get() : nullptr;
  }
  /// The job in memory that has `key` in `tube` (an index), or kNil.
  [[nodiscard]] std::uint32_t find(std::uint32_t tube, std::string_view key) const {
    const auto found = by_key_.find(Key{tube, key});
    return found == by_key_.end() ? kNil : found->second;
  }
  /// Indexes of the jobs with a date.
  [[nodiscard]] const absl::flat_hash_set<std::uint32_t>& by_calendar() const noexcept {
    return by_calendar_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return extras_.size(); }
  [[nodiscard]] std::size_t keys() const noexcept { return by_key_.size(); }

 private:
  using Key = std::pair<std::uint32_t, std::string_view>;

  absl::flat_hash_map<std::uint32_t, SharedExtras> extras_;
  absl::flat_hash_map<Key, std::uint32_t> by_key_;
  absl::flat_hash_set<std::uint32_t> by_calendar_;
};

}  // namespace carillon::broker::internal
