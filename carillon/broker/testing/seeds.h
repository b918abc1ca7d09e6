// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Runs of a random test by seed: CARILLON_SEED=n repeats one, CARILLON_RUNS=n asks for so many.
/// The seed and what was done are printed also if the program is stopped by a check.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace carillon::broker::testing {

struct RunInProgress {
  std::uint64_t seed = 0;
  const std::string* trace = nullptr;
};
inline RunInProgress run_in_progress;

inline void print_run_in_progress(int) {
  // Not async-signal-safe, and need not be: abort() was called by a check, in ordinary code.
  std::fprintf(stderr, "CARILLON_SEED=%llu%s\n",
               static_cast<unsigned long long>(run_in_progress.seed),
               run_in_progress.trace == nullptr ? "" : run_in_progress.trace->c_str());
}

/// Makes one Trial(seed) after the other; each has run() and trace().
template <class Trial>
void run_seeds(std::uint64_t default_runs) {
  const auto from_environment = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  };
  const std::uint64_t only = from_environment("CARILLON_SEED", 0);
  const std::uint64_t first = only != 0 ? only : 1;
  const std::uint64_t runs = only != 0 ? 1 : from_environment("CARILLON_RUNS", default_runs);
  std::signal(SIGABRT, print_run_in_progress);
  for (std::uint64_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE("CARILLON_SEED=" + std::to_string(seed));
    run_in_progress = {seed, nullptr};
    Trial trial(seed);
    run_in_progress.trace = &trial.trace();
    trial.run();
    run_in_progress.trace = nullptr;
    if (::testing::Test::HasFailure()) break;
  }
  std::signal(SIGABRT, SIG_DFL);
}

}  // namespace carillon::broker::testing
