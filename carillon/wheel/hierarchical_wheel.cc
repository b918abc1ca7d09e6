// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/hierarchical_wheel.h"

#include "carillon/wheel/hierarchical_wheel_impl.h"
#include "carillon/wheel/kafka_wheel.h"
#include "carillon/wheel/wall_clock_wheel.h"

namespace carillon {

template class BasicHierarchicalWheel<PowerOfTwoLevels<6>>;
template class BasicHierarchicalWheel<PowerOfTwoLevels<8, 6>>;
template class BasicHierarchicalWheel<KafkaLevels>;
template class BasicHierarchicalWheel<WallClockLevels>;

static_assert(WheelLike<HierarchicalWheel>);
static_assert(WheelLike<LinuxWheel>);
static_assert(WheelLike<KafkaWheel>);
static_assert(WheelLike<WallClockWheel>);

}  // namespace carillon
