// SPDX-License-Identifier: Apache-2.0
#include "bench/blocks/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

namespace carillon::bench {
namespace {

constexpr std::array<std::string_view, 7> kBenches = {"Idle",      "Window", "Bucket", "Map",
                                                      "Purgatory", "Retry",  "Lease"};

constexpr std::size_t kMillion = 1'000'000;
constexpr std::size_t kThousand = 1'000;
constexpr std::size_t kTenThousand = 10'000;
constexpr std::size_t kHundredThousand = 100'000;

// What is measured of a block.
struct Row {
  std::string_view bench;
  std::string_view cell;
  std::size_t items;
  bool refused = false;
};

constexpr std::array kRateRows = {
    Row{"Idle", "1 k items", kThousand},
    Row{"Idle", "1 M items", kMillion},
    Row{"Window", "10 k keys, granted", kTenThousand},
    Row{"Window", "10 k keys, refused", kTenThousand, true},
    Row{"Window", "100 k keys, granted", kHundredThousand},
    Row{"Window", "100 k keys, refused", kHundredThousand, true},
    Row{"Bucket", "10 k keys, granted", kTenThousand},
    Row{"Bucket", "10 k keys, refused", kTenThousand, true},
    Row{"Bucket", "100 k keys, granted", kHundredThousand},
    Row{"Bucket", "100 k keys, refused", kHundredThousand, true},
    Row{"Map", "10 k entries", kTenThousand},
    Row{"Map", "1 M entries", kMillion},
    Row{"Purgatory", "10 k waiting", kTenThousand},
    Row{"Retry", "10 k waiting", kTenThousand},
    Row{"Retry", "1 M waiting", kMillion},
    Row{"Lease", "10 k leases", kTenThousand},
    Row{"Lease", "1 M leases", kMillion},
};

// Of memory and of the herd.
constexpr std::array kHerdRows = {
    Row{"Idle", "1 M items", kMillion},        Row{"Window", "1 M keys", kMillion},
    Row{"Bucket", "1 M keys", kMillion},       Row{"Map", "1 M entries", kMillion},
    Row{"Purgatory", "1 M waiting", kMillion}, Row{"Retry", "10 k waiting", kTenThousand},
    Row{"Retry", "1 M waiting", kMillion},     Row{"Lease", "10 k leases", kTenThousand},
    Row{"Lease", "1 M leases", kMillion},
};

Part part_of(std::string_view metric) {
  if (metric == "bytes") return Part::kMemory;
  return metric == "delay_ms" ? Part::kHerd : Part::kRate;
}

// Whether a target of --check names a subject in a cell, and what this part of it measures.
bool is_judged(const SubjectEntry& subject, const Load& load) {
  const auto targets = block_targets();
  return std::any_of(targets.begin(), targets.end(), [&](const Target& target) {
    return target.limit_in_check != 0 && target.bench == load.bench && target.cell == load.cell &&
           part_of(target.metric) == load.part &&
           (target.subject == subject.name || target.rival == subject.name);
  });
}

}  // namespace

CommonOptions parse_options(int argc, char** argv) {
  CommonOptions options;
  CLI::App app(
      "Measures the building blocks beside what is written by hand in their place, each in a "
      "process of its own.",
      "bench_blocks");
  add_common_options(app, options, {kBenches.begin(), kBenches.end()},
                     "the blocks: Idle, Window, Bucket, Map, Purgatory, Retry, Lease");
  add_name_option(app, options, "--subject");
  add_from_option(app, options);
  parse_or_exit(app, options, argc, argv);
  return options;
}

std::vector<Step> plan(const CommonOptions& options) {
  const int reps = options.reps > 0 ? options.reps : options.check ? 3 : 5;
  const int fills = options.reps > 0 ? options.reps : options.check ? 1 : 3;
  const double seconds = options.check ? 0.1 : 0.5;
  std::vector<Step> steps;
  for (const std::string_view bench : benches_of(options)) {
    for (const Row& row : kRateRows) {
      if (row.bench != bench) continue;
      steps.push_back({{.bench = bench,
                        .cell = row.cell,
                        .part = Part::kRate,
                        .items = row.items,
                        .threads = {1, 2, 4},
                        .seconds = seconds,
                        .refused = row.refused},
                       reps});
    }
    for (const Row& row : kHerdRows) {
      if (row.bench != bench) continue;
      for (const Part part : {Part::kMemory, Part::kHerd}) {
        steps.push_back({{.bench = bench, .cell = row.cell, .part = part, .items = row.items},
                         part == Part::kHerd ? reps : fills});
      }
    }
  }
  return steps;
}

std::vector<std::string_view> benches_of(const CommonOptions& options) {
  std::vector<std::string_view> wanted;
  for (const std::string_view bench : kBenches) {
    if (options.wants_bench(bench)) wanted.push_back(bench);
  }
  return wanted;
}

bool is_wanted(const CommonOptions& options, const SubjectEntry& subject, const Load& load) {
  if (subject.bench != load.bench || !options.wants_name(subject.name)) return false;
  if (load.items > subject.most_items) return false;
  return !options.check || !options.names.empty() || is_judged(subject, load);
}

}  // namespace carillon::bench
