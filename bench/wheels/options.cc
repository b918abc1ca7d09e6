// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/options.h"

#include <CLI/CLI.hpp>
#include <string_view>

namespace carillon::bench {
namespace {

// Where a repetition of the slow ones would take longer than all the others together.
constexpr std::size_t kMostOfSlow = 1'000'000;
constexpr std::size_t kMostOfSlowInCheck = 1'000;

[[nodiscard]] bool is_slow(const SubjectEntry& subject) {
  return subject.family == Family::kLibrary || subject.name == "std::multimap";
}

}  // namespace

bool Options::wants_subject(const SubjectEntry& subject, std::size_t timers) const {
  if (!names.empty()) return wants_name(subject.name);
  return !is_slow(subject) || timers <= (check ? kMostOfSlowInCheck : kMostOfSlow);
}

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app("Measures our wheels beside heaps and the timers of event loops, on one core.",
               "bench_wheels");
  add_common_options(app, options, {"W1", "W2", "W3", "W4", "W5"},
                     "W1 schedule and cancel, W2 refresh, W3 expire, W4 sparse, W5 loop");
  add_name_option(app, options, "--subject");
  add_from_option(app, options);
  app.add_option("--n", options.sizes, "So many timers in W1 to W3; several by commas")
      ->delimiter(',')
      ->check(CLI::Range(10, 100'000'000));
  app.add_option("--connections", options.connections, "So many in W5")
      ->check(CLI::Range(10, 100'000'000))
      ->capture_default_str();
  parse_or_exit(app, options, argc, argv);
  if (options.sizes.empty()) {
    options.sizes = options.check ? std::vector<std::size_t>{1'000, 1'000'000}
                                  : std::vector<std::size_t>{1'000, 100'000, 1'000'000, 10'000'000};
  }
  if (options.reps == 0) options.reps = options.check ? 3 : 5;
  if (options.check) options.sparse_rounds = 20;
  return options;
}

}  // namespace carillon::bench
