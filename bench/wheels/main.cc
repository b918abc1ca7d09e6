// SPDX-License-Identifier: Apache-2.0
//
// bench_wheels: our wheels beside heaps, event loops and the limits of memory, as
// docs/internals/benchmarks.md describes. Run by `./x bench wheels`.

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/common/conclusion.h"
#include "bench/common/interrupt.h"
#include "bench/common/ledger.h"
#include "bench/common/progress.h"
#include "bench/common/table.h"
#include "bench/wheels/limits.h"
#include "bench/wheels/options.h"
#include "bench/wheels/plot.h"
#include "bench/wheels/script.h"
#include "bench/wheels/stopwatch.h"
#include "bench/wheels/subject.h"
#include "bench/wheels/table.h"
#include "bench/wheels/targets.h"

namespace {

using namespace carillon::bench;

void keep(Ledger& ledger, Measurement measurement, const std::string& cell, int rep) {
  measurement.cell = cell;
  measurement.rep = rep;
  ledger.add(std::move(measurement));
}

// A repetition runs everybody once, A B C A B C.
void run_populations(const Options& options, std::size_t timers, Ledger& ledger) {
  Wanted wanted{options.wants_bench("W1"), options.wants_bench("W2"), options.wants_bench("W3")};
  if (!wanted.w1 && !wanted.w2 && !wanted.w3) return;
  const std::string cell = cell_of(timers);
  show_progress(fmt::format("{} timers: drawing", cell));
  const Script script(timers, options.refreshes);
  for (int rep = 1; rep <= options.reps; ++rep) {
    wanted.verify = rep == 1;
    const std::string at = fmt::format("{} timers, {}/{}", cell, rep, options.reps);
    show_progress(at + ": limit");
    keep(ledger, measure_limits(script), cell, rep);
    for (const SubjectEntry& subject : subjects()) {
      if (!options.wants_subject(subject, timers)) continue;
      if (subject.equal_timeouts && !wanted.w2) continue;
      show_progress(fmt::format("{}: {}", at, subject.name));
      for (Measurement& m : subject.run(script, wanted)) keep(ledger, std::move(m), cell, rep);
    }
  }
}

void run_sparse(const Options& options, Ledger& ledger) {
  if (!options.wants_bench("W4")) return;
  for (const carillon::Tick span : options.spans) {
    const SparseScript script(span, options.sparse_rounds);
    for (int rep = 1; rep <= options.reps; ++rep) {
      for (const SubjectEntry& subject : subjects()) {
        if (subject.run_sparse == nullptr || !options.wants_subject(subject, 1)) continue;
        show_progress(
            fmt::format("W4, {} ticks, {}/{}: {}", cell_of(span), rep, options.reps, subject.name));
        keep(ledger, subject.run_sparse(script), cell_of(span), rep);
      }
    }
  }
}

void run_loops(const Options& options, Ledger& ledger) {
  if (!options.wants_bench("W5")) return;
  const std::string cell = cell_of(options.connections);
  const LoopScript script(options.connections);
  for (int rep = 1; rep <= options.reps; ++rep) {
    const std::string at = fmt::format("W5, {}/{}", rep, options.reps);
    keep(ledger, measure_bare_loop(script), cell, rep);
    for (const SubjectEntry& subject : subjects()) {
      if (!options.wants_subject(subject, options.connections)) continue;
      show_progress(fmt::format("{}: {}", at, subject.name));
      keep(ledger, subject.run_loop(script), cell, rep);
    }
  }
}

std::vector<std::string_view> benches_run(const Options& options) {
  std::vector<std::string_view> benches;
  for (const std::string_view bench : {"W1", "W2", "W3", "W4", "W5"}) {
    if (options.wants_bench(bench)) benches.push_back(bench);
  }
  return benches;
}

void measure(const Options& options, const Environment& environment, Ledger& ledger) {
  warn_of_surroundings(environment);
  std::fflush(stdout);
  pin_to_one_core();
  for (const std::size_t timers : options.sizes) run_populations(options, timers, ledger);
  run_sparse(options, ledger);
  run_loops(options, ledger);
  show_progress("");
}

int run(const Options& options) {
  const Environment environment = describe_environment({});
  fmt::print("{}\n{} ({}); commit {}\n", environment.cpu, environment.preset, environment.compiler,
             environment.commit);
  Ledger ledger;
  for (const std::filesystem::path& file : options.saved) ledger.read_json(file);
  bool interrupted = false;
  try {
    if (options.saved.empty()) measure(options, environment, ledger);
  } catch (const Interrupted&) {
    interrupted = true;
    show_progress("");
    fmt::print(stderr, "bench_wheels: interrupted; this is what there is\n");
  }

  const std::vector<Verdict> verdicts =
      judge(ledger, wheel_targets(), options.check, benches_run(options));
  fmt::print("{}{}\n", format_wheel_tables(ledger), format_verdicts(verdicts));
  if (options.saved.empty()) {
    const std::filesystem::path file = results_file("wheels", options.save, environment);
    ledger.append_json(file, environment);
    fmt::print("results: {}\n", file.string());
  }
  if (options.plot) {
    const std::filesystem::path source = CARILLON_BENCH_SOURCE_DIR;
    draw_wheel_pictures(ledger, source / "docs" / "pictures");
  }
  if (interrupted) return kInterruptedStatus;
  const int status = conclude(verdicts, ledger);
  return options.check ? status : kOk;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  catch_interrupts();
  try {
    return run(options);
  } catch (const std::exception& error) {
    show_progress("");
    fmt::print(stderr, "bench_wheels: {}\n", error.what());
    return kDidNotRun;
  }
}
