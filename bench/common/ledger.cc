// SPDX-License-Identifier: Apache-2.0
#include "bench/common/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "bench/common/interrupt.h"
#include "bench/common/json_line.h"

namespace carillon::bench {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

// JSON knows no infinity and no NaN.
std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.10g}", value) : "null";
}

std::string json_object(const std::vector<std::pair<std::string, double>>& fields) {
  std::string out = "{";
  for (const auto& [name, value] : fields) {
    out += fmt::format("{}{}:{}", out.size() > 1 ? "," : "", json_string(name), json_number(value));
  }
  return out + '}';
}

double median_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::string to_json(const Measurement& m, const Environment& e) {
  std::string line = fmt::format(
      R"({{"date":{},"commit":{},"cpu":{},"compiler":{},"preset":{},"build_type":{},)"
      R"("filesystem":{},"load_before":{},"bench":{},"cell":{},"peer":{},"rep":{},)"
      R"("params":{},"values":{})",
      json_string(e.date), json_string(e.commit), json_string(e.cpu), json_string(e.compiler),
      json_string(e.preset), json_string(e.build_type), json_string(e.filesystem),
      json_number(e.load_before), json_string(m.bench), json_string(m.cell), json_string(m.peer),
      m.rep, json_object(m.params), json_object(m.values));
  if (!m.curve.empty()) {
    line += R"(,"curve":[)";
    for (std::size_t i = 0; i < m.curve.size(); ++i) {
      line +=
          fmt::format("{}[{:.6g},{:.6g}]", i > 0 ? "," : "", m.curve[i].first, m.curve[i].second);
    }
    line += ']';
  }
  return line + "}\n";
}

std::optional<double> Measurement::value(std::string_view metric) const noexcept {
  for (const auto& [name, number] : values) {
    if (name == metric) return number;
  }
  return std::nullopt;
}

Summary summarize(std::vector<double> values) {
  Summary summary;
  summary.count = values.size();
  if (values.empty()) return summary;
  summary.median = median_of(values);
  summary.max = values.back();
  for (double& value : values) value = std::abs(value - summary.median);
  summary.mad = median_of(values);
  return summary;
}

Measurement measurement_of(const JsonLine& line) {
  Measurement m;
  m.bench = line.text("bench");
  m.cell = line.text("cell");
  m.peer = line.text("peer");
  m.rep = static_cast<int>(line.number("rep"));
  m.params = line.numbers("params");
  m.values = line.numbers("values");
  if (line.has("curve")) m.curve = line.pairs("curve");
  return m;
}

double percentile(const std::vector<std::int64_t>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return static_cast<double>(sorted[std::min(index, sorted.size() - 1)]);
}

std::vector<double> values_of(const Series& series) {
  std::vector<double> values;
  for (const auto& [rep, value] : series) values.push_back(value);
  return values;
}

std::optional<double> median_ratio(const Series& above, const Series& below) {
  std::vector<double> ratios;
  for (const auto& [rep, value] : above) {
    const auto other = below.find(rep);
    if (other != below.end() && other->second != 0) ratios.push_back(value / other->second);
  }
  if (ratios.empty()) return std::nullopt;
  return median_of(ratios);
}

void Ledger::note_missing(std::string why) {
  if (std::find(missing_.begin(), missing_.end(), why) == missing_.end()) {
    missing_.push_back(std::move(why));
  }
}

std::vector<std::string> Ledger::peers(std::string_view bench, std::string_view cell) const {
  std::vector<std::string> found;
  for (const Measurement& m : measurements_) {
    if (m.bench != bench || m.cell != cell) continue;
    if (std::find(found.begin(), found.end(), m.peer) == found.end()) found.push_back(m.peer);
  }
  return found;
}

std::optional<Summary> Ledger::summary(std::string_view bench, std::string_view cell,
                                       std::string_view peer, std::string_view metric) const {
  std::vector<double> found;
  for (const Measurement& m : measurements_) {
    if (m.bench != bench || m.cell != cell || m.peer != peer) continue;
    if (const auto value = m.value(metric)) found.push_back(*value);
  }
  if (found.empty()) return std::nullopt;
  return summarize(std::move(found));
}

Series Ledger::lowest(std::string_view bench, std::string_view cell, std::string_view peers,
                      std::string_view metric) const {
  const auto is_one_of_them = [&](std::string_view peer) {
    for (std::string_view rest = peers; !rest.empty();) {
      const std::size_t end = std::min(rest.find('|'), rest.size());
      if (rest.substr(0, end) == peer) return true;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return false;
  };
  Series series;
  for (const Measurement& m : measurements_) {
    if (m.bench != bench || m.cell != cell || !is_one_of_them(m.peer)) continue;
    const auto value = m.value(metric);
    if (!value) continue;
    const auto [at, fresh] = series.try_emplace(m.rep, *value);
    if (!fresh) at->second = std::min(at->second, *value);
  }
  return series;
}

std::optional<double> Ledger::ratio(std::string_view bench, std::string_view cell,
                                    std::string_view metric, std::string_view subject,
                                    std::string_view rival) const {
  return median_ratio(lowest(bench, cell, subject, metric), lowest(bench, cell, rival, metric));
}

void Ledger::read_json(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw BenchError(fmt::format("cannot read {}", file.string()));
  for (std::string line; std::getline(in, line);) {
    add(measurement_of(JsonLine(line)));
  }
}

void Ledger::append_json(const std::filesystem::path& file, const Environment& environment) const {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::app);
  for (const Measurement& measurement : measurements_) out << to_json(measurement, environment);
  out.flush();
  if (!out) throw BenchError(fmt::format("cannot write {}", file.string()));
}

}  // namespace carillon::bench
