// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/query.h"

namespace carillon::protocol::http {
namespace {

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Whether RFC 3986 leaves the character as it is everywhere.
bool is_unreserved(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

/// Cuts `text` at the first `separator` and returns what is before it.
std::string_view take_until(std::string_view& text, char separator) noexcept {
  const std::size_t end = text.find(separator);
  const std::string_view before = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return before;
}

}  // namespace

std::optional<std::string> decode_percent(std::string_view text, bool in_query) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && in_query) {
      out.push_back(' ');
    } else if (text[i] != '%') {
      out.push_back(text[i]);
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return out;
}

std::string encode_segment(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c)) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::optional<Target> Target::parse(std::string_view text) {
  if (!text.starts_with('/')) return std::nullopt;
  Target target;
  std::string_view path = take_until(text, '?');
  target.path_ = path;
  path.remove_prefix(1);
  while (!path.empty()) {
    std::optional<std::string> segment = decode_percent(take_until(path, '/'), false);
    if (!segment || target.segments_.size() == kMaxSegments) return std::nullopt;
    target.segments_.push_back(std::move(*segment));
  }
  while (!text.empty()) {
    std::string_view pair = take_until(text, '&');
    if (pair.empty()) continue;
    std::optional<std::string> name = decode_percent(take_until(pair, '='), true);
    std::optional<std::string> value = decode_percent(pair, true);
    if (!name || !value || target.parameters_.size() == kMaxParameters) return std::nullopt;
    target.parameters_.emplace_back(std::move(*name), std::move(*value));
  }
  return target;
}

std::vector<Value> Target::values() const {
  std::vector<Value> values(parameters_.size() + 1);
  values[0].type = ValueType::kObject;
  if (!parameters_.empty()) values[0].first = 1;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Value& value = values[i + 1];
    value.type = ValueType::kWord;
    value.name = parameters_[i].first;
    value.text = parameters_[i].second;
    if (i + 1 < parameters_.size()) value.next = static_cast<std::uint32_t>(i + 2);
  }
  return values;
}

}  // namespace carillon::protocol::http
