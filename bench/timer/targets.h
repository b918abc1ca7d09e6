// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What carillon::Timer is to reach, and how its results are laid out.

#include <span>

#include "bench/common/table.h"
#include "bench/common/targets.h"

namespace carillon::bench {

[[nodiscard]] std::span<const Target> timer_targets();
[[nodiscard]] std::span<const Layout> timer_layouts();

}  // namespace carillon::bench
