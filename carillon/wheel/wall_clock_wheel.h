// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `WallClockWheel`, the hierarchical wheel whose hands are those of a clock: milliseconds,
/// seconds, minutes, hours, days. The one by which Varghese and Lauck explain theirs (1987,
/// scheme 7: 60 seconds, 60 minutes, 24 hours, 100 days), with a level of milliseconds below.
///
///     level   one slot covers    slots   one turn
///       0     1 ms, the tick      1000   a second
///       1     a second              60   a minute
///       2     a minute              60   an hour
///       3     an hour               24   a day
///       4     a day                100   100 days
///       5     100 days             100   10,000 days
///      ...    on by 100
///       9     27 million years      22   what is left of 64 bits
///
/// A timer goes down unit by unit, and ends on the level of milliseconds: a short delay is as
/// precise as with any other geometry, and so is the last second of a long one. Ticks are
/// milliseconds since any midnight; if that is 1970-01-01T00:00Z, slot 12 of level 3 is noon in
/// UTC, and a snapshot reads as a clock does.
///
/// Use it where people look at the wheel, or where what is due comes in round units: all that is
/// due "at noon" lies in one slot from the day before on, and cascades at noon. It costs more than
/// levels of 64: 55 KiB, and divisions (mixed_radix_levels.h).

#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/mixed_radix_levels.h"

namespace carillon {

using WallClockLevels = MixedRadixLevels<1000, 60, 60, 24, 100>;

/// All that HierarchicalWheel is, with the levels of a clock. A tick is a millisecond.
using WallClockWheel = BasicHierarchicalWheel<WallClockLevels>;

extern template class BasicHierarchicalWheel<WallClockLevels>;

}  // namespace carillon
