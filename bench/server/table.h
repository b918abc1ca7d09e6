// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The results for people: at most 80 columns.

#include <string>
#include <string_view>
#include <vector>

#include "bench/server/ledger.h"
#include "bench/server/targets.h"

namespace carillon::bench {

/// One table for each bench that was run: medians, and the spread where there were repetitions.
[[nodiscard]] std::string format_tables(const Ledger& ledger);

/// The ratios and whether they are met, one line a target.
[[nodiscard]] std::string format_verdicts(const std::vector<Verdict>& verdicts);

}  // namespace carillon::bench
