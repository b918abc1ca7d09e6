// SPDX-License-Identifier: Apache-2.0
#pragma once

// How to have a million timers come due at one instant, and nobody wait: a CoarseWheel that is
// asked for a little less than the deadline.
//
// A hierarchical wheel is exact because it cascades, and to cascade a slot with a million timers
// takes tens of milliseconds, in one piece. A CoarseWheel never moves a timer, but is late by up to
// 4/63 of the delay. Ask it for 15/16 of the delay: then it is never late, 15/16 * (1 + 4/63) < 1,
// and early by a sixteenth. What comes out early is put in again for what remains; four times for
// half an hour in ticks of 10 ms. This is a cascade too, but one timer at a time, so it is subject
// to the budget of advance(); and a timer whose deadline has been moved meanwhile is found out on
// the way, without having been touched.

#include "carillon/wheel/coarse_wheel.h"

namespace carillon::internal {

// Where to schedule a timer so that it is given out at `deadline` or before, but if it is before,
// by a sixteenth of the delay at most. Pre: deadline > now.
[[nodiscard]] constexpr Tick early_deadline(Tick now, Tick deadline) noexcept {
  const Tick delay = deadline - now;
  return delay <= CoarseWheel::kSlots ? deadline : deadline - (delay + 15) / 16;
}

}  // namespace carillon::internal
