// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The command line of bench_timer, and what is to be done for it.

#include <string>
#include <string_view>
#include <vector>

#include "bench/common/options.h"
#include "bench/timer/subject.h"

namespace carillon::bench {

using Options = CommonOptions;

/// Parses, or prints help or an error and exits: 0 for --help, 2 for a mistake.
[[nodiscard]] Options parse_options(int argc, char** argv);

struct Step {
  Load load;
  int reps;
};

/// The workloads in the order done. --check does the same for a shorter time.
[[nodiscard]] std::vector<Step> plan(const Options& options);

/// The numbers of the workloads wanted.
[[nodiscard]] std::vector<std::string_view> benches_of(const Options& options);

/// Whether a step is to be done with a subject. --check measures only those whom a target names.
[[nodiscard]] bool is_wanted(const Options& options, const SubjectEntry& subject, const Load& load);

/// "2 threads, 1 M pending": what results are listed under.
[[nodiscard]] std::string cell_of(const Load& load, const Measurement& measurement);

}  // namespace carillon::bench
