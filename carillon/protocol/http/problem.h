// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What went wrong with a request, as an RFC 9457 problem document.
///
///     {"type": "urn:carillon:problem:invalid-field", "title": "A member has a wrong value",
///      "status": 422, "detail": "has to be a number", "field": "jobs[3].delay_ms",
///      "limit": "0 to 4294967295000"}
///
/// A problem says that nothing was changed, unless its detail says that this is not known.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "carillon/broker/job.h"

namespace carillon::protocol::http {

enum class ProblemKind : std::uint8_t {
  kMalformedRequest,
  kMalformedJson,
  kUnauthorized,
  kForbidden,
  kCrossOrigin,
  kNoSuchResource,
  kNoSuchJob,
  kNoSuchTube,
  kMethodNotAllowed,
  kTimeout,
  kKeyExists,
  kJobReserved,
  kStaleReceipt,
  kTooLarge,
  kUnsupportedMediaType,
  kExpectationFailed,
  kHostNotAllowed,
  kInvalidField,
  kUnknownField,
  kTubeFull,
  kHeaderTooLarge,
  kInternal,
  kNotHere,
  kOverloaded,
  kDraining,
  kUnavailable,
  kVersion,
  kNoRoom,
};

/// What is the same of every problem of a kind.
struct ProblemTraits {
  ProblemKind kind;
  std::string_view name;  ///< The type is urn:carillon:problem:NAME.
  int status;
  std::string_view title;
};

/// In the order of the enumerators.
[[nodiscard]] std::span<const ProblemTraits> problem_table() noexcept;
[[nodiscard]] const ProblemTraits& traits_of(ProblemKind kind) noexcept;

struct Problem {
  ProblemKind kind = ProblemKind::kInternal;
  std::string detail;
  std::string field = {};  ///< The member, parameter or header that is to blame, if one is.
  std::string limit = {};  ///< What it may be, if there is a limit.
  broker::JobId id = 0;    ///< The job that is in the way, if one is.
  int retry_after_s = 0;   ///< When it may help to try again; 0: not said.

  [[nodiscard]] int status() const noexcept { return traits_of(kind).status; }
};

inline constexpr std::string_view kProblemContentType = "application/problem+json";

class JsonWriter;
/// Writes the document as one JSON object.
void write_problem(const Problem& problem, JsonWriter& out);
[[nodiscard]] std::string to_json(const Problem& problem);

}  // namespace carillon::protocol::http
