// SPDX-License-Identifier: Apache-2.0
//
// bench_server: carillon beside its peers, as docs/internals/benchmarks.md describes. Run by
// `./x bench server`.

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "bench/common/conclusion.h"
#include "bench/common/interrupt.h"
#include "bench/common/ledger.h"
#include "bench/common/table.h"
#include "bench/server/layouts.h"
#include "bench/server/options.h"
#include "bench/server/plot.h"
#include "bench/server/targets.h"
#include "bench/server/workloads.h"

namespace {

using namespace carillon::bench;

struct Bench {
  std::string_view number;
  std::string_view name;
  void (*run)(const Options&, Ledger&);
};
constexpr std::array kBenches = {
    Bench{"B1", "put", run_put_bench},         Bench{"B2", "cycle", run_cycle_bench},
    Bench{"B3", "memory", run_memory_bench},   Bench{"B4", "lateness", run_lateness_bench},
    Bench{"B5", "service", run_service_bench}, Bench{"B6", "restart", run_restart_bench},
    Bench{"B7", "burst", run_burst_bench},
};

int run(const Options& options) {
  const Environment environment = describe_environment(options.surroundings.dir);
  fmt::print("{}\n{} ({}); commit {}\ndata in {} ({})\n", environment.cpu, environment.preset,
             environment.compiler, environment.commit, options.surroundings.dir.string(),
             environment.filesystem);
  if (options.saved.empty()) warn_of_surroundings(environment);
  std::fflush(stdout);

  Ledger ledger;
  for (const std::filesystem::path& file : options.saved) ledger.read_json(file);
  std::vector<std::string_view> ran;
  for (const Bench& bench : kBenches) {
    if (!options.wants_bench(bench.number)) continue;
    if (options.saved.empty()) bench.run(options, ledger);
    ran.push_back(bench.name);
  }
  const std::vector<Verdict> verdicts = judge(ledger, server_targets(), options.check, ran);
  fmt::print("{}{}\n", format_tables(ledger, server_layouts()), format_verdicts(verdicts));
  if (options.saved.empty()) {
    const std::filesystem::path file = results_file("server", options.save, environment);
    ledger.append_json(file, environment);
    fmt::print("results: {}\n", file.string());
  }
  if (options.plot) {
    const std::filesystem::path source = CARILLON_BENCH_SOURCE_DIR;
    draw_pictures(ledger, source / "docs" / "pictures");
  }
  const int status = conclude(verdicts, ledger);
  return options.check ? status : kOk;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  catch_interrupts();
  try {
    return run(options);
  } catch (const Interrupted&) {
    fmt::print(stderr, "\nbench_server: interrupted; servers ended, folders removed\n");
    return kInterruptedStatus;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_server: {}\n", error.what());
    return kDidNotRun;
  }
}
