// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_handlers.h"

#include <iterator>

namespace carillon::server {

using protocol::http::Operation;
using protocol::http::Problem;
using protocol::http::ProblemKind;

namespace {

struct Line {
  Operation operation;
  HttpHandler handler;
};
constexpr Line kHandlers[] = {
    {Operation::kPutJob, put_job},
    {Operation::kPutBatch, put_batch},
    {Operation::kReserve, reserve_jobs},
    {Operation::kAckBatch, ack_batch},
    {Operation::kAckJob, ack_job},
    {Operation::kReleaseJob, release_job},
    {Operation::kBuryJob, bury_job},
    {Operation::kTouchJob, touch_job},
    {Operation::kGetJob, get_job},
    {Operation::kGetJobBody, get_job_body},
    {Operation::kDeleteJob, delete_job},
    {Operation::kChangeJob, change_job},
    {Operation::kKickJob, kick_job},
    {Operation::kGetKey, get_job},
    {Operation::kGetKeyBody, get_job_body},
    {Operation::kDeleteKey, delete_job},
    {Operation::kChangeKey, change_job},
    {Operation::kKickKey, kick_job},
    {Operation::kListJobs, list_jobs},
    {Operation::kListTubeJobs, list_jobs},
    {Operation::kListTubes, list_tubes},
    {Operation::kGetTube, get_tube},
    {Operation::kPauseTube, pause_tube},
    {Operation::kResumeTube, resume_tube},
    {Operation::kKickTube, kick_tube},
    {Operation::kClearTube, clear_tube},
    {Operation::kSetTube, set_tube},
    {Operation::kListSchedules, list_schedules},
    {Operation::kGetSchedule, get_schedule},
    {Operation::kSetSchedule, set_schedule},
    {Operation::kDeleteSchedule, delete_schedule},
    {Operation::kRunSchedule, run_schedule},
    {Operation::kGetStats, get_stats},
    {Operation::kGetEvents, get_events},
    {Operation::kGetWheel, get_wheel},
    {Operation::kGetHealth, get_health},
    {Operation::kGetReadiness, get_readiness},
    {Operation::kGetMetrics, get_metrics},
};

constexpr bool is_in_order() {
  std::size_t at = 0;
  for (const Line& line : kHandlers) {
    if (static_cast<std::size_t>(line.operation) != at++) return false;
  }
  return at == protocol::http::kOperationCount;
}
static_assert(is_in_order());

}  // namespace

HttpHandler handler_of(Operation operation) noexcept {
  return kHandlers[static_cast<std::size_t>(operation)].handler;
}

namespace {

/// What there is too little of, and the option that says how much there may be.
Problem no_room(broker::Shortage shortage) {
  using broker::Shortage;
  const auto reached = [](std::string_view what, std::string_view limit) {
    return Problem{ProblemKind::kNoRoom, std::string(what), {}, std::string(limit)};
  };
  switch (shortage) {
    case Shortage::kJobs:
      return reached("there are too many jobs in memory, of those due within the horizon",
                     "max-jobs-in-memory");
    case Shortage::kTubes: return reached("there are too many tubes", "max-tubes");
    case Shortage::kSchedules: return reached("there are too many schedules", "10000 a partition");
    case Shortage::kScheduleBytes:
      return reached("the bodies of all schedules are too large", "64 MiB a partition");
    case Shortage::kSpace:
      return reached("the disk of the data folder has too little free", "min-free-space");
    case Shortage::kHeld:
      return Problem{ProblemKind::kNoRoom, "schedules put nothing: hold is set, or it is drained"};
    case Shortage::kStore:
    case Shortage::kNone: break;
  }
  return Problem{ProblemKind::kNoRoom,
                 "the store could not write it; it is being recovered, and the log says why"};
}

}  // namespace

std::optional<Problem> failure_of(const broker::Reply& reply) {
  switch (reply.answer) {
    case broker::Answer::kOutOfMemory: {
      Problem problem = no_room(reply.shortage);
      problem.retry_after_s = 5;
      return problem;
    }
    case broker::Answer::kInternalError: {
      Problem problem{ProblemKind::kUnavailable,
                      "the store could not do it; it is being recovered"};
      problem.retry_after_s = 1;
      return problem;
    }
    default: return std::nullopt;
  }
}

Problem is_draining() {
  Problem problem{ProblemKind::kDraining, "it is being drained (SIGUSR1) or stopped"};
  problem.retry_after_s = 5;
  return problem;
}

Problem no_such_job() { return {ProblemKind::kNoSuchJob, "it is done, or never was"}; }

}  // namespace carillon::server
