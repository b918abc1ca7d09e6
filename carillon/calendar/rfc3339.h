// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Times as people and JSON write them: RFC 3339, to and from milliseconds since 1970 (UTC).

#include <cstdint>
#include <string>
#include <string_view>

#include "carillon/base/result.h"

namespace carillon::calendar {

/// Milliseconds since 1970-01-01T00:00:00Z of `text`: "2026-03-29T02:30:00.250+02:00",
/// "2026-03-29T00:30:00Z". Digits beyond milliseconds round up: never early. A second 60 is the one
/// after it, as Unix time has it.
///
/// Errors: kInvalidArgument says what is wrong, without the name of a field. An offset is required:
///         a time without one means another instant on each machine.
/// Limits: years 0001 to 9999.
[[nodiscard]] Result<std::int64_t> parse_rfc3339(std::string_view text);

/// "2026-03-29T00:30:00.250Z": always UTC, always three digits. Beyond the years 0001 to 9999 it is
/// the nearest time within them.
[[nodiscard]] std::string format_rfc3339(std::int64_t ms);

/// "2026-03-29T02:30:00.250+02:00": what a clock shows that is `offset_s` ahead of UTC. An offset
/// that is not of whole minutes (before 1972) cannot be written so: then it is in UTC.
[[nodiscard]] std::string format_rfc3339(std::int64_t ms, std::int64_t offset_s);

}  // namespace carillon::calendar
