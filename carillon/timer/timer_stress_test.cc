// SPDX-License-Identifier: Apache-2.0
// Many threads schedule, cancel and reschedule at random while timers fire: each timer fires
// exactly once, or is cancelled exactly once, and none fires for a time that it was moved away
// from.
//
// CARILLON_STRESS_OPERATIONS=N does N operations; 3 million otherwise, 300 thousand under the
// thread sanitizer. CARILLON_STRESS_SEED=S is another seed. It says on its last line what it did.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/timer/poll_timer.h"
#include "carillon/timer/timer.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CARILLON_TEST_WITH_TSAN 1
#endif
#endif
#if defined(CARILLON_TEST_WITH_TSAN)
constexpr std::uint64_t kDefaultOperations = 300'000;
#else
constexpr std::uint64_t kDefaultOperations = 3'000'000;
#endif

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// What has become of a timer.
struct Fate {
  std::atomic<std::uint32_t> fired{0};
  std::atomic<std::uint32_t> cancelled{0};
  std::atomic<std::uint32_t> alive{0};  // Callbacks that are not destroyed.
  std::atomic<std::int64_t> fired_at{0};
  // Not to fire before; written by the one thread that moves it.
  std::int64_t earliest = 0;
};

// Its callback: large enough not to lie inside for half of them.
template <std::size_t kSize>
class Callback {
 public:
  Callback(Timer& timer, Fate& fate) : timer_(&timer), fate_(&fate) { ++fate.alive; }
  Callback(Callback&& other) noexcept
      : timer_(other.timer_), fate_(std::exchange(other.fate_, nullptr)) {}
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  Callback& operator=(Callback&&) = delete;
  ~Callback() {
    if (fate_ != nullptr) {
      --fate_->alive;
    }
  }
  void operator()() {
    fate_->fired_at.store(timer_->now().time_since_epoch().count(), std::memory_order_relaxed);
    ++fate_->fired;
  }

 private:
  Timer* timer_;
  Fate* fate_;
  [[maybe_unused]] std::array<char, kSize> padding_{};
};

struct Scheduled {
  TimerHandle handle;
  std::size_t fate = 0;
};

struct Round {
  static constexpr int kThreads = 4;
  static constexpr std::size_t kTimers = 100'000;

  explicit Round(const TimerOptions& options, std::uint64_t the_seed)
      : fates(kTimers), seed(the_seed) {
    timer.emplace(options);
  }

  TimerHandle schedule(Random& random, Fate& fate) {
    const Span delay = microseconds(random.one_in(4) ? random.below(50) : random.below(3000));
    fate.earliest = (timer->now() + delay).time_since_epoch().count();
    return random.one_in(2) ? timer->after(delay, Callback<8>(*timer, fate))
                            : timer->after(delay, Callback<40>(*timer, fate));
  }

  void cancel(const Scheduled& scheduled) {
    const bool gone = scheduled.handle.cancel() == CancelResult::kCancelled;
    Fate& fate = fates[scheduled.fate];
    if (gone) {
      ++fate.cancelled;
      EXPECT_EQ(fate.alive, 0U) << "cancelled, and not released";
    }
  }

  void move(Random& random, const Scheduled& scheduled) {
    const Span delay = microseconds(random.below(3000));
    const std::int64_t from = timer->now().time_since_epoch().count();
    if (scheduled.handle.reschedule(delay) == RescheduleResult::kRescheduled) {
      fates[scheduled.fate].earliest = from + delay.count();
    }
  }

  // A thread: half of its timers others cancel, the rest it cancels or moves itself.
  void work(int number) {
    Random random(seed * kThreads + static_cast<std::uint64_t>(number));
    std::vector<Scheduled> mine;
    const std::size_t share = kTimers / kThreads;
    for (std::size_t i = 0; i < share; ++i) {
      const std::size_t fate = static_cast<std::size_t>(number) * share + i;
      mine.push_back({schedule(random, fates[fate]), fate});
      ++operations;
      if (random.one_in(2)) {
        const Scheduled& one = mine[random.below(mine.size())];
        random.one_in(2) ? cancel(one) : move(random, one);
        ++operations;
      }
      if (mine.size() == 64) {
        const std::lock_guard<std::mutex> lock(mutex);
        mine.swap(exchanged[random.below(exchanged.size())]);
      }
    }
    for (const Scheduled& one : mine) {
      cancel(one);
      ++operations;
    }
  }

  void run() {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this, t] { work(t); });
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }

  void check() {
    // Those that are neither fired nor cancelled are pending still: all are taken back.
    const TimerStats before = timer->stats();
    EXPECT_EQ(before.scheduled, before.pending + before.cancelled + before.fired);
    const std::size_t unfired = timer->stop().size();
    const TimerStats stats = timer->stats();
    EXPECT_EQ(stats.pending, 0U);
    EXPECT_EQ(stats.scheduled, kTimers);
    timer.reset();
    std::uint64_t fired = 0;
    std::uint64_t cancelled = 0;
    std::size_t neither = 0;
    for (const Fate& fate : fates) {
      fired += fate.fired;
      cancelled += fate.cancelled;
      neither += fate.fired + fate.cancelled == 0 ? 1 : 0;
      ASSERT_LE(fate.fired + fate.cancelled, 1U);
      ASSERT_EQ(fate.alive, 0U);
      ASSERT_TRUE(fate.fired == 0 || fate.fired_at >= fate.earliest)
          << fate.earliest - fate.fired_at << " ns early";
    }
    EXPECT_EQ(neither, unfired);
    EXPECT_EQ(fired, stats.fired);
    EXPECT_EQ(cancelled + unfired, stats.cancelled);
  }

  std::optional<Timer> timer;
  std::vector<Fate> fates;
  std::uint64_t seed;
  std::mutex mutex;
  std::array<std::vector<Scheduled>, 16> exchanged;
  std::atomic<std::uint64_t> operations{0};
};

