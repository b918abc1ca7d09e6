// SPDX-License-Identifier: Apache-2.0
#pragma once

// Division by a number that is known when the program is compiled but picked from a table at run
// time, so that the compiler cannot turn it into a multiplication: this does, with the same method
// (T. Granlund and P. Montgomery, "Division by invariant integers using multiplication", 1994,
// figure 4.1). Three cycles more than a shift, where a 64-bit division takes 15 to 40.

#include <bit>
#include <cstdint>

namespace carillon::internal {

class Reciprocal {
 public:
  // Divides by 1.
  constexpr Reciprocal() noexcept : Reciprocal(1) {}
  // Pre: divisor > 0.
  explicit constexpr Reciprocal(std::uint64_t divisor) noexcept : divisor_(divisor) {
    const int bits = 64 - std::countl_zero(divisor - 1);  // The least for which 2^bits >= divisor.
    shift_first_ = static_cast<std::uint8_t>(bits > 0 ? 1 : 0);
    shift_last_ = static_cast<std::uint8_t>(bits > 0 ? bits - 1 : 0);
#ifdef __SIZEOF_INT128__
    const std::uint64_t excess = (bits == 64 ? 0 : std::uint64_t{1} << bits) - divisor;
    multiplier_ = static_cast<std::uint64_t>((Wide{excess} << 64) / divisor) + 1;
#endif
  }

  // `number` / divisor, for any number.
  [[nodiscard]] constexpr std::uint64_t divide(std::uint64_t number) const noexcept {
#ifdef __SIZEOF_INT128__
    const auto high = static_cast<std::uint64_t>((Wide{multiplier_} * number) >> 64);
    return (high + ((number - high) >> shift_first_)) >> shift_last_;
#else
    return number / divisor_;
#endif
  }
  [[nodiscard]] constexpr std::uint64_t remainder(std::uint64_t number) const noexcept {
    return number - divide(number) * divisor_;
  }
  [[nodiscard]] constexpr std::uint64_t divisor() const noexcept { return divisor_; }

 private:
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 Wide;
#endif

  std::uint64_t divisor_;
  std::uint64_t multiplier_ = 0;
  std::uint8_t shift_first_ = 0;
  std::uint8_t shift_last_ = 0;
};

}  // namespace carillon::internal
