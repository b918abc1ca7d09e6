// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What all HTTP connections share.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/broker/reply.h"
#include "carillon/server/http_guard.h"
#include "carillon/server/http_name_queue.h"
#include "carillon/server/metrics/metrics.h"
#include "carillon/server/partitions.h"

namespace carillon::server {

class HttpDesk;
class Webhooks;
class HttpEvents;

struct HttpLimits {
  std::size_t max_header = std::size_t{16} << 10;
  std::size_t max_body = std::size_t{16} << 20;
  /// Bodies of requests in memory, of all connections together; beyond it requests are refused.
  std::size_t max_bodies = std::size_t{256} << 20;
  /// Requests on one connection, which is closed after the last. 0: no limit.
  std::uint64_t max_requests = 0;
  std::size_t max_job_size = 65'535;
  /// Bytes of a response, or of events, that the client has not taken, before it is held back.
  std::size_t max_unsent = std::size_t{1} << 20;
};

/// Owned by the network thread.
struct HttpContext {
  Partitions& partitions;
  HttpGuard& guard;
  HttpDesk& desk;
  HttpEvents& events;
  const Calendar& calendar;
  Webhooks* webhooks = nullptr;  ///< Null: there are none.
  MetricTubes metric_tubes{100};
  HttpLimits limits = {};
  /// Different at every start of the server; part of every receipt.
  std::uint64_t epoch = 0;
  /// Puts are refused.
  bool draining = false;
  /// The server is ending: no request is taken after the present one.
  bool stopping = false;
  /// A client of this session has shown a token that nobody knows.
  std::function<void(broker::SessionId)> on_failed_login = [](broker::SessionId) {};
  /// Gives a reply to the connection that the ticket names, if it is still there.
  std::function<void(std::size_t partition, broker::Ticket, broker::Reply)> deliver = {};

  HttpNameQueue schedule_names = {};  ///< That are being set.

  // Counted by the connections.
  std::size_t bodies = 0;  ///< Bytes of bodies in memory.
  std::uint64_t requests = 0;
  std::uint64_t waiting = 0;  ///< Reserves that wait for a job.
  std::size_t surpluses = 0;  ///< How often one was granted more jobs than it asked for.

  /// What `stats` shows of the process beside the partitions.
  struct ServerFacts {
    std::uint64_t connections = 0;
    std::uint64_t http_connections = 0;
    std::uint64_t refused_connections = 0;
    std::uint64_t failed_logins = 0;  ///< Of beanstalk's clients ...
    std::uint64_t late_logins = 0;
    std::uint64_t http_failed_logins = 0;  ///< ... and tokens of HTTP's that nobody knows.
    std::uint64_t commit_failures = 0;
    std::uint64_t recoveries = 0;
    bool accepts_puts = true;
    bool held = false;  ///< By the option `hold`.
    /// Of the data folder's disk; nothing: there is none, or it does not say.
    std::optional<std::uint64_t> free_bytes;
    std::uint64_t min_free_bytes = 0;
    std::int64_t uptime_ms = 0;
    std::string version;
    std::string id;
    std::string store;               ///< "RocksDB" or "memory" ...
    std::string data;                ///< ... and in which folder.
    std::uint64_t memory_bytes = 0;  ///< Resident.
    /// Named as the options; with a unit behind that, if it is not a count. 0: no limit.
    std::vector<std::pair<std::string_view, std::uint64_t>> limits;
  };
  std::function<ServerFacts()> describe = [] { return ServerFacts{}; };
};

}  // namespace carillon::server
