// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What carillon's server is to reach.

#include <span>

#include "bench/common/targets.h"

namespace carillon::bench {

[[nodiscard]] std::span<const Target> server_targets();

}  // namespace carillon::bench
