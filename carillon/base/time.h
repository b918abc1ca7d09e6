// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The two kinds of time point that carillon knows, and arithmetic on them that cannot wrap.
///
/// `Instant` is a point on a monotonic clock: it drives wheels and has no meaning outside this
/// process. `WallTime` is a point on the calendar: it is what is stored. They are different types
/// and do not mix. A span is std::chrono::nanoseconds or coarser.
///
/// Resolution 1 ns, range +-292 years; both saturate rather than wrap (a delay of "practically
/// never" must not become "now").

#include <chrono>
#include <cstdint>
#include <limits>

namespace carillon {

using Span = std::chrono::nanoseconds;

/// Tag for std::chrono::time_point: a monotonic clock whose epoch is unspecified. It has no now():
/// time comes in from outside, from a carillon::Clock.
struct MonotonicTimeline {
  using rep = Span::rep;
  using period = Span::period;
  using duration = Span;
  using time_point = std::chrono::time_point<MonotonicTimeline, Span>;
  static constexpr bool is_steady = true;
};

using Instant = MonotonicTimeline::time_point;

/// Nanoseconds since 1970-01-01T00:00:00Z, without leap seconds.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Span>;

/// The last representable span, and what an overlong delay saturates to.
inline constexpr Span kForever = Span::max();

/// `point + span`, clamped to the range of the clock.
template <class Timeline>
[[nodiscard]] constexpr std::chrono::time_point<Timeline, Span> saturating_add(
    std::chrono::time_point<Timeline, Span> point, Span span) noexcept {
  using Point = std::chrono::time_point<Timeline, Span>;
  Span::rep sum = 0;
  if (__builtin_add_overflow(point.time_since_epoch().count(), span.count(), &sum)) {
    return span.count() > 0 ? Point::max() : Point::min();
  }
  return Point(Span(sum));
}

/// `to - from`, clamped to what a Span holds.
template <class Timeline>
[[nodiscard]] constexpr Span saturating_between(
    std::chrono::time_point<Timeline, Span> from,
    std::chrono::time_point<Timeline, Span> to) noexcept {
  Span::rep difference = 0;
  if (__builtin_sub_overflow(to.time_since_epoch().count(), from.time_since_epoch().count(),
                             &difference)) {
    return to > from ? Span::max() : Span::min();
  }
  return Span(difference);
}

/// `count` units of `Unit` as a Span, clamped: `saturating_span<std::chrono::seconds>(1 << 62)` is
/// kForever.
template <class Unit>
[[nodiscard]] constexpr Span saturating_span(std::int64_t count) noexcept {
  constexpr std::int64_t kNanosPerUnit = Span(Unit(1)).count();
  std::int64_t nanos = 0;
  if (__builtin_mul_overflow(count, kNanosPerUnit, &nanos)) {
    return count > 0 ? Span::max() : Span::min();
  }
  return Span(nanos);
}

/// Whole milliseconds since the epoch of `point`, rounded up: the tick at which a deadline is due.
/// Rounding up is what makes "never early" true of a millisecond wheel.
template <class Timeline>
[[nodiscard]] constexpr std::int64_t ceil_ms(
    std::chrono::time_point<Timeline, Span> point) noexcept {
  const std::int64_t nanos = point.time_since_epoch().count();
  const std::int64_t ms = nanos / 1'000'000;
  return nanos % 1'000'000 > 0 ? ms + 1 : ms;
}

/// Whole milliseconds since the epoch of `point`, rounded down: the tick that has been reached.
template <class Timeline>
[[nodiscard]] constexpr std::int64_t floor_ms(
    std::chrono::time_point<Timeline, Span> point) noexcept {
  const std::int64_t nanos = point.time_since_epoch().count();
  const std::int64_t ms = nanos / 1'000'000;
  return nanos % 1'000'000 < 0 ? ms - 1 : ms;
}

}  // namespace carillon
