// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which indexes of a pool are free: a bit each, and three levels of summary above, a bit for each
// word below that has bits. The lowest is handed out first: so what is scheduled together lies
// together and in order, whatever the order in which its predecessors went, and memory that is no
// longer needed is not touched. To put one back touches one line of 512.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "carillon/wheel/internal/region.h"

namespace carillon::internal {

class IndexSet {
 public:
  // For indexes below `limit`; none is in it.
  explicit IndexSet(std::size_t limit) noexcept
      : bits_(words(limit, 0)), summary_(words(limit, 1) + words(limit, 2) + words(limit, 3)) {
    // The coarsest comes first, since they grow at the end.
    begins_[3] = 0;
    begins_[2] = words(limit, 3);
    begins_[1] = begins_[2] + words(limit, 2);
  }

  // Has memory for indexes below `count`. May throw std::bad_alloc.
  void reserve(std::size_t count) {
    bits_.reserve(words(count, 0));
    summary_.reserve(begins_[1] + words(count, 1));
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bits_.bytes() + summary_.bytes(); }

  // The lowest. Pre: it is not empty.
  [[nodiscard]] std::uint32_t first() noexcept {
    if (bits_[lowest_] == 0) [[unlikely]] {
      lowest_ = find_lowest();
    }
    return lowest_ * 64 + static_cast<std::uint32_t>(std::countr_zero(bits_[lowest_]));
  }
  // Takes out `index`, which first() has answered.
  void take(std::uint32_t index) noexcept {
    Word& word = bits_[index / 64];
    word &= word - 1;
    if (word == 0) [[unlikely]] {
      summarize(index / 64, false);
    }
  }
  // Pre: it is not in.
  void put(std::uint32_t index) noexcept {
    const std::uint32_t number = index / 64;
    Word& word = bits_[number];
    if (word == 0) {
      summarize(number, true);
    }
    word |= bit(index);
    lowest_ = std::min(lowest_, number);
  }

 private:
  using Word = std::uint64_t;
  // A word of level 3 stands for 16 million indexes: there are few, and they are searched in order.
  static constexpr int kTop = 3;
  static constexpr std::size_t words(std::size_t count, int level) noexcept {
    return (count >> (6 * (level + 1))) + 1;
  }
  static constexpr Word bit(std::uint32_t index) noexcept { return Word{1} << (index % 64); }
  [[nodiscard]] Word& summary(int level, std::uint32_t number) noexcept {
    return summary_[begins_[static_cast<std::size_t>(level)] + number];
  }

  // Word `number` of bits_ is empty now; or it is, and will not be.
  void summarize(std::uint32_t number, bool has_bits) noexcept {
    for (int level = 1; level <= kTop; ++level) {
      Word& word = summary(level, number / 64);
      const Word before = word;
      word = has_bits ? word | bit(number) : word & ~bit(number);
      if ((has_bits ? before : word) != 0) {
        return;
      }
      number /= 64;
    }
  }
  [[nodiscard]] std::uint32_t find_lowest() noexcept {
    std::uint32_t number = 0;
    while (summary(kTop, number) == 0) {
      ++number;
    }
    for (int level = kTop; level > 0; --level) {
      number = number * 64 + static_cast<std::uint32_t>(std::countr_zero(summary(level, number)));
    }
    return number;
  }

  RegionOf<Word> bits_;
  RegionOf<Word> summary_;
  std::array<std::size_t, kTop + 1> begins_{};
  // The words of bits_ before it are empty.
  std::uint32_t lowest_ = 0;
};

}  // namespace carillon::internal
