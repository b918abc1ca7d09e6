// SPDX-License-Identifier: Apache-2.0
//
// bench_blocks: the building blocks beside what is written by hand in their place, as
// docs/internals/benchmarks.md describes. Run by `./x bench blocks`.

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "bench/blocks/plan.h"
#include "bench/blocks/plot.h"
#include "bench/blocks/subject.h"
#include "bench/common/interrupt.h"
#include "bench/common/program.h"
#include "bench/common/progress.h"

namespace {

using namespace carillon::bench;

void measure_once(const SubjectEntry& subject, const Load& load, int rep, Ledger& ledger) {
  try {
    for (Measurement& m : run_in_child(subject, load)) {
      m.bench = load.bench;
      m.cell = load.cell;
      m.peer = subject.name;
      m.rep = rep;
      ledger.add(std::move(m));
    }
  } catch (const BenchError& error) {
    throw BenchError(
        fmt::format("{}, {}, {}: {}", load.bench, load.cell, subject.name, error.what()));
  }
}

// A repetition runs everybody once, A B C A B C.
void measure(const CommonOptions& options, Ledger& ledger) {
  for (const Step& step : plan(options)) {
    for (int rep = 1; rep <= step.reps; ++rep) {
      for (const SubjectEntry& subject : subjects()) {
        if (!is_wanted(options, subject, step.load)) continue;
        check_interrupt();
        show_progress(fmt::format("{}, {}, {}/{}: {}", step.load.bench, step.load.cell, rep,
                                  step.reps, subject.name));
        measure_once(subject, step.load, rep, ledger);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const CommonOptions options = parse_options(argc, argv);
  return run_program({.bench = "blocks",
                      .targets = block_targets(),
                      .layouts = block_layouts(),
                      .benches = benches_of(options),
                      .measure = [&](Ledger& ledger) { measure(options, ledger); },
                      .draw = draw_block_pictures},
                     options);
}
