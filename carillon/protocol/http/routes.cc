// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/routes.h"

#include <algorithm>
#include <array>

namespace carillon::protocol::http {
namespace {

constexpr std::array<std::string_view, kMethodCount> kMethods = {"GET", "POST", "PUT", "PATCH",
                                                                 "DELETE"};
constexpr std::array<std::string_view, 3> kRoles = {"produce", "consume", "admin"};

constexpr Route kRoutes[] = {
    {Operation::kPutJob, Method::kPost, "/api/v1/tubes/{tube}/jobs", kProduceRole, "putJob"},
    {Operation::kPutBatch, Method::kPost, "/api/v1/tubes/{tube}/jobs:batch", kProduceRole,
     "putBatch"},
    {Operation::kReserve, Method::kPost, "/api/v1/reserve", kConsumeRole, "reserve"},
    {Operation::kAckBatch, Method::kPost, "/api/v1/ack", kConsumeRole, "ackBatch"},
    {Operation::kAckJob, Method::kPost, "/api/v1/jobs/{id}/ack", kConsumeRole, "ackJob"},
    {Operation::kReleaseJob, Method::kPost, "/api/v1/jobs/{id}/release", kConsumeRole,
     "releaseJob"},
    {Operation::kBuryJob, Method::kPost, "/api/v1/jobs/{id}/bury", kConsumeRole, "buryJob"},
    {Operation::kTouchJob, Method::kPost, "/api/v1/jobs/{id}/touch", kConsumeRole, "touchJob"},
    {Operation::kGetJob, Method::kGet, "/api/v1/jobs/{id}", kAnyRole, "getJob"},
    {Operation::kGetJobBody, Method::kGet, "/api/v1/jobs/{id}/body", kAnyRole, "getJobBody"},
    {Operation::kDeleteJob, Method::kDelete, "/api/v1/jobs/{id}", kProduceRole, "deleteJob"},
    {Operation::kChangeJob, Method::kPatch, "/api/v1/jobs/{id}", kProduceRole, "changeJob"},
    {Operation::kKickJob, Method::kPost, "/api/v1/jobs/{id}/kick", kAdminRole, "kickJob"},
    {Operation::kGetKey, Method::kGet, "/api/v1/tubes/{tube}/keys/{key}", kAnyRole, "getKey"},
    {Operation::kGetKeyBody, Method::kGet, "/api/v1/tubes/{tube}/keys/{key}/body", kAnyRole,
     "getKeyBody"},
    {Operation::kDeleteKey, Method::kDelete, "/api/v1/tubes/{tube}/keys/{key}", kProduceRole,
     "deleteKey"},
    {Operation::kChangeKey, Method::kPatch, "/api/v1/tubes/{tube}/keys/{key}", kProduceRole,
     "changeKey"},
    {Operation::kKickKey, Method::kPost, "/api/v1/tubes/{tube}/keys/{key}/kick", kAdminRole,
     "kickKey"},
    {Operation::kListJobs, Method::kGet, "/api/v1/jobs", kAdminRole, "listJobs"},
    {Operation::kListTubeJobs, Method::kGet, "/api/v1/tubes/{tube}/jobs", kProduceRole,
     "listTubeJobs"},
    {Operation::kListTubes, Method::kGet, "/api/v1/tubes", kAnyRole, "listTubes"},
    {Operation::kGetTube, Method::kGet, "/api/v1/tubes/{tube}", kAnyRole, "getTube"},
    {Operation::kPauseTube, Method::kPut, "/api/v1/tubes/{tube}/pause", kAdminRole, "pauseTube"},
    {Operation::kResumeTube, Method::kDelete, "/api/v1/tubes/{tube}/pause", kAdminRole,
     "resumeTube"},
    {Operation::kKickTube, Method::kPost, "/api/v1/tubes/{tube}/kick", kAdminRole, "kickTube"},
    {Operation::kClearTube, Method::kPost, "/api/v1/tubes/{tube}/clear", kAdminRole, "clearTube"},
    {Operation::kSetTube, Method::kPut, "/api/v1/tubes/{tube}/settings", kAdminRole, "setTube"},
    {Operation::kListSchedules, Method::kGet, "/api/v1/schedules", kAdminRole, "listSchedules"},
    {Operation::kGetSchedule, Method::kGet, "/api/v1/schedules/{name}", kAdminRole, "getSchedule"},
    {Operation::kSetSchedule, Method::kPut, "/api/v1/schedules/{name}", kAdminRole, "setSchedule"},
    {Operation::kDeleteSchedule, Method::kDelete, "/api/v1/schedules/{name}", kAdminRole,
     "deleteSchedule"},
    {Operation::kRunSchedule, Method::kPost, "/api/v1/schedules/{name}/run", kAdminRole,
     "runSchedule"},
    {Operation::kGetStats, Method::kGet, "/api/v1/stats", kAnyRole, "getStats"},
    {Operation::kGetEvents, Method::kGet, "/api/v1/events", kAnyRole, "getEvents"},
    {Operation::kGetWheel, Method::kGet, "/api/v1/wheel", kAnyRole, "getWheel"},
    {Operation::kGetHealth, Method::kGet, "/healthz", kPublic, "getHealth"},
    {Operation::kGetReadiness, Method::kGet, "/readyz", kPublic, "getReadiness"},
    {Operation::kGetMetrics, Method::kGet, "/metrics", kAnyRole, "getMetrics"},
};

constexpr bool is_in_order() {
  std::size_t at = 0;
  for (const Route& route : kRoutes) {
    if (static_cast<std::size_t>(route.operation) != at++) return false;
  }
  return at == kOperationCount;
}
static_assert(is_in_order());

/// Whether the path matches; the arguments are what stood for the names.
bool matches(std::string_view path, std::span<const std::string> segments,
             std::vector<std::string_view>& arguments) {
  arguments.clear();
  for (const std::string& segment : segments) {
    if (path.empty()) return false;
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view wanted = path.substr(0, end);
    path.remove_prefix(end);
    if (wanted.starts_with('{')) {
      if (segment.empty()) return false;
      arguments.push_back(segment);
    } else if (wanted != segment) {
      return false;
    }
  }
  return path.empty();
}

}  // namespace

std::string_view to_string(Method method) noexcept {
  return kMethods[static_cast<std::size_t>(method)];
}

std::optional<Method> parse_method(std::string_view text) noexcept {
  if (text == "HEAD") return Method::kGet;
  for (std::size_t i = 0; i < kMethodCount; ++i) {
    if (text == kMethods[i]) return static_cast<Method>(i);
  }
  return std::nullopt;
}

std::string to_string(Roles roles) {
  std::string text;
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    if ((roles >> i & 1) != 0) text.append(text.empty() ? "" : ",").append(kRoles[i]);
  }
  return text;
}

std::optional<Roles> parse_role(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kRoles.size(); ++i) {
    if (text == kRoles[i]) return static_cast<Roles>(1 << i);
  }
  return std::nullopt;
}

std::span<const Route> route_table() noexcept { return kRoutes; }

Destination find_route(Method method, std::span<const std::string> segments) {
  Destination destination;
  for (const Route& route : kRoutes) {
    if (route.method != method || !matches(route.path, segments, destination.arguments)) continue;
    destination.route = &route;
    return destination;
  }
  destination.arguments.clear();
  destination.allowed = allowed_methods(segments);
  return destination;
}

std::string allowed_methods(std::span<const std::string> segments) {
  std::string allowed;
  std::vector<std::string_view> arguments;
  for (const Route& route : kRoutes) {
    if (!matches(route.path, segments, arguments)) continue;
    allowed.append(allowed.empty() ? "" : ", ").append(to_string(route.method));
    if (route.method == Method::kGet) allowed.append(", HEAD");
  }
  return allowed;
}

}  // namespace carillon::protocol::http
