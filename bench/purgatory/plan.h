// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The command line of bench_purgatory, what is to be done for it, what is to be reached, and the
/// picture.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/options.h"
#include "bench/common/table.h"
#include "bench/common/targets.h"
#include "bench/purgatory/experiment.h"

namespace carillon::bench {

/// Where the most that a purgatory kept up with is listed.
inline constexpr std::string_view kMost = "at most";

/// Parses, or prints help or an error and exits: 0 for --help, 2 for a mistake.
[[nodiscard]] CommonOptions parse_options(int argc, char** argv);

struct Plan {
  std::vector<Mix> mixes;
  std::vector<double> rates;  ///< Requests a second, rising.
  double seconds;             ///< For each rate.
  int reps;
};

[[nodiscard]] Plan plan(const CommonOptions& options);

/// The mixes wanted.
[[nodiscard]] std::vector<std::string_view> benches_of(const CommonOptions& options);

/// " 50 k/s": what the results of a rate are listed under.
[[nodiscard]] std::string cell_of(double rate);

/// Whether so much done of so much offered is so little that a higher rate need not be tried.
[[nodiscard]] bool is_saturated(double rate, double done_k);

/// Adds, for each purgatory, mix and repetition, the highest done_k of all rates.
void add_most(Ledger& ledger);

[[nodiscard]] std::span<const Target> purgatory_targets();
[[nodiscard]] std::span<const Layout> purgatory_layouts();

/// Draws purgatory-*.svg: done by offered, and CPU by offered.
void draw_purgatory_pictures(const Ledger& ledger, const std::filesystem::path& folder);

}  // namespace carillon::bench
