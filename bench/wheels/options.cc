// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "bench/common/environment.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kFooter =
    "The workloads and what they are to reach: docs/internals/benchmarks.md.\n"
    "Exit status: 0 all is well; 1 --check found something short of its target; 2 it did not run.";

// Where a repetition of the slow ones would take longer than all the others together.
constexpr std::size_t kMostOfSlow = 1'000'000;
constexpr std::size_t kMostOfSlowInCheck = 1'000;

[[nodiscard]] bool is_slow(const SubjectEntry& subject) {
  return subject.family == Family::kLibrary || subject.name == "std::multimap";
}

}  // namespace

bool Options::wants_bench(std::string_view number) const {
  return only.empty() || std::find(only.begin(), only.end(), number) != only.end();
}

bool Options::wants_subject(const SubjectEntry& subject, std::size_t timers) const {
  if (!subjects.empty()) {
    return std::any_of(subjects.begin(), subjects.end(), [&](const std::string& part) {
      return subject.name.find(part) != std::string_view::npos;
    });
  }
  return !is_slow(subject) || timers <= (check ? kMostOfSlowInCheck : kMostOfSlow);
}

Options parse_options(int argc, char** argv) {
  Options options;
  int reps = 0;
  CLI::App app("Measures our wheels beside heaps and the timers of event loops, on one core.",
               "bench_wheels");
  app.footer(std::string(kFooter));
  app.add_flag("--check", options.check,
               "A short version (under 60 s) that judges: ok, or what falls short");
  app.add_option("--only", options.only,
                 "Only these: W1 schedule and cancel, W2 refresh, W3 expire, W4 sparse, W5 loop")
      ->delimiter(',')
      ->check(CLI::IsMember({"W1", "W2", "W3", "W4", "W5"}, CLI::ignore_case));
  app.add_option("--subject", options.subjects,
                 "Only those whose name contains this; may be repeated");
  app.add_option("--n", options.sizes, "So many timers in W1 to W3; several by commas")
      ->delimiter(',')
      ->check(CLI::Range(10, 100'000'000));
  app.add_option("--connections", options.connections, "So many in W5")
      ->check(CLI::Range(10, 100'000'000))
      ->capture_default_str();
  app.add_option("--reps", reps, "So many repetitions of each")->check(CLI::Range(1, 100));
  app.add_option("--from", options.saved,
                 "Measure nothing: take the lines of a file of results; may be repeated")
      ->check(CLI::ExistingFile);
  app.add_flag("--save", options.save,
               "Append the results to bench/results/, not only to the build folder");
  app.add_flag("--plot", options.plot, "Draw the results into docs/pictures/ with gnuplot");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  for (std::string& number : options.only) number[0] = 'W';
  if (options.sizes.empty()) {
    options.sizes = options.check ? std::vector<std::size_t>{1'000, 1'000'000}
                                  : std::vector<std::size_t>{1'000, 100'000, 1'000'000, 10'000'000};
  }
  if (options.check) {
    options.reps = 3;
    options.sparse_rounds = 20;
  }
  if (reps > 0) options.reps = reps;
  if (options.plot && find_program("gnuplot").empty()) {
    fmt::print(stderr, "bench_wheels: --plot needs gnuplot: apt-get install gnuplot-nox\n");
    std::exit(2);
  }
  return options;
}

}  // namespace carillon::bench
