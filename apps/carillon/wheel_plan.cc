// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/wheel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "carillon/server/units.h"
#include "carillon/wheel/coarse_wheel.h"
#include "carillon/wheel/hashed_wheel.h"
#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/pooled_wheel.h"

namespace carillon::app {
namespace {

using HierarchicalLevels = PowerOfTwoLevels<6>;
using PooledLevels = PooledShape::Levels;

/// hashed_wheel.h: 32 bytes a slot and 24 for 64.
constexpr std::uint64_t kHashedSlotBytes = 32;
constexpr std::uint64_t kHashedGroupBytes = 24;
/// pooled_wheel.h: at most, stale entries included.
constexpr std::uint64_t kPooledTimerBytes = 28;
constexpr std::uint64_t kChunkBytes = 64;
/// And a step of nodes, one of free bits, one of their summary and one of chunks, not full.
constexpr std::uint64_t kPooledStepBytes = 4 * PooledWheel<>::kMemoryStep;
/// A deadline and a link in the heap's array, and the place in the user's object.
constexpr std::uint64_t kHeapTimerBytes = 24;
static_assert(kMostPending == PooledWheel<>::kMaxSize);

/// The mean of min(1, delay / granularity) over the delays 1 to `longest`: how many of them end in
/// another slot of that length than they begin in.
double part_that_leaves_a_slot(double longest, double granularity) {
  return longest <= granularity ? (longest + 1) / (2 * granularity)
                                : 1 - (granularity - 1) / (2 * longest);
}

/// Levels of a hierarchical wheel, as far as delays of up to `delay` ticks use them.
template <class Levels>
void plan_levels(Tick delay, double per_tick, PlanChoice& choice) {
  // Two ticks that far apart are in different slots of this level, and mostly in one of the next.
  int top = 0;
  while (top + 1 < Levels::kLevels && Levels::start(top + 1, 1) <= delay) ++top;
  choice.slots = static_cast<std::uint64_t>(Levels::slots(0));
  choice.levels = std::min(top + 2, Levels::kLevels);
  // A timer lies on level l > 0, and leaves it by a cascade, if it is scheduled from another slot
  // of that level than its deadline's, and does not skip the level because its deadline is in the
  // first slot there: (1 - 1/slots) * min(1, delay / granularity), at a random phase.
  for (int level = 1; level < Levels::kLevels; ++level) {
    const double stays = 1 - 1 / static_cast<double>(Levels::slots(level - 1));
    choice.cascades +=
        stays * part_that_leaves_a_slot(static_cast<double>(delay),
                                        static_cast<double>(Levels::start(level, 1)));
  }
  // One out of the level that it was put on, and then one a level, none of them above `top`.
  choice.cascades_most = top + 1;
  choice.coarsest_ticks = static_cast<double>(Levels::start(choice.levels - 1, 1));
  choice.finest_slot = per_tick;
}

PlanChoice plan_hashed(Tick delay, std::uint64_t pending) {
  PlanChoice choice;
  choice.kind = PlanKind::kHashed;
  choice.levels = 1;
  // More slots than ticks are never used, and more than timers mostly empty.
  const std::uint64_t useful =
      std::max<std::uint64_t>(HashedWheel::kDefaultSlots, std::bit_ceil(pending));
  choice.slots = std::bit_ceil(std::min<std::uint64_t>({delay, useful, HashedWheel::kMaxSlots}));
  choice.finest_slot = static_cast<double>(pending) / static_cast<double>(choice.slots);
  choice.coarsest_slot = choice.finest_slot;
  choice.rounds = (delay - 1) / choice.slots;
  choice.fixed_bytes = sizeof(HashedWheel) + choice.slots * kHashedSlotBytes +
                       (choice.slots + 63) / 64 * kHashedGroupBytes;
  choice.timer_bytes = sizeof(WheelHook);
  return choice;
}

PlanChoice plan_coarse(Tick delay, double per_tick) {
  PlanChoice choice;
  choice.kind = PlanKind::kCoarse;
  choice.slots = static_cast<std::uint64_t>(CoarseWheel::kSlots);
  while (choice.levels < CoarseWheel::kLevels) {
    ++choice.levels;
    // The reach of the level, without wrapping at the top.
    if ((delay - 1) / choice.slots < CoarseWheel::granularity(choice.levels - 1)) break;
  }
  choice.coarsest_ticks = static_cast<double>(CoarseWheel::granularity(choice.levels - 1));
  choice.finest_slot = per_tick;
  choice.fixed_bytes = sizeof(CoarseWheel);
  choice.timer_bytes = sizeof(WheelHook);
  return choice;
}

std::pair<PlanKind, PlanReason> choose(const WheelPlan& plan) {
  const PlanChoice& hashed = plan[PlanKind::kHashed];
  const PlanChoice& coarse = plan[PlanKind::kCoarse];
  if (plan.request.pending <= kFewTimers) return {PlanKind::kHeap, PlanReason::kFew};
  if (hashed.rounds == 0 && hashed.slots <= kMostPlannedSlots) {
    return {PlanKind::kHashed, PlanReason::kOneTurn};
  }
  // Percents of one decimal are no binary fractions.
  constexpr double kRounding = 1e-9;
  if (plan.request.slack + kRounding >= plan.lateness(coarse)) {
    return {PlanKind::kCoarse, PlanReason::kMayBeLate};
  }
  if (plan.request.pending >= kManyTimers) return {PlanKind::kPooled, PlanReason::kMany};
  return {PlanKind::kHierarchical, PlanReason::kAnyDistance};
}

Error wrong(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<void> check(const PlanRequest& request) {
  const auto in_words = server::format_duration;
  for (const auto& [option, span] :
       {std::pair{"--max-delay", request.max_delay}, std::pair{"--tick", request.tick}}) {
    if (span < kShortestPlanned || span > kLongestPlanned) {
      return wrong(fmt::format("{}: {} is out of range ({} to {})", option, in_words(span),
                               in_words(kShortestPlanned), in_words(kLongestPlanned)));
    }
  }
  if (request.tick > request.max_delay) {
    return wrong(fmt::format("--tick: {} is longer than --max-delay, {}", in_words(request.tick),
                             in_words(request.max_delay)));
  }
  if (request.pending < 1 || request.pending > kMostPending) {
    return wrong(
        fmt::format("--pending: {} is out of range (1 to {})", request.pending, kMostPending));
  }
  if (!(request.slack >= 0 && request.slack <= kMostSlack)) {
    return wrong(fmt::format("--slack: {}% is out of range (0% to {}%)", request.slack * 100,
                             kMostSlack * 100));
  }
  return {};
}

}  // namespace

std::string_view to_string(PlanKind kind) {
  switch (kind) {
    case PlanKind::kHashed: return "hashed";
    case PlanKind::kHierarchical: return "hierarchical";
    case PlanKind::kCoarse: return "coarse";
    case PlanKind::kPooled: return "pooled";
    case PlanKind::kHeap: return "heap";
  }
  return "unknown";
}

Result<WheelPlan> plan_wheel(const PlanRequest& request) {
  if (Result<void> valid = check(request); !valid) return std::move(valid).error();
  WheelPlan plan;
  plan.request = request;
  const Tick delay = static_cast<Tick>((request.max_delay.count() - 1) / request.tick.count() + 1);
  plan.delay_ticks = delay;
  const double per_tick = static_cast<double>(request.pending) / static_cast<double>(delay);

  PlanChoice hierarchical;
  hierarchical.kind = PlanKind::kHierarchical;
  plan_levels<HierarchicalLevels>(delay, per_tick, hierarchical);
  hierarchical.fixed_bytes = sizeof(HierarchicalWheel);
  hierarchical.timer_bytes = sizeof(WheelHook);

  PlanChoice pooled;
  pooled.kind = PlanKind::kPooled;
  plan_levels<PooledLevels>(delay, per_tick, pooled);
  // And a chunk for each slot that is in use.
  const std::uint64_t occupied = std::min<std::uint64_t>(
      request.pending, static_cast<std::uint64_t>(pooled.levels) * pooled.slots);
  pooled.fixed_bytes = sizeof(PooledWheel<>) + kPooledStepBytes + kChunkBytes * occupied;
  pooled.timer_bytes = kPooledTimerBytes;

  PlanChoice heap;
  heap.kind = PlanKind::kHeap;
  heap.timer_bytes = kHeapTimerBytes;

  plan.choices = {plan_hashed(delay, request.pending), hierarchical, plan_coarse(delay, per_tick),
                  pooled, heap};
  for (PlanChoice& choice : plan.choices) {
    if (choice.kind == PlanKind::kHeap) continue;
    choice.late_by = request.tick;
    if (choice.kind == PlanKind::kHashed) continue;
    choice.coarsest_slot =
        std::min(static_cast<double>(request.pending), per_tick * choice.coarsest_ticks);
  }
  PlanChoice& coarse = plan.choices[static_cast<std::size_t>(PlanKind::kCoarse)];
  coarse.late_by += request.tick * static_cast<std::int64_t>(CoarseWheel::lateness_bound(delay));
  std::tie(plan.best, plan.reason) = choose(plan);
  return plan;
}

}  // namespace carillon::app
