// SPDX-License-Identifier: Apache-2.0
// What the limiters do with their keys: that idle ones vanish, that there is a limit, that threads
// share a key without getting more than there is.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/random.h"
#include "carillon/blocks/leaky_bucket.h"
#include "carillon/blocks/sliding_window_limiter.h"
#include "carillon/blocks/token_bucket.h"

namespace carillon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{std::chrono::hours(1)};

// Each of them lets a key have one permit a second.
struct OfEachKind {
  explicit OfEachKind(LimiterOptions options = {})
      : window({1, seconds(1), options}),
        bucket({{1, seconds(1)}, 1, options}),
        leaky({{1, seconds(1)}, 0, options}) {}

  SlidingWindowLimiter<int> window;
  TokenBucket<int> bucket;
  LeakyBucket<int> leaky;

  template <class Use>
  void each(Use&& use) {
    use(window);
    use(bucket);
    use(leaky);
  }
};

// D1: what is remembered follows the keys in use, and not those there have ever been.
TEST(LimiterStory, IdleKeysVanishThoughNobodySweeps) {
  OfEachKind().each([](auto& limiter) {
    Instant now = kStart;
    std::size_t most = 0;
    for (int key = 0; key < 200'000; ++key) {
      ASSERT_TRUE(limiter.try_acquire(key, 1, now));
      now += Span(100'000);  // So 10,000 keys are not idle at any time.
      if (key % 1000 == 0) {
        most = std::max(most, limiter.keys());
      }
    }
    EXPECT_LT(most, 25'000U);
    // None that is in use has been forgotten.
    for (int key = 190'001; key < 200'000; ++key) {
      ASSERT_FALSE(limiter.try_acquire(key, 1, now - Span(1)));
    }
  });
}

TEST(LimiterKeys, VanishByTheCallsOfOneBusyKey) {
  OfEachKind(LimiterOptions{.shards = 1}).each([](auto& limiter) {
    for (int key = 0; key < 1000; ++key) {
      ASSERT_TRUE(limiter.try_acquire(key, 1, kStart));
    }
    for (int i = 0; i < 40'000; ++i) {
      (void)limiter.try_acquire(0, 1, kStart + seconds(1) + Span(i));
    }
    EXPECT_EQ(limiter.keys(), 1U);
    EXPECT_FALSE(limiter.try_acquire(0, 1, kStart + seconds(1) + milliseconds(1)));
  });
}

TEST(LimiterKeys, VanishBySweep) {
  OfEachKind().each([](auto& limiter) {
    for (int key = 0; key < 10'000; ++key) {
      ASSERT_TRUE(limiter.try_acquire(key, 1, kStart + (key < 4000 ? Span(0) : milliseconds(1))));
    }
    EXPECT_EQ(limiter.sweep(kStart + seconds(1) - Span(1)), 0U);
    EXPECT_EQ(limiter.sweep(kStart + seconds(1)), 4000U);
    EXPECT_EQ(limiter.keys(), 6000U);
    EXPECT_EQ(limiter.sweep(kStart + seconds(2)), 6000U);
    EXPECT_EQ(limiter.keys(), 0U);
  });
}

TEST(LimiterKeys, AFloodOfKeysIsRefusedAndThoseThatAreInGoOn) {
  OfEachKind(LimiterOptions{.max_keys = 100, .shards = 1}).each([](auto& limiter) {
    for (int key = 0; key < 100; ++key) {
      ASSERT_TRUE(limiter.try_acquire(key, 1, kStart));
    }
    const auto flooded = limiter.try_acquire(100, 1, kStart);
    EXPECT_FALSE(flooded);
    EXPECT_TRUE(flooded.table_full);
    EXPECT_GT(flooded.retry_after, Span::zero());
    EXPECT_EQ(limiter.keys(), 100U);
    const auto known = limiter.try_acquire(50, 1, kStart);
    EXPECT_FALSE(known);
    EXPECT_FALSE(known.table_full);
    // When they are idle there is room, after a few tries at worst.
    bool granted = false;
    for (int i = 0; i < 20 && !granted; ++i) {
      granted = limiter.try_acquire(100, 1, kStart + seconds(1)).granted;
    }
    EXPECT_TRUE(granted);
  });
}

TEST(LimiterKeys, ASmallLimitIsKeptThoughTheShardsAreMany) {
  for (const int most : {1, 10, 100, 1000, 5000, 20'000}) {
    SCOPED_TRACE(most);
    OfEachKind(LimiterOptions{.max_keys = static_cast<std::size_t>(most)}).each([&](auto& limiter) {
      int granted = 0;
      for (int key = 0; key < 2 * most; ++key) {
        const auto answer = limiter.try_acquire(key, 1, kStart);
        granted += answer.granted ? 1 : 0;
        if (key < most * 9 / 10) {
          ASSERT_TRUE(answer.granted) << key;
        }
      }
      EXPECT_LE(granted, most);
      EXPECT_GE(granted, most * 9 / 10);
    });
  }
}

TEST(LimiterKeys, ALimitOfZeroIsNone) {
  OfEachKind(LimiterOptions{.max_keys = 0}).each([](auto& limiter) {
    for (int key = 0; key < 1000; ++key) {
      ASSERT_TRUE(limiter.try_acquire(key, 1, kStart));
    }
  });
}

// Bursts of keys that are never seen again, between some that are.
TEST(LimiterKeys, StayWithinTheLimitHoweverTheyComeAndGo) {
  for (const unsigned shards : {1U, 4U}) {
    Random random(shards);
    OfEachKind(LimiterOptions{.max_keys = 5000, .shards = shards}).each([&](auto& limiter) {
      Instant now = kStart;
      int next = 0;
      for (int round = 0; round < 20; ++round) {
        const std::uint64_t pause = round % 2 == 0 ? 3'000 : 300'000;
        for (std::uint64_t i = random.below(8000); i > 0; --i) {
          now += Span(static_cast<Span::rep>(random.below(pause)));
          const int key = random.one_in(3) ? random.between(0, next) : next++;
          (void)limiter.try_acquire(key, 1, now);
        }
        ASSERT_LE(limiter.keys(), 5000U);
        if (random.one_in(3)) {
          limiter.sweep(now);
        }
        now += random.one_in(4) ? seconds(10) : Span::zero();
      }
      limiter.sweep(now + seconds(1));
      EXPECT_EQ(limiter.keys(), 0U);
    });
  }
}

TEST(LimiterTimes, NoAnswerIsNegativeWhateverTheTimes) {
  const std::vector<Instant> times = {Instant::min(), Instant(), kStart, Instant::max()};
  for (const Instant first : times) {
    for (const Instant second : times) {
      SlidingWindowLimiter<int> window({1, seconds(1)});
      TokenBucket<int> bucket({{1, std::chrono::hours(876'000)}, 1});
      LeakyBucket<int> leaky({{1, seconds(1)}, 1});
      for (const Instant now : {first, second, first, second}) {
        ASSERT_GE(window.try_acquire(1, 1, now).retry_after, Span::zero());
        ASSERT_GE(bucket.try_acquire(1, 1, now).retry_after, Span::zero());
        const Turn turn = leaky.try_acquire(1, 1, now);
        ASSERT_GE(turn.retry_after, Span::zero());
        ASSERT_GE(turn.delay, Span::zero());
        leaky.sweep(now);
      }
    }
  }
}

TEST(LimiterKeys, AreFoundByAView) {
  TokenBucket<> bucket({{1, seconds(1)}, 1});
  const std::string_view long_name = "a name that a string would have to allocate memory for";
  EXPECT_TRUE(bucket.try_acquire(long_name, 1, kStart));
  EXPECT_FALSE(bucket.try_acquire(std::string(long_name), 1, kStart));
  EXPECT_TRUE(bucket.try_acquire("another", 1, kStart));
}

TEST(LimiterKeys, ThatHashAlikeAreToldApart) {
  struct Constant {
    std::size_t operator()(int) const { return 7; }
  };
  TokenBucket<int, Constant> bucket({{1, seconds(1)}, 1});
  for (int key = 0; key < 100; ++key) {
    EXPECT_TRUE(bucket.try_acquire(key, 1, kStart));
    EXPECT_FALSE(bucket.try_acquire(key, 1, kStart));
  }
}

// Four threads want more of four keys than there is, while others come and go.
TEST(LimiterStress, ThreadsTogetherGetExactlyWhatThereIs) {
  constexpr int kThreads = 4;
  constexpr int kKeys = 4;
  constexpr std::uint64_t kLimit = 500;
  ManualClock clock(kStart);
  const LimiterOptions options{.shards = 2, .clock = &clock};
  SlidingWindowLimiter<int> window({kLimit, seconds(1), options});
  TokenBucket<int> bucket({{kLimit, seconds(1)}, kLimit, options});
  for (int round = 0; round < 20; ++round) {
    std::vector<std::atomic<std::uint64_t>> granted(2 * kKeys);
    std::latch start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (int i = 0; i < 1500; ++i) {
          const int key = (i + t) % kKeys;
          const auto n = static_cast<std::uint64_t>(1 + i % 2);
          granted[static_cast<std::size_t>(key)] += window.try_acquire(key, n).granted ? n : 0;
          granted[static_cast<std::size_t>(kKeys + key)] +=
              bucket.try_acquire(key, n).granted ? n : 0;
          const int passing = 1000 + (round * kThreads + t) * 1500 + i;
          EXPECT_TRUE(window.try_acquire(passing));
          EXPECT_TRUE(bucket.try_acquire(passing));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const auto& sum : granted) {
      EXPECT_EQ(sum, kLimit);
    }
    clock.advance(seconds(1));
    EXPECT_LT(window.keys() + bucket.keys(), 2U * 3U * kThreads * 1500U);
  }
}

}  // namespace
}  // namespace carillon
