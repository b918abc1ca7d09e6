// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the command `stats` shows of the whole server.

#include <array>
#include <cstdint>
#include <string>

#include "carillon/broker/reply.h"
#include "carillon/protocol/beanstalk/request.h"

namespace carillon::protocol::beanstalk {

/// Counted since the start of the process, except `jobs` and what is called current.
struct ServerStats {
  broker::JobCounts jobs;
  std::array<std::uint64_t, kCommandNameCount> commands{};  ///< Index: CommandName.
  std::uint64_t job_timeouts = 0;
  std::uint64_t total_jobs = 0;
  std::uint64_t max_job_size = 0;
  std::uint64_t current_tubes = 0;
  std::uint64_t current_connections = 0;
  std::uint64_t current_producers = 0;  ///< Connections that have put.
  std::uint64_t current_workers = 0;    ///< Connections that have reserved.
  std::uint64_t current_waiting = 0;    ///< Connections whose reserve has no answer yet.
  std::uint64_t total_connections = 0;
  std::int64_t pid = 0;
  std::string version;
  std::int64_t user_time_us = 0;
  std::int64_t system_time_us = 0;
  std::int64_t uptime_s = 0;
  /// There are no numbered log files: both indices are always 0, as is what was migrated.
  std::uint64_t binlog_records_written = 0;
  bool draining = false;
  std::string id;  ///< Of this process; hexadecimal.
  std::string hostname;
  std::string os;
  std::string platform;
  // Of carillon only, behind beanstalkd's keys: done by whatever protocol, since the start.
  std::uint64_t puts = 0;
  std::uint64_t reserves = 0;
  std::uint64_t deletes = 0;
  std::uint64_t http_connections = 0;
  std::uint64_t http_waiting = 0;  ///< Reserves over HTTP that wait for a job.
};

}  // namespace carillon::protocol::beanstalk
