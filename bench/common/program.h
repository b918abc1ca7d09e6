// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A run of a benchmark from its first line to its exit status, for programs that differ only in
/// what they measure.

#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "bench/common/options.h"
#include "bench/common/table.h"
#include "bench/common/targets.h"

namespace carillon::bench {

struct Program {
  std::string_view bench;  ///< "blocks": of the program bench_blocks.
  std::span<const Target> targets;
  std::span<const Layout> layouts;
  std::vector<std::string_view> benches;  ///< Those that are wanted.
  std::function<void(Ledger&)> measure;
  /// Draws what there is into a folder.
  std::function<void(const Ledger&, const std::filesystem::path&)> draw;
};

/// Measures, or reads what options.saved names; prints tables and verdicts; keeps the results;
/// draws. Returns the exit status. Errors are printed.
int run_program(const Program& program, const CommonOptions& options);

}  // namespace carillon::bench
