// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/plot.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "bench/common/gnuplot.h"
#include "bench/common/lateness.h"
#include "bench/timer/subject.h"

namespace carillon::bench {
namespace {

// Ours in blues, those in C++ in browns, those of the JVM in greens and greys.
std::string_view colour_of(std::string_view peer) {
  if (peer == kOurs) return "#0b5394";
  if (peer.starts_with(kOurs)) return "#3d9be9";
  if (peer == "mutex + heap") return "#e69138";
  if (peer == "Boost.Asio") return "#783f04";
  if (peer == "Netty") return "#38761d";
  if (peer == "Netty, 1 ms ticks") return "#93c47d";
  if (peer == "ScheduledThreadPool") return "#444444";
  if (peer == "ScheduledThreadPool, remove") return "#999999";
  return peer == "DelayQueue" ? "#6a3d9a" : "#b4a7d6";
}

void draw_throughput(const Ledger& ledger, std::string_view pending, std::string_view title,
                     const std::filesystem::path& file) {
  constexpr std::array<std::string_view, 3> kCells = {"1 thread", "2 threads", "4 threads"};
  std::string plots;
  std::string points;
  for (const SubjectEntry& subject : subjects()) {
    std::string curve;
    for (const std::string_view threads : kCells) {
      const auto summary = ledger.summary("T3", fmt::format("{}{}", threads, pending), subject.name,
                                          "m_pairs_per_s");
      if (summary) curve += fmt::format("{} {:.4g}\n", threads[0], summary->median);
    }
    if (curve.empty()) continue;
    plots += fmt::format(
        "{}'-' using 1:2 with linespoints linewidth {} pointtype 7 pointsize 0.5 linecolor '{}' "
        "title '{}'",
        plots.empty() ? "" : ", ", subject.name == kOurs ? 3 : 1.5, colour_of(subject.name),
        subject.name);
    points += curve + "e\n";
  }
  if (plots.empty()) return;
  run_gnuplot(fmt::format(
      "{}set terminal svg size 760,440 background '#ffffff' font 'sans-serif,13'\n"
      "set output '{}'\nset title '{}'\nset xrange [0.8:4.2]\nset xtics (1,2,4)\n"
      "set xlabel 'threads'\nset yrange [0:*]\nset ylabel 'million pairs a second'\nplot {}\n{}",
      kPlotStyle, file.string(), title, plots, points));
}

}  // namespace

void draw_timer_pictures(const Ledger& ledger, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  draw_throughput(ledger, "", "Add and cancel, by threads", folder / "timer-pairs.svg");
  draw_throughput(ledger, ", 1 M pending", "Add and cancel beside a million pending, by threads",
                  folder / "timer-pairs-pending.svg");
  draw_lateness(ledger, {"Lateness of 100,000 timers over 5 s", "T4", "1 ms ticks", "timers", 1e-3},
                colour_of, folder / "timer-lateness.svg");
}

}  // namespace carillon::bench
