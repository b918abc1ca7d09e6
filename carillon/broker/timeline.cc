// SPDX-License-Identifier: Apache-2.0
#include "carillon/broker/timeline.h"

#include <algorithm>
#include <utility>

namespace carillon::broker {

Timeline::Timeline(const Clock& clock, WallTime calendar_now, std::string boot_id,
                   const TimeAnchor& stored, WallTime latest)
    : clock_(clock) {
  const Span monotonic = clock.now().time_since_epoch();
  const bool same_boot = !boot_id.empty() && boot_id == stored.boot_id;
  const WallTime start = same_boot ? WallTime(monotonic + stored.offset) : calendar_now;
  // Also within one boot: a folder copied from another machine may bring a stranger's anchor.
  anchor_.offset = std::max(start, latest).time_since_epoch() - monotonic;
  anchor_.boot_id = std::move(boot_id);
}

WallTime Timeline::now() const noexcept {
  return WallTime(clock_.now().time_since_epoch() + anchor_.offset);
}

Instant Timeline::instant_of(WallTime point) const noexcept {
  return saturating_add(Instant(point.time_since_epoch()), -anchor_.offset);
}

}  // namespace carillon::broker
