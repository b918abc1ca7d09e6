// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The results of bench_wheels for people: at most 80 columns.

#include <cstddef>
#include <string>

#include "bench/common/ledger.h"

namespace carillon::bench {

/// 1000000 -> "1,000,000": the cells of results.
[[nodiscard]] std::string cell_of(std::size_t count);

/// A table for each number of timers, one for W4 and one for W5: ns an operation, and how many
/// times that is what the best of our wheels takes.
[[nodiscard]] std::string format_wheel_tables(const Ledger& ledger);

}  // namespace carillon::bench
