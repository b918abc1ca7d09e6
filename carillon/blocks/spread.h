// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Against herds: jitter for one delay, places in a window for a batch of known size, and a place
/// that a key always has.
///
/// What is scheduled together comes due together: six hundred jobs on the same minute, a fleet that
/// restarts after a deploy, a cache that was filled at once. Each is harmless, all at one instant
/// are an outage. The remedy is to give up a little punctuality:
///
/// | you have                                | take             | the load is                    |
/// | --------------------------------------- | ---------------- | ------------------------------ |
/// | single delays, and nobody counts them   | jitter()         | even on average                |
/// | a batch whose size is known             | Spread           | even in every part of a window |
/// | names that come back, also on restart   | offset_of_key()  | even on average; no state kept |

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "carillon/base/random.h"
#include "carillon/base/time.h"

namespace carillon {

/// A random span in [delay, delay + delay * fraction]: never earlier than asked for. With a
/// fraction of 0, a negative one or not-a-number, or a delay of zero or less, `delay` itself.
/// Saturates at kForever.
[[nodiscard]] Span jitter(Span delay, double fraction, Random& random) noexcept;

/// A random span in [0, window); zero for a window of zero or less. For "full jitter": a wait that
/// may be anything up to `window`.
[[nodiscard]] Span random_offset(Span window, Random& random) noexcept;

/// A span in [0, window) that depends on the key alone: the same on every run, every machine and
/// every version of this library. Zero for a window of zero or less.
///
/// For schedules with names: the job "backup/customer-17", due each midnight, runs at midnight plus
/// its own offset, every night, and nothing need be stored. The window may change; then the offset
/// does in proportion. Different keys are independent, so n keys leave some instants to two and
/// some to none.
[[nodiscard]] Span offset_of_key(std::string_view key, Span window) noexcept;
[[nodiscard]] Span offset_of_key(std::uint64_t key, Span window) noexcept;

/// The places of a batch of `count` in a window: the window is cut into `count` parts as equal as
/// nanoseconds allow, and each place lies at random in a part of its own.
///
/// So any tenth of the window has a tenth of the batch, give or take one at each end: what pure
/// chance does not give. Places ascend with the index. To have the order mixed, mix what is placed.
///
/// Time:    offsets are in [0, window), exact to the nanosecond; a Timer rounds them up to its
///          tick. With a window of zero or less all are zero.
/// Threads: distinct objects: safe; one object: one thread.
/// Errors:  an index that is not below `count` is a bug and stops the program.
/// Cost:    O(1) an offset, no allocation; what is placed need not exist yet.
///
/// Example (examples/spread_herd.cc):
///     Spread spread(jobs.size(), 60s, seed);
///     for (std::size_t i = 0; i < jobs.size(); ++i) {
///       timer.after(spread.offset(i), std::move(jobs[i]));
///     }
class Spread {
 public:
  /// The same seed gives the same places.
  Spread(std::size_t count, Span window, std::uint64_t seed) noexcept;

  /// The place of number `index`. The same at each call.
  [[nodiscard]] Span offset(std::size_t index) const noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] Span window() const noexcept { return window_; }

 private:
  // Constant after construction.
  std::size_t count_;
  Span window_;
  std::uint64_t seed_;
};

}  // namespace carillon
