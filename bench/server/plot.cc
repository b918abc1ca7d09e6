// SPDX-License-Identifier: Apache-2.0
#include "bench/server/plot.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "bench/common/gnuplot.h"
#include "bench/common/lateness.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kPutCell = "8x64 near";

std::string_view colour_of(std::string_view peer) {
  if (peer == "carillon --data") return "#0b5394";
  if (peer == "carillon --memory") return "#3d9be9";
  if (peer == "beanstalkd") return "#e69138";
  if (peer == "beanstalkd -f50") return "#b45f06";
  if (peer == "beanstalkd -f0") return "#783f04";
  return "#666666";
}

void draw_puts(const Ledger& ledger, const std::filesystem::path& file) {
  const std::vector<std::string> peers = ledger.peers("put", kPutCell);
  if (peers.empty()) return;
  std::string script = fmt::format(
      "{}set output '{}'\nset title 'Durable puts a second, 200-byte bodies, 8 connections x 64 "
      "deep'\n"
      "set style fill solid\nset boxwidth 0.6\nset xrange [-0.6:{}]\nset yrange [0:*]\n"
      "set format y '%.0s%c'\nunset key\nplot ",
      kPlotStyle, file.string(), static_cast<double>(peers.size()) - 0.4);
  std::string data;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    script += fmt::format("{}'-' using 1:2:xtic(3) with boxes linecolor '{}'", i > 0 ? ", " : "",
                          colour_of(peers[i]));
    const auto summary = ledger.summary("put", kPutCell, peers[i], "per_s");
    data += fmt::format("{} {:.0f} \"{}\"\ne\n", i, summary->median, peers[i]);
  }
  run_gnuplot(script + "\n" + data);
}

}  // namespace

void draw_pictures(const Ledger& ledger, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  draw_puts(ledger, folder / "server-put.svg");
  draw_lateness(
      ledger,
      {"Lateness of jobs falling due, 16 workers waiting", "lateness", "16 workers", "jobs", 0.01},
      colour_of, folder / "server-lateness.svg");
}

}  // namespace carillon::bench
