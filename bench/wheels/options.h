// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The command line of bench_wheels, and how much of everything is done.

#include <cstddef>
#include <vector>

#include "bench/common/options.h"
#include "bench/wheels/subject.h"

namespace carillon::bench {

struct Options : CommonOptions {
  std::vector<std::size_t> sizes;  ///< Timers in W1 to W3.
  std::size_t refreshes = 500'000;
  std::vector<Tick> spans = {1'000, 100'000, 10'000'000, 1'000'000'000};  ///< W4.
  std::size_t sparse_rounds = 100;
  std::size_t connections = 1'000'000;  ///< W5.

  /// Some subjects are too slow for the largest populations, and their cost for those no secret:
  /// they are measured there only if named.
  [[nodiscard]] bool wants_subject(const SubjectEntry& subject, std::size_t timers) const;
};

/// Parses, or prints help or an error and exits: 0 for --help, 2 for a mistake.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace carillon::bench
