// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/backoff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

namespace carillon {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1h};

TEST(Backoff, DoublesUpToTheLongest) {
  Backoff backoff({.first = 100ms, .most = 1s, .jitter = Jitter::kNone, .max_attempts = 0}, kStart);
  for (const Span wait : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    EXPECT_EQ(backoff.failed(kStart), wait);
  }
  EXPECT_EQ(backoff.attempts(), 7U);
}

TEST(Backoff, NeverOverflows) {
  Backoff backoff(
      {.first = 1s, .factor = 1e30, .most = kForever, .jitter = Jitter::kNone, .max_attempts = 0},
      kStart);
  EXPECT_EQ(backoff.failed(kStart), 1s);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(backoff.failed(Instant::max()), kForever);
}

TEST(Backoff, FullJitterFillsTheWaitAndHalfItsUpperHalf) {
  for (const Jitter jitter : {Jitter::kFull, Jitter::kHalf}) {
    Span least = kForever;
    Span most{};
    for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
      Backoff backoff({.first = 10s, .jitter = jitter, .seed = seed}, kStart);
      const Span wait = backoff.failed(kStart).value();
      least = std::min(least, wait);
      most = std::max(most, wait);
    }
    EXPECT_GE(least, jitter == Jitter::kFull ? 0s : 5s);
    EXPECT_LE(least, jitter == Jitter::kFull ? 50ms : 5050ms);
    EXPECT_LE(most, 10s);
    EXPECT_GE(most, 9950ms);
  }
}

TEST(Backoff, ASeedReplaysAndWithoutOneClientsDiffer) {
  const auto first_wait = [](std::optional<std::uint64_t> seed) {
    return Backoff({.first = 10s, .seed = seed}, kStart).failed(kStart).value();
  };
  EXPECT_EQ(first_wait(7), first_wait(7));
  EXPECT_NE(first_wait(std::nullopt), first_wait(std::nullopt));
}

TEST(Backoff, EndsWhenAttemptsAreUsedUp) {
  Backoff backoff({.max_attempts = 3}, kStart);
  EXPECT_TRUE(backoff.failed(kStart));
  EXPECT_TRUE(backoff.failed(kStart));
  EXPECT_FALSE(backoff.failed(kStart));
  EXPECT_EQ(backoff.end(), RetryEnd::kAttempts);
  EXPECT_EQ(backoff.attempts(), 3U);
  EXPECT_FALSE(Backoff({.max_attempts = 1}, kStart).failed(kStart));
}

TEST(Backoff, DoesNotWaitForAnAttemptThatWouldComeTooLate) {
  Backoff backoff({.first = 4s, .jitter = Jitter::kNone, .max_attempts = 0, .at_most = 10s},
                  kStart);
  EXPECT_EQ(backoff.failed(kStart + 1s), 4s);
  EXPECT_FALSE(backoff.failed(kStart + 5s)) << "5 + 8 s";
  EXPECT_EQ(backoff.end(), RetryEnd::kDeadline);
  EXPECT_EQ(backoff.attempts(), 2U);
}

TEST(Backoff, NonsenseStopsTheProgram) {
  EXPECT_DEATH(Backoff({.first = -1s}, kStart), "a first wait of");
  EXPECT_DEATH(Backoff({.factor = 0.5}, kStart), "a factor of");
  EXPECT_DEATH(Backoff({.factor = std::numeric_limits<double>::quiet_NaN()}, kStart), "a factor");
  EXPECT_DEATH(Backoff({.factor = std::numeric_limits<double>::infinity()}, kStart), "a factor");
  EXPECT_DEATH(Backoff({.first = 2s, .most = 1s}, kStart), "a longest wait");
}

// A server that refuses everything: the first fifty failures take what may be taken, and of those
// one in five is a call's last.
TEST(RetryBudget, NonsenseStopsTheProgram) {
  for (const double share : {std::nan(""), -1.0, 1.001, std::numeric_limits<double>::infinity()}) {
    EXPECT_DEATH(RetryBudget(1, share), "a retry budget that gives back");
  }
  EXPECT_DEATH(RetryBudget(0, 0), "a retry budget of 0 tokens");
}

TEST(RetryBudget, AServerThatIsDownIsNotAskedMoreAndMore) {
  RetryBudget budget(100, 0.1);
  int retries = 0;
  for (int call = 0; call < 1'000; ++call) {
    Backoff backoff({.max_attempts = 5, .budget = &budget}, kStart);
    while (backoff.failed(kStart)) ++retries;
  }
  EXPECT_EQ(retries, 40);
  EXPECT_EQ(budget.tokens(), 0);

  // It is up again: after five hundred successes there is something to spare.
  Backoff well({.budget = &budget}, kStart);
  for (int i = 0; i < 500; ++i) well.succeeded();
  EXPECT_NEAR(budget.tokens(), 50, 0.001);
  for (int i = 0; i < 20; ++i) well.succeeded();
  EXPECT_TRUE(Backoff({.budget = &budget}, kStart).failed(kStart));
  for (int i = 0; i < 10'000; ++i) well.succeeded();
  EXPECT_EQ(budget.tokens(), 100) << "never more than full";
}

TEST(RetryBudget, AFailureNowAndThenIsAlwaysRetried) {
  RetryBudget budget(10, 0.1);
  for (int call = 0; call < 10'000; ++call) {
    Backoff backoff({.budget = &budget}, kStart);
    if (call % 20 == 0) {
      ASSERT_TRUE(backoff.failed(kStart)) << call;
    }
    backoff.succeeded();
  }
}

TEST(RetryBudget, CountsExactlyFromManyThreads) {
  RetryBudget budget(1'000'000, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50'000; ++i) budget.take();
      for (int i = 0; i < 20'000; ++i) budget.give();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(budget.tokens(), 1'000'000 - 4 * 30'000);
  EXPECT_LE(budget.tokens(), 1'000'000);
}

}  // namespace
}  // namespace carillon
