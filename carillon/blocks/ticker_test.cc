// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/internal/ticker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "carillon/timer/manual_driver.h"

namespace carillon::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Ticker, RunsWhenWokenAndThenWhenItSaid) {
  ManualDriver time;
  Timer timer(time.options());
  const Instant start = time.now();
  std::vector<Span> runs;
  Ticker ticker(timer, [&]() -> std::optional<Span> {
    runs.push_back(time.now() - start);
    return runs.size() < 3 ? std::optional<Span>(seconds(2)) : std::nullopt;
  });
  time.advance(seconds(5));
  EXPECT_TRUE(runs.empty());
  ticker.wake_within(time.now(), seconds(10));
  ticker.wake_within(time.now(), seconds(20));
  EXPECT_EQ(timer.pending(), 1U);
  time.advance(seconds(60));
  EXPECT_EQ(runs, (std::vector<Span>{seconds(15), seconds(17), seconds(19)}));
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(Ticker, AnEarlierWakeReplacesALaterOne) {
  ManualDriver time;
  Timer timer(time.options());
  int runs = 0;
  Ticker ticker(timer, [&]() -> std::optional<Span> {
    ++runs;
    return std::nullopt;
  });
  ticker.wake_within(time.now(), seconds(10));
  ticker.wake_within(time.now(), seconds(1));
  time.advance(seconds(1));
  EXPECT_EQ(runs, 1);
  time.advance(seconds(60));
  EXPECT_EQ(runs, 1);
}

TEST(Ticker, AWakeInTheWorkItselfIsHeard) {
  ManualDriver time;
  Timer timer(time.options());
  int runs = 0;
  Ticker* self = nullptr;
  Ticker ticker(timer, [&]() -> std::optional<Span> {
    if (++runs == 1) {
      self->wake_within(time.now(), milliseconds(5));
      return seconds(100);
    }
    return std::nullopt;
  });
  self = &ticker;
  ticker.wake_within(time.now(), milliseconds(1));
  time.advance(milliseconds(6));
  EXPECT_EQ(runs, 2);
}

TEST(Ticker, NothingRunsOnceItIsDestroyed) {
  for (int round = 0; round < 300; ++round) {
    Timer timer({.tick = std::chrono::microseconds(10), .executor = inline_executor()});
    std::atomic<bool> alive{true};
    std::atomic<int> runs{0};
    {
      Ticker ticker(timer, [&]() -> std::optional<Span> {
        EXPECT_TRUE(alive);
        ++runs;
        return Span::zero();
      });
      ticker.wake_within(timer.now(), Span::zero());
      while (runs < round % 3) {
        std::this_thread::yield();
      }
    }
    alive = false;
    const int then = runs;
    std::this_thread::yield();
    EXPECT_EQ(runs, then);
  }
}

TEST(Ticker, AfterTheTimerStoppedItIsQuiet) {
  ManualDriver time;
  Timer timer(time.options());
  Ticker ticker(timer, []() -> std::optional<Span> { return seconds(1); });
  ticker.wake_within(time.now(), seconds(1));
  EXPECT_EQ(timer.stop().size(), 1U);
  ticker.wake_within(time.now(), milliseconds(1));
  time.advance(seconds(10));
}

}  // namespace
}  // namespace carillon::internal
