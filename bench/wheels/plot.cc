// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/gnuplot.h"
#include "bench/wheels/limits.h"
#include "bench/wheels/subject.h"
#include "bench/wheels/table.h"

namespace carillon::bench {
namespace {

struct Picture {
  std::string_view file;
  std::string_view title;
  std::string_view bench;
  std::string_view metric;
  std::string_view limit_metric;
  std::string_view limit_title;
};
constexpr std::array kPictures = {
    Picture{"wheels-schedule.svg", "Schedule: ns each, by the number of timers", "W1",
            "schedule_ns", "line_ns", "limit: a cache line"},
    Picture{"wheels-cancel.svg", "Cancel at random: ns each, by the number of timers", "W1",
            "cancel_ns", "unlink_ns", "limit: the lines of an unlink"},
    Picture{"wheels-refresh.svg", "Push back a random timeout: ns each, by the number of timers",
            "W2", "refresh_ns", "line_ns", "limit: a cache line"},
    Picture{"wheels-expire.svg", "Expire all, tick by tick: ns each, by the number of timers", "W3",
            "expire_ns", "line_ns", "limit: a cache line"},
};

// By the number of timers, the median.
using Curve = std::map<double, double>;

Curve curve_of(const Ledger& ledger, std::string_view bench, std::string_view peer,
               std::string_view metric) {
  Curve curve;
  for (const Measurement& m : ledger.measurements()) {
    if (m.bench != bench || m.peer != peer || m.params.empty()) continue;
    const double n = m.params.front().second;
    if (curve.contains(n)) continue;
    if (const auto summary = ledger.summary(bench, m.cell, peer, metric)) {
      curve[n] = std::max(summary->median, 0.1);  // the axis is logarithmic
    }
  }
  return curve;
}

// Ours in blues and solid, heaps in browns, libraries in greys and greens.
std::string style_of(const SubjectEntry& subject, std::size_t number) {
  static constexpr std::array kWheels = {"#0b5394", "#3d9be9", "#6a3d9a", "#00a3a3",
                                         "#9fc5e8", "#b4a7d6", "#76a5af"};
  static constexpr std::array kHeaps = {"#e69138", "#b45f06", "#783f04"};
  static constexpr std::array kLibraries = {"#38761d", "#6aa84f", "#93c47d", "#888888", "#444444"};
  switch (subject.family) {
    case Family::kWheel:
      return fmt::format("linewidth 2.5 pointtype 7 pointsize 0.5 linecolor '{}'",
                         kWheels[number % kWheels.size()]);
    case Family::kHeap:
      return fmt::format("linewidth 1.5 pointtype 5 pointsize 0.5 linecolor '{}'",
                         kHeaps[number % kHeaps.size()]);
    case Family::kLibrary:
      return fmt::format("linewidth 1.5 pointtype 9 pointsize 0.5 linecolor '{}'",
                         kLibraries[number % kLibraries.size()]);
  }
  return {};
}

void draw(const Ledger& ledger, const Picture& picture, const std::filesystem::path& folder) {
  std::string plots;
  std::string points;
  const auto add = [&](const Curve& curve, std::string_view title, const std::string& style) {
    if (curve.size() < 2) return;
    plots += fmt::format("{}'-' using 1:2 with linespoints {} title '{}'",
                         plots.empty() ? "" : ", ", style, title);
    for (const auto& [n, ns] : curve) points += fmt::format("{:.0f} {:.4g}\n", n, ns);
    points += "e\n";
  };
  std::map<Family, std::size_t> numbers;
  for (const SubjectEntry& subject : subjects()) {
    add(curve_of(ledger, picture.bench, subject.name, picture.metric), subject.name,
        style_of(subject, numbers[subject.family]++));
  }
  if (plots.empty()) return;
  add(curve_of(ledger, "limit", kLimitPeer, picture.limit_metric), picture.limit_title,
      "linewidth 1.5 dashtype 2 pointtype 0 linecolor '#cc0000'");
  run_gnuplot(
      fmt::format("{}set terminal svg size 760,440 background '#ffffff' font 'sans-serif,13'\n"
                  "set output '{}'\nset title '{}'\nset logscale xy\nset xrange [700:1.4e7]\n"
                  "set format x '%.0s%c'\nset format y '%g'\nset ylabel 'ns'\nset xlabel 'timers'\n"
                  "set key outside right top reverse Left\nplot {}\n{}",
                  kPlotStyle, (folder / picture.file).string(), picture.title, plots, points));
}

}  // namespace

void draw_wheel_pictures(const Ledger& ledger, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const Picture& picture : kPictures) draw(ledger, picture, folder);
}

}  // namespace carillon::bench
