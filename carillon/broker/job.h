// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a job and a tube are to the stores: records, free of pointers and of any format.

#include <cstdint>
#include <optional>
#include <string>

#include "carillon/base/time.h"
#include "carillon/broker/extras.h"

namespace carillon::broker {

/// Unique in a data folder for ever, increasing in put order within a partition. Never 0.
using JobId = std::uint64_t;
/// A partition's own number of a tube; stable while the tube has a TubeRecord.
using TubeNumber = std::uint32_t;
/// Numbers the batches of a partition, from 1, since it was opened. 0: nothing to wait for.
using CommitSeq = std::uint64_t;

enum class JobState : std::uint8_t { kReady = 0, kDelayed = 1, kBuried = 2, kReserved = 3 };

/// How often what has happened to a job (beanstalkd's stats-job counts).
struct JobHistory {
  std::uint32_t reserves = 0;
  std::uint32_t timeouts = 0;
  std::uint32_t releases = 0;
  std::uint32_t buries = 0;
  std::uint32_t kicks = 0;
  bool operator==(const JobHistory&) const = default;
};

/// Everything that is stored of a job but its body. Times are milliseconds of the partition's
/// timeline (Unix time that does not step, see carillon/broker/timeline.h).
struct JobRecord {
  JobId id = 0;
  TubeNumber tube = 0;
  /// Never kReserved: a reservation does not outlive a process.
  JobState state = JobState::kReady;
  std::uint32_t priority = 0;  ///< 0 is the most urgent.
  std::uint32_t body_size = 0;
  std::int64_t due_ms = 0;    ///< When it becomes ready; meaningful while kDelayed.
  std::int64_t ttr_ms = 0;    ///< Length of a reservation.
  std::int64_t delay_ms = 0;  ///< As last asked for by put or release; of a changed job from
                              ///< created_ms to the time it got.
  std::int64_t created_ms = 0;
  std::uint64_t bury_order = 0;  ///< Buried jobs of a tube are kicked in this order.
  JobHistory history;
  SharedExtras extras;  ///< Null: none.
};

[[nodiscard]] inline bool operator==(const JobRecord& a, const JobRecord& b) {
  return a.id == b.id && a.tube == b.tube && a.state == b.state && a.priority == b.priority &&
         a.body_size == b.body_size && a.due_ms == b.due_ms && a.ttr_ms == b.ttr_ms &&
         a.delay_ms == b.delay_ms && a.created_ms == b.created_ms && a.bury_order == b.bury_order &&
         a.history == b.history && same_extras(a.extras, b.extras);
}

/// What an operator sets for a tube. A tube with settings lives without jobs.
struct TubeSettings {
  std::uint64_t max_jobs = 0;  ///< A put beyond it is answered kTubeFull. 0: no limit.
  std::string document;        ///< Whatever the layers above keep with a tube. Opaque.
  bool operator==(const TubeSettings&) const = default;
  [[nodiscard]] bool empty() const { return max_jobs == 0 && document.empty(); }
};

/// A tube that has something to remember across a restart.
struct TubeRecord {
  TubeNumber number = 0;
  std::string name;
  std::uint64_t far_count = 0;   ///< Jobs of this tube that are in the store only.
  std::int64_t far_from_ms = 0;  ///< No far job of this tube is due before this: the scan starts
                                 ///< here and never walks over what has been consumed.
  std::int64_t paused_until_ms = 0;
  std::int64_t pause_ms = 0;  ///< As asked for.
  TubeSettings settings{};
  /// Whether far jobs of this tube follow the calendar, and the least that the calendar was ahead
  /// of the timeline when one was put: by how much it is more now, they are due sooner.
  std::optional<std::int64_t> far_calendar_ms{};
  bool operator==(const TubeRecord&) const = default;
};

/// The link between a monotonic clock and a partition's timeline in force during one boot of the
/// machine (see carillon/broker/timeline.h).
struct TimeAnchor {
  std::string boot_id;  ///< Names the boot; empty if unknown, which never matches.
  Span offset{};        ///< timeline time = monotonic time + offset
  bool operator==(const TimeAnchor&) const = default;
};

/// What a partition remembers of itself.
struct PartitionRecord {
  JobId next_id = 1;  ///< No id at or above this has been given out.
  TubeNumber next_tube = 1;
  std::uint64_t next_bury_order = 1;
  std::int64_t latest_ms = 0;  ///< The timeline had reached this; it never goes back behind it.
  TimeAnchor anchor;
  bool operator==(const PartitionRecord&) const = default;
};

}  // namespace carillon::broker
