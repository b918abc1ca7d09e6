// SPDX-License-Identifier: Apache-2.0
//
// bench_purgatory: Kafka's experiment with its purgatory, as docs/internals/benchmarks.md describes
// it. Run by `./x bench purgatory`.

#include <fmt/format.h>

#include <set>
#include <utility>

#include "bench/common/child.h"
#include "bench/common/interrupt.h"
#include "bench/common/json_line.h"
#include "bench/common/program.h"
#include "bench/common/progress.h"
#include "bench/purgatory/experiment.h"
#include "bench/purgatory/plan.h"

namespace {

using namespace carillon::bench;

Measurement run_in_child(const PurgatoryEntry& purgatory, const Script& script) {
  const std::string line = output_of_fork(
      [&] { return to_json(purgatory.run(script), Environment()); }, std::chrono::seconds(120));
  return measurement_of(JsonLine(line));
}

// A repetition runs both at each rate in turn, until one is saturated: then only the other.
void measure_mix(const CommonOptions& options, const Plan& plan, const Mix& mix, int rep,
                 Ledger& ledger) {
  std::set<std::string_view> saturated;
  for (const double rate : plan.rates) {
    const Script script(mix, rate, plan.seconds);
    for (const PurgatoryEntry& purgatory : purgatories()) {
      if (!options.wants_name(purgatory.name) || saturated.contains(purgatory.name)) continue;
      check_interrupt();
      show_progress(fmt::format("{}, {}/{}, {}: {}", mix.name, rep, plan.reps, cell_of(rate),
                                purgatory.name));
      Measurement m = run_in_child(purgatory, script);
      m.bench = mix.name;
      m.cell = cell_of(rate);
      m.peer = purgatory.name;
      m.rep = rep;
      if (is_saturated(rate, m.value("done_k").value_or(0))) saturated.insert(purgatory.name);
      ledger.add(std::move(m));
    }
  }
}

void measure(const CommonOptions& options, Ledger& ledger) {
  const Plan todo = plan(options);
  for (const Mix& mix : todo.mixes) {
    for (int rep = 1; rep <= todo.reps; ++rep) measure_mix(options, todo, mix, rep, ledger);
  }
  add_most(ledger);
}

}  // namespace

int main(int argc, char** argv) {
  const CommonOptions options = parse_options(argc, argv);
  return run_program({.bench = "purgatory",
                      .targets = purgatory_targets(),
                      .layouts = purgatory_layouts(),
                      .benches = benches_of(options),
                      .measure = [&](Ledger& ledger) { measure(options, ledger); },
                      .draw = draw_purgatory_pictures},
                     options);
}
