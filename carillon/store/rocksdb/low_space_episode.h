// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What is worth a line in the log about puts that are refused because space is low.

#include <atomic>
#include <cstdint>
#include <optional>

#include "carillon/base/clock.h"

namespace carillon::store {

/// One line when puts begin to be refused and one when they no longer are, however many come
/// meanwhile; and no more than one such pair in `kQuiet`, though space may go to and fro.
///
/// Threads: safe.
/// Cost:    an atomic load while there is space.
class LowSpaceEpisode {
 public:
  static constexpr Span kQuiet = std::chrono::seconds(10);

  enum class News : std::uint8_t {
    kNone,
    kBegan,  ///< Say that puts are refused.
    kEnded,  ///< Say that they are taken again.
  };

  explicit LowSpaceEpisode(const Clock& clock) noexcept : clock_(clock) {}

  /// A put has come, and is refused unless there is `enough`.
  News note(bool enough) noexcept;
  /// Puts refused since the last call.
  [[nodiscard]] std::uint64_t take_refused() noexcept { return refused_.exchange(0); }

 private:
  static constexpr Span::rep kNever = Span::min().count();

  const Clock& clock_;
  std::atomic<bool> told_{false};
  std::atomic<Span::rep> told_at_{kNever};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace carillon::store
