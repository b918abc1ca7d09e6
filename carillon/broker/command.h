// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the broker is asked: the protocol's verbs, decoded and checked for syntax.

#include <cstdint>
#include <optional>
#include <string_view>

#include "carillon/base/time.h"
#include "carillon/broker/body.h"
#include "carillon/broker/job.h"

namespace carillon::broker {

/// One client connection, numbered by the host. Never reused, never 0.
using SessionId = std::uint64_t;

/// Which command of which session a reply answers; opaque to the broker.
struct Ticket {
  SessionId session = 0;
  std::uint64_t slot = 0;
  bool operator==(const Ticket&) const = default;
};

enum class Verb : std::uint8_t {
  kPut,            ///< tube, priority, delay, ttr, body
  kReserve,        ///< timeout (nullopt: for ever); from the watched tubes
  kReserveJob,     ///< id
  kDelete,         ///< id
  kRelease,        ///< id, priority, delay
  kBury,           ///< id, priority
  kTouch,          ///< id
  kKick,           ///< tube, count
  kKickJob,        ///< id
  kPeek,           ///< id
  kPeekReady,      ///< tube
  kPeekDelayed,    ///< tube
  kPeekBuried,     ///< tube
  kUse,            ///< tube: this session now uses it (and no other); empty: it uses none here
  kWatch,          ///< tube
  kIgnore,         ///< tube; that one tube stays watched is the session's business
  kPauseTube,      ///< tube, delay
  kStatsJob,       ///< id
  kStatsTube,      ///< tube
  kStats,          ///<
  kListTubes,      ///<
  kCancelReserve,  ///< Ends this session's waiting reserve without a reply. No reply itself.
                   ///< PartitionHost: the ticket is that of the reserve.
  kUnreserve,      ///< id: gives back a reservation that the client never saw. No reply.
};

/// Views are valid during Broker::execute only.
struct Command {
  Verb verb = Verb::kStats;
  Ticket ticket;
  JobId id = 0;
  std::uint32_t priority = 0;
  std::uint64_t count = 0;
  Span delay{};
  Span ttr{};
  std::optional<Span> timeout;
  std::string_view tube;
  Body body;
};

}  // namespace carillon::broker
