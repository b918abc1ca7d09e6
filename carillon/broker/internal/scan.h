// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A walk over the jobs that takes more than one turn: for a list, a clear or a wheel.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "carillon/broker/command.h"
#include "carillon/broker/internal/delayed_front.h"
#include "carillon/broker/internal/job_table.h"
#include "carillon/broker/internal/list_runs.h"
#include "carillon/broker/reply.h"

namespace carillon::broker::internal {

/// What a scan has to do and how far it is.
///
/// First the far jobs are read, then those in memory are walked over: so a job that comes near
/// meanwhile is met in one of the two at least. (None goes the other way.)
struct Scan {
  /// A job that a list shows, as it was when it was met.
  struct Found {
    DueKey key;
    std::uint32_t job = kNil;  ///< kNil: far, then `record` is its record.
    JobRecord record;

    friend bool operator<(const Found& a, const Found& b) noexcept { return a.key < b.key; }
  };

  std::uint64_t number = 0;
  std::uint32_t session = kNil;
  Ticket ticket;
  Verb verb = Verb::kList;

  // What is looked for.
  TubeNumber tube = 0;  ///< 0: all.
  ListQuery list;
  JobStates states = 0;
  JobId below = 0;  ///< kClear: only what was put before.

  // Far jobs.
  /// Nothing is read before this batch has been handed over: what was put far in it is to be seen.
  CommitSeq after = 0;
  /// Tubes still to be read, the next one last.
  std::vector<TubeNumber> far_tubes;
  FarCursor far_from;
  bool reading = false;
  /// Far jobs that are gone or elsewhere though a read may still bring them.
  absl::flat_hash_set<JobId> gone;

  /// The place in the table of jobs from which the walk goes on.
  std::uint32_t next_index = 0;

  /// kList: the first limit + 1 met so far, as a heap with the last of them on top.
  std::vector<Found> found;
  /// kList: what the walk over the table meets.
  ListRun run;
  std::uint64_t cleared = 0;
  WheelView wheel;

  /// Whether what lies at `key` would be on the page.
  [[nodiscard]] bool wants(const DueKey& key) const {
    return found.size() <= list.limit || key < found.front().key;
  }
  void add(Found job) {
    found.push_back(std::move(job));
    std::push_heap(found.begin(), found.end());
    if (found.size() <= list.limit + 1) return;
    std::pop_heap(found.begin(), found.end());
    found.pop_back();
  }
};

}  // namespace carillon::broker::internal
