// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Everything that was measured, and the statistics asked of it.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/common/environment.h"

namespace carillon::bench {

class JsonLine;

/// One run of one peer: a JSON line.
struct Measurement {
  std::string bench;  ///< "put", "W1".
  std::string cell;   ///< The variant within it, the same for all peers: "8x64 near".
  std::string peer;
  int rep = 0;
  std::vector<std::pair<std::string, double>> params;
  std::vector<std::pair<std::string, double>> values;
  /// Quantiles of lateness in ms, for the plot: pairs of (share of jobs, lateness).
  std::vector<std::pair<double, double>> curve;

  [[nodiscard]] std::optional<double> value(std::string_view metric) const noexcept;
};

/// A line of JSON, its newline included.
[[nodiscard]] std::string to_json(const Measurement& measurement, const Environment& environment);

/// What to_json() wrote: of it bench, cell, peer, rep, params, values and curve. Throws BenchError
/// if the line is not of that kind.
[[nodiscard]] Measurement measurement_of(const JsonLine& line);

/// Median and spread of one metric over repetitions.
struct Summary {
  double median = 0;
  double mad = 0;  ///< Median absolute deviation from the median.
  double max = 0;
  std::size_t count = 0;
};

[[nodiscard]] Summary summarize(std::vector<double> values);

/// The value below which `share` of `sorted` lies (nearest rank). Pre: not empty, ascending.
[[nodiscard]] double percentile(const std::vector<std::int64_t>& sorted, double share);

/// A metric by repetition.
using Series = std::map<int, double>;

[[nodiscard]] std::vector<double> values_of(const Series& series);

/// The median, over the repetitions that both have, of `above` / `below` in the same repetition.
/// Pairing takes out what slowed the whole machine during both. Nothing if there is no such pair.
[[nodiscard]] std::optional<double> median_ratio(const Series& above, const Series& below);

/// All measurements of a run, in the order taken.
///
/// Threads: unsafe.
class Ledger {
 public:
  void add(Measurement measurement) { measurements_.push_back(std::move(measurement)); }
  /// Notes why something was not measured; printed, and a failure under --check.
  void note_missing(std::string why);

  [[nodiscard]] const std::vector<Measurement>& measurements() const { return measurements_; }
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

  /// Who was measured in that cell, in the order measured first.
  [[nodiscard]] std::vector<std::string> peers(std::string_view bench, std::string_view cell) const;

  /// Over all repetitions of that peer, if there is one that has the metric.
  [[nodiscard]] std::optional<Summary> summary(std::string_view bench, std::string_view cell,
                                               std::string_view peer,
                                               std::string_view metric) const;

  /// The metric in each repetition; of several peers, "a|b", the lowest of them.
  [[nodiscard]] Series lowest(std::string_view bench, std::string_view cell, std::string_view peers,
                              std::string_view metric) const;

  /// median_ratio() of `subject` and `rival`.
  [[nodiscard]] std::optional<double> ratio(std::string_view bench, std::string_view cell,
                                            std::string_view metric, std::string_view subject,
                                            std::string_view rival) const;

  /// Adds what append_json() wrote, by measurement_of(). Throws BenchError if the file cannot be
  /// read or a line is not of that kind.
  void read_json(const std::filesystem::path& file);

  /// Appends one JSON line for each measurement. Throws BenchError if the file cannot be written.
  void append_json(const std::filesystem::path& file, const Environment& environment) const;

 private:
  std::vector<Measurement> measurements_;
  std::vector<std::string> missing_;
};

}  // namespace carillon::bench
