// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A stretch of time during which the clocks of a zone differ from UTC by the same amount.

#include <cstdint>
#include <limits>

namespace carillon::calendar {

/// [begin_s, end_s) in seconds since 1970 (UTC); local time = UTC + offset_s.
struct OffsetPeriod {
  std::int64_t begin_s = std::numeric_limits<std::int64_t>::min();
  std::int64_t end_s = std::numeric_limits<std::int64_t>::max();
  std::int64_t offset_s = 0;
  bool operator==(const OffsetPeriod&) const = default;
};

}  // namespace carillon::calendar
