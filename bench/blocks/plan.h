// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The command line of bench_blocks, what is to be done for it, and what is to be reached.

#include <span>
#include <string_view>
#include <vector>

#include "bench/blocks/subject.h"
#include "bench/common/options.h"
#include "bench/common/table.h"
#include "bench/common/targets.h"

namespace carillon::bench {

/// Parses, or prints help or an error and exits: 0 for --help, 2 for a mistake.
[[nodiscard]] CommonOptions parse_options(int argc, char** argv);

struct Step {
  Load load;
  int reps;
};

/// The loads in the order done. --check does the same for a shorter time.
[[nodiscard]] std::vector<Step> plan(const CommonOptions& options);

/// The blocks wanted.
[[nodiscard]] std::vector<std::string_view> benches_of(const CommonOptions& options);

/// Whether a step is to be done with a subject. --check measures only those whom a target names.
[[nodiscard]] bool is_wanted(const CommonOptions& options, const SubjectEntry& subject,
                             const Load& load);

[[nodiscard]] std::span<const Target> block_targets();
[[nodiscard]] std::span<const Layout> block_layouts();

}  // namespace carillon::bench
