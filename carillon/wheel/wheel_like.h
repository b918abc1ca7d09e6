// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The vocabulary that all wheels share, as concepts, so that a timer, a broker, a test or a
/// benchmark can take any of them.
///
///     schedule(hook, deadline)  cancel(hook)  reschedule(hook, deadline)  postpone(hook, deadline)
///     advance(now, sink[, budget])  next_deadline()  now()  size()  clear()  for_each(fn)
///
/// The time side (`TimeDriven`) is apart from the way a timer is named, because a wheel that keeps
/// its timers in a pool names them by handle and not by hook, but is driven in the same way.

#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>

#include "carillon/wheel/hook.h"

namespace carillon {

/// What one advance() did.
struct AdvanceResult {
  /// How many timers were given to the sink.
  std::size_t expired = 0;
  /// The budget ran out and timers that are due remain; the next advance() goes on with them. The
  /// wheel's now() then is their tick, not yet the one that was asked for.
  bool more = false;

  friend bool operator==(const AdvanceResult&, const AdvanceResult&) = default;
};

/// The budget of an advance() that is not to be bounded.
inline constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

/// What is told the time, and hands what is due to a sink as a `W::Expired`.
template <class W>
concept TimeDriven = requires(W wheel, const W& view, Tick tick, std::size_t budget,
                              void (*sink)(typename W::Expired)) {
  { wheel.advance(tick, sink) } -> std::same_as<AdvanceResult>;
  { wheel.advance(tick, sink, budget) } -> std::same_as<AdvanceResult>;
  { view.next_deadline() } -> std::same_as<std::optional<Tick>>;
  { view.now() } -> std::same_as<Tick>;
  { view.size() } -> std::same_as<std::size_t>;
  wheel.clear();
};

/// A wheel of hooks: HierarchicalWheel and its siblings.
template <class W>
concept WheelLike =
    TimeDriven<W> && std::same_as<typename W::Expired, WheelHook&> &&
    requires(W wheel, const W& view, WheelHook& hook, Tick tick, void (*visit)(const WheelHook&)) {
      { wheel.schedule(hook, tick) } noexcept -> std::same_as<bool>;
      { wheel.cancel(hook) } noexcept -> std::same_as<bool>;
      { wheel.reschedule(hook, tick) } noexcept -> std::same_as<bool>;
      { wheel.postpone(hook, tick) } noexcept -> std::same_as<bool>;
      view.for_each(visit);
    };

}  // namespace carillon
