// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/problem.h"

#include "carillon/protocol/http/json_writer.h"

namespace carillon::protocol::http {
namespace {

constexpr ProblemTraits kTable[] = {
    {ProblemKind::kMalformedRequest, "malformed-request", 400, "This is not HTTP/1.1"},
    {ProblemKind::kMalformedJson, "malformed-json", 400, "The body is not JSON"},
    {ProblemKind::kUnauthorized, "unauthorized", 401, "A bearer token is needed"},
    {ProblemKind::kForbidden, "forbidden", 403, "The token does not allow this"},
    {ProblemKind::kCrossOrigin, "cross-origin", 403, "A page of another origin asks for this"},
    {ProblemKind::kNoSuchResource, "no-such-resource", 404, "There is nothing at this path"},
    {ProblemKind::kNoSuchJob, "no-such-job", 404, "There is no such job"},
    {ProblemKind::kNoSuchTube, "no-such-tube", 404, "There is no such tube"},
    {ProblemKind::kMethodNotAllowed, "method-not-allowed", 405, "Not with this method"},
    {ProblemKind::kTimeout, "timeout", 408, "The request took too long to come"},
    {ProblemKind::kKeyExists, "key-exists", 409, "A job of this tube has the key"},
    {ProblemKind::kJobReserved, "job-reserved", 409, "A worker has the job"},
    {ProblemKind::kStaleReceipt, "stale-receipt", 409, "The reservation is over"},
    {ProblemKind::kTooLarge, "too-large", 413, "The body is too large"},
    {ProblemKind::kUnsupportedMediaType, "unsupported-media-type", 415,
     "The body has a wrong content type"},
    {ProblemKind::kExpectationFailed, "expectation-failed", 417, "Only 100-continue is expected"},
    {ProblemKind::kHostNotAllowed, "host-not-allowed", 421, "The server is not known by this name"},
    {ProblemKind::kInvalidField, "invalid-field", 422, "A member or parameter has a wrong value"},
    {ProblemKind::kUnknownField, "unknown-field", 422, "There is no such member or parameter"},
    {ProblemKind::kTubeFull, "tube-full", 429, "The tube has all the jobs it may have"},
    {ProblemKind::kHeaderTooLarge, "header-too-large", 431, "The header is too large"},
    {ProblemKind::kInternal, "internal", 500, "The server failed"},
    {ProblemKind::kNotHere, "not-here", 501, "This server does not do that"},
    {ProblemKind::kOverloaded, "overloaded", 503, "The server has too much to do"},
    {ProblemKind::kDraining, "draining", 503, "The server takes no more jobs"},
    {ProblemKind::kUnavailable, "unavailable", 503, "The store is not available"},
    {ProblemKind::kVersion, "version", 505, "Only HTTP/1.0 and HTTP/1.1 are spoken"},
    {ProblemKind::kNoRoom, "no-room", 507, "There is no room for more"},
};

constexpr bool is_in_order() {
  std::size_t at = 0;
  for (const ProblemTraits& traits : kTable) {
    if (static_cast<std::size_t>(traits.kind) != at++) return false;
  }
  return at == static_cast<std::size_t>(ProblemKind::kNoRoom) + 1;
}
static_assert(is_in_order());

}  // namespace

std::span<const ProblemTraits> problem_table() noexcept { return kTable; }

const ProblemTraits& traits_of(ProblemKind kind) noexcept {
  return kTable[static_cast<std::size_t>(kind)];
}

void write_problem(const Problem& problem, JsonWriter& out) {
  const ProblemTraits& traits = traits_of(problem.kind);
  out.begin_object();
  out.field("type", "urn:carillon:problem:" + std::string(traits.name));
  out.field("title", traits.title);
  out.field("status", traits.status);
  if (!problem.detail.empty()) out.field("detail", problem.detail);
  if (!problem.field.empty()) out.field("field", problem.field);
  if (!problem.limit.empty()) out.field("limit", problem.limit);
  if (problem.id != 0) out.id("id", problem.id);
  out.end_object();
}

std::string to_json(const Problem& problem) {
  JsonWriter out;
  write_problem(problem, out);
  return out.take();
}

}  // namespace carillon::protocol::http
