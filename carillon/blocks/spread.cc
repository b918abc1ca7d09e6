// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/spread.h"

#include <algorithm>

#include "carillon/base/check.h"

namespace carillon {
namespace {

__extension__ using Wide = unsigned __int128;

// hash / 2^64 of the window.
Span part_of(Span window, std::uint64_t hash) noexcept {
  if (window <= Span::zero()) {
    return Span::zero();
  }
  return Span(
      static_cast<Span::rep>((static_cast<Wide>(hash) * static_cast<Wide>(window.count())) >> 64));
}

}  // namespace

Span jitter(Span delay, double fraction, Random& random) noexcept {
  if (delay <= Span::zero() || !(fraction > 0)) {
    return delay;
  }
  // 2^63 as a double is exact; what is less fits.
  const double widest = static_cast<double>(delay.count()) * fraction;
  const Span window =
      widest < 9223372036854775808.0 ? Span(static_cast<Span::rep>(widest)) : Span::max();
  // One more, since the window is closed above.
  const Span extra = part_of(window < Span::max() ? window + Span(1) : window, random());
  return saturating_add(Instant(delay), extra).time_since_epoch();
}

Span random_offset(Span window, Random& random) noexcept { return part_of(window, random()); }

Span offset_of_key(std::string_view key, Span window) noexcept {
  // FNV-1a, and SplitMix64 on top of it, since only the high bits count. Not std::hash, which is
  // another one on another system.
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : key) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return part_of(window, Random(hash)());
}

Span offset_of_key(std::uint64_t key, Span window) noexcept {
  // Two rounds: one of them is not enough to tell neighbouring numbers apart in every bit.
  return part_of(window, Random(Random(key)())());
}

Spread::Spread(std::size_t count, Span window, std::uint64_t seed) noexcept
    : count_(count), window_(std::max(window, Span::zero())), seed_(seed) {}

Span Spread::offset(std::size_t index) const noexcept {
  CARILLON_CHECK(index < count_, "place ", index, " of ", count_);
  const auto begin_of = [this](std::size_t part) {
    return static_cast<Span::rep>(static_cast<Wide>(window_.count()) * part / count_);
  };
  const Span::rep begin = begin_of(index);
  const Span length(begin_of(index + 1) - begin);
  return Span(begin) + part_of(length, Random(seed_ + Random(index)())());
}

}  // namespace carillon
