// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench/common/interrupt.h"
#include "bench/common/progress.h"
#include "bench/server/workloads.h"

namespace carillon::bench {

void alternate(const Options& options, Ledger& ledger, int reps, std::string_view what,
               const std::vector<std::string_view>& peers,
               const std::function<Measurement(std::string_view)>& run) {
  std::vector<std::string_view> present;
  for (const std::string_view peer : peers) {
    if (!options.wants_name(peer)) continue;
    const std::string missing = why_missing(peer, options.surroundings);
    if (missing.empty()) {
      present.push_back(peer);
    } else {
      ledger.note_missing(missing);
    }
  }
  for (int rep = 1; rep <= reps; ++rep) {
    for (const std::string_view peer : present) {
      show_progress(fmt::format("{}, {}/{}: {}", what, rep, reps, peer));
      try {
        Measurement measurement = run(peer);
        measurement.peer = peer;
        measurement.rep = rep;
        ledger.add(std::move(measurement));
      } catch (const BenchError& error) {
        show_progress("");
        throw BenchError(fmt::format("{}, {}: {}", what, peer, error.what()));
      }
    }
  }
  show_progress("");
}

}  // namespace carillon::bench
