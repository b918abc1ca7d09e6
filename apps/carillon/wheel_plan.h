// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Which wheel for which load: what each would take, by formula, and which one to take.
/// `carillon plan` prints it.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/base/time.h"
#include "carillon/wheel/hook.h"

namespace carillon::app {

/// What has to wait.
struct PlanRequest {
  /// The longest delay.
  Span max_delay{};
  /// How long a tick is to be: what a timer may be late.
  Span tick = std::chrono::milliseconds(1);
  /// Timers that wait at a time.
  std::uint64_t pending = 0;
  /// What a timer may be late beyond that, as a part of its delay.
  double slack = 0;
};

enum class PlanKind { kHashed, kHierarchical, kCoarse, kPooled, kHeap };
inline constexpr std::size_t kPlanKinds = 5;
[[nodiscard]] std::string_view to_string(PlanKind kind);

/// What one of them would be. It is assumed that delays are spread evenly from a tick to the
/// longest, deadlines over as many ticks ahead, and that no timer is cancelled: so cascades are an
/// upper bound of the mean.
struct PlanChoice {
  PlanKind kind = PlanKind::kHashed;
  /// Levels that such delays use, and slots of each. A heap has none.
  int levels = 0;
  std::uint64_t slots = 0;
  /// The length of a slot of the coarsest of these levels, in ticks.
  double coarsest_ticks = 1;
  /// No timer is later than this, and none is early; a tick of it is rounding.
  Span late_by{};
  /// Timers in a slot of the finest level and of the coarsest, which come up at once.
  double finest_slot = 0;
  double coarsest_slot = 0;
  /// How often a timer is moved to a finer level: on average, and at most.
  double cascades = 0;
  int cascades_most = 0;
  /// How often the hand passes a timer of the longest delay before it is due.
  std::uint64_t rounds = 0;
  std::uint64_t fixed_bytes = 0;
  std::uint64_t timer_bytes = 0;
  [[nodiscard]] std::uint64_t bytes(std::uint64_t pending) const {
    return fixed_bytes + timer_bytes * pending;
  }
};

/// Why a choice is the best.
enum class PlanReason {
  kFew,         ///< A heap: so few that they fit in a few cache lines.
  kOneTurn,     ///< Hashed: a turn is as long as the longest delay.
  kMayBeLate,   ///< Coarse: the slack allows it.
  kMany,        ///< Pooled: so many that cache misses decide.
  kAnyDistance  ///< Hierarchical: what is left.
};

struct WheelPlan {
  PlanRequest request;
  /// The longest delay, rounded up.
  Tick delay_ticks = 0;
  std::array<PlanChoice, kPlanKinds> choices;
  PlanKind best = PlanKind::kHierarchical;
  PlanReason reason = PlanReason::kAnyDistance;

  /// What the longest delay may be late beyond a tick, as a part of it: what the slack must allow.
  [[nodiscard]] double lateness(const PlanChoice& choice) const {
    const Span beyond = choice.late_by - request.tick;
    return static_cast<double>(beyond.count()) / static_cast<double>(request.max_delay.count());
  }
  [[nodiscard]] const PlanChoice& operator[](PlanKind kind) const {
    return choices[static_cast<std::size_t>(kind)];
  }
};

/// Up to so many timers a heap is the better choice.
inline constexpr std::uint64_t kFewTimers = 64;
/// From so many on, what a cache miss costs is more than what instructions cost.
inline constexpr std::uint64_t kManyTimers = 100'000;
/// What a hashed wheel may have of slots to be the best choice: 2 MiB of them.
inline constexpr std::uint64_t kMostPlannedSlots = std::uint64_t{1} << 16;

/// Limits of a request.
inline constexpr Span kShortestPlanned = std::chrono::milliseconds(1);
inline constexpr Span kLongestPlanned = std::chrono::hours(24) * 36'500;
inline constexpr std::uint64_t kMostPending = std::uint64_t{1} << 30;
inline constexpr double kMostSlack = 1;

/// Pure. An error names the option that is wrong, and its limits.
[[nodiscard]] Result<WheelPlan> plan_wheel(const PlanRequest& request);

}  // namespace carillon::app
