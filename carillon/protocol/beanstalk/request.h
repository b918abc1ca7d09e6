// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a client asked for in beanstalkd's protocol, free of its spelling.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "carillon/broker/body.h"
#include "carillon/broker/job.h"

namespace carillon::protocol::beanstalk {

/// The commands of the protocol; `stats` counts them one by one.
enum class CommandName : std::uint8_t {
  kNone,  ///< Not recognised, or too malformed to be counted.
  kPut,
  kPeek,
  kPeekReady,
  kPeekDelayed,
  kPeekBuried,
  kReserve,
  kReserveWithTimeout,
  kReserveJob,
  kDelete,
  kRelease,
  kBury,
  kKick,
  kKickJob,
  kTouch,
  kStats,
  kStatsJob,
  kStatsTube,
  kUse,
  kWatch,
  kIgnore,
  kListTubes,
  kListTubeUsed,
  kListTubesWatched,
  kPauseTube,
  kQuit,
  kLogin,  ///< Of carillon only.
};
inline constexpr std::size_t kCommandNameCount = static_cast<std::size_t>(CommandName::kLogin) + 1;

/// Answers that need no broker: the bytes themselves were wrong.
enum class Refusal : std::uint8_t {
  kBadFormat,
  kUnknownCommand,
  kExpectedCrlf,   ///< The body of a put was not followed by CRLF.
  kJobTooBig,      ///< The body of a put was longer than allowed; it has been skipped.
  kOutOfMemory,    ///< There was no memory for the body of a put; it has been skipped.
  kOtherProtocol,  ///< The connection begins with a request of HTTP: close it. See parser.h.
};

/// One command, complete with its body, or the refusal that answers it.
///
/// Lifetime: `tube` and `token` point into the bytes given to Parser::next or into the parser:
/// valid until the next call of either's owner.
struct Request {
  CommandName name = CommandName::kNone;
  std::optional<Refusal> refusal;  ///< If set, nothing else but `name` has a meaning.
  broker::JobId id = 0;
  std::uint32_t priority = 0;
  std::uint32_t delay_s = 0;  ///< put, release; of pause-tube how long.
  std::uint32_t ttr_s = 0;    ///< At least 1.
  std::uint32_t timeout_s = 0;
  std::uint64_t count = 0;  ///< kick
  std::string_view tube;
  std::string_view token;  ///< login: anything, also nothing.
  broker::Body body;
};

/// The most urgent priorities, which the statistics count apart.
inline constexpr std::uint32_t kUrgentBelow = 1024;
/// Longest command line, with its CRLF.
inline constexpr std::size_t kLineLimit = 224;
/// Longest name of a tube.
inline constexpr std::size_t kTubeNameLimit = 200;
/// Size of the largest body, unless configured.
inline constexpr std::uint32_t kDefaultMaxJobSize = 65'535;
/// The most that it can be configured to.
inline constexpr std::uint32_t kMaxJobSizeCap = std::uint32_t{1} << 30;

/// 1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( ), the first of them not '-'.
[[nodiscard]] bool is_tube_name(std::string_view name) noexcept;

}  // namespace carillon::protocol::beanstalk
