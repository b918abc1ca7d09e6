// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Numbers, durations and sizes as people write them: 500ms, 30s, 5m, 2h, 1d; 64KiB, 16MiB, 1GiB.

#include <cstdint>
#include <string>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/base/time.h"

namespace carillon::server {

/// A whole number in decimal digits and nothing else.
[[nodiscard]] Result<std::uint64_t> parse_count(std::string_view text);

/// A whole number and a unit: ms, s, m, h or d. A bare number counts seconds, as on the wire.
[[nodiscard]] Result<Span> parse_duration(std::string_view text);

/// A whole number and a unit: KiB, MiB or GiB (K, M, G for short). A bare number counts bytes.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

/// In the largest unit that divides it.
[[nodiscard]] std::string format_duration(Span span);
[[nodiscard]] std::string format_size(std::uint64_t bytes);

/// Whole seconds, rounded up: what the wire can say of a delay without making it shorter. Pre: span
/// is not negative. Clamped to the 4294967295 s that the wire can carry.
[[nodiscard]] std::uint32_t ceil_seconds(Span span) noexcept;

}  // namespace carillon::server
