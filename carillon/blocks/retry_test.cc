// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/retry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/base/mutex.h"
#include "carillon/base/random.h"
#include "carillon/timer/manual_driver.h"

namespace carillon {
namespace {

using namespace std::chrono_literals;

class RetryTest : public testing::Test {
 protected:
  [[nodiscard]] Span elapsed() const { return time_.now() - ManualDriver::kStart; }
  auto keep_outcome() {
    return [this](const RetryOutcome& outcome) {
      ++ends_;
      outcome_ = outcome;
    };
  }

  ManualDriver time_;
  Timer timer_{time_.options()};
  std::vector<Span> begun_;
  std::optional<RetryOutcome> outcome_;
  int ends_ = 0;
};

constexpr RetryOptions kExact{.first = 1s, .jitter = Jitter::kNone};

TEST_F(RetryTest, FirstAttemptIsMadeAtOnceAndSuccessEndsIt) {
  retry(timer_, kExact, [](Attempt attempt) { attempt.succeed(); }, keep_outcome());
  ASSERT_TRUE(outcome_);
  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->attempts, 1U);
  time_.advance(1h);
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(timer_.pending(), 0U);
}

TEST_F(RetryTest, WaitsGrowAndNumbersCount) {
  retry(
      timer_, kExact,
      [&](Attempt attempt) {
        begun_.push_back(elapsed());
        EXPECT_EQ(attempt.number(), begun_.size());
        attempt.number() == 4 ? attempt.succeed() : attempt.fail();
      },
      keep_outcome());
  time_.advance(1h);
  EXPECT_EQ(begun_, (std::vector<Span>{0s, 1s, 3s, 7s}));
  EXPECT_TRUE(outcome_->succeeded());
  EXPECT_EQ(outcome_->attempts, 4U);
}

// Two retries whose waits are not whole seconds keep their distance.
TEST_F(RetryTest, RetriesAtTwoAndAHalfAndThreeAndAHalfSecondsAreASecondApart) {
  for (const Span first : {2500ms, 3500ms}) {
    retry(
        timer_, {.first = first, .jitter = Jitter::kNone, .max_attempts = 2},
        [&](Attempt attempt) {
          if (attempt.number() == 2) begun_.push_back(elapsed());
          attempt.fail();
        },
        keep_outcome());
  }
  time_.advance(1min);
  EXPECT_EQ(begun_, (std::vector<Span>{2500ms, 3500ms}));
}

TEST_F(RetryTest, EndsWithTheReason) {
  const auto fails = [](Attempt attempt) { attempt.fail(); };
  const auto end_of = [&](const RetryOptions& options, UniqueFunction<void(Attempt)> attempt) {
    outcome_.reset();
    retry(timer_, options, std::move(attempt), keep_outcome());
    time_.advance(1h);
    return outcome_.value().end;
  };
  EXPECT_EQ(end_of(kExact, fails), RetryEnd::kAttempts);
  EXPECT_EQ(outcome_->attempts, 5U);
  EXPECT_EQ(end_of({.first = 1s, .jitter = Jitter::kNone, .at_most = 2s}, fails),
            RetryEnd::kDeadline);
  EXPECT_EQ(outcome_->attempts, 2U);
  RetryBudget budget(2, 0);
  EXPECT_EQ(end_of({.budget = &budget}, fails), RetryEnd::kBudget);
  EXPECT_EQ(end_of(kExact, [](Attempt attempt) { attempt.give_up(); }), RetryEnd::kGivenUp);
  EXPECT_EQ(outcome_->attempts, 1U);
}

TEST_F(RetryTest, AnAttemptThatIsLostHasFailed) {
  int attempts = 0;
  retry(timer_, kExact, [&](Attempt) { ++attempts; }, keep_outcome());
  time_.advance(1h);
  EXPECT_EQ(attempts, 5);
  EXPECT_EQ(outcome_->end, RetryEnd::kAttempts);
}

TEST_F(RetryTest, AnswersMayComeLater) {
  std::optional<Attempt> open;
  retry(timer_, kExact, [&](Attempt attempt) { open.emplace(std::move(attempt)); }, keep_outcome());
  time_.advance(10s);
  EXPECT_EQ(timer_.pending(), 0U) << "no wait while an attempt is under way";
  open->fail();
  open.reset();
  time_.advance(1s);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->number(), 2U);
  open->succeed();
  EXPECT_EQ(outcome_->attempts, 2U);
}

