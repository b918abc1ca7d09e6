// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/wheel_plan.h"

#include <gtest/gtest.h>

#include "apps/carillon/trace.h"
#include "carillon/base/random.h"
#include "carillon/wheel/coarse_wheel.h"
#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/pooled_wheel.h"

namespace carillon::app {
namespace {

using namespace std::chrono_literals;

WheelPlan plan(const PlanRequest& request) {
  Result<WheelPlan> result = plan_wheel(request);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return *result;
}

TEST(WheelPlan, AMillionForUpToAnHourInTicksOfASecond) {
  const WheelPlan p = plan({.max_delay = 1h, .tick = 1s, .pending = 1'000'000});
  EXPECT_EQ(p.delay_ticks, 3'600U);
  EXPECT_EQ(p.best, PlanKind::kHashed);
  EXPECT_EQ(p.reason, PlanReason::kOneTurn);
  const PlanChoice& hashed = p[PlanKind::kHashed];
  EXPECT_EQ(hashed.slots, 4'096U);
  EXPECT_EQ(hashed.rounds, 0U);
  EXPECT_EQ(hashed.cascades_most, 0);
  EXPECT_NEAR(hashed.finest_slot, 1e6 / 4096, 1e-9);
  EXPECT_EQ(hashed.late_by, 1s);
  const PlanChoice& hierarchical = p[PlanKind::kHierarchical];
  EXPECT_EQ(hierarchical.cascades_most, 2) << "seconds of 64 and of 4096";
  EXPECT_NEAR(hierarchical.finest_slot, 1e6 / 3600, 1e-9);
  EXPECT_EQ(hierarchical.bytes(1'000'000), sizeof(HierarchicalWheel) + 32'000'000);
  EXPECT_EQ(p[PlanKind::kCoarse].late_by,
            1s + 1s * static_cast<std::int64_t>(CoarseWheel::lateness_bound(3'600)));
  EXPECT_EQ(p[PlanKind::kCoarse].cascades, 0);
  EXPECT_EQ(p[PlanKind::kHeap].late_by, 0s);
}

TEST(WheelPlan, TheBestFollowsFromTheLoad) {
  const auto best = [](Span max_delay, std::uint64_t pending, double slack = 0) {
    const WheelPlan p = plan({.max_delay = max_delay, .pending = pending, .slack = slack});
    return std::pair(p.best, p.reason);
  };
  EXPECT_EQ(best(24h, kFewTimers), std::pair(PlanKind::kHeap, PlanReason::kFew));
  EXPECT_EQ(best(24h, kFewTimers + 1),
            std::pair(PlanKind::kHierarchical, PlanReason::kAnyDistance));
  EXPECT_EQ(best(24h, kManyTimers), std::pair(PlanKind::kPooled, PlanReason::kMany));
  EXPECT_EQ(best(24h, kManyTimers, 0.07), std::pair(PlanKind::kCoarse, PlanReason::kMayBeLate));
  EXPECT_EQ(best(24h, kManyTimers, 0.05), std::pair(PlanKind::kPooled, PlanReason::kMany));
  EXPECT_EQ(best(65'536ms, kManyTimers), std::pair(PlanKind::kHashed, PlanReason::kOneTurn));
  EXPECT_EQ(best(65'537ms, kManyTimers), std::pair(PlanKind::kPooled, PlanReason::kMany));
}

TEST(WheelPlan, MoreSlotsThanTimersOrTicksAreNotPlanned) {
  const auto hashed = [](Span max_delay, std::uint64_t pending) {
    return plan({.max_delay = max_delay, .pending = pending})[PlanKind::kHashed];
  };
  EXPECT_EQ(hashed(100ms, 1'000'000).slots, 128U);
  EXPECT_EQ(hashed(1ms, 1'000'000).slots, 1U);
  EXPECT_EQ(hashed(1h, 1'000'000).slots, 1U << 20);
  EXPECT_EQ(hashed(1h, 1'000'000).rounds, 3U) << "(3,600,000 - 1) / 2^20";
  EXPECT_EQ(hashed(1h, 100).slots, 4'096U);
}

// Not the formula again: the wheels themselves are turned, from random phases.
TEST(WheelPlan, CascadesAreThoseOfTheWheel) {
  constexpr Tick kLongest = 3'600;
  Random random(1);
  std::size_t cascades = 0;
  std::size_t timers = 0;
  std::size_t most = 0;
  for (int round = 0; round < 60; ++round) {
    TraceSetup setup;
    setup.kind = WheelKind::kHierarchical;
    setup.tick = 1s;
    setup.start = 1s * static_cast<std::int64_t>(random.below(1'000'000));
    for (std::size_t i = 0; i < Trace::kMostTimers; ++i) {
      setup.delays.push_back(1s * static_cast<std::int64_t>(1 + random.below(kLongest)));
    }
    Trace trace = std::move(*Trace::create(setup));
    std::vector<std::size_t> moves(Trace::kMostTimers);
    while (const auto event = trace.next_event()) {
      for (const Trace::Event& e : trace.advance(*event)) {
        moves[e.timer] += e.from.level > e.to.level ? 1 : 0;
      }
    }
    for (const std::size_t count : moves) {
      cascades += count;
      most = std::max(most, count);
    }
    timers += moves.size();
  }
  const PlanChoice planned =
      plan({.max_delay = 1s * kLongest, .tick = 1s, .pending = timers})[PlanKind::kHierarchical];
  EXPECT_NEAR(static_cast<double>(cascades) / static_cast<double>(timers), planned.cascades, 0.05);
  EXPECT_LE(most, static_cast<std::size_t>(planned.cascades_most));
}

TEST(WheelPlan, MemoryOfAPoolIsWhatItTakes) {
  for (const std::uint64_t pending : {std::uint64_t{10}, std::uint64_t{20'000}, kManyTimers}) {
    PooledWheel<> wheel;
    for (std::uint64_t i = 0; i < pending; ++i) {
      ASSERT_TRUE(wheel.schedule(1 + i * 7'919 % 3'600'000));
    }
    const std::uint64_t planned =
        plan({.max_delay = 1h, .pending = pending})[PlanKind::kPooled].bytes(pending);
    EXPECT_LE(wheel.memory_bytes(), planned + 64) << pending;
    EXPECT_GE(wheel.memory_bytes() * 2, planned) << pending;
  }
}

TEST(WheelPlan, RefusesWithTheOptionAndItsLimits) {
  const auto refusal = [](const PlanRequest& request) {
    const Result<WheelPlan> result = plan_wheel(request);
    return result ? "" : result.error().message;
  };
  EXPECT_EQ(refusal({.max_delay = 0s, .pending = 1}),
            "--max-delay: 0s is out of range (1ms to 36500d)");
  EXPECT_EQ(refusal({.max_delay = 24h * 36'501, .pending = 1}),
            "--max-delay: 36501d is out of range (1ms to 36500d)");
  EXPECT_EQ(refusal({.max_delay = 1h, .tick = 2h, .pending = 1}),
            "--tick: 2h is longer than --max-delay, 1h");
  EXPECT_EQ(refusal({.max_delay = 1h}), "--pending: 0 is out of range (1 to 1073741824)");
  EXPECT_EQ(refusal({.max_delay = 1h, .pending = kMostPending + 1}),
            "--pending: 1073741825 is out of range (1 to 1073741824)");
  EXPECT_EQ(refusal({.max_delay = 1h, .pending = 1, .slack = 1.5}),
            "--slack: 150% is out of range (0% to 100%)");
}

}  // namespace
}  // namespace carillon::app
