// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The options that every benchmark has.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace carillon::bench {

struct CommonOptions {
  bool check = false;
  bool save = false;
  bool plot = false;
  int reps = 0;                    ///< 0: as many as suit the workload.
  std::vector<std::string> only;   ///< Numbers of workloads; empty is all.
  std::vector<std::string> names;  ///< Parts of the names of who is measured; empty is all.
  std::vector<std::filesystem::path> saved;  ///< Results to take instead of measuring.

  [[nodiscard]] bool wants_bench(std::string_view number) const;
  /// Whether `name` contains one of `names`, or there are none.
  [[nodiscard]] bool wants_name(std::string_view name) const;
};

/// --check, --only, --reps, --save, --plot, and the footer with the exit status. `numbers` are the
/// workloads, "W1" .. "W5", in order; `what` says what they are.
void add_common_options(CLI::App& app, CommonOptions& options,
                        const std::vector<std::string>& numbers, std::string_view what);

/// --subject, or what it is called, and --from.
void add_name_option(CLI::App& app, CommonOptions& options, std::string_view flag);
void add_from_option(CLI::App& app, CommonOptions& options);

/// Parses, or prints help or an error and exits: 0 for --help, 2 for a mistake, --plot without
/// gnuplot included.
void parse_or_exit(CLI::App& app, CommonOptions& options, int argc, char** argv);

/// Says why on standard error, and exits with 2.
[[noreturn]] void refuse_to_run(const CLI::App& app, std::string_view why);

}  // namespace carillon::bench
