// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/top_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace carillon::app {
namespace {

/// In at most 7 characters: 123456, 1234.5k, 123.4M.
std::string short_count(double count) {
  if (count < 1e6) return fmt::format("{:.0f}", count);
  for (const auto& [limit, unit, size] :
       {std::tuple(1e9, 'M', 1e6), std::tuple(1e12, 'G', 1e9), std::tuple(1e15, 'T', 1e12)}) {
    if (count < limit) return fmt::format("{:.2f}{}", count / size, unit);
  }
  return "many";
}

/// 0.5, 12.0, 1234.
std::string rate(double per_second) {
  return per_second < 100 ? fmt::format("{:.1f}", per_second) : short_count(per_second);
}

std::string uptime(std::uint64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3'600) return fmt::format("{} min", seconds / 60);
  if (seconds < 86'400) return fmt::format("{} h {} min", seconds / 3'600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86'400, seconds / 3'600 % 24);
}

std::string_view name_of(TopOrder order) {
  switch (order) {
    case TopOrder::kName: return "name";
    case TopOrder::kReady: return "ready";
    case TopOrder::kDelayed: return "delayed";
    case TopOrder::kPuts: return "puts";
  }
  return "";
}

struct Row {
  const TubeLine* tube;
  double puts;
};

std::vector<Row> rows_of(const TopSample& now, const std::optional<TopSample>& before,
                         TopOrder order) {
  std::map<std::string_view, std::uint64_t> totals;
  if (before) {
    for (const TubeLine& tube : before->tubes) totals.emplace(tube.name, tube.total);
  }
  const double seconds = before ? std::chrono::duration<double>(now.at - before->at).count() : 0;
  std::vector<Row> rows;
  for (const TubeLine& tube : now.tubes) {
    const auto known = totals.find(tube.name);
    const bool counts = known != totals.end() && tube.total >= known->second && seconds > 0;
    rows.push_back({&tube, counts ? static_cast<double>(tube.total - known->second) / seconds : 0});
  }
  std::stable_sort(rows.begin(), rows.end(), [order](const Row& a, const Row& b) {
    switch (order) {
      case TopOrder::kReady:
        if (a.tube->ready != b.tube->ready) return a.tube->ready > b.tube->ready;
        break;
      case TopOrder::kDelayed:
        if (a.tube->delayed != b.tube->delayed) return a.tube->delayed > b.tube->delayed;
        break;
      case TopOrder::kPuts:
        if (a.puts != b.puts) return a.puts > b.puts;
        break;
      case TopOrder::kName: break;
    }
    return a.tube->name < b.tube->name;
  });
  return rows;
}

std::string cut(std::string line, std::size_t columns) {
  if (line.size() > columns) line.resize(columns);
  return line;
}

std::string as_double(std::uint64_t count) { return short_count(static_cast<double>(count)); }

}  // namespace

TopRates rates_between(const TopSample& before, const TopSample& now) {
  const double seconds = std::chrono::duration<double>(now.at - before.at).count();
  if (seconds <= 0 || now.uptime_s < before.uptime_s || now.puts < before.puts) return {};
  const auto per_second = [seconds](std::uint64_t from, std::uint64_t to) {
    return to < from ? 0 : static_cast<double>(to - from) / seconds;
  };
  return {per_second(before.puts, now.puts), per_second(before.reserves, now.reserves),
          per_second(before.deletes, now.deletes), per_second(before.timeouts, now.timeouts),
          std::max(0.0, (now.cpu_s - before.cpu_s) / seconds)};
}

std::string draw_top(const TopSample& now, const std::optional<TopSample>& before,
                     const TopView& view, TerminalSize size) {
  const TopRates rates = before ? rates_between(*before, now) : TopRates{};
  std::vector<std::string> lines;
  lines.push_back(fmt::format("carillon {} at {}   up {}   {} connections, {} waiting{}",
                              now.version, view.address, uptime(now.uptime_s), now.connections,
                              now.waiting, now.draining ? "   DRAINING" : ""));
  lines.push_back(fmt::format("{:<9}{:>7} ready  {:>7} delayed  {:>7} reserved  {:>7} buried",
                              "jobs", as_double(now.ready), as_double(now.delayed),
                              as_double(now.reserved), as_double(now.buried)));
  lines.push_back(fmt::format("{:<9}{:>7} put    {:>7} reserved {:>7} deleted   {:>7} timed out",
                              "a second", rate(rates.puts), rate(rates.reserves),
                              rate(rates.deletes), rate(rates.timeouts)));
  lines.push_back(view.problem.empty() ? fmt::format("{:<9}{:>7.2f} cores", "cpu", rates.cpu)
                                       : "NO ANSWER: " + view.problem);
  lines.emplace_back();
  lines.push_back(fmt::format("{:<28} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}", "tube", "ready",
                              "delayed", "reserved", "buried", "waiting", "put/s"));
  const std::vector<Row> rows = rows_of(now, before, view.order);
  const std::size_t room = size.rows > lines.size() + 1 ? size.rows - lines.size() - 1 : 0;
  const std::size_t first = std::min(view.first, rows.size() > room ? rows.size() - room : 0);
  for (std::size_t i = first; i < rows.size() && i < first + room; ++i) {
    const TubeLine& tube = *rows[i].tube;
    std::string name = tube.name + (tube.pause_left_s > 0 ? " (paused)" : "");
    if (name.size() > 28) name = name.substr(0, 27) + "~";
    lines.push_back(fmt::format("{:<28} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7}", name,
                                as_double(tube.ready), as_double(tube.delayed),
                                as_double(tube.reserved), as_double(tube.buried),
                                as_double(tube.waiting), rate(rows[i].puts)));
  }
  while (lines.size() + 1 < size.rows) lines.emplace_back();
  const std::size_t shown = std::min(rows.size() - first, room);
  lines.push_back(fmt::format("q quit  s sort ({})  j k scroll  tubes {}-{} of {}",
                              name_of(view.order), shown == 0 ? 0 : first + 1, first + shown,
                              rows.size() + now.tubes_left_out));
  if (lines.size() > size.rows) {
    // The last line stays: it says how to get out.
    lines.erase(
        lines.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(size.rows, 1) - 1),
        lines.end() - 1);
  }
  std::string out;
  for (const std::string& line : lines) {
    if (&line != &lines.front()) out += '\n';
    out += cut(line, size.columns);
  }
  return out;
}

}  // namespace carillon::app
