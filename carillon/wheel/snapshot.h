// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `WheelSnapshot`: what lies where in a wheel at one moment, for drawings, dashboards and tests.

#include <cstddef>
#include <vector>

#include "carillon/wheel/hook.h"

namespace carillon {

/// A copy; it stays valid when the wheel turns on.
struct WheelSnapshot {
  struct Level {
    /// Ticks that one slot covers.
    Tick granularity = 1;
    /// The slot that contains the present tick: where the hand of this level points.
    int hand = 0;
    /// Timers in each slot of the turn. The hand's own slot is empty above level 0: what was in it
    /// has cascaded.
    std::vector<std::size_t> counts;
  };

  Tick now = 0;
  std::size_t size = 0;
  /// Timers of the tick `now` that are due but were not yet given to a sink; in no level's counts.
  std::size_t due = 0;
  /// The finest level first.
  std::vector<Level> levels;
};

}  // namespace carillon
