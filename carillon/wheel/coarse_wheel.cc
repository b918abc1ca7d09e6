// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/coarse_wheel.h"

namespace carillon {

template class BasicCoarseWheel<6, 2>;
template class BasicCoarseWheel<6, 3>;

static_assert(WheelLike<CoarseWheel>);
static_assert(WheelLike<KernelWheel>);

}  // namespace carillon
