// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a walk for a page of a long list found beyond that page, so that the pages behind it need
/// no walk of their own.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "carillon/broker/command.h"
#include "carillon/broker/internal/delayed_front.h"
#include "carillon/broker/internal/job_table.h"

namespace carillon::broker::internal {

/// Jobs in memory that a list shows, in order, as they were when they were walked over.
struct ListRun {
  struct Entry {
    DueKey key;
    std::uint32_t job = kNil;
    friend bool operator<(const Entry& a, const Entry& b) noexcept { return a.key < b.key; }
  };
  /// So many are kept: 16 pages of the largest size. Twice as many while they are collected.
  static constexpr std::size_t kMost = 16'384;

  TubeNumber tube = 0;
  ListQuery list;              ///< What was asked for; `after` and `limit` say nothing.
  DueKey from;                 ///< It has all jobs at or behind this that lie ...
  DueKey bound = kAfterAll;    ///< ... before this. kAfterAll: all.
  std::vector<Entry> entries;  ///< Sorted once the walk is over.
  std::int64_t used_ms = 0;

  [[nodiscard]] bool is_of(TubeNumber number, const ListQuery& query) const {
    return number == tube && query.state == list.state && query.key_prefix == list.key_prefix &&
           query.due_from_ms == list.due_from_ms && query.due_until_ms == list.due_until_ms;
  }
  /// Whether it has what a page that begins at `key` begins with.
  [[nodiscard]] bool covers(const DueKey& key) const { return !(key < from) && key < bound; }
  /// While it is collected. Amortised O(1).
  void collect(const DueKey& key, std::uint32_t job) {
    if (!(key < bound)) return;
    entries.push_back({key, job});
    if (entries.size() >= 2 * kMost) trim();
  }
  /// The walk is over.
  void sort() {
    if (entries.size() > kMost) trim();
    std::sort(entries.begin(), entries.end());
  }
  /// A job that was not walked over, since it was far then, is near now.
  void add(const DueKey& key, std::uint32_t job) {
    if (key < from || !(key < bound)) return;
    const Entry entry{key, job};
    entries.insert(std::upper_bound(entries.begin(), entries.end(), entry), entry);
    if (entries.size() < 2 * kMost) return;
    bound = entries[kMost].key;
    entries.resize(kMost);
  }
  /// Those at or behind `key` that are still what they were, at most `most`.
  [[nodiscard]] std::vector<Entry> page(const JobTable& jobs, const DueKey& key,
                                        std::size_t most) const {
    std::vector<Entry> found;
    auto at = std::lower_bound(entries.begin(), entries.end(), Entry{key, 0});
    for (; at != entries.end() && found.size() < most; ++at) {
      if (!jobs.contains_index(at->job)) continue;
      const Job& job = jobs[at->job];
      const DueKey now{job.state == JobState::kDelayed ? job.deadline_ms() : 0, job.id};
      if (job.state == list.state && now == at->key) found.push_back(*at);
    }
    return found;
  }

 private:
  void trim() {
    const auto end = entries.begin() + static_cast<std::ptrdiff_t>(kMost);
    std::nth_element(entries.begin(), end, entries.end());
    bound = end->key;
    entries.erase(end, entries.end());
  }
};

/// The runs of the listings that went on last.
///
/// A listing that begins walks, and its run replaces that of an earlier one of the same query; so
/// the run that a page is taken from is no older than the listing that the page belongs to, and
/// has every job that has been there, unchanged, since that began.
///
/// Cost: 24 bytes for each of at most 16,384 jobs (twice that if many came near since) in each of
///       kRuns runs, until kKeptMs after their last use; nothing while no long list is asked for.
class ListRuns {
 public:
  static constexpr std::size_t kRuns = 4;
  static constexpr std::int64_t kKeptMs = 60'000;

  [[nodiscard]] bool empty() const noexcept { return runs_.empty(); }
  void clear() noexcept { runs_ = {}; }

  /// Null: there is none.
  [[nodiscard]] ListRun* find(TubeNumber tube, const ListQuery& list, const DueKey& key,
                              std::int64_t now_ms) {
    std::erase_if(runs_, [now_ms](const ListRun& run) { return now_ms - run.used_ms > kKeptMs; });
    for (ListRun& run : runs_) {
      if (!run.is_of(tube, list) || !run.covers(key)) continue;
      run.used_ms = now_ms;
      return &run;
    }
    return nullptr;
  }
  void keep(ListRun run, std::int64_t now_ms) {
    run.used_ms = now_ms;
    // Whatever part of it the old one has: what is behind that is walked over again.
    std::erase_if(runs_, [&](const ListRun& old) { return old.is_of(run.tube, run.list); });
    if (runs_.size() == kRuns) {
      runs_.erase(std::min_element(
          runs_.begin(), runs_.end(),
          [](const ListRun& a, const ListRun& b) { return a.used_ms < b.used_ms; }));
    }
    runs_.push_back(std::move(run));
  }
  template <class Visit>
  void for_each(Visit visit) {
    for (ListRun& run : runs_) visit(run);
  }

 private:
  std::vector<ListRun> runs_;
};

}  // namespace carillon::broker::internal
