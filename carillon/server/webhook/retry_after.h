// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The header Retry-After.

#include <optional>
#include <string_view>

#include "carillon/base/time.h"

namespace carillon::server {

/// How long to wait: its value is seconds, or a date of HTTP in one of the three forms that RFC
/// 9110 has a recipient read. A date that has passed is no wait. Nothing if it is neither.
[[nodiscard]] std::optional<Span> parse_retry_after(std::string_view value, WallTime now);

}  // namespace carillon::server
