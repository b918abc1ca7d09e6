// SPDX-License-Identifier: Apache-2.0
#include "bench/common/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace carillon::bench {
namespace {

// "1.2x", "123x": at most five columns for what is below 10,000 times.
std::string ratio_text(double ratio) {
  return ratio < 9.95 ? fmt::format("{:.1f}x", ratio) : fmt::format("{:.0f}x", ratio);
}

std::string cell_text(const std::optional<Summary>& summary, const std::optional<double>& ratio,
                      const Column& column) {
  if (!summary) return "";
  std::string text = grouped(summary->median, column.decimals);
  if (column.spread && summary->count > 1) {
    text += fmt::format(" ±{:2.0f}%", 100 * summary->mad / summary->median);
  }
  if (column.ratio) text += fmt::format(" {:>5}", ratio ? ratio_text(*ratio) : "");
  return text;
}

// Columns of a terminal that `text` takes: "±" is two bytes and one column.
std::size_t width_of(std::string_view text) {
  return text.size() - (text.find("±") == std::string_view::npos ? 0 : 1);
}

void append_right(std::string& out, std::string_view text, std::size_t width) {
  out.append(width - width_of(text), ' ').append(text);
}

struct Row {
  std::string cell;
  std::string peer;
  std::vector<std::string> texts;  // a column each
};

// Cell by cell, both in the order in which they were first measured.
std::vector<Row> rows_of(const Ledger& ledger, const Layout& layout) {
  std::vector<Row> rows;
  for (const Measurement& m : ledger.measurements()) {
    const auto is_row = [&](const Row& row) { return row.cell == m.cell && row.peer == m.peer; };
    if (m.bench != layout.bench || std::any_of(rows.begin(), rows.end(), is_row)) continue;
    Row row{m.cell, m.peer, {}};
    for (const Column& column : layout.columns) {
      row.texts.push_back(cell_text(
          ledger.summary(layout.bench, m.cell, m.peer, column.metric),
          ledger.ratio(layout.bench, m.cell, column.metric, m.peer, layout.base), column));
    }
    // Behind those of its cell.
    const auto last =
        std::find_if(rows.rbegin(), rows.rend(), [&](const Row& r) { return r.cell == row.cell; });
    rows.insert(last == rows.rend() ? rows.end() : last.base(), std::move(row));
  }
  return rows;
}

std::string format_table(const Ledger& ledger, const Layout& layout) {
  constexpr std::size_t kGap = 2;
  const std::vector<Row> rows = rows_of(ledger, layout);
  if (rows.empty()) return {};
  // Every column is as wide as what stands in it, so that nothing can push the next aside.
  std::size_t name_width = 0;
  std::vector<std::size_t> widths;
  widths.reserve(layout.columns.size());
  for (const Column& column : layout.columns) widths.push_back(column.header.size());
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.peer.size());
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(row.texts[i]));
    }
  }
  std::string out = fmt::format("\n{}\n  {:{}}", layout.title, "", name_width);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    append_right(out, layout.columns[i].header, kGap + widths[i]);
  }
  std::string_view cell;
  for (const Row& row : rows) {
    if (row.cell != cell) out += fmt::format("\n {}", row.cell);
    cell = row.cell;
    out += fmt::format("\n  {:{}}", row.peer, name_width);
    for (std::size_t i = 0; i < widths.size(); ++i) {
      append_right(out, row.texts[i], kGap + widths[i]);
    }
    while (out.back() == ' ') out.pop_back();
  }
  return out + '\n';
}

}  // namespace

// Four significant digits are enough: the larger, the fewer decimals.
std::string grouped(double value, int decimals) {
  const double size = std::abs(value);
  const int most = size >= 1000 ? 0 : size >= 100 ? 1 : 2;
  std::string digits = fmt::format("{:.{}f}", value, std::min(decimals, most));
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = point; at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string format_tables(const Ledger& ledger, std::span<const Layout> layouts) {
  std::string out;
  for (const Layout& layout : layouts) out += format_table(ledger, layout);
  return out;
}

std::string format_verdicts(const std::vector<Verdict>& verdicts) {
  const bool values = std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return !verdict.target->unit.empty();
  });
  std::string out = fmt::format("\n{:<38}{:>12}{:>{}}   {:<10}\n", "Targets", "measured", "",
                                values ? 10 : 0, "to reach");
  for (const Verdict& verdict : verdicts) {
    const Target& target = *verdict.target;
    const std::string measured = verdict.measured ? fmt::format("{:.2f}{}", *verdict.measured,
                                                                target.rival.empty() ? "  " : " x")
                                                  : "not measured";
    const std::string value = verdict.value && !target.unit.empty()
                                  ? fmt::format("{:.1f} {}", *verdict.value, target.unit)
                                  : "";
    const std::string limit =
        verdict.met_by_value ? fmt::format("<= {:g} {}", target.or_value, target.unit)
                             : fmt::format("{:<2} {:g}", to_string(target.bound), verdict.limit);
    out += fmt::format("  {:<36}{:>12}{:>{}}   {:<9}  {}\n", target.name, measured, value,
                       values ? 10 : 0, limit,
                       verdict.met        ? "ok"
                       : verdict.measured ? "SHORT"
                                          : "-");
  }
  return out;
}

}  // namespace carillon::bench
