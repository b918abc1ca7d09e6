// SPDX-License-Identifier: Apache-2.0
#include "bench/blocks/plot.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "bench/common/gnuplot.h"

namespace carillon::bench {
namespace {

struct Picture {
  std::string_view bench;
  std::string_view cell;
  std::string_view title;
  std::string_view file;
};

constexpr std::array kPictures = {
    Picture{"Idle", "1 k items", "Touches of 1,000 items", "blocks-idle.svg"},
    Picture{"Window", "10 k keys, granted", "Sliding windows of 10,000 keys", "blocks-window.svg"},
    Picture{"Bucket", "10 k keys, granted", "Token buckets of 10,000 keys", "blocks-bucket.svg"},
    Picture{"Map", "10 k entries", "Map of 10,000 entries that expire", "blocks-map.svg"},
    Picture{"Purgatory", "10 k waiting", "Purgatory with 10,000 waiting", "blocks-purgatory.svg"},
    Picture{"Retry", "10 k waiting", "10,000 calls to be retried", "blocks-retry.svg"},
    Picture{"Lease", "10 k leases", "10,000 leases", "blocks-lease.svg"},
};

// The first is ours.
constexpr std::array kColours = {"#0b5394", "#e69138", "#783f04", "#38761d", "#444444"};

void draw(const Ledger& ledger, const Picture& picture, const std::filesystem::path& folder) {
  std::string plots;
  std::string points;
  std::size_t number = 0;
  for (const std::string& peer : ledger.peers(picture.bench, picture.cell)) {
    std::string curve;
    for (const int threads : {1, 2, 4}) {
      const auto summary =
          ledger.summary(picture.bench, picture.cell, peer, fmt::format("m_per_s_{}", threads));
      if (summary) curve += fmt::format("{} {:.4g}\n", threads, summary->median);
    }
    if (curve.empty()) continue;
    plots += fmt::format(
        "{}'-' using 1:2 with linespoints linewidth {} pointtype 7 pointsize 0.5 linecolor '{}' "
        "title '{}'",
        plots.empty() ? "" : ", ", number == 0 ? 3 : 1.5, kColours[number % kColours.size()], peer);
    ++number;
    points += curve + "e\n";
  }
  if (plots.empty()) return;
  run_gnuplot(fmt::format(
      "{}set output '{}'\nset title '{}'\nset xrange [0.8:4.2]\nset xtics (1,2,4)\n"
      "set xlabel 'threads'\nset yrange [0:*]\nset ylabel 'million operations a second'\n"
      "plot {}\n{}",
      kPlotStyle, (folder / picture.file).string(), picture.title, plots, points));
}

}  // namespace

void draw_block_pictures(const Ledger& ledger, const std::filesystem::path& folder) {
  for (const Picture& picture : kPictures) draw(ledger, picture, folder);
}

}  // namespace carillon::bench
