// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/hierarchical_wheel.h"

#include "carillon/wheel/hierarchical_wheel_impl.h"

namespace carillon {

template class BasicHierarchicalWheel<PowerOfTwoLevels<6>>;
template class BasicHierarchicalWheel<PowerOfTwoLevels<8, 6>>;

static_assert(WheelLike<HierarchicalWheel>);
static_assert(WheelLike<LinuxWheel>);

}  // namespace carillon
