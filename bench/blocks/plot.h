// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Pictures of the results: throughput by threads.

#include <filesystem>

#include "bench/common/ledger.h"

namespace carillon::bench {

/// Draws blocks-*.svg into `folder`, each if there is something for it. Throws BenchError if
/// gnuplot fails.
void draw_block_pictures(const Ledger& ledger, const std::filesystem::path& folder);

}  // namespace carillon::bench
