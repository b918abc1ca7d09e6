// SPDX-License-Identifier: Apache-2.0
//
// bench_server: carillon beside its peers, as docs/internals/benchmarks.md describes. Run by
// `./x bench server`.

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "bench/server/interrupt.h"
#include "bench/server/ledger.h"
#include "bench/server/options.h"
#include "bench/server/plot.h"
#include "bench/server/table.h"
#include "bench/server/targets.h"
#include "bench/server/workloads.h"

namespace {

using namespace carillon::bench;

constexpr int kOk = 0;
constexpr int kShort = 1;
constexpr int kDidNotRun = 2;
constexpr int kInterruptedStatus = 130;  // as a shell says of SIGINT

struct Bench {
  std::string_view number;
  std::string_view name;
  void (*run)(const Options&, Ledger&);
};
constexpr std::array kBenches = {
    Bench{"B1", "put", run_put_bench},
    Bench{"B2", "cycle", run_cycle_bench},
    Bench{"B3", "memory", run_memory_bench},
    Bench{"B4", "lateness", run_lateness_bench},
};

std::filesystem::path results_file(const Options& options, const Environment& environment) {
  const std::string name = fmt::format("server-{}.jsonl", environment.date.substr(0, 10));
  const std::filesystem::path source = CARILLON_BENCH_SOURCE_DIR;
  const std::filesystem::path build = CARILLON_BENCH_BINARY_DIR;
  return (options.save ? source / "bench" / "results" : build / "bench-results") / name;
}

void warn_of_surroundings(const Environment& environment) {
  if (environment.build_type == "Debug" || environment.preset.find("san") != std::string::npos) {
    fmt::print("note: this is a {} build ({}); its numbers say little\n", environment.build_type,
               environment.preset);
  }
  if (environment.load_before > 0.7) {
    fmt::print("note: load average {:.1f} before the run: others are using this machine\n",
               environment.load_before);
  }
}

// What falls short, and what could not be judged. Prints "ok" if there is nothing of either.
int conclude(const std::vector<Verdict>& verdicts, const Ledger& ledger) {
  int status = kOk;
  for (const std::string& why : ledger.missing()) {
    fmt::print("not measured: {}\n", why);
    status = kShort;
  }
  for (const Verdict& verdict : verdicts) {
    if (verdict.met) continue;
    status = kShort;
    if (!verdict.measured) {
      // A peer that is not installed has been named above; one left out by --peer has not.
      if (ledger.missing().empty()) fmt::print("not judged: {}\n", verdict.target->name);
      continue;
    }
    fmt::print("falls short: {}: {:.2f}, to reach {} {:g}\n", verdict.target->name,
               *verdict.measured, to_string(verdict.target->bound), verdict.limit);
  }
  if (status == kOk) fmt::print("ok\n");
  return status;
}

int run(const Options& options) {
  const Environment environment = describe_environment(options.surroundings.dir);
  fmt::print("{}\n{} ({}); commit {}\ndata in {} ({})\n", environment.cpu, environment.preset,
             environment.compiler, environment.commit, options.surroundings.dir.string(),
             environment.filesystem);
  warn_of_surroundings(environment);
  std::fflush(stdout);

  Ledger ledger;
  std::vector<std::string_view> ran;
  for (const Bench& bench : kBenches) {
    if (!options.wants_bench(bench.number)) continue;
    bench.run(options, ledger);
    ran.push_back(bench.name);
  }
  const std::vector<Verdict> verdicts = judge(ledger, options.check, ran);
  const std::filesystem::path file = results_file(options, environment);
  ledger.append_json(file, environment);
  fmt::print("{}{}\nresults: {}\n", format_tables(ledger), format_verdicts(verdicts),
             file.string());
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
