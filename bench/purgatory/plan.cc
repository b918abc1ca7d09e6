// SPDX-License-Identifier: Apache-2.0
#include "bench/purgatory/plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "bench/common/gnuplot.h"

namespace carillon::bench {
namespace {

constexpr std::array kMixes = {kLowMix, kHighMix};
constexpr std::string_view kOurs = "Purgatory";
constexpr std::string_view kPeer = "delay queue";

constexpr std::string_view kBase = "100 k/s";

constexpr std::array kTargets = {
    Target{"low mix: k/s at most / delay queue", "Low", kMost, "done_k", kOurs, kPeer,
           Bound::kAbove, 1, 1, "k/s"},
    Target{"high mix: k/s at most / delay queue", "High", kMost, "done_k", kOurs, kPeer,
           Bound::kAtLeast, 2, 2, "k/s"},
    Target{"high mix, 100 k/s: CPU / delay queue", "High", kBase, "cpu_us", kOurs, kPeer,
           Bound::kBelow, 1, 1, "us"},
    // What Kafka's reached after it had wheels.
    Target{"high mix, k/s", "High", kMost, "done_k", kOurs, "", Bound::kAtLeast, 105, 105},
};

// The rate of a cell; 0 if it is none.
double rate_of(std::string_view cell) {
  return cell == kMost ? 0 : std::stod(std::string(cell)) * 1e3;
}

void draw(const Ledger& ledger, std::string_view bench, std::string_view metric,
          std::string_view title, std::string_view label, const std::filesystem::path& file) {
  std::map<std::string, std::map<double, double>> curves;
  for (const Measurement& m : ledger.measurements()) {
    if (m.bench != bench || m.cell == kMost) continue;
    const auto summary = ledger.summary(bench, m.cell, m.peer, metric);
    if (summary) curves[m.peer][rate_of(m.cell) / 1e3] = summary->median;
  }
  if (curves.empty()) return;
  std::string plots;
  std::string points;
  for (const auto& [peer, curve] : curves) {
    plots += fmt::format(
        "{}'-' using 1:2 with linespoints linewidth 2.5 pointtype 7 pointsize 0.5 linecolor '{}' "
        "title '{}'",
        plots.empty() ? "" : ", ", peer == kOurs ? "#0b5394" : "#e69138", peer);
    for (const auto& [offered, value] : curve) {
      points += fmt::format("{:.4g} {:.4g}\n", offered, value);
    }
    points += "e\n";
  }
  if (metric == "done_k") plots += ", x with lines dashtype 2 linecolor '#999999' title 'offered'";
  run_gnuplot(
      fmt::format("{}set output '{}'\nset title '{}'\nset xrange [0:*]\nset yrange [0:*]\n"
                  "set xlabel 'thousand requests a second, offered'\nset ylabel '{}'\nplot {}\n{}",
                  kPlotStyle, file.string(), title, label, plots, points));
}

}  // namespace

CommonOptions parse_options(int argc, char** argv) {
  CommonOptions options;
  CLI::App app(
      "Runs Kafka's experiment with its purgatory: requests at a rising rate, each completed in "
      "time or expired after 200 ms, on a wheel and on a delay queue.",
      "bench_purgatory");
  add_common_options(app, options, {"Low", "High"},
                     "the mixes: Low (8 % expire), High (50 % expire)");
  add_name_option(app, options, "--subject");
  add_from_option(app, options);
  parse_or_exit(app, options, argc, argv);
  return options;
}

Plan plan(const CommonOptions& options) {
  Plan plan;
  for (const Mix& mix : kMixes) {
    if (options.wants_bench(mix.name)) plan.mixes.push_back(mix);
  }
  plan.rates = options.check ? std::vector<double>{100e3, 300e3, 600e3, 1200e3}
                             : std::vector<double>{25e3,  50e3,  100e3, 150e3, 200e3,  300e3,
                                                   400e3, 500e3, 600e3, 800e3, 1000e3, 1200e3};
  plan.seconds = options.check ? 0.5 : 2;
  plan.reps = options.reps > 0 ? options.reps : 3;
  return plan;
}

std::vector<std::string_view> benches_of(const CommonOptions& options) {
  std::vector<std::string_view> wanted;
  for (const Mix& mix : kMixes) {
    if (options.wants_bench(mix.name)) wanted.push_back(mix.name);
  }
  return wanted;
}

std::string cell_of(double rate) { return fmt::format("{:.0f} k/s", rate / 1e3); }

bool is_saturated(double rate, double done_k) { return done_k < 0.7 * rate / 1e3; }

void add_most(Ledger& ledger) {
  std::map<std::tuple<std::string, std::string, int>, double> most;
  for (const Measurement& m : ledger.measurements()) {
    if (m.cell == kMost) continue;
    double& best = most[{m.bench, m.peer, m.rep}];
    best = std::max(best, m.value("done_k").value_or(0));
  }
  for (const auto& [key, value] : most) {
    Measurement m;
    std::tie(m.bench, m.peer, m.rep) = key;
    m.cell = kMost;
    m.values = {{"done_k", value}};
    ledger.add(std::move(m));
  }
}

std::span<const Target> purgatory_targets() { return kTargets; }

std::span<const Layout> purgatory_layouts() {
  static const std::vector<Column> kColumns = {{"done k/s", "done_k", 1, true},
                                               {"CPU us a request", "cpu_us", 2, true},
                                               {"ms behind", "behind_ms", 1},
                                               {"% expired", "expired", 1}};
  static const std::array<Layout, 2> kLayouts = {
      Layout{"Low", "Low timeouts: completed after 20 ms (p50), 60 ms (p75); by rate", kColumns},
      Layout{"High", "High timeouts: completed after 200 ms (p50), 400 ms (p75); by rate",
             kColumns},
  };
  return kLayouts;
}

void draw_purgatory_pictures(const Ledger& ledger, const std::filesystem::path& folder) {
  draw(ledger, "Low", "done_k", "Purgatory, low timeouts", "thousand requests a second, done",
       folder / "purgatory-low.svg");
  draw(ledger, "High", "done_k", "Purgatory, high timeouts", "thousand requests a second, done",
       folder / "purgatory-high.svg");
  draw(ledger, "Low", "cpu_us", "Purgatory, low timeouts: CPU", "us of CPU a request",
       folder / "purgatory-low-cpu.svg");
  draw(ledger, "High", "cpu_us", "Purgatory, high timeouts: CPU", "us of CPU a request",
       folder / "purgatory-high-cpu.svg");
}

}  // namespace carillon::bench
