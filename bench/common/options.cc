// SPDX-License-Identifier: Apache-2.0
#include "bench/common/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "bench/common/environment.h"

namespace carillon::bench {
namespace {

constexpr const char* kFooter =
    "The workloads and what they are to reach: docs/internals/benchmarks.md.\n"
    "Exit status: 0 all is well; 1 --check found something short of its target; 2 it did not run.";

}  // namespace

bool CommonOptions::wants_bench(std::string_view number) const {
  return only.empty() || std::find(only.begin(), only.end(), number) != only.end();
}

bool CommonOptions::wants_name(std::string_view name) const {
  return names.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& part) {
           return name.find(part) != std::string_view::npos;
         });
}

void add_common_options(CLI::App& app, CommonOptions& options,
                        const std::vector<std::string>& numbers, std::string_view what) {
  app.footer(std::string(kFooter));
  app.add_flag("--check", options.check, "A short version that judges: ok, or what falls short");
  app.add_option("--only", options.only, fmt::format("Only these: {}", what))
      ->delimiter(',')
      ->check(CLI::IsMember(numbers, CLI::ignore_case));
  app.add_option("--reps", options.reps, "So many repetitions of each")->check(CLI::Range(1, 100));
  app.add_flag("--save", options.save,
               "Append the results to bench/results/, not only to the build folder");
  app.add_flag("--plot", options.plot, "Draw the results into docs/pictures/ with gnuplot");
}

void add_name_option(CLI::App& app, CommonOptions& options, std::string_view flag) {
  app.add_option(std::string(flag), options.names,
                 "Only those whose name contains this; may be repeated");
}

void add_from_option(CLI::App& app, CommonOptions& options) {
  app.add_option("--from", options.saved,
                 "Measure nothing: take the lines of a file of results; may be repeated")
      ->check(CLI::ExistingFile);
}

void parse_or_exit(CLI::App& app, CommonOptions& options, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  for (std::string& number : options.only) {
    number[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(number[0])));
  }
  if (options.plot && find_program("gnuplot").empty()) {
    refuse_to_run(app, "--plot needs gnuplot: apt-get install gnuplot-nox");
  }
}

void refuse_to_run(const CLI::App& app, std::string_view why) {
  fmt::print(stderr, "{}: {}\n", app.get_name(), why);
  std::exit(2);
}

}  // namespace carillon::bench
