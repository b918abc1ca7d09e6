// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A small seeded generator whose sequence is the same on every platform, so that a seed replays.
/// SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.

#include <cstdint>

namespace carillon {

/// Satisfies UniformRandomBitGenerator. Threads: one object, one thread.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return ~result_type{0}; }

  result_type operator()() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound) up to a bias below 2^-32 for bound < 2^32. Pre: bound > 0.
  std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>((*this)()) * bound) >> 64);
  }
  /// Uniform in [low, high]. Pre: low <= high.
  std::int64_t between(std::int64_t low, std::int64_t high) noexcept {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }
  /// True once in `n` calls on average.
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace carillon
