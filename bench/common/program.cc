// SPDX-License-Identifier: Apache-2.0
#include "bench/common/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "bench/common/conclusion.h"
#include "bench/common/interrupt.h"
#include "bench/common/progress.h"

namespace carillon::bench {
namespace {

int run(const Program& program, const CommonOptions& options) {
  const Environment environment = describe_environment({});
  fmt::print("{}\n{} ({}); commit {}\n", environment.cpu, environment.preset, environment.compiler,
             environment.commit);
  warn_of_surroundings(environment);
  std::fflush(stdout);
  Ledger ledger;
  for (const std::filesystem::path& file : options.saved) ledger.read_json(file);
  bool interrupted = false;
  try {
    if (options.saved.empty()) program.measure(ledger);
  } catch (const Interrupted&) {
    interrupted = true;
  }
  show_progress("");
  if (interrupted) {
    fmt::print(stderr, "bench_{}: interrupted; this is what there is\n", program.bench);
  }

  const std::vector<Verdict> verdicts =
      judge(ledger, program.targets, options.check, program.benches);
  fmt::print("{}{}\n", format_tables(ledger, program.layouts), format_verdicts(verdicts));
  if (options.saved.empty()) {
    const std::filesystem::path file = results_file(program.bench, options.save, environment);
    ledger.append_json(file, environment);
    fmt::print("results: {}\n", file.string());
  }
  if (options.plot) {
    const std::filesystem::path pictures =
        std::filesystem::path(CARILLON_BENCH_SOURCE_DIR) / "docs" / "pictures";
    std::filesystem::create_directories(pictures);
    program.draw(ledger, pictures);
  }
  if (interrupted) return kInterruptedStatus;
  const int status = conclude(verdicts, ledger);
  return options.check ? status : kOk;
}

}  // namespace

int run_program(const Program& program, const CommonOptions& options) {
  catch_interrupts();
  try {
    return run(program, options);
  } catch (const std::exception& error) {
    show_progress("");
    fmt::print(stderr, "bench_{}: {}\n", program.bench, error.what());
    return kDidNotRun;
  }
}

}  // namespace carillon::bench
