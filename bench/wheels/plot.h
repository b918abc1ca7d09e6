// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Pictures of the results of bench_wheels, drawn by gnuplot.

#include <filesystem>

#include "bench/common/ledger.h"

namespace carillon::bench {

/// Writes `wheels-schedule.svg`, `-cancel`, `-refresh` and `-expire` into `folder`: ns an operation
/// against the number of timers, ours, peers and limit. Those for which there are results of two
/// numbers of timers or more. Throws BenchError if gnuplot fails.
void draw_wheel_pictures(const Ledger& ledger, const std::filesystem::path& folder);

}  // namespace carillon::bench
