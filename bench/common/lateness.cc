// SPDX-License-Identifier: Apache-2.0
#include "bench/common/lateness.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/common/gnuplot.h"

namespace carillon::bench {
namespace {

constexpr double kLeastShare = 1e-5;

std::vector<std::pair<double, double>> curve_of(const std::vector<std::int64_t>& sorted) {
  std::vector<std::pair<double, double>> curve;
  double rest = 1;
  while (rest > kLeastShare) {
    curve.emplace_back(1 - rest, percentile(sorted, 1 - rest) / 1e6);
    rest /= 1.25;
  }
  curve.emplace_back(1.0, static_cast<double>(sorted.back()) / 1e6);
  return curve;
}

}  // namespace

void add_lateness(Measurement& measurement, const std::vector<std::int64_t>& sorted) {
  const auto early = std::lower_bound(sorted.begin(), sorted.end(), 0) - sorted.begin();
  const std::pair<std::string, double> figures[] = {
      {"p50_ms", percentile(sorted, 0.5) / 1e6},
      {"p99_ms", percentile(sorted, 0.99) / 1e6},
      {"p999_ms", percentile(sorted, 0.999) / 1e6},
      {"max_ms", static_cast<double>(sorted.back()) / 1e6},
      {"early", static_cast<double>(early)},
  };
  for (const auto& figure : figures) measurement.values.push_back(figure);
  measurement.curve = curve_of(sorted);
}

void draw_lateness(const Ledger& ledger, const LatenessPicture& picture,
                   std::string_view (*colour_of)(std::string_view peer),
                   const std::filesystem::path& file) {
  std::string plots;
  std::string data;
  for (const std::string& peer : ledger.peers(picture.bench, picture.cell)) {
    // The last repetition stands for all: curves cannot be averaged.
    const auto& all = ledger.measurements();
    const auto last = std::find_if(all.rbegin(), all.rend(), [&](const Measurement& m) {
      return m.bench == picture.bench && m.cell == picture.cell && m.peer == peer;
    });
    if (last->curve.empty()) continue;
    plots += fmt::format("{}'-' using 1:2 with lines linewidth 2 linecolor '{}' title '{}'",
                         plots.empty() ? "" : ", ", colour_of(peer), peer);
    for (const auto& [share, late_ms] : last->curve) {
      data += fmt::format("{:.6g} {:.6g}\n", std::max(1 - share, kLeastShare),
                          std::max(late_ms, picture.least_ms));
    }
    data += "e\n";
  }
  if (plots.empty()) return;
  run_gnuplot(fmt::format(
      "{}set output '{}'\nset title '{}, by share of {}'\n"
      "set logscale xy\nset xrange [1:1e-5]\nset yrange [{}:*]\nset ylabel 'ms late'\n"
      "set xtics ('0' 1, '50 %%' 0.5, '90 %%' 0.1, '99 %%' 0.01, '99.9 %%' 1e-3, '99.99 %%' 1e-4)\n"
      "plot {}\n{}",
      kPlotStyle, file.string(), picture.title, picture.what, picture.least_ms, plots, data));
}

}  // namespace carillon::bench
