// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Numbers in requests and replies, without formatting: an order of magnitude cheaper, and requests
/// are written by the hundred thousand a second.

#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace carillon::bench {

/// Appends `value` in decimal digits.
template <class Integer>
void append_number(std::string& out, Integer value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

/// The number that `text` begins with; 0 if with none.
[[nodiscard]] inline std::uint64_t number_at(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace carillon::bench
