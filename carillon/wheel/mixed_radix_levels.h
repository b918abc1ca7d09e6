// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `MixedRadixLevels`, the geometry of a hierarchical wheel that counts as people do: 1000 ms to
/// the second, 60 s to the minute. It offers what levels.h says a geometry must, by dividing where
/// `PowerOfTwoLevels` shifts.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "carillon/wheel/hook.h"
#include "carillon/wheel/internal/reciprocal.h"

namespace carillon {

/// Levels of FirstRadix, MoreRadices... slots, the finest first; the last radix repeats until 64
/// bits are covered, and the top level takes what is left.
///
///     MixedRadixLevels<20>                     20 x 20 x ... x 12        fifteen levels
///     MixedRadixLevels<1000, 60, 60, 24, 100>  ms, s, min, h, days, and then on by 100
///
/// Cost: a division is a multiplication by a constant from a table. What costs more than shifting
/// is the search for the level: it begins at the level of the distance, and goes on until both
/// ticks have the same parent; mostly one or two steps.
template <int FirstRadix, int... MoreRadices>
struct MixedRadixLevels {
 private:
  static_assert(FirstRadix >= 2 && FirstRadix <= 4096 &&
                    ((MoreRadices >= 2 && MoreRadices <= 4096) && ...),
                "a level has 2 to 4096 slots");
  static constexpr std::array<int, 1 + sizeof...(MoreRadices)> kGiven = {FirstRadix,
                                                                         MoreRadices...};

  static constexpr Tick given_radix(int level) {
    constexpr int kLast = static_cast<int>(kGiven.size()) - 1;
    return static_cast<Tick>(kGiven[static_cast<std::size_t>(level < kLast ? level : kLast)]);
  }
  static constexpr int count_levels() {
    int level = 0;
    for (Tick granularity = 1; granularity <= kLastTick / given_radix(level); ++level) {
      granularity *= given_radix(level);
    }
    return level + 1;
  }

 public:
  /// Number of levels.
  static constexpr int kLevels = count_levels();

 private:
  using Reciprocal = internal::Reciprocal;
  using Table = std::array<Reciprocal, static_cast<std::size_t>(kLevels)>;

  // Divides by the ticks that one slot of a level covers.
  static constexpr Table kGranularity = [] {
    Table table;
    Tick granularity = 1;
    for (int level = 1; level < kLevels; ++level) {
      granularity *= given_radix(level - 1);
      table[static_cast<std::size_t>(level)] = Reciprocal(granularity);
    }
    return table;
  }();
  // Divides by the slots of a level.
  static constexpr Table kRadix = [] {
    Table table;
    for (int level = 0; level + 1 < kLevels; ++level) {
      table[static_cast<std::size_t>(level)] = Reciprocal(given_radix(level));
    }
    table.back() = Reciprocal(kLastTick / kGranularity.back().divisor() + 1);
    return table;
  }();
  // kNearestLevel[b]: the coarsest level whose slots are no longer than 2^(b - 1) ticks. Two ticks
  // whose distance has b bits are in different slots of it.
  static constexpr auto kNearestLevel = [] {
    std::array<std::uint8_t, 65> nearest{};
    int level = 0;
    for (int bits = 1; bits <= 64; ++bits) {
      while (level + 1 < kLevels &&
             kGranularity[static_cast<std::size_t>(level + 1)].divisor() <= Tick{1} << (bits - 1)) {
        ++level;
      }
      nearest[static_cast<std::size_t>(bits)] = static_cast<std::uint8_t>(level);
    }
    return nearest;
  }();

  static constexpr const Reciprocal& granularity(int level) noexcept {
    return kGranularity[static_cast<std::size_t>(level)];
  }
  static constexpr const Reciprocal& radix(int level) noexcept {
    return kRadix[static_cast<std::size_t>(level)];
  }

 public:
  /// As PowerOfTwoLevels::kShortList.
  static constexpr int kShortList = 8;

  /// Slots in one turn of `level`.
  static constexpr int slots(int level) noexcept {
    return static_cast<int>(radix(level).divisor());
  }
  /// The largest of them.
  static constexpr int kMaxSlots = [] {
    int most = 0;
    for (const Reciprocal& radix : kRadix) {
      most = static_cast<int>(radix.divisor()) > most ? static_cast<int>(radix.divisor()) : most;
    }
    return most;
  }();
  /// All of them.
  static constexpr int kAllSlots = [] {
    int sum = 0;
    for (const Reciprocal& radix : kRadix) {
      sum += static_cast<int>(radix.divisor());
    }
    return sum;
  }();

  /// The finest level on which `tick` is in another slot than `now` but under the same parent; 0 if
  /// they are equal. Pre: tick >= now.
  static constexpr int level_of(Tick now, Tick tick) noexcept {
    const Tick distance = tick - now;
    int level = kNearestLevel[static_cast<std::size_t>(64 - std::countl_zero(distance))];
    while (level + 1 < kLevels) {
      // Are they in one slot of the level above? It has so many ticks left after `now`:
      const Reciprocal& parent = granularity(level + 1);
      const Tick left = parent.divisor() - 1 - parent.remainder(now);
      if (distance <= left) {
        break;
      }
      ++level;
    }
    return level;
  }
  /// The slot of `level` that contains `tick`.
  static constexpr Tick number(int level, Tick tick) noexcept {
    return granularity(level).divide(tick);
  }
  /// The first tick of slot `number` of `level`.
  static constexpr Tick start(int level, Tick number) noexcept {
    return number * granularity(level).divisor();
  }
  /// The slot of level + 1 that contains slot `number` of `level`; above the top level, 0: the one
  /// slot that is all of time.
  static constexpr Tick parent(int level, Tick number) noexcept {
    return radix(level).divide(number);
  }
  /// The place of slot `number` in one turn of `level`: in [0, slots(level)).
  static constexpr int index(int level, Tick number) noexcept {
    return static_cast<int>(radix(level).remainder(number));
  }
  /// The slot at `index` under `parent`: parent(level, child(level, p, i)) == p.
  static constexpr Tick child(int level, Tick parent, int index) noexcept {
    return parent * radix(level).divisor() + static_cast<Tick>(index);
  }
};

}  // namespace carillon
