// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The soonest of a tube's delayed jobs, found when peek-delayed and kick ask for it.

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "carillon/broker/internal/job_table.h"

namespace carillon::broker::internal {

/// What orders delayed jobs, near and far: due time, then put order.
struct DueKey {
  std::int64_t due_ms = 0;
  JobId id = 0;
  auto operator<=>(const DueKey&) const = default;
};
inline constexpr DueKey kAfterAll{std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<JobId>::max()};

[[nodiscard]] inline DueKey due_key(const Job& job) noexcept { return {job.deadline_ms(), job.id}; }

/// A sorted run of the soonest delayed jobs of one tube.
///
/// Delayed jobs wait in the wheel, which orders those of all tubes together, and lie in a plain
/// list of their tube: no put, delete or expiry pays for an order that is hardly ever asked for.
/// Who asks, pays for one walk of the list and finds the next n/128 answers ready, 64 at least and
/// 1,024 at most; until the first question all this costs a test.
///
/// Cost: soonest() of n jobs amortised O(128), O(n/1024) beyond 131,072. 24 bytes for each job in
///       the run, of which there are at most 2,048 between two calls.
class DelayedFront {
 public:
  /// `job` has become delayed.
  void note(const JobTable& jobs, const Job& job) {
    const DueKey key = due_key(job);
    if (!(key < bound_)) return;
    // New jobs are often soon ones: those that have left must not lie in the way.
    drop_left(jobs);
    if (run_.size() >= limit_ && key > run_.front().key) {
      bound_ = key;
      return;
    }
    const auto place = std::lower_bound(run_.begin(), run_.end(), key,
                                        [](const Entry& e, const DueKey& k) { return e.key > k; });
    run_.insert(place, Entry{key, job.index});
    if (run_.size() > 2 * limit_) {
      const auto keep = run_.end() - static_cast<std::ptrdiff_t>(limit_);
      bound_ = (keep - 1)->key;
      run_.erase(run_.begin(), keep);
    }
  }

  /// The soonest job of `delayed`, or kNil.
  [[nodiscard]] std::uint32_t soonest(const JobTable& jobs, const JobList& delayed) {
    if (delayed.count == 0) {
      forget();
      return kNil;
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      drop_left(jobs);
      if (!run_.empty()) return run_.back().job;
      rebuild(jobs, delayed);
    }
    CARILLON_CHECK(false, "a tube's list of delayed jobs has none that is delayed");
  }

  /// How many jobs of `delayed` lie before `key`; counts up to `at_most`. O(that) and what a walk
  /// of the list costs, if the run is too short.
  [[nodiscard]] std::uint64_t count_before(const JobTable& jobs, const JobList& delayed,
                                           const DueKey& key, std::uint64_t at_most) {
    std::uint64_t count = 0;
    for (auto entry = run_.rbegin(); entry != run_.rend(); ++entry) {
      if (count == at_most || !(entry->key < key)) return count;
      count += current(jobs, *entry) ? 1 : 0;
    }
    if (count == at_most || !(bound_ < key)) return count;
    rebuild(jobs, delayed, at_most);
    const auto end = std::find_if(run_.rbegin(), run_.rend(),
                                  [&](const Entry& entry) { return !(entry.key < key); });
    return std::min<std::uint64_t>(at_most, static_cast<std::uint64_t>(end - run_.rbegin()));
  }

  /// After a question that made the run longer than new jobs should have to pay for.
  void shorten() noexcept {
    if (limit_ > kMost) forget();
  }
  void forget() noexcept {
    run_ = {};
    bound_ = kBeforeAll;
    limit_ = kLeast;
  }

  /// Stops the program if a delayed job that should be in the run is not.
  void check(const JobTable& jobs, const JobList& delayed) const {
    for (std::uint32_t i = delayed.first; i != kNil; i = jobs[i].next) {
      if (!(due_key(jobs[i]) < bound_)) continue;
      const bool there = std::any_of(run_.begin(), run_.end(), [&](const Entry& entry) {
        return entry.job == i && entry.key == due_key(jobs[i]);
      });
      CARILLON_CHECK(there, "job ", jobs[i].id, " is missing among the soonest");
    }
    const bool sorted = std::is_sorted(
        run_.begin(), run_.end(), [](const Entry& a, const Entry& b) { return a.key > b.key; });
    CARILLON_CHECK(sorted, "the soonest delayed jobs are out of order");
  }

 private:
  struct Entry {
    DueKey key;
    std::uint32_t job = kNil;
  };
  static constexpr DueKey kBeforeAll{std::numeric_limits<std::int64_t>::min(), 0};
  static constexpr std::size_t kLeast = 64;
  // An insertion moves half of the run on average: 12 KB.
  static constexpr std::size_t kMost = 1'024;

  static bool current(const JobTable& jobs, const Entry& entry) noexcept {
    if (!jobs.contains_index(entry.job)) return false;
    const Job& job = jobs[entry.job];
    return job.state == JobState::kDelayed && due_key(job) == entry.key;
  }

  void drop_left(const JobTable& jobs) {
    while (!run_.empty() && !current(jobs, run_.back())) run_.pop_back();
  }

  void rebuild(const JobTable& jobs, const JobList& delayed, std::uint64_t at_least = 0) {
    run_.clear();
    run_.reserve(delayed.count);
    for (std::uint32_t i = delayed.first; i != kNil; i = jobs[i].next) {
      run_.push_back({due_key(jobs[i]), i});
    }
    const auto later = [](const Entry& a, const Entry& b) { return a.key > b.key; };
    limit_ = std::clamp(run_.size() / 128, kLeast, kMost);
    limit_ = std::max<std::size_t>(limit_, std::min<std::uint64_t>(at_least, run_.size()));
    bound_ = kAfterAll;
    if (run_.size() > limit_) {
      const auto keep = run_.end() - static_cast<std::ptrdiff_t>(limit_);
      std::nth_element(run_.begin(), keep - 1, run_.end(), later);
      bound_ = (keep - 1)->key;
      std::vector<Entry>(keep, run_.end()).swap(run_);
    }
    std::sort(run_.begin(), run_.end(), later);
  }

  // Descending, so that the soonest is at the back.
  std::vector<Entry> run_;
  // Every delayed job before this is in the run; the run may also hold jobs that have left.
  DueKey bound_ = kBeforeAll;
  std::size_t limit_ = kLeast;
};

}  // namespace carillon::broker::internal
