// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Reads the lines of results that the benchmarks and their children write.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carillon::bench {

/// A line of JSON of the kind that to_json() writes, and only that: fields by name, in them text,
/// numbers, one object or array of numbers, or an array of pairs.
///
/// Lifetime: borrows the line.
/// Errors:   throws BenchError for a field that is not there or not of the kind asked for.
class JsonLine {
 public:
  explicit JsonLine(std::string_view line) : line_(line) {}

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] std::string text(std::string_view name) const;
  /// NaN for null.
  [[nodiscard]] double number(std::string_view name) const;
  /// An object of numbers; those that are null are left out.
  [[nodiscard]] std::vector<std::pair<std::string, double>> numbers(std::string_view name) const;
  /// An array of numbers.
  [[nodiscard]] std::vector<double> array(std::string_view name) const;
  /// An array of arrays of two numbers.
  [[nodiscard]] std::vector<std::pair<double, double>> pairs(std::string_view name) const;

 private:
  [[noreturn]] void refuse(std::string_view name) const;
  [[nodiscard]] std::string_view after(std::string_view name) const;

  std::string_view line_;
};

}  // namespace carillon::bench
