// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Pictures of the results, drawn by gnuplot.

#include <filesystem>

#include "bench/common/ledger.h"

namespace carillon::bench {

/// Writes `server-put.svg`, `server-service-put.svg`, `server-service-work.svg` (jobs a second),
/// `server-lateness.svg` and `server-burst.svg` (lateness by share of jobs) into `folder`, those
/// for which there are results. Throws BenchError if gnuplot fails.
void draw_pictures(const Ledger& ledger, const std::filesystem::path& folder);

}  // namespace carillon::bench
