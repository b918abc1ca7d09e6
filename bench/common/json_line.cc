// SPDX-License-Identifier: Apache-2.0
#include "bench/common/json_line.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "bench/common/interrupt.h"

namespace carillon::bench {
namespace {

// The number at the front of `text`, which loses it; nothing for null.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::string key_of(std::string_view name) { return fmt::format("\"{}\":", name); }

}  // namespace

bool JsonLine::has(std::string_view name) const {
  return line_.find(key_of(name)) != std::string_view::npos;
}

std::string JsonLine::text(std::string_view name) const {
  std::string_view rest = after(name);
  std::string text;
  if (rest.empty() || rest[0] != '"') refuse(name);
  for (rest.remove_prefix(1); !rest.empty() && rest[0] != '"'; rest.remove_prefix(1)) {
    if (rest[0] == '\\') rest.remove_prefix(1);
    if (!rest.empty()) text += rest[0];
  }
  return text;
}

double JsonLine::number(std::string_view name) const {
  std::string_view rest = after(name);
  return take_number(rest).value_or(std::nan(""));
}

std::vector<std::pair<std::string, double>> JsonLine::numbers(std::string_view name) const {
  std::string_view rest = after(name);
  rest = rest.substr(0, rest.find('}'));
  std::vector<std::pair<std::string, double>> fields;
  for (std::size_t at = rest.find('"'); at != std::string_view::npos; at = rest.find('"')) {
    rest.remove_prefix(at + 1);
    const std::size_t end = rest.find("\":");
    if (end == std::string_view::npos) refuse(name);
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    if (const auto value = take_number(rest)) fields.emplace_back(field, *value);
  }
  return fields;
}

std::vector<double> JsonLine::array(std::string_view name) const {
  std::string_view rest = after(name);
  if (!rest.starts_with('[')) refuse(name);
  rest.remove_prefix(1);
  std::vector<double> values;
  while (!rest.starts_with(']')) {
    if (!values.empty()) {
      if (!rest.starts_with(',')) refuse(name);
      rest.remove_prefix(1);
    }
    const auto value = take_number(rest);
    if (!value) refuse(name);
    values.push_back(*value);
  }
  return values;
}

std::vector<std::pair<double, double>> JsonLine::pairs(std::string_view name) const {
  std::string_view rest = after(name);
  if (!rest.starts_with('[')) refuse(name);
  std::vector<std::pair<double, double>> pairs;
  while (rest.starts_with('[') || rest.starts_with(',')) {
    rest.remove_prefix(1);
    if (pairs.empty() && rest.starts_with(']')) return pairs;
    if (!rest.starts_with('[')) refuse(name);
    rest.remove_prefix(1);
    const auto first = take_number(rest);
    if (!first || !rest.starts_with(',')) refuse(name);
    rest.remove_prefix(1);
    const auto second = take_number(rest);
    if (!second || !rest.starts_with(']')) refuse(name);
    rest.remove_prefix(1);
    pairs.emplace_back(*first, *second);
  }
  if (!rest.starts_with(']')) refuse(name);
  return pairs;
}

void JsonLine::refuse(std::string_view name) const {
  throw BenchError(fmt::format("not a line of results: no {} in {:.60}", name, line_));
}

std::string_view JsonLine::after(std::string_view name) const {
  const std::string key = key_of(name);
  const std::size_t at = line_.find(key);
  if (at == std::string_view::npos) refuse(name);
  return line_.substr(at + key.size());
}

}  // namespace carillon::bench
