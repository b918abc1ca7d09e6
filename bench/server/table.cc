// SPDX-License-Identifier: Apache-2.0
#include "bench/server/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace carillon::bench {
namespace {

struct Column {
  std::string_view header;
  std::string_view metric;
  int decimals;
  bool spread = false;  // followed by the deviation in per cent of the median
};

struct Layout {
  std::string_view bench;
  std::string_view title;
  std::vector<Column> columns;
};

const std::array<Layout, 4>& layouts() {
  static const std::array<Layout, 4> kLayouts = {
      Layout{"put",
             "B1 durable put, 200-byte bodies; delay: near 10 s, ready 0, far 1 day",
             {{"put/s", "per_s", 0, true},
              {"us each", "us_per_op", 1},
              {"server CPU us", "server_cpu_us_per_op", 1},
              {"client CPU us", "client_cpu_us_per_op", 1}}},
      Layout{"cycle",
             "B2 without a log, 200-byte bodies: put, then reserve+delete",
             {{"put/s", "put_per_s", 0, true},
              {"CPU us", "put_server_cpu_us", 1},
              {"res+del/s", "work_per_s", 0, true},
              {"CPU us", "work_server_cpu_us", 1}}},
      Layout{"memory",
             "B3 memory per delayed job, bytes; near 120 s, far 1 day",
             {{"standing", "standing_per_job", 1},
              {"just put", "rss_per_job", 1},
              {"2nd half", "second_half_rss_per_job", 1},
              {"anonymous", "anonymous_per_job", 1}}},
      Layout{"lateness",
             "B4 lateness of jobs that fall due while workers wait, ms",
             {{"p50", "p50_ms", 2},
              {"p99", "p99_ms", 2},
              {"p99.9", "p999_ms", 2},
              {"max", "max_ms", 2},
              {"early", "early", 0},
              {"jobs/s", "achieved_per_s", 0},
              {"of pace", "of_allowed", 2}}},
  };
  return kLayouts;
}

// 123456.7 -> "123,457".
std::string grouped(double value, int decimals) {
  std::string digits = fmt::format("{:.{}f}", value, decimals);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = point; at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string cell_text(const std::optional<Summary>& summary, const Column& column) {
  if (!summary) return "";
  std::string text = grouped(summary->median, column.decimals);
  if (column.spread && summary->count > 1) {
    text += fmt::format(" ±{:2.0f}%", 100 * summary->mad / summary->median);
  }
  return text;
}

// Columns of a terminal that `text` takes: "±" is two bytes and one column.
std::size_t width_of(std::string_view text) {
  return text.size() - (text.find("±") == std::string_view::npos ? 0 : 1);
}

std::size_t width_of(const Column& column) {
  return std::max<std::size_t>(column.header.size() + 2, column.spread ? 15 : 8);
}

void append_right(std::string& out, std::string_view text, std::size_t width) {
  const std::size_t taken = width_of(text);
  out.append(width > taken ? width - taken : 1, ' ').append(text);
}

std::string format_table(const Ledger& ledger, const Layout& layout) {
  std::vector<std::string> cells;
  std::vector<std::pair<std::string, std::string>> rows;  // (cell, peer), as first measured
  for (const Measurement& m : ledger.measurements()) {
    if (m.bench != layout.bench) continue;
    const auto row = std::make_pair(m.cell, m.peer);
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
  }
  if (rows.empty()) return {};
  std::string out = fmt::format("\n{}\n{:19}", layout.title, "");
  for (const Column& column : layout.columns) append_right(out, column.header, width_of(column));
  std::string_view cell;
  for (const auto& row : rows) {
    if (row.first != cell) out += fmt::format("\n {}", row.first);
    cell = row.first;
    out += fmt::format("\n  {:17}", row.second);
    for (const Column& column : layout.columns) {
      append_right(
          out,
          cell_text(ledger.summary(layout.bench, row.first, row.second, column.metric), column),
          width_of(column));
    }
    while (out.back() == ' ') out.pop_back();
  }
  return out + '\n';
}

}  // namespace

std::string format_tables(const Ledger& ledger) {
  std::string out;
  for (const Layout& layout : layouts()) out += format_table(ledger, layout);
  return out;
}

std::string format_verdicts(const std::vector<Verdict>& verdicts) {
  std::string out = fmt::format("\n{:<38}{:>12}   {:<10}\n", "Targets", "measured", "to reach");
  for (const Verdict& verdict : verdicts) {
    const std::string measured = verdict.measured
                                     ? fmt::format("{:.2f}{}", *verdict.measured,
                                                   verdict.target->rival.empty() ? "  " : " x")
                                     : "not measured";
    out += fmt::format("  {:<36}{:>12}   {:<2} {:<6g}  {}\n", verdict.target->name, measured,
                       to_string(verdict.target->bound), verdict.limit,
                       verdict.met        ? "ok"
                       : verdict.measured ? "SHORT"
                                          : "-");
  }
  return out;
}

}  // namespace carillon::bench
