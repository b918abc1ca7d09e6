// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/sliding_window_limiter.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/random.h"

namespace carillon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{std::chrono::hours(1)};

TEST(SlidingWindow, GrantsTheLimitAndThenSaysExactlyWhen) {
  ManualClock clock(kStart);
  SlidingWindowLimiter<> limiter({3, seconds(60), {.clock = &clock}});
  EXPECT_EQ(limiter.try_acquire("a").remaining, 2U);
  clock.advance(seconds(10));
  EXPECT_TRUE(limiter.try_acquire("a"));
  clock.advance(seconds(10));
  EXPECT_EQ(limiter.try_acquire("a").remaining, 0U);
  clock.advance(seconds(39));
  const Admission refused = limiter.try_acquire("a");
  EXPECT_FALSE(refused);
  EXPECT_FALSE(refused.table_full);
  EXPECT_EQ(refused.retry_after, seconds(1));
  EXPECT_TRUE(limiter.try_acquire("b")) << "another key";
  clock.advance(seconds(1) - Span(1));
  EXPECT_EQ(limiter.try_acquire("a").retry_after, Span(1));
  clock.advance(Span(1));
  EXPECT_TRUE(limiter.try_acquire("a"));
  EXPECT_EQ(limiter.try_acquire("a").retry_after, seconds(10));
}

// What counters that start anew each minute let through.
TEST(SlidingWindow, ATurnOfTheMinuteLetsNoMoreThrough) {
  SlidingWindowLimiter<int> limiter({100, seconds(60)});
  int granted = 0;
  for (int i = 0; i < 4000; ++i) {
    granted += limiter.try_acquire(1, 1, kStart + seconds(59) + milliseconds(i)) ? 1 : 0;
  }
  EXPECT_EQ(granted, 100);
}

TEST(SlidingWindow, SeveralAtOnceAreAllOrNone) {
  SlidingWindowLimiter<int> limiter({10, seconds(1)});
  EXPECT_TRUE(limiter.try_acquire(1, 6, kStart));
  EXPECT_TRUE(limiter.try_acquire(1, 3, kStart + milliseconds(100)));
  const Admission refused = limiter.try_acquire(1, 2, kStart + milliseconds(200));
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.remaining, 1U);
  EXPECT_EQ(refused.retry_after, milliseconds(800));
  EXPECT_EQ(limiter.try_acquire(1, 8, kStart + milliseconds(200)).retry_after, milliseconds(900));
  EXPECT_TRUE(limiter.try_acquire(1, 1, kStart + milliseconds(200)));
}

TEST(SlidingWindow, ToAskIsToTakeNothing) {
  SlidingWindowLimiter<int> limiter({2, seconds(1)});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(limiter.try_acquire(1, 0, kStart));
  }
  EXPECT_EQ(limiter.try_acquire(1, 0, kStart).remaining, 2U);
  EXPECT_TRUE(limiter.try_acquire(1, 2, kStart));
  const Admission full = limiter.try_acquire(1, 0, kStart);
  EXPECT_TRUE(full);
  EXPECT_EQ(full.remaining, 0U);
}

TEST(SlidingWindow, MoreThanTheLimitIsNever) {
  SlidingWindowLimiter<int> limiter({2, seconds(1)});
  const Admission never = limiter.try_acquire(1, 3, kStart);
  EXPECT_FALSE(never);
  EXPECT_EQ(never.retry_after, kForever);
  EXPECT_EQ(limiter.keys(), 0U);
  EXPECT_EQ(limiter.try_acquire(1, ~std::uint64_t{0}, kStart).retry_after, kForever);
}

TEST(SlidingWindow, ATimeBeforeTheLastCountsAsTheLast) {
  SlidingWindowLimiter<int> limiter({2, seconds(1)});
  EXPECT_TRUE(limiter.try_acquire(1, 1, kStart + seconds(5)));
  EXPECT_TRUE(limiter.try_acquire(1, 1, kStart));
  const Admission refused = limiter.try_acquire(1, 1, kStart);
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.retry_after, seconds(6));
  EXPECT_FALSE(limiter.try_acquire(1, 1, kStart + seconds(6) - Span(1)));
  EXPECT_TRUE(limiter.try_acquire(1, 2, kStart + seconds(6)));
}

