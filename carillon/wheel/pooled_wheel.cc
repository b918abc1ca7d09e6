// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/pooled_wheel.h"

#include <memory>

#include "carillon/wheel/pooled_wheel_impl.h"

namespace carillon {

template class internal::PoolCore<PooledShape>;

static_assert(TimeDriven<PooledWheel<>>);
static_assert(TimeDriven<PooledWheel<int>>);
static_assert(TimeDriven<PooledWheel<std::unique_ptr<int>>>);

}  // namespace carillon
