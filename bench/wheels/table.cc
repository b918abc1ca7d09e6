// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/common/table.h"
#include "bench/wheels/limits.h"
#include "bench/wheels/subject.h"

namespace carillon::bench {
namespace {

struct Measured {
  std::string header;
  std::string_view bench;
  std::string cell;
  std::string_view metric;
};

bool is_wheel(std::string_view name) {
  return std::any_of(subjects().begin(), subjects().end(), [&](const SubjectEntry& subject) {
    return subject.name == name && subject.family == Family::kWheel;
  });
}

// At most five columns: 12.3, 1,234, 123k.
std::string number(double value) {
  if (value < 99.95) return fmt::format("{:.1f}", value);
  if (value < 9'999.5) return grouped(value, 0);
  if (value < 9'999'500) return fmt::format("{:.0f}k", value / 1'000);
  return fmt::format("{:.3g}M", value / 1'000'000);
}

// The same: 1.2x, 123x, 123kx.
std::string ratio(double value) {
  if (value < 9.95) return fmt::format("{:.1f}x", value);
  if (value < 9'999.5) return fmt::format("{:.0f}x", value);
  return fmt::format("{:.0f}kx", value / 1'000);
}

// The cells of the benches, in the order measured.
std::vector<std::string> cells_of(const Ledger& ledger,
                                  std::initializer_list<const char*> benches) {
  std::vector<std::string> cells;
  for (const Measurement& m : ledger.measurements()) {
    if (std::find(benches.begin(), benches.end(), m.bench) == benches.end()) continue;
    if (std::find(cells.begin(), cells.end(), m.cell) == cells.end()) cells.push_back(m.cell);
  }
  return cells;
}

std::optional<double> median_of(const Ledger& ledger, const Measured& column,
                                std::string_view peer) {
  const auto summary = ledger.summary(column.bench, column.cell, peer, column.metric);
  if (!summary) return std::nullopt;
  return summary->median;
}

// A row a subject, a column a metric: "   12.3  4.5x".
std::string format_table(const Ledger& ledger, std::string_view title,
                         const std::vector<Measured>& columns) {
  std::vector<std::string> peers;
  std::vector<std::optional<double>> best(columns.size());
  double spread = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (const std::string& peer : ledger.peers(columns[i].bench, columns[i].cell)) {
      if (peer == kLimitPeer && columns[i].bench != "W5") continue;
      if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
      const auto summary =
          ledger.summary(columns[i].bench, columns[i].cell, peer, columns[i].metric);
      if (!summary) continue;
      if (summary->median > 0) spread = std::max(spread, summary->mad / summary->median);
      if (is_wheel(peer)) best[i] = std::min(best[i].value_or(summary->median), summary->median);
    }
  }
  if (peers.empty()) return {};
  std::string out = fmt::format("\n{}\n{:<19}", title, "");
  for (const Measured& column : columns) out += fmt::format("{:>12}", column.header);
  out += '\n';
  for (const std::string& peer : peers) {
    std::string row = fmt::format("  {:<17}", peer);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto median = median_of(ledger, columns[i], peer);
      if (!median) {
        row += fmt::format("{:12}", "");
      } else if (!best[i] || *best[i] <= 0) {
        row += fmt::format("{:>6}{:6}", number(*median), "");
      } else {
        row += fmt::format("{:>6}{:>6}", number(*median), ratio(*median / *best[i]));
      }
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + '\n';
  }
  return out + fmt::format("  deviation of the medians: at most {:.0f} %\n", 100 * spread);
}

std::string format_limits(const Ledger& ledger, const std::string& cell) {
  const auto limit = [&](std::string_view metric) {
    const auto summary = ledger.summary("limit", cell, kLimitPeer, metric);
    return summary ? number(summary->median) : std::string("?");
  };
  if (ledger.peers("limit", cell).empty()) return {};
  return fmt::format("  the limit: a cache line {}, those of an unlink {}, a dependent load {}\n",
                     limit("line_ns"), limit("unlink_ns"), limit("dependent_ns"));
}

std::string format_memory(const Ledger& ledger) {
  const std::vector<std::string> cells = cells_of(ledger, {"W1"});
  const std::string million = cell_of(1'000'000);
  if (std::find(cells.begin(), cells.end(), million) == cells.end()) return {};
  std::string out = "\nMemory per timer with 1,000,000 scheduled, bytes: hook, all\n";
  for (const std::string& peer : ledger.peers("W1", million)) {
    const auto hook = ledger.summary("W1", million, peer, "hook_bytes");
    const auto all = ledger.summary("W1", million, peer, "bytes");
    if (hook && all) {
      out += fmt::format("  {:<17}{:>6.0f}{:>8.1f}\n", peer, hook->median, all->median);
    }
  }
  return out;
}

}  // namespace

std::string cell_of(std::size_t count) { return grouped(static_cast<double>(count), 0); }

std::string format_wheel_tables(const Ledger& ledger) {
  std::string out;
  for (const std::string& cell : cells_of(ledger, {"W1", "W2", "W3"})) {
    const std::vector<Measured> columns = {{"schedule", "W1", cell, "schedule_ns"},
                                           {"cancel", "W1", cell, "cancel_ns"},
                                           {"in all", "W1", cell, "in_all_ns"},
                                           {"refresh", "W2", cell, "refresh_ns"},
                                           {"expire", "W3", cell, "expire_ns"}};
    out += format_table(
        ledger, fmt::format("{} timers: ns an operation, and times the best of our wheels", cell),
        columns);
    out += format_limits(ledger, cell);
  }
  std::vector<Measured> spans;
  for (const std::string& cell : cells_of(ledger, {"W4"})) {
    // "1,000,000" -> "10^6": the spans are powers of ten.
    const auto zeros = std::count(cell.begin(), cell.end(), '0');
    spans.push_back({fmt::format("10^{}", zeros), "W4", cell, "expire_ns"});
  }
  out += format_table(ledger, "W4, ten timers over so many ticks: ns to expire one", spans);
  for (const std::string& cell : cells_of(ledger, {"W5"})) {
    out += format_table(ledger, fmt::format("W5, a loop with {} connections: ns an event", cell),
                        {{"event", "W5", cell, "event_ns"}});
  }
  return out + format_memory(ledger);
}

}  // namespace carillon::bench
