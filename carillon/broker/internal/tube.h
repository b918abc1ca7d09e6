// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A tube in memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "carillon/broker/command.h"
#include "carillon/broker/histogram.h"
#include "carillon/broker/internal/delayed_front.h"
#include "carillon/broker/internal/job_table.h"
#include "carillon/broker/internal/ready_ages.h"
#include "carillon/broker/internal/ready_heap.h"

namespace carillon::broker::internal {

/// The tube that exists without being asked for.
inline constexpr std::string_view kDefaultTube = "default";

/// A kick or peek-delayed that must see far jobs first.
struct FarQuestion {
  std::uint32_t session = kNil;
  Ticket ticket;
  Verb verb = Verb::kPeekDelayed;
  std::uint64_t count = 0;    ///< kKick: how many.
  std::uint64_t missing = 0;  ///< kKick: so many must come near before it is worth counting again.
};

/// What a tube knows of its far jobs, and how far it is in loading them.
struct FarJobs {
  explicit FarJobs(std::uint32_t tube) : load(HookKind::kLoad, tube) {}

  std::uint64_t count = 0;
  /// No far job lies before this.
  DueKey low = kAfterAll;
  /// When to bring the next ones near.
  BrokerHook load;
  /// Loading goes on until all due up to here are near.
  std::int64_t load_until_ms = std::numeric_limits<std::int64_t>::min();
  /// TubeRecord::far_calendar_ms.
  std::optional<std::int64_t> calendar_ms;

  // The scan in flight, if any.
  bool scanning = false;
  /// The first of the far jobs that the scan may not have seen, because they were put after it was
  /// asked for or were not submitted by then.
  DueKey unseen = kAfterAll;
  /// Jobs that are gone though the scan may still bring them.
  absl::flat_hash_set<JobId> gone;

  /// The batch of the last far put, and the first of the far jobs put in it.
  CommitSeq last_put_seq = 0;
  DueKey first_in_batch = kAfterAll;

  std::deque<FarQuestion> questions;
};

/// A tube: its jobs by state, who refers to it, and what was asked of it.
struct Tube {
  Tube() : pause(HookKind::kPause, kNil) {}

  std::string name;
  TubeNumber number = 0;
  std::uint32_t index = kNil;
  // All tubes, in the order in which they were created.
  std::uint32_t prev = kNil;
  std::uint32_t next = kNil;

  ReadyHeap ready;
  ReadyAges ready_ages;
  JobList delayed;
  DelayedFront front;
  JobList buried;
  std::uint64_t reserved_count = 0;
  std::uint64_t urgent_count = 0;
  /// Null while it has none.
  std::unique_ptr<FarJobs> far;

  // Sessions.
  std::uint32_t using_count = 0;
  std::uint32_t watching_count = 0;
  // Waiting reserves, longest first: indexes of watches.
  std::uint32_t first_waiting = kNil;
  std::uint32_t last_waiting = kNil;
  std::uint32_t waiting_count = 0;
  /// It is in the list of tubes whose waiting reserves may be served.
  bool to_be_served = false;

  bool paused = false;
  std::int64_t paused_until_ms = 0;
  std::int64_t pause_ms = 0;
  BrokerHook pause;

  /// Which grant, of all of the partition, was the last from it.
  std::uint64_t last_grant = 0;
  /// How many jobs were looked at when bodies were last read ahead.
  std::uint32_t read_ahead = 0;

  std::uint64_t total_jobs = 0;
  std::uint64_t delete_count = 0;
  std::uint64_t pause_count = 0;
  std::uint64_t fired_count = 0;
  std::uint64_t reserve_count = 0;
  /// Null until a job of it has fired.
  std::unique_ptr<Histogram> lateness_us;

  /// Null: none.
  std::unique_ptr<TubeSettings> settings;
  /// Lookups of keys under way, and whatever else needs it for a moment.
  std::uint32_t pins = 0;

  /// It has a TubeRecord.
  bool stored = false;
  // Where this batch's TubeRecord of it is, if record_seq is the batch being filled.
  CommitSeq record_seq = 0;
  std::uint32_t record_detail = 0;

  [[nodiscard]] std::uint64_t far_count() const noexcept { return far ? far->count : 0; }
  [[nodiscard]] std::uint64_t job_count() const noexcept {
    return ready.size() + delayed.count + buried.count + reserved_count + far_count();
  }
};

}  // namespace carillon::broker::internal
