// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How an operation of a Purgatory ends.

#include <cstdint>

namespace carillon {

enum class Outcome : std::uint8_t {
  /// Its condition held.
  kCompleted,
  /// Its time was up.
  kExpired,
  /// By cancel(), cancel_for_key(), the end of the purgatory; or the Timer took no more timers.
  kCancelled,
};

}  // namespace carillon
