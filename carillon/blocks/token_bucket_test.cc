// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/token_bucket.h"

#include <gtest/gtest.h>

#include "carillon/base/clock.h"
#include "carillon/base/random.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{hours(1)};

TEST(TokenBucket, HasABurstAndThenTheRate) {
  ManualClock clock(kStart);
  TokenBucket<> bucket({{10, seconds(1)}, 20, {.clock = &clock}});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(bucket.try_acquire("a").remaining, static_cast<std::uint64_t>(19 - i));
  }
  EXPECT_EQ(bucket.try_acquire("a").retry_after, milliseconds(100));
  clock.advance(milliseconds(100) - Span(1));
  EXPECT_EQ(bucket.try_acquire("a").retry_after, Span(1));
  clock.advance(Span(1));
  EXPECT_TRUE(bucket.try_acquire("a"));
  EXPECT_EQ(bucket.try_acquire("a", 20).retry_after, seconds(2));
  clock.advance(hours(1));
  EXPECT_EQ(bucket.try_acquire("a", 0).remaining, 20U) << "it does not overflow";
}

TEST(TokenBucket, MoreThanTheBurstIsNever) {
  TokenBucket<int> bucket({{10, seconds(1)}, 20});
  EXPECT_EQ(bucket.try_acquire(1, 21, kStart).retry_after, kForever);
  EXPECT_EQ(bucket.try_acquire(1, ~std::uint64_t{0}, kStart).retry_after, kForever);
  EXPECT_TRUE(bucket.try_acquire(1, 20, kStart));
}

// 7 a second is no whole number of nanoseconds a permit.
TEST(TokenBucket, HoldsARateThatDoesNotDivideToThePermit) {
  TokenBucket<int> bucket({{7, seconds(1)}, 1});
  Instant now = kStart;
  std::int64_t granted = 0;
  while (now < kStart + hours(1)) {
    const Admission answer = bucket.try_acquire(1, 1, now);
    granted += answer ? 1 : 0;
    now += answer.retry_after;
    ASSERT_EQ(answer.granted, answer.retry_after == Span::zero());
  }
  EXPECT_EQ(granted, 7 * 3600);
}

TEST(TokenBucket, ATimeBeforeTheLastBringsNothing) {
  TokenBucket<int> bucket({{1, seconds(1)}, 1});
  EXPECT_TRUE(bucket.try_acquire(1, 1, kStart + seconds(10)));
  EXPECT_EQ(bucket.try_acquire(1, 1, kStart).retry_after, seconds(11));
  EXPECT_TRUE(bucket.try_acquire(1, 1, kStart + seconds(11)));
}

TEST(TokenBucket, RatesAtTheEdges) {
  TokenBucket<int> fast({{1'000'000'000, Span(1)}, 1'000'000'000});
  EXPECT_TRUE(fast.try_acquire(1, 1'000'000'000, kStart));
  EXPECT_EQ(fast.try_acquire(1, 1, kStart).retry_after, Span(1));
  TokenBucket<int> slow({{1, hours(24 * 365)}, 100});
  EXPECT_TRUE(slow.try_acquire(1, 100, kStart));
  EXPECT_EQ(slow.try_acquire(1, 100, kStart).retry_after, hours(24 * 365 * 100));
  EXPECT_TRUE(slow.try_acquire(1, 1, Instant::max()));
}

// Against rational numbers: permits times nanoseconds of the period.
TEST(TokenBucketProperty, AgreesWithRationalNumbers) {
  __extension__ using Wide = __int128;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Rate rate{1 + random.below(50), Span(1 + random.between(0, 5000))};
    const std::uint64_t burst = 1 + random.below(30);
    TokenBucket<int> bucket({rate, burst});
    const Wide full = static_cast<Wide>(burst) * rate.per.count();
    Wide level = full;
    Instant now = kStart;
    for (int step = 0; step < 1000; ++step) {
      const Span passed(random.between(0, random.one_in(20) ? 5000 : 100));
      now += passed;
      level = std::min(full, level + static_cast<Wide>(passed.count()) * rate.permits);
      const std::uint64_t n = random.one_in(4) ? random.below(burst + 1) : 1;
      const Wide price = static_cast<Wide>(n) * rate.per.count();
      const Admission answer = bucket.try_acquire(1, n, now);
      ASSERT_EQ(answer.granted, price <= level);
      if (answer) {
        level -= price;
      } else {
        const Wide wait = answer.retry_after.count();
        ASSERT_GE(level + wait * rate.permits, price);
        ASSERT_LT(level + (wait - 1) * rate.permits, price);
      }
      ASSERT_EQ(answer.remaining, static_cast<std::uint64_t>(level / rate.per.count()));
    }
  }
}

TEST(TokenBucketDeathTest, WhatIsNoRateStopsTheProgram) {
  EXPECT_DEATH(TokenBucket<int>({{0, seconds(1)}, 1}), "a limiter of 0");
  EXPECT_DEATH(TokenBucket<int>({{1, seconds(0)}, 1}), "in 0 ns");
  EXPECT_DEATH(TokenBucket<int>({{1, seconds(1)}, 0}), "at most 0");
  EXPECT_DEATH(TokenBucket<int>({{7, hours(24)}, 1'000'000}), "too many permits");
}

}  // namespace
}  // namespace carillon
