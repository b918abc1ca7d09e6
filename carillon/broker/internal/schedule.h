// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A schedule in memory.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "carillon/broker/internal/job_table.h"
#include "carillon/broker/schedule.h"

namespace carillon::broker::internal {

/// Its hook waits for the next period; or, if one is queued and the instance before has ended, or
/// one could not be put, for when to try.
struct Schedule : BrokerHook {
  Schedule() : BrokerHook(HookKind::kSchedule, kNil >> 3) {}

  ScheduleRecord record;
  std::int64_t offset_ms = 0;
  std::size_t bytes = 0;  ///< Of what the client chose.
};

using Schedules = std::map<std::string, std::unique_ptr<Schedule>, std::less<>>;

}  // namespace carillon::broker::internal
