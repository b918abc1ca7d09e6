// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the wheels are to reach.

#include <span>

#include "bench/common/targets.h"

namespace carillon::bench {

[[nodiscard]] std::span<const Target> wheel_targets();

}  // namespace carillon::bench
