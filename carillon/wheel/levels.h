// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `PowerOfTwoLevels`, the geometry of a hierarchical wheel: how many levels, how many slots each.
///
/// A geometry numbers the slots of each level from the beginning of time: slot `number` of level
/// `l` covers the ticks [start(l, number), start(l, number + 1)), and `slots(l)` consecutive ones
/// make up one slot, their parent, of level l + 1. A wheel needs no more than the public members
/// here, so a geometry that goes unit by unit (1000 ms, 60 s, 60 min, 24 h) fits in by dividing
/// instead of shifting: `MixedRadixLevels`. Together the levels must cover all 64 bits: no deadline
/// is out of reach.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "carillon/wheel/hook.h"

namespace carillon {

/// Levels of 2^FirstBits, 2^MoreBits... slots, the finest first; the last width repeats until 64
/// bits are covered, and the top level takes what is left.
///
///     PowerOfTwoLevels<6>              64 x 64 x ... x 16     eleven levels
///     PowerOfTwoLevels<8, 6, 6, 6, 6>  256, 64, 64, 64, 64, and then on by 64
template <int FirstBits, int... MoreBits>
struct PowerOfTwoLevels {
 private:
  static constexpr std::array<int, 1 + sizeof...(MoreBits)> kGiven = {FirstBits, MoreBits...};
  static constexpr bool kUniform = ((MoreBits == FirstBits) && ...);
  static_assert(FirstBits >= 1 && FirstBits <= 12 && ((MoreBits >= 1 && MoreBits <= 12) && ...),
                "a level has 2 to 4096 slots");

  static constexpr int given_bits(int level) {
    constexpr int kLast = static_cast<int>(kGiven.size()) - 1;
    return kGiven[static_cast<std::size_t>(level < kLast ? level : kLast)];
  }
  static constexpr int count_levels() {
    int level = 0;
    for (int bits = 0; bits < 64; ++level) {
      bits += given_bits(level);
    }
    return level;
  }

 public:
  /// Number of levels.
  static constexpr int kLevels = count_levels();

 private:
  // kShift[l]: log2 of the ticks that one slot of level l covers.
  static constexpr auto kShift = [] {
    std::array<std::uint8_t, static_cast<std::size_t>(kLevels) + 1> shift{};
    int bits = 0;
    for (int level = 0; level < kLevels; ++level) {
      shift[static_cast<std::size_t>(level)] = static_cast<std::uint8_t>(bits);
      bits += given_bits(level);
    }
    shift[kLevels] = 64;
    return shift;
  }();
  // kLevelOfBit[b]: the level whose slots the bit b of a tick tells apart.
  static constexpr auto kLevelOfBit = [] {
    std::array<std::uint8_t, 64> level_of{};
    int level = 0;
    for (int bit = 0; bit < 64; ++bit) {
      if (bit == kShift[static_cast<std::size_t>(level + 1)]) {
        ++level;
      }
      level_of[static_cast<std::size_t>(bit)] = static_cast<std::uint8_t>(level);
    }
    return level_of;
  }();
  static constexpr int shift(int level) noexcept {
    if constexpr (kUniform) {
      return level * FirstBits;
    } else {
      return kShift[static_cast<std::size_t>(level)];
    }
  }
  static constexpr int bits(int level) noexcept {
    return kShift[static_cast<std::size_t>(level + 1)] - kShift[static_cast<std::size_t>(level)];
  }
  // The same where it does not matter that the top level may have fewer: its numbers are small.
  static constexpr int width(int level) noexcept {
    if constexpr (kUniform) {
      return FirstBits;
    } else {
      return bits(level);
    }
  }

 public:
  /// Up to this many timers of a coarse slot are searched for the earliest rather than sorted: they
  /// fit in as many cache lines as the sentinels that sorting would touch.
  static constexpr int kShortList = 8;

  /// Slots in one turn of `level`.
  static constexpr int slots(int level) noexcept { return 1 << bits(level); }
  /// The largest of them.
  static constexpr int kMaxSlots = [] {
    int most = 0;
    for (int level = 0; level < kLevels; ++level) {
      most = slots(level) > most ? slots(level) : most;
    }
    return most;
  }();
  /// All of them.
  static constexpr int kAllSlots = [] {
    int sum = 0;
    for (int level = 0; level < kLevels; ++level) {
      sum += slots(level);
    }
    return sum;
  }();

  /// The finest level on which `tick` is in another slot than `now` but under the same parent; 0 if
  /// they are equal. A wheel asks with tick >= now only.
  static constexpr int level_of(Tick now, Tick tick) noexcept {
    const int bit = 63 - std::countl_zero((now ^ tick) | 1);
    if constexpr (kUniform) {
      return bit / FirstBits;
    } else {
      return kLevelOfBit[static_cast<std::size_t>(bit)];
    }
  }
  /// The slot of `level` that contains `tick`.
  static constexpr Tick number(int level, Tick tick) noexcept { return tick >> shift(level); }
  /// The first tick of slot `number` of `level`.
  static constexpr Tick start(int level, Tick number) noexcept { return number << shift(level); }
  /// The slot of level + 1 that contains slot `number` of `level`; above the top level, 0: the one
  /// slot that is all of time.
  static constexpr Tick parent(int level, Tick number) noexcept { return number >> width(level); }
  /// The place of slot `number` in one turn of `level`: in [0, slots(level)).
  static constexpr int index(int level, Tick number) noexcept {
    return static_cast<int>(number & ((Tick{1} << width(level)) - 1));
  }
  /// The slot at `index` under `parent`: parent(level, child(level, p, i)) == p.
  static constexpr Tick child(int level, Tick parent, int index) noexcept {
    return (parent << width(level)) | static_cast<Tick>(index);
  }
};

}  // namespace carillon
