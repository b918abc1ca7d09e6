// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A session in memory: what it uses, watches and holds, and what it waits for.

#include <cstdint>
#include <limits>
#include <vector>

#include "carillon/broker/command.h"
#include "carillon/broker/internal/job_table.h"

namespace carillon::broker::internal {

inline constexpr std::int64_t kNeverMs = std::numeric_limits<std::int64_t>::max();

/// One session watching one tube; while the session waits, a link of the tube's queue.
struct Watch {
  std::uint32_t session = kNil;
  std::uint32_t tube = kNil;
  std::uint32_t prev = kNil;
  std::uint32_t next = kNil;
};

/// Why a session has no reply yet.
enum class Blocked : std::uint8_t {
  kNo,
  kWaiting,  ///< A reserve, for a job.
  kBody,     ///< A reserve or reserve-job that has its job, for the job's body.
  kFetch,    ///< A command that names a job by id, for that job.
  kFar,      ///< A kick or peek-delayed, for far jobs of its tube.
  kKey,      ///< A command that names a key, for the far job that may have it.
  kScan,     ///< A list, clear or wheel, for the walk over the jobs.
};

/// Its hook is scheduled while it waits with a timeout or holds a reservation.
struct Session : BrokerHook {
  Session() : BrokerHook(HookKind::kSession, kNil) {}

  SessionId id = 0;
  std::uint32_t used = kNil;
  std::vector<std::uint32_t> watches;

  JobList reserved;
  /// The held job whose reservation ends first; kNil: none, or to be searched.
  std::uint32_t soonest = kNil;

  Blocked blocked = Blocked::kNo;
  Verb blocked_verb = Verb::kReserve;
  bool with_view = false;      ///< Of the reserve or reserve-job.
  bool tubes_in_turn = false;  ///< Of the reserve.
  std::int64_t ttr_ms = 0;     ///< As with_view; 0: the job's own.
  Ticket ticket;
  JobId blocked_id = 0;                ///< kBody, kFetch: the job.
  std::uint32_t blocked_tube = kNil;   ///< kFar, kKey: the tube.
  std::int64_t give_up_ms = kNeverMs;  ///< kWaiting, kBody: when the reserve times out.
};

}  // namespace carillon::broker::internal
