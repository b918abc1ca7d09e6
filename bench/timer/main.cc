// SPDX-License-Identifier: Apache-2.0
//
// bench_timer: carillon::Timer beside other timers for many threads, as
// docs/internals/benchmarks.md describes. Run by `./x bench timer`.

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "bench/common/interrupt.h"
#include "bench/common/ledger.h"
#include "bench/common/program.h"
#include "bench/common/progress.h"
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
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  return run_program({.bench = "timer",
                      .targets = timer_targets(),
                      .layouts = timer_layouts(),
                      .benches = benches_of(options),
                      .measure = [&](Ledger& ledger) { measure(options, ledger); },
                      .draw = draw_timer_pictures},
                     options);
}
