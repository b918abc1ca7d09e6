// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The tables of the server's benchmarks.

#include <span>

#include "bench/common/table.h"

namespace carillon::bench {

[[nodiscard]] std::span<const Layout> server_layouts();

}  // namespace carillon::bench