TEST_F(RetryTest, CancelBetweenAttemptsReleasesEverything) {
  const auto owned = std::make_shared<int>(1);
  RetryHandle handle = retry(
      timer_, kExact, [owned](Attempt attempt) { attempt.fail(); },
      [owned](const RetryOutcome&) { FAIL() << "cancelled"; });
  EXPECT_EQ(handle.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(owned.use_count(), 1) << "though the handle is kept";
  EXPECT_EQ(timer_.pending(), 0U);
  EXPECT_EQ(handle.cancel(), CancelResult::kNotFound);
  EXPECT_EQ(RetryHandle().cancel(), CancelResult::kNotFound);
}

TEST_F(RetryTest, CancelDuringAnAttemptIgnoresItsAnswer) {
  std::optional<Attempt> open;
  RetryHandle handle = retry(
      timer_, kExact, [&](Attempt attempt) { open.emplace(std::move(attempt)); }, keep_outcome());
  EXPECT_EQ(handle.cancel(), CancelResult::kRunning);
  open->fail();
  time_.advance(1h);
  EXPECT_EQ(ends_, 0);
}

TEST_F(RetryTest, WhatItOwnsIsReleasedAtTheEndThoughTheHandleIsKept) {
  const auto owned = std::make_shared<int>(1);
  const RetryHandle handle = retry(
      timer_, kExact, [owned](Attempt attempt) { attempt.succeed(); },
      [owned](const RetryOutcome&) {});
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(RetryTest, FirstAttemptThatThrowsEndsItAndALaterOneHasFailed) {
  EXPECT_THROW(
      retry(
          timer_, kExact, [](Attempt) { throw std::runtime_error("first"); }, keep_outcome()),
      std::runtime_error);
  time_.advance(1h);
  EXPECT_EQ(ends_, 0);

  int thrown = 0;
  TimerOptions options;
  options.on_exception = [&](const std::exception_ptr&) { ++thrown; };
  Timer other(time_.options(options));
  retry(
      other, kExact,
      [&](Attempt attempt) {
        if (attempt.number() == 2) throw std::runtime_error("second");
        attempt.number() == 3 ? attempt.succeed() : attempt.fail();
      },
      keep_outcome());
  time_.advance(1h);
  EXPECT_EQ(thrown, 1);
  EXPECT_TRUE(outcome_.value().succeeded());
  EXPECT_EQ(outcome_->attempts, 3U);
}

TEST_F(RetryTest, AStoppedTimerRefusesTheNextWait) {
  std::optional<Attempt> open;
  retry(timer_, kExact, [&](Attempt attempt) { open.emplace(std::move(attempt)); }, keep_outcome());
  timer_.stop();
  open->fail();
  EXPECT_EQ(outcome_.value().end, RetryEnd::kRefused);
  EXPECT_EQ(outcome_->attempts, 1U);
}

TEST_F(RetryTest, StopWhileWaitingDestroysDoneUncalled) {
  const auto owned = std::make_shared<int>(1);
  retry(
      timer_, kExact, [](Attempt attempt) { attempt.fail(); },
      [owned](const RetryOutcome&) { FAIL(); });
  timer_.stop();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(RetryTest, AnsweringTwiceStopsTheProgram) {
  EXPECT_DEATH(retry(
                   timer_, kExact,
                   [](Attempt attempt) {
                     attempt.succeed();
                     attempt.fail();
                   },
                   keep_outcome()),
               "answered twice");
}

// On a pool of threads with no wait at all: attempts of one retry do not overlap, and each ends
// once, cancelled or not.
TEST(RetryStress, AttemptsNeverOverlapAndEachEndsOnce) {
  constexpr int kRetries = 2'000;
  std::atomic<int> ended{0};
  std::atomic<int> cancelled{0};
  std::atomic<int> overlaps{0};
  {
    Timer timer;
    std::vector<RetryHandle> handles;
    for (int i = 0; i < kRetries; ++i) {
      const auto inside = std::make_shared<std::atomic<int>>(0);
      handles.push_back(retry(
          timer, {.first = Span(0), .most = Span(0), .jitter = Jitter::kNone, .max_attempts = 4},
          [inside, &overlaps](Attempt attempt) {
            overlaps += inside->fetch_add(1);
            attempt.fail();  // and goes on for a while
            for (int spin = 0; spin < 200; ++spin)
              std::atomic_signal_fence(std::memory_order_seq_cst);
            inside->fetch_sub(1);
          },
          [&](const RetryOutcome& outcome) {
            EXPECT_EQ(outcome.end, RetryEnd::kAttempts);
            EXPECT_EQ(outcome.attempts, 4U);
            ++ended;
          }));
      if (i % 3 == 0) {
        cancelled += handles.back().cancel() != CancelResult::kNotFound ? 1 : 0;
      }
    }
    while (ended + cancelled < kRetries) std::this_thread::yield();
  }
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(ended + cancelled, kRetries);
  EXPECT_GT(ended, kRetries / 2);
}

// Threads that answer whatever attempts there are, in any way and late, and cancel: each retry
// either calls `done` once, or has been cancelled and never does; and gives up what it owned.
TEST(RetryStress, EachIsDoneOrCancelledThoughAnswersAndCancelsCross) {
  constexpr int kThreads = 4;
  constexpr int kRetries = 500;
  struct Call {
    std::atomic<int> done{0};
    std::atomic<int> cancelled{0};
    std::atomic<bool> released{false};
  };
  struct Owned {
    Call* of;
    ~Owned() { of->released = true; }
  };
  std::vector<Call> calls(std::size_t{kThreads} * kRetries);
  {
    Timer timer({.tick = 50us});
    Mutex mutex;
    std::vector<Attempt> open;
    const auto take = [&] {
      const MutexLock lock(mutex);
      return std::exchange(open, {});
    };
    const auto is_over = [](const Call& call) { return call.done + call.cancelled > 0; };
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random random(t + 1);
        std::vector<RetryHandle> handles;
        std::vector<Call*> mine;
        for (std::size_t i = 0; i < kRetries; ++i) {
          Call* call = &calls[t * kRetries + i];
          mine.push_back(call);
          const auto owned = std::make_shared<Owned>(call);
          handles.push_back(retry(
              timer, {.first = 100us, .most = 400us, .max_attempts = 0, .seed = random()},
              [&, owned](Attempt attempt) {
                const MutexLock lock(mutex);
                open.push_back(std::move(attempt));
              },
              [call, owned](const RetryOutcome&) { ++call->done; }));
          for (Attempt& attempt : take()) {
            switch (random.between(0, 5)) {
              case 0: attempt.succeed(); break;
              case 1: attempt.give_up(); break;
              case 2: break;  // lost: it has failed
              default: attempt.fail();
            }
          }
          const auto any = random.below(handles.size());
          if (random.one_in(4) && handles[any].cancel() != CancelResult::kNotFound) {
            ++mine[any]->cancelled;
          }
        }
        while (!std::all_of(mine.begin(), mine.end(), [&](Call* call) { return is_over(*call); })) {
          for (Attempt& attempt : take()) attempt.succeed();
          std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(timer.stop().empty());
  }
  int done = 0;
  for (const Call& call : calls) {
    EXPECT_EQ(call.done + call.cancelled, 1);
    EXPECT_TRUE(call.released);
    done += call.done;
  }
  EXPECT_GT(done, 0);
  EXPECT_LT(done, kThreads * kRetries) << "some were cancelled";
}

}  // namespace
}  // namespace carillon
