// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The table of what the API offers: every method and path, who may call it, and what it is called.
/// The server answers by it, the roles and `Allow` come from it, and the OpenAPI description is
/// tested against it.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carillon::protocol::http {

enum class Method : std::uint8_t { kGet, kPost, kPut, kPatch, kDelete };
inline constexpr std::size_t kMethodCount = 5;
[[nodiscard]] std::string_view to_string(Method method) noexcept;
/// Nothing if it is none of them. HEAD is asked for as GET.
[[nodiscard]] std::optional<Method> parse_method(std::string_view text) noexcept;

/// What a token may be for; a set of bits.
using Roles = std::uint8_t;
inline constexpr Roles kPublic = 0;       ///< No token is needed.
inline constexpr Roles kProduceRole = 1;  ///< Puts jobs, and looks after them by id or key.
inline constexpr Roles kConsumeRole = 2;  ///< Reserves jobs, and answers for them.
inline constexpr Roles kAdminRole = 4;    ///< Everything.
inline constexpr Roles kAnyRole = kProduceRole | kConsumeRole | kAdminRole;
/// "produce", "consume", "admin", joined by commas.
[[nodiscard]] std::string to_string(Roles roles);
/// One name of those. Nothing if it is none.
[[nodiscard]] std::optional<Roles> parse_role(std::string_view text) noexcept;

/// What a route does; the server has a function for each.
enum class Operation : std::uint8_t {
  kPutJob,
  kPutBatch,
  kReserve,
  kAckBatch,
  kAckJob,
  kReleaseJob,
  kBuryJob,
  kTouchJob,
  kGetJob,
  kGetJobBody,
  kDeleteJob,
  kChangeJob,
  kKickJob,
  kGetKey,
  kGetKeyBody,
  kDeleteKey,
  kChangeKey,
  kKickKey,
  kListJobs,
  kListTubeJobs,
  kListTubes,
  kGetTube,
  kPauseTube,
  kResumeTube,
  kKickTube,
  kClearTube,
  kSetTube,
  kListSchedules,
  kGetSchedule,
  kSetSchedule,
  kDeleteSchedule,
  kRunSchedule,
  kGetStats,
  kGetEvents,
  kGetWheel,
  kGetHealth,
  kGetReadiness,
  kGetMetrics,
};
inline constexpr std::size_t kOperationCount = 38;

struct Route {
  Operation operation;
  Method method;
  /// Segments behind slashes; `{name}` stands for any one segment that is not empty.
  std::string_view path;
  /// One of these is needed; admin always does.
  Roles roles;
  /// The operationId of the description.
  std::string_view name;
};

/// Every route, in the order of the operations.
[[nodiscard]] std::span<const Route> route_table() noexcept;

/// What a request leads to.
struct Destination {
  const Route* route = nullptr;
  std::vector<std::string_view> arguments;  ///< What stood for the `{name}`s, in order.
  /// If there is no route: the methods that the path has, for `Allow`; empty if it has none.
  std::string allowed;
};

/// The arguments refer to `segments`.
[[nodiscard]] Destination find_route(Method method, std::span<const std::string> segments);
/// The same for a method that no route has.
[[nodiscard]] std::string allowed_methods(std::span<const std::string> segments);

}  // namespace carillon::protocol::http
