// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/internal/ticker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <latch>
#include <stdexcept>
#include <thread>
#include <vector>

#include "carillon/base/random.h"
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
  EXPECT_EQ(timer.pending(), 2U);
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

// Threads that each wake it and wait until it has run since; the work throws now and then.
void wake_from_threads(std::size_t max_pending) {
  constexpr int kThreads = 3;
  TimerOptions options{.tick = std::chrono::microseconds(20), .max_pending = max_pending};
  options.on_exception = [](const std::exception_ptr&) {};
  Timer timer(options);
  std::atomic<int> asked{0};
  std::atomic<int> seen{0};
  Random random(1);
  Ticker ticker(timer, [&]() -> std::optional<Span> {
    seen = asked.load();
    if (random.one_in(10)) {
      throw std::runtime_error("of the work");
    }
    return random.one_in(2) ? std::optional<Span>(Span(random.between(0, 100'000))) : std::nullopt;
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random own(static_cast<std::uint64_t>(t));
      for (int i = 0; i < 300; ++i) {
        const int number = ++asked;
        const auto wake = [&] {
          return ticker.wake_within(timer.now(), Span(own.between(0, 100'000)));
        };
        // Refused, for the moment, if a timer that was given up is still running its last.
        while (!wake()) {
          ASSERT_NE(max_pending, 0U);
          std::this_thread::yield();
        }
        while (seen < number) {
          if (max_pending != 0 && !ticker.will_run()) {
            wake();
          }
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Hangs if one is.
TEST(TickerStress, NoWakeIsLost) { wake_from_threads(0); }

TEST(TickerStress, TwoPlacesInTheTimerAreEnough) { wake_from_threads(2); }

TEST(Ticker, AfterTheTimerStoppedItIsQuiet) {
  ManualDriver time;
  Timer timer(time.options());
  Ticker ticker(timer, []() -> std::optional<Span> { return seconds(1); });
  ticker.wake_within(time.now(), seconds(1));
  EXPECT_EQ(timer.stop().size(), 2U);
  EXPECT_FALSE(ticker.wake_within(time.now(), milliseconds(1)));
  EXPECT_FALSE(ticker.will_run());
  time.advance(seconds(10));
}

TEST(Ticker, FindsOutThatTheTimerWasStoppedWhenItIsOverdue) {
  ManualDriver time;
  Timer timer(time.options());
  Ticker ticker(timer, []() -> std::optional<Span> { return seconds(1); });
  EXPECT_TRUE(ticker.wake_within(time.now(), milliseconds(1)));
  timer.stop();
  EXPECT_TRUE(ticker.wake_within(time.now(), milliseconds(1)));
  time.advance(seconds(2));
  EXPECT_FALSE(ticker.wake_within(time.now(), milliseconds(1)));
  EXPECT_FALSE(ticker.will_run());
}

TimerOptions full_after(std::size_t most) {
  TimerOptions options;
  options.max_pending = most;
  return options;
}

void fill(Timer& timer) {
  while (timer.after(std::chrono::hours(10), [] {})) {
  }
}

TEST(Ticker, GoesOnInATimerThatIsFull) {
  ManualDriver time;
  Timer timer(time.options(full_after(8)));
  int runs = 0;
  Ticker ticker(timer, [&]() -> std::optional<Span> {
    fill(timer);
    return ++runs < 100 ? std::optional<Span>(seconds(1)) : std::nullopt;
  });
  EXPECT_TRUE(ticker.wake_within(time.now(), seconds(1)));
  fill(timer);
  EXPECT_TRUE(ticker.wake_within(time.now(), milliseconds(1)));
  time.advance(std::chrono::hours(1));
  EXPECT_EQ(runs, 100);
  EXPECT_FALSE(ticker.will_run());
}

TEST(Ticker, IsRefusedByATimerThatIsFullAndTakenWhenThereIsRoom) {
  ManualDriver time;
  Timer timer(time.options(full_after(4)));
  int runs = 0;
  Ticker ticker(timer, [&]() -> std::optional<Span> {
    ++runs;
    return std::nullopt;
  });
  fill(timer);
  EXPECT_FALSE(ticker.wake_within(time.now(), seconds(1)));
  time.advance(std::chrono::hours(10));
  EXPECT_EQ(runs, 0);
  const TimerHandle one = timer.after(std::chrono::hours(10), [] {});
  fill(timer);
  EXPECT_TRUE(one);
  one.cancel();  // One place is not enough.
  EXPECT_FALSE(ticker.wake_within(time.now(), seconds(1)));
  time.advance(std::chrono::hours(10));
  EXPECT_TRUE(ticker.wake_within(time.now(), seconds(1)));
  time.advance(seconds(1));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.pending(), 0U);
}

}  // namespace
}  // namespace carillon::internal
