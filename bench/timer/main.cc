// SPDX-License-Identifier: Apache-2.0
//
// bench_timer: carillon::Timer beside other timers for many threads, as
// docs/internals/benchmarks.md describes. Run by `./x bench timer`.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "bench/common/conclusion.h"
#include "bench/common/interrupt.h"
#include "bench/common/ledger.h"
#include "bench/common/progress.h"
#include "bench/common/table.h"
#include "bench/timer/jvm.h"
#include "bench/timer/plan.h"
#include "bench/timer/plot.h"
#include "bench/timer/subject.h"
#include "bench/timer/targets.h"

namespace {

using namespace carillon::bench;

void measure_once(const SubjectEntry& subject, const Load& load, int rep, Ledger& ledger) {
  try {
    for (Measurement& m : run_in_child(subject, load)) {
      m.bench = load.bench;
      m.cell = cell_of(load, m);
      m.peer = subject.name;
      m.rep = rep;
      ledger.add(std::move(m));
    }
  } catch (const BenchError& error) {
    throw BenchError(fmt::format("{}, {}: {}", load.bench, subject.name, error.what()));
  }
}

// A repetition runs everybody once, A B C A B C.
void measure(const Options& options, Ledger& ledger) {
  const std::string no_jvm = why_no_jvm();
  for (const Step& step : plan(options)) {
    for (int rep = 1; rep <= step.reps; ++rep) {
      for (const SubjectEntry& subject : subjects()) {
        if (!is_wanted(options, subject, step.load)) continue;
        if (subject.in_jvm() && !no_jvm.empty()) {
          ledger.note_missing(no_jvm);
          continue;
        }
        check_interrupt();
        show_progress(fmt::format("{}, {}/{}: {}", step.load.bench, rep, step.reps, subject.name));
        measure_once(subject, step.load, rep, ledger);
      }
    }
  }
  show_progress("");
}

int run(const Options& options) {
  const Environment environment = describe_environment({});
  fmt::print("{}\n{} ({}); commit {}\n", environment.cpu, environment.preset, environment.compiler,
             environment.commit);
  warn_of_surroundings(environment);
  std::fflush(stdout);
  Ledger ledger;
  for (const std::filesystem::path& file : options.saved) ledger.read_json(file);
  bool interrupted = false;
  try {
    if (options.saved.empty()) measure(options, ledger);
  } catch (const Interrupted&) {
    interrupted = true;
    show_progress("");
    fmt::print(stderr, "bench_timer: interrupted; this is what there is\n");
  }

  const std::vector<Verdict> verdicts =
      judge(ledger, timer_targets(), options.check, benches_of(options));
  fmt::print("{}{}\n", format_tables(ledger, timer_layouts()), format_verdicts(verdicts));
  if (options.saved.empty()) {
    const std::filesystem::path file = results_file("timer", options.save, environment);
    ledger.append_json(file, environment);
    fmt::print("results: {}\n", file.string());
  }
  if (options.plot) {
    const std::filesystem::path source = CARILLON_BENCH_SOURCE_DIR;
    draw_timer_pictures(ledger, source / "docs" / "pictures");
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
    fmt::print(stderr, "bench_timer: {}\n", error.what());
    return kDidNotRun;
  }
}
