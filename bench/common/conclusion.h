// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How a run of a benchmark begins and ends: notes on the machine, where the results go, and the
/// last line with the exit status.

#include <filesystem>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "bench/common/targets.h"

namespace carillon::bench {

inline constexpr int kOk = 0;
inline constexpr int kShort = 1;
inline constexpr int kDidNotRun = 2;
inline constexpr int kInterruptedStatus = 130;  ///< As a shell says of SIGINT.

/// Prints a note if the build or the load of the machine makes numbers say little.
void warn_of_surroundings(const Environment& environment);

/// BENCH-DATE.jsonl in bench/results/ if `save`, else in the build folder.
[[nodiscard]] std::filesystem::path results_file(std::string_view bench, bool save,
                                                 const Environment& environment);

/// Prints what falls short and what could not be judged, or "ok" if there is nothing of either;
/// returns kShort or kOk.
int conclude(const std::vector<Verdict>& verdicts, const Ledger& ledger);

}  // namespace carillon::bench
