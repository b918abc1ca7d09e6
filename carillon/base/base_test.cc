// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "carillon/base/check.h"
#include "carillon/base/clock.h"
#include "carillon/base/mutex.h"
#include "carillon/base/random.h"
#include "carillon/base/result.h"
#include "carillon/base/time.h"

namespace carillon {
namespace {

using namespace std::chrono_literals;

TEST(Time, AddingForeverSaturatesInsteadOfWrappingIntoThePast) {
  EXPECT_EQ(saturating_add(Instant(5s), kForever), Instant::max());
  EXPECT_EQ(saturating_add(Instant::max(), 1ns), Instant::max());
  EXPECT_EQ(saturating_add(Instant::min(), -1ns), Instant::min());
  EXPECT_EQ(saturating_add(Instant(5s), -2s), Instant(3s));
  EXPECT_EQ(saturating_between(Instant(5s), Instant(3s)), Span(-2s));
  EXPECT_EQ(saturating_between(Instant(-1ns), Instant::max()), kForever);
  EXPECT_EQ(saturating_between(Instant::max(), Instant(-2ns)), Span::min());
  EXPECT_EQ(saturating_span<std::chrono::seconds>(std::int64_t{1} << 62), kForever);
  EXPECT_EQ(saturating_span<std::chrono::hours>(INT64_MIN), Span::min());
  EXPECT_EQ(saturating_span<std::chrono::seconds>(4294967295), Span(4294967295s));
}

TEST(Time, DeadlinesRoundUpAndTheTickReachedRoundsDown) {
  EXPECT_EQ(ceil_ms(WallTime(1ms)), 1);
  EXPECT_EQ(ceil_ms(WallTime(1ms + 1ns)), 2);
  EXPECT_EQ(floor_ms(WallTime(2ms - 1ns)), 1);
  EXPECT_EQ(ceil_ms(WallTime(-1ns)), 0);
  EXPECT_EQ(floor_ms(WallTime(-1ns)), -1);
}

TEST(ManualClock, MovesOnlyWhenToldAndNeverBack) {
  ManualClock clock(Instant(10s));
  EXPECT_EQ(clock.now(), Instant(10s));
  clock.advance(5ms);
  EXPECT_EQ(clock.now(), Instant(10s + 5ms));
  clock.advance(kForever);
  EXPECT_EQ(clock.now(), Instant::max());
  EXPECT_DEATH(clock.advance_to(Instant(1s)), "cannot go back");
}

TEST(Clock, RealClocksDoNotGoBack) {
  const SteadyClock steady;
  const BootClock boot;
  const Instant a = steady.now();
  EXPECT_LE(a, steady.now());
  EXPECT_GE(boot.now().time_since_epoch(), a.time_since_epoch());
  EXPECT_GT(SystemCalendar().now(), WallTime(1'700'000'000s));
}

TEST(Clock, TheBootHasAnIdAndKeepsIt) {
  const std::string id = read_boot_id();
  EXPECT_EQ(id.size(), 36) << id;
  EXPECT_EQ(read_boot_id(), id);
}

TEST(Result, HoldsAValueOrAnErrorAndStopsWhenTheWrongOneIsRead) {
  Result<int> good = 7;
  EXPECT_EQ(*good, 7);
  Result<int> bad = Error{ErrorCode::kNoSpace, "disk full"};
  EXPECT_FALSE(bad);
  EXPECT_EQ(std::move(bad.error()).prefixed("commit").message, "commit: disk full");
  EXPECT_DEATH((void)bad.value(), "check failed");
  EXPECT_DEATH((void)good.error(), "holds a value");
  EXPECT_TRUE(Result<void>().has_value());
}

TEST(Check, PrintsTheConditionAndTheValues) {
  const int level = 3;
  EXPECT_DEATH(CARILLON_CHECK(level < 3, "level ", level), "level < 3: level 3");
  CARILLON_CHECK(level == 3);
}

TEST(Random, SameSeedSameSequence) {
  Random a(42);
  Random b(42);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(a(), b());
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t x = a.between(-3, 3);
    ASSERT_TRUE(x >= -3 && x <= 3);
  }
  EXPECT_EQ(a.between(INT64_MIN, INT64_MIN), INT64_MIN);
}

TEST(Mutex, GuardsAndConditionTimesOut) {
  Mutex mutex;
  CondVar condition;
  MutexLock lock(mutex);
  EXPECT_FALSE(condition.wait_for(mutex, 1ns));
}

}  // namespace
}  // namespace carillon
