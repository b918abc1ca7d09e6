// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which slots of a ring are occupied: one bit each, and above 64 slots one more word that says
// which words have bits, so that the first occupied slot is one or two count-trailing-zeros away.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace carillon::internal {

template <int Slots>
class SlotSet {
  static_assert(Slots > 0 && Slots <= 64 * 64);
  static constexpr int kWords = (Slots + 63) / 64;

 public:
  [[nodiscard]] bool empty() const noexcept {
    if constexpr (kWords == 1) {
      return words_[0] == 0;
    } else {
      return summary_ == 0;
    }
  }

  // Pre: not empty.
  [[nodiscard]] int first() const noexcept {
    if constexpr (kWords == 1) {
      return std::countr_zero(words_[0]);
    } else {
      const int word = std::countr_zero(summary_);
      return word * 64 + std::countr_zero(words_[static_cast<std::size_t>(word)]);
    }
  }

  void set(int slot) noexcept {
    const std::size_t word = word_of(slot);
    words_[word] |= std::uint64_t{1} << (static_cast<unsigned>(slot) % 64);
    if constexpr (kWords > 1) {
      summary_ |= std::uint64_t{1} << word;
    }
  }

  void clear(int slot) noexcept {
    const std::size_t word = word_of(slot);
    words_[word] &= ~(std::uint64_t{1} << (static_cast<unsigned>(slot) % 64));
    if constexpr (kWords > 1) {
      summary_ &= ~(std::uint64_t{words_[word] == 0} << word);
    }
  }

 private:
  static constexpr std::size_t word_of(int slot) noexcept {
    return kWords == 1 ? 0 : static_cast<std::size_t>(slot) / 64;
  }

  std::array<std::uint64_t, static_cast<std::size_t>(kWords)> words_{};
  [[no_unique_address]] std::conditional_t<kWords == 1, std::array<std::uint64_t, 0>, std::uint64_t>
      summary_{};
};

}  // namespace carillon::internal
