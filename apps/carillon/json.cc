// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/json.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace carillon::app {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.append("\\").append(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out += '"';
}

namespace {

/// The bytes of the character that `text` begins with; 0: it is none. Pre: not empty.
std::size_t character_size(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text[0]);
  std::size_t more = 0;
  std::uint32_t least = 0;
  std::uint32_t point = lead;
  if (lead >= 0xF0 && lead < 0xF8) {
    more = 3, least = 0x10000, point = lead & 0x07U;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    more = 2, least = 0x800, point = lead & 0x0FU;
  } else if (lead >= 0xC0 && lead < 0xE0) {
    more = 1, least = 0x80, point = lead & 0x1FU;
  } else if (lead >= 0x80) {
    return 0;
  }
  if (text.size() <= more) return 0;
  for (std::size_t i = 1; i <= more; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0U) != 0x80) return 0;
    point = point << 6 | (next & 0x3FU);
  }
  const bool valid = point >= least && point <= 0x10FFFF && (point < 0xD800 || point >= 0xE000);
  return valid ? more + 1 : 0;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    out.append(size == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return out;
}

JsonLine& JsonLine::real(std::string_view name, double value) {
  return raw(name, fmt::format("{:.3f}", value));
}

JsonLine& JsonLine::bytes(std::string_view name, std::string_view value) {
  if (is_utf8(value)) return text(name, value);
  return text(std::string(name) + "_base64", base64(value));
}

JsonLine& JsonLine::raw(std::string_view name, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_.append(json_string(name)).append(1, ':').append(json);
  return *this;
}

}  // namespace carillon::app
