// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace carillon::internal {

// What std::hash makes of a number is often the number itself; this mixes every bit into every
// other (the finalizer of SplitMix64).
[[nodiscard]] constexpr std::uint64_t mix_hash(std::uint64_t z) noexcept {
  z += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace carillon::internal
