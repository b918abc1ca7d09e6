// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What --json prints: objects on one line, valid whatever the bytes.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace carillon::app {

/// In quotes. Pre: UTF-8, else the result is not JSON.
[[nodiscard]] std::string json_string(std::string_view text);
/// Whether `text` is UTF-8, shortest forms and no surrogates.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;
/// `text` with U+FFFD in place of each byte that is not UTF-8.
[[nodiscard]] std::string as_utf8(std::string_view text);
[[nodiscard]] std::string base64(std::string_view bytes);

/// One object, member by member.
class JsonLine {
 public:
  /// Text that may not be UTF-8 goes by bytes() instead.
  JsonLine& text(std::string_view name, std::string_view value) {
    return raw(name, json_string(value));
  }
  template <std::integral Number>
  JsonLine& number(std::string_view name, Number value) {
    return raw(name, std::to_string(value));
  }
  JsonLine& real(std::string_view name, double value);
  JsonLine& flag(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  /// As `name` if it is UTF-8, else as `name`_base64.
  JsonLine& bytes(std::string_view name, std::string_view value);
  /// Any JSON.
  JsonLine& raw(std::string_view name, std::string_view json);
  /// Of other objects or values.
  template <class List>
  JsonLine& list(std::string_view name, const List& items) {
    std::string json = "[";
    for (const std::string& item : items) json.append(json.size() > 1 ? "," : "").append(item);
    return raw(name, json += ']');
  }

  [[nodiscard]] std::string str() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

}  // namespace carillon::app
