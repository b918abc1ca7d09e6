// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Points in time as text: RFC 3339 with milliseconds, in UTC when written.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace carillon::protocol::http {

/// The last millisecond that is written or read: the end of the year 9999.
inline constexpr std::int64_t kLastTimeMs = 253'402'300'799'999;

/// "2026-01-31T23:59:59.999Z". Milliseconds since 1970, clamped to 1970 to 9999.
[[nodiscard]] std::string format_time(std::int64_t unix_ms);

/// Reads an RFC 3339 date and time with `Z` or an offset; `T` and `Z` may be small, a space may
/// stand for `T`. Finer than milliseconds is rounded up, so that nothing is early; a leap second is
/// the second after. Nothing if it is not one, or lies outside of 1970 to 9999.
[[nodiscard]] std::optional<std::int64_t> parse_time(std::string_view text) noexcept;

}  // namespace carillon::protocol::http
