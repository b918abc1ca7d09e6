// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the broker answers; a protocol turns it into bytes.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "carillon/broker/body.h"
#include "carillon/broker/job.h"

namespace carillon::broker {

enum class Answer : std::uint8_t {
  kInserted,  ///< id
  kReserved,  ///< id, body
  kFound,     ///< id, body
  kDeadlineSoon,
  kTimedOut,
  kDeleted,
  kReleased,
  kBuried,
  kTouched,
  kKicked,     ///< count (kick)
  kJobKicked,  ///< (kick-job)
  kUsing,
  kWatching,  ///< count: tubes of this partition that the session watches now
  kPaused,
  kStats,  ///< detail
  kNotFound,
  kOutOfMemory,    ///< A limit of the broker, or no room to make a put durable.
  kInternalError,  ///< It could not be made durable; nothing was changed that was acknowledged.
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
};

struct PartitionStats {
  JobCounts jobs;
  std::uint64_t timeouts = 0;
  std::uint64_t total_jobs = 0;
  std::uint64_t tubes = 0;
  std::uint64_t far_jobs = 0;
  std::uint64_t body_bytes = 0;  ///< Bodies held in memory.
};

using TubeNames = std::vector<std::string>;

struct Reply {
  Answer answer = Answer::kNotFound;
  JobId id = 0;
  std::uint64_t count = 0;
  Body body;
  std::unique_ptr<std::variant<JobStats, TubeStats, PartitionStats, TubeNames>> detail;
};

}  // namespace carillon::broker
