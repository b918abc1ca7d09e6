// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the broker answers; a protocol turns it into bytes.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "carillon/broker/body.h"
#include "carillon/broker/command.h"
#include "carillon/broker/histogram.h"
#include "carillon/broker/job.h"
#include "carillon/broker/schedule.h"

namespace carillon::broker {

enum class Answer : std::uint8_t {
  kInserted,  ///< id; count: jobs replaced, 0 or 1
  kReserved,  ///< id, body; detail if with_view
  kFound,     ///< id, body; kGet: detail, body if asked for
  kDeadlineSoon,
  kTimedOut,
  kDeleted,
  kReleased,
  kBuried,  ///< Of a release, too: the job's attempts are used up.
  kTouched,
  kKicked,     ///< count (kick)
  kJobKicked,  ///< (kick-job)
  kUsing,
  kWatching,  ///< count: tubes of this partition that the session watches now
  kPaused,
  kStats,  ///< detail
  kNotFound,
  kExists,      ///< id: a put with a key that this job has
  kConflict,    ///< id: as kExists; or the job is reserved, and the command spares those
  kTubeFull,    ///< The tube's own limit.
  kChanged,     ///< id
  kHandedOver,  ///< id
  kListed,      ///< detail: JobPage
  kCleared,     ///< count
  kTubeSet,
  kScheduleSet,    ///< count: 1 if it is new; detail: ScheduleView
  kNeverDue,       ///< The schedule's spec names no time to come.
  kOutOfMemory,    ///< A limit of the broker, or no room to make a put durable.
  kInternalError,  ///< It could not be made durable; nothing was changed that was acknowledged.
};

/// What there is too little of, of kOutOfMemory.
enum class Shortage : std::uint8_t {
  kNone,
  kJobs,           ///< BrokerOptions::max_jobs_in_memory
  kTubes,          ///< BrokerOptions::max_tubes
  kSchedules,      ///< BrokerOptions::max_schedules
  kScheduleBytes,  ///< BrokerOptions::max_schedule_bytes
  kSpace,          ///< Of the store.
  kStore,          ///< It failed, and is being recovered.
  kHeld,           ///< None: schedules are held.
};

struct JobStats {
  JobId id = 0;
  std::string tube;
  JobState state = JobState::kReady;
  std::uint32_t priority = 0;
  std::int64_t age_ms = 0;
  std::int64_t delay_ms = 0;
  std::int64_t ttr_ms = 0;
  std::int64_t time_left_ms = 0;  ///< 0 unless delayed or reserved; never negative.
  JobHistory history;
};

/// Jobs by state, of a tube or of a partition. Far jobs count as delayed.
struct JobCounts {
  std::uint64_t urgent = 0;  ///< Ready with priority < 1024.
  std::uint64_t ready = 0;
  std::uint64_t reserved = 0;
  std::uint64_t delayed = 0;
  std::uint64_t buried = 0;
};

/// All there is to know of a job but its body. Points in time are Unix time in ms, by the calendar
/// as it is set now.
struct JobView {
  JobStats stats;
  SharedExtras extras;  ///< Null: none.
  std::uint32_t body_size = 0;
  std::uint32_t attempt = 0;  ///< Of the present reservation, or the last; 0: never reserved.
  std::int64_t created_at_ms = 0;
  std::optional<std::int64_t> due_at_ms;          ///< kDelayed.
  std::optional<std::int64_t> reserved_until_ms;  ///< kReserved.
};

/// A page of a listing.
struct JobPage {
  std::vector<JobView> jobs;
  /// Where the next page begins. Null: there is none.
  std::optional<ListCursor> next;
};

/// The wheel of a partition: what lies where, and how far away it is due.
struct WheelView {
  struct Level {
    std::int64_t slot_ms = 1;  ///< One slot covers this.
    std::uint32_t hand = 0;    ///< The slot of the present moment.
    std::vector<std::uint64_t> counts;
  };
  /// Delayed jobs by when they are due: within 1 s, 10 s, 1 min, 10 min, 1 h, 1 day, later.
  static constexpr std::array<std::int64_t, 6> kBoundsMs{1'000,   10'000,    60'000,
                                                         600'000, 3'600'000, 86'400'000};

  std::int64_t now_ms = 0;    ///< On the timeline: what the slots are counted from.
  std::vector<Level> levels;  ///< The finest first. Jobs delayed or reserved.
  std::array<std::uint64_t, kBoundsMs.size() + 1> delayed{};
  std::uint64_t far = 0;  ///< Delayed jobs that are in the store only; in none of the above.
};

struct TubeStats {
  std::string name;
  JobCounts jobs;
  std::uint64_t total_jobs = 0;
  std::uint64_t using_count = 0;
  std::uint64_t watching_count = 0;
  std::uint64_t waiting_count = 0;
  std::uint64_t delete_count = 0;
  std::uint64_t pause_count = 0;
  std::int64_t pause_ms = 0;
  std::int64_t pause_left_ms = 0;
  TubeSettings settings;
  std::uint64_t far_jobs = 0;            ///< Of the delayed ones, those in the store only.
  std::uint64_t fired_count = 0;         ///< Became ready by their deadline.
  std::uint64_t reserve_count = 0;       ///< Reservations begun.
  std::int64_t oldest_ready_age_ms = 0;  ///< For how long a job has been ready, at most; to 256 ms.
  std::optional<std::int64_t> next_due_ms;  ///< Until the first delayed job is due: a lower bound
                                            ///< if that one is far.
  Histogram lateness_us;                    ///< Of the fired ones.
};

struct PartitionStats {
  JobCounts jobs;
  std::uint64_t timeouts = 0;
  std::uint64_t total_jobs = 0;
  std::uint64_t tubes = 0;
  std::uint64_t far_jobs = 0;
  std::uint64_t body_bytes = 0;  ///< Bodies held in memory.
  // Since the partition was opened.
  std::uint64_t put_count = 0;
  std::uint64_t delete_count = 0;
  std::uint64_t fired_count = 0;
  std::uint64_t reserve_count = 0;
  Histogram lateness_us;
  // By the host of the partition.
  Histogram commit_us;        ///< From handing a batch to the store until it is durable.
  Histogram batch_mutations;  ///< In each batch.
};

using TubeNames = std::vector<std::string>;

using Detail = std::variant<JobStats, TubeStats, PartitionStats, TubeNames, JobView, JobPage,
                            WheelView, ScheduleView, SchedulePage>;

struct Reply {
  Answer answer = Answer::kNotFound;
  Shortage shortage = Shortage::kNone;
  JobId id = 0;
  std::uint64_t count = 0;
  Body body;
  std::unique_ptr<Detail> detail;
};

}  // namespace carillon::broker
