// SPDX-License-Identifier: Apache-2.0
#include "bench/server/plot.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "bench/common/gnuplot.h"
#include "bench/common/lateness.h"

namespace carillon::bench {
namespace {

std::string_view colour_of(std::string_view peer) {
  if (peer == "carillon --data") return "#0b5394";
  if (peer == "carillon --memory") return "#3d9be9";
  if (peer == "beanstalkd") return "#e69138";
  if (peer == "beanstalkd -f50") return "#b45f06";
  if (peer == "beanstalkd -f0") return "#783f04";
  if (peer == "carillon http") return "#45818e";
  if (peer == "redis always") return "#a61c00";
  if (peer == "redis everysec") return "#dd7e6b";
  if (peer == "postgres") return "#6a4f9c";
  return "#666666";
}

// A rate, a bar for each peer of a cell.
struct Bars {
  std::string_view title;
  std::string_view bench;
  std::string_view cell;
  std::string_view metric;
};

void draw_bars(const Ledger& ledger, const Bars& bars, const std::filesystem::path& file) {
  const std::vector<std::string> peers = ledger.peers(bars.bench, bars.cell);
  if (peers.empty()) return;
  std::string script = fmt::format(
      "{}set output '{}'\nset title '{}'\n"
      "set style fill solid\nset boxwidth 0.6\nset xrange [-0.6:{}]\nset yrange [0:*]\n"
      "set format y '%.0s%c'\nunset key\nset bmargin 4\nplot ",
      kPlotStyle, file.string(), bars.title, static_cast<double>(peers.size()) - 0.4);
  std::string data;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    script += fmt::format("{}'-' using 1:2:xtic(3) with boxes linecolor '{}'", i > 0 ? ", " : "",
                          colour_of(peers[i]));
    const auto summary = ledger.summary(bars.bench, bars.cell, peers[i], bars.metric);
    std::string label = peers[i];  // In two lines: seven bars stand close.
    if (const std::size_t space = label.find(' '); space != std::string::npos) {
      label.replace(space, 1, "\\n");
    }
    data += fmt::format("{} {:.0f} \"{}\"\ne\n", i, summary->median, label);
  }
  run_gnuplot(script + "\n" + data);
}

}  // namespace

void draw_pictures(const Ledger& ledger, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  draw_bars(ledger,
            {"Durable puts a second, 200-byte bodies, 8 connections x 64 deep", "put", "8x64 near",
             "per_s"},
            folder / "server-put.svg");
  draw_bars(ledger,
            {"Durable puts a second, 64 clients, one job at a time", "service",
             "put, 64 clients x 1", "put_per_s"},
            folder / "server-service-put.svg");
  draw_bars(ledger,
            {"Reserved and acknowledged a second, 8 clients, 64 jobs at a time", "service",
             "work, 8 clients x 64", "work_per_s"},
            folder / "server-service-work.svg");
  draw_lateness(ledger,
                {"Lateness of 500,000 jobs due in one second, 8 workers of 64 jobs", "burst",
                 "one second", "jobs", 0.01},
                colour_of, folder / "server-burst.svg");
  draw_lateness(
      ledger,
      {"Lateness of jobs falling due, 16 workers waiting", "lateness", "16 workers", "jobs", 0.01},
      colour_of, folder / "server-lateness.svg");
}

}  // namespace carillon::bench
