// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: the wheels of hooks on which every behaviour is tested, those of the library and tiny
/// ones in which few timers meet in one slot, rings wrap and levels end within a few ticks.

#include <cstddef>

#include "carillon/wheel/coarse_wheel.h"
#include "carillon/wheel/hashed_wheel.h"
#include "carillon/wheel/hierarchical_wheel_impl.h"
#include "carillon/wheel/kafka_wheel.h"
#include "carillon/wheel/mixed_radix_levels.h"
#include "carillon/wheel/wall_clock_wheel.h"

namespace carillon {

/// A wheel that keeps deadlines to the tick; CoarseWheel promises a bound instead.
template <class Wheel>
inline constexpr bool kIsExact = !requires { Wheel::lateness_bound(Tick{}); };

/// The latest tick at which a timer may be given out that is scheduled at `now`.
template <class Wheel>
Tick latest(Tick now, Tick deadline) {
  if constexpr (kIsExact<Wheel>) {
    return deadline;
  } else {
    const Tick bound = Wheel::lateness_bound(deadline - now);
    return deadline > kLastTick - bound ? kLastTick : deadline + bound;
  }
}

// Where nothing is searched, every coarse slot that is asked about is sorted ahead.
struct FourSlots : PowerOfTwoLevels<2> {
  static constexpr int kShortList = 0;
};
struct TwoSlots : PowerOfTwoLevels<1> {
  static constexpr int kShortList = 2;
};
struct UnevenSlots : PowerOfTwoLevels<1, 7, 3> {
  static constexpr int kShortList = 1;
};
// Of the geometries that divide.
struct PrimeSlots : MixedRadixLevels<2, 3, 5> {
  static constexpr int kShortList = 0;
};

/// A HashedWheel of so many slots, to be made as the other wheels are.
template <std::size_t Slots>
struct HashedWheelOf : HashedWheel {
  explicit HashedWheelOf(Tick now = 0) : HashedWheel(now, Slots) {}
};

using TinyHierarchicalWheel = BasicHierarchicalWheel<FourSlots>;
using TinyDividingWheel = BasicHierarchicalWheel<PrimeSlots>;
using TinyHashedWheel = HashedWheelOf<4>;
using TinyCoarseWheel = BasicCoarseWheel<2, 1>;

/// `List` of all wheels of hooks that keep deadlines to the tick.
template <template <class...> class List, class... More>
using ExactWheelsIn =
    List<HierarchicalWheel, LinuxWheel, KafkaWheel, WallClockWheel, TinyHierarchicalWheel,
         TinyDividingWheel, BasicHierarchicalWheel<TwoSlots>, BasicHierarchicalWheel<UnevenSlots>,
         HashedWheel, HashedWheelOf<64>, HashedWheelOf<256>, TinyHashedWheel, HashedWheelOf<1>,
         More...>;

/// `List` of all wheels of hooks.
template <template <class...> class List>
using AllWheelsIn =
    ExactWheelsIn<List, CoarseWheel, KernelWheel, TinyCoarseWheel, BasicCoarseWheel<3, 2>>;

}  // namespace carillon