TimerOptions options_of(std::uint64_t round) {
  TimerOptions options;
  options.tick = round % 2 == 0 ? microseconds(10) : microseconds(200);
  options.batch = round % 3 == 0 ? 3 : 128;
  options.shards = static_cast<unsigned>(1U << round % 5);
  options.pool.capacity = round % 4 == 0 ? 8 : 1024;
  options.slow_callback = Span::zero();
  if (round % 5 == 3) {
    options.executor = inline_executor();
  }
  if (round % 5 == 4) {
    options.clock = ClockKind::kBoot;
  }
  if (round % 3 == 2) {
    options.max_pending = Round::kTimers;
  }
  return options;
}

TEST(TimerStress, EachTimerFiresOnceOrIsCancelledOnce) {
  const std::uint64_t wanted = from_environment("CARILLON_STRESS_OPERATIONS", kDefaultOperations);
  const std::uint64_t seed = from_environment("CARILLON_STRESS_SEED", 1);
  std::uint64_t done = 0;
  std::uint64_t round = 0;
  for (; done < wanted && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    Round one(options_of(round), seed + round);
    one.run();
    one.check();
    done += one.operations;
  }
  std::printf("%llu operations in %llu rounds, seed %llu\n", static_cast<unsigned long long>(done),
              static_cast<unsigned long long>(round), static_cast<unsigned long long>(seed));
}

// A12, with threads: what is earlier is not held up by an hour. It hangs if a wake-up is missed.
TEST(TimerStress, AnEarlierDeadlineIsNeverMissed) {
  const std::uint64_t rounds =
      from_environment("CARILLON_STRESS_OPERATIONS", kDefaultOperations) / 150;
  Timer timer({.tick = microseconds(10), .executor = inline_executor()});
  timer.after(hours(1), [] {});
  Random random(12);
  std::atomic<std::uint64_t> ran{0};
  for (std::uint64_t i = 0; i < rounds; ++i) {
    timer.after(microseconds(random.below(40)), [&] {
      ++ran;
      ran.notify_one();
    });
    for (std::uint64_t spin = random.below(2000); spin > 0; --spin) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    if (random.one_in(3)) {
      ran.wait(i);
    }
  }
  for (std::uint64_t seen = ran; seen != rounds; seen = ran) {
    ran.wait(seen);
  }
}

// B12: who has cancelled may free what the callback used; the sanitizers watch.
TEST(TimerStress, WhatACancelledCallbackUsedMayBeFreed) {
  Timer timer({.tick = microseconds(10)});
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    auto used = std::make_unique<int>(i);
    std::atomic<bool> ran{false};
    const auto handle = timer.after(microseconds(random.below(30)), [p = used.get(), &ran] {
      ++*p;
      ran = true;
      ran.notify_one();
    });
    for (std::uint64_t spin = random.below(20'000); spin > 0; --spin) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    if (handle.cancel() == CancelResult::kCancelled) {
      used.reset();
      ASSERT_FALSE(ran);
    } else {
      while (handle.state() == TimerState::kRunning || !ran) {
        ran.wait(false);
      }
    }
  }
}

// The memory of a Timer that is gone is another's, while others still hold its handles.
TEST(TimerStress, HandlesOfTimersThatAreGoneNameNothing) {
  std::array<std::atomic<const TimerHandle*>, 8> shared{};
  std::vector<std::unique_ptr<TimerHandle>> kept;
  std::atomic<bool> go{true};
  std::atomic<int> wrong{0};
  std::thread other([&] {
    Random random(1);
    while (go) {
      if (const TimerHandle* handle = shared[random.below(shared.size())].load()) {
        // Each is of a Timer that has been stopped.
        wrong += handle->cancel() == CancelResult::kCancelled ? 1 : 0;
        wrong += handle->reschedule(milliseconds(1)) == RescheduleResult::kRescheduled ? 1 : 0;
        wrong += handle->state() == TimerState::kPending ? 1 : 0;
      }
    }
  });
  for (int i = 0; i < 500; ++i) {
    auto handle = std::make_unique<TimerHandle>();
    {
      Timer timer({.tick = i % 2 == 0 ? milliseconds(1) : microseconds(100)});
      *handle = timer.after(hours(1), [] {});
      timer.after(Span(0), [] {});
      timer.stop();
      shared[static_cast<std::size_t>(i) % shared.size()] = handle.get();
    }
    kept.push_back(std::move(handle));
  }
  go = false;
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace carillon
