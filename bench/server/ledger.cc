// SPDX-License-Identifier: Apache-2.0
#include "bench/server/ledger.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "bench/server/interrupt.h"
#include "bench/server/server_process.h"

namespace carillon::bench {
namespace {

// What `command` prints, without the newline at its end; empty if it fails.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe)) {
    text += static_cast<char>(byte);
  }
  if (::pclose(pipe) != 0) return {};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "unknown";
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    ++count;
    model = line.substr(line.find(':') + 2);
  }
  return fmt::format("{} x {}", count, model);
}

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

std::string json_line(const Measurement& m, const Environment& e) {
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

double median_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::optional<double> Measurement::value(std::string_view metric) const noexcept {
  for (const auto& [name, number] : values) {
    if (name == metric) return number;
  }
  return std::nullopt;
}

Environment describe_environment(const std::filesystem::path& dir) {
  Environment e;
  const std::string git = "git -C '" CARILLON_BENCH_SOURCE_DIR "' ";
  e.commit = output_of(git + "rev-parse --short=12 HEAD 2>/dev/null");
  if (e.commit.empty()) {
    e.commit = "unknown";
  } else if (!output_of(git + "status --porcelain --untracked-files=no 2>/dev/null").empty()) {
    e.commit += "-dirty";
  }
  e.cpu = cpu_model();
  e.compiler = CARILLON_BENCH_COMPILER;
  e.preset = CARILLON_BENCH_PRESET;
  e.build_type = CARILLON_BENCH_BUILD_TYPE;
  e.filesystem = filesystem_of(dir);
  e.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  e.load_before = 0;
  std::ifstream("/proc/loadavg") >> e.load_before;
  return e;
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

double percentile(const std::vector<std::int64_t>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return static_cast<double>(sorted[std::min(index, sorted.size() - 1)]);
}

void Ledger::note_missing(std::string why) {
  if (std::find(missing_.begin(), missing_.end(), why) == missing_.end()) {
    missing_.push_back(std::move(why));
  }
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

std::optional<double> Ledger::ratio(std::string_view bench, std::string_view cell,
                                    std::string_view metric, std::string_view subject,
                                    std::string_view rival) const {
  std::vector<double> ratios;
  for (const Measurement& s : measurements_) {
    if (s.bench != bench || s.cell != cell || s.peer != subject) continue;
    for (const Measurement& r : measurements_) {
      if (r.bench != bench || r.cell != cell || r.peer != rival || r.rep != s.rep) continue;
      const auto above = s.value(metric);
      const auto below = r.value(metric);
      if (above && below && *below != 0) ratios.push_back(*above / *below);
    }
  }
  if (ratios.empty()) return std::nullopt;
  return median_of(ratios);
}

void Ledger::append_json(const std::filesystem::path& file, const Environment& environment) const {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::app);
  for (const Measurement& measurement : measurements_) out << json_line(measurement, environment);
  out.flush();
  if (!out) throw BenchError(fmt::format("cannot write {}", file.string()));
}

}  // namespace carillon::bench
