// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which indexes of a pool are free: one bit each, and levels of summary above, one bit for each
// word below that has bits. The lowest is handed out first: so what is scheduled together lies
// together, and in order, whatever the order in which its predecessors went. It takes an eighth of
// a byte for an index, and to put one back touches one word, of 512 indexes' line.

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
      : words_{RegionOf<Word>(words(limit, 1)), RegionOf<Word>(words(limit, 2)),
               RegionOf<Word>(words(limit, 3)), RegionOf<Word>(words(limit, 4))} {}

  // Has memory for indexes below `count`. May throw std::bad_alloc.
  void reserve(std::size_t count) {
    for (int level = 0; level < kLevels; ++level) {
      at(level).reserve(words(count, level + 1));
    }
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t sum = 0;
    for (const RegionOf<Word>& level : words_) {
      sum += level.bytes();
    }
    return sum;
  }

  // The lowest. Pre: it is not empty.
  [[nodiscard]] std::uint32_t first() noexcept {
    if (words_[0][lowest_] == 0) [[unlikely]] {
      lowest_ = find_lowest();
    }
    return lowest_ * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[0][lowest_]));
  }
  // Takes out `index`, which first() has answered.
  void take(std::uint32_t index) noexcept {
    Word& word = words_[0][index / 64];
    word &= word - 1;
    if (word == 0) [[unlikely]] {
      summarize(index / 64, false);
    }
  }
  // Pre: it is not in.
  void put(std::uint32_t index) noexcept {
    const std::uint32_t number = index / 64;
    Word& word = words_[0][number];
    if (word == 0) {
      summarize(number, true);
    }
    word |= bit(index);
    lowest_ = std::min(lowest_, number);
  }

 private:
  using Word = std::uint64_t;
  static constexpr int kLevels = 4;
  // Sixteen million indexes for each word of the highest level: their number is small.
  static constexpr std::size_t words(std::size_t count, int level) noexcept {
    return (count >> (6 * level)) + 1;
  }
  static constexpr Word bit(std::uint32_t index) noexcept { return Word{1} << (index % 64); }
  [[nodiscard]] RegionOf<Word>& at(int level) noexcept {
    return words_[static_cast<std::size_t>(level)];
  }

  // Word `number` of the finest level is no longer, or will be, empty.
  void summarize(std::uint32_t number, bool has_bits) noexcept {
    for (int level = 1; level < kLevels; ++level) {
      Word& word = at(level)[number / 64];
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
    while (words_[kLevels - 1][number] == 0) {
      ++number;
    }
    for (int level = kLevels - 1; level > 0; --level) {
      number = number * 64 + static_cast<std::uint32_t>(std::countr_zero(at(level)[number]));
    }
    return number;
  }

  // Invariant: words of the finest level before lowest_ are empty.
  std::array<RegionOf<Word>, kLevels> words_;
  std::uint32_t lowest_ = 0;
};

}  // namespace carillon::internal
