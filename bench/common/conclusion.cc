// SPDX-License-Identifier: Apache-2.0
#include "bench/common/conclusion.h"

#include <fmt/format.h>

#include <string>

namespace carillon::bench {

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

std::filesystem::path results_file(std::string_view bench, bool save,
                                   const Environment& environment) {
  const std::string name = fmt::format("{}-{}.jsonl", bench, environment.date.substr(0, 10));
  const std::filesystem::path source = CARILLON_BENCH_SOURCE_DIR;
  const std::filesystem::path build = CARILLON_BENCH_BINARY_DIR;
  return (save ? source / "bench" / "results" : build / "bench-results") / name;
}

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

}  // namespace carillon::bench