TEST(SlidingWindow, AWindowWithoutEnd) {
  SlidingWindowLimiter<int> limiter({1, kForever});
  EXPECT_TRUE(limiter.try_acquire(1, 1, kStart));
  EXPECT_FALSE(limiter.try_acquire(1, 1, Instant::max() - Span(1)));
  EXPECT_EQ(limiter.try_acquire(1, 1, kStart).retry_after, kForever);
  EXPECT_EQ(limiter.try_acquire(1, 1, kStart - Span(5)).retry_after, kForever);
}

// Against a list of all that was ever taken. Also: the time it names is exact.
TEST(SlidingWindowProperty, AgreesWithAListOfAllThatWasTaken) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::uint64_t limit = 1 + random.below(seed % 3 == 0 ? 200 : 12);
    const Span window(1 + random.between(0, 1000));
    SlidingWindowLimiter<int> limiter({limit, window});
    std::vector<std::deque<std::pair<Instant, std::uint64_t>>> model(3);
    Instant now = kStart;
    const auto room = [&](std::size_t key, Instant at) {
      std::uint64_t taken = 0;
      for (const auto& [when, permits] : model[key]) {
        taken += when + window > at ? permits : 0;
      }
      return limit - taken;
    };
    for (int step = 0; step < 2000; ++step) {
      now += Span(random.one_in(50) ? random.between(0, 2000) : random.between(0, 20));
      const auto key = random.below(3);
      const std::uint64_t n = random.one_in(4) ? random.below(limit + 1) : 1;
      while (!model[key].empty() && model[key].front().first + window <= now) {
        model[key].pop_front();
      }
      const std::uint64_t before = room(key, now);
      const Admission answer = limiter.try_acquire(static_cast<int>(key), n, now);
      ASSERT_EQ(answer.granted, n <= before);
      if (answer.granted) {
        model[key].emplace_back(now, n);
        ASSERT_EQ(answer.remaining, before - n);
        ASSERT_EQ(answer.retry_after, Span::zero());
      } else {
        ASSERT_EQ(answer.remaining, before);
        ASSERT_LT(room(key, now + answer.retry_after - Span(1)), n);
        ASSERT_GE(room(key, now + answer.retry_after), n);
      }
    }
  }
}

// Times that are out of order by up to `most_back`, as threads bring them that have read a clock
// before they wait for the lock: with the latest of them as the time, a window is short by so much.
TEST(SlidingWindowProperty, TimesOutOfOrderShortenAWindowByAsMuchAtMost) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::uint64_t limit = 1 + random.below(20);
    const auto most_back = random.between(0, 30);
    const Span window(most_back + random.between(1, 50));
    SlidingWindowLimiter<int> limiter({limit, window});
    std::vector<Instant> taken;  // For each permit.
    Instant now = kStart;
    for (int step = 0; step < 3000; ++step) {
      now += Span(random.one_in(100) ? random.between(0, 100) : random.between(0, 5));
      const Instant given = now - Span(random.one_in(2) ? random.between(0, most_back) : 0);
      const std::uint64_t n = 1 + random.below(limit);
      const Admission answer = limiter.try_acquire(1, n, given);
      if (answer.granted) {
        taken.insert(taken.end(), n, now);
      } else {
        ASSERT_GT(answer.retry_after, Span::zero());
      }
    }
    for (std::size_t i = 0; i + limit < taken.size(); ++i) {
      ASSERT_GE(taken[i + limit] - taken[i], window - Span(most_back));
    }
  }
}

TEST(SlidingWindowDeathTest, ALimitOrWindowOfNothingStopsTheProgram) {
  EXPECT_DEATH(SlidingWindowLimiter<int>({0, seconds(1)}), "a limiter of 0");
  EXPECT_DEATH(SlidingWindowLimiter<int>({1, seconds(0)}), "in 0 ns");
}

}  // namespace
}  // namespace carillon
