// SPDX-License-Identifier: Apache-2.0
// Limits, pause, drain, the calendar, statistics, a loop of one's own, fork.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::FakeTimer;
using testing::QueueExecutor;

// D4: producers without end.
TEST(TimerLimit, IsExactAndFreedByCancelAndByFiring) {
  for (const unsigned shards : {1U, 16U}) {
    FakeTimer fake({.max_pending = 100, .shards = shards});
    std::vector<TimerHandle> handles;
    for (int i = 0; i < 100; ++i) {
      handles.push_back(fake.timer.after(milliseconds(10 + i), [] {}));
      ASSERT_TRUE(handles.back()) << i;
    }
    const auto refused = fake.timer.after(seconds(1), [] { FAIL(); });
    EXPECT_EQ(refused.refusal(), Refusal::kLimit);
    EXPECT_EQ(fake.timer.every(seconds(1), [] {}).refusal(), Refusal::kLimit);
    EXPECT_EQ(fake.timer.keyed(1).after(seconds(1), [] {}).refusal(), Refusal::kLimit);
    EXPECT_EQ(fake.timer.stats().rejected, 3U);
    handles[50].cancel();
    EXPECT_TRUE(fake.timer.after(seconds(1), [] {}));
    EXPECT_FALSE(fake.timer.after(seconds(1), [] {}));
    fake.advance(milliseconds(20));  // Eleven have fired.
    for (int i = 0; i < 11; ++i) {
      EXPECT_TRUE(fake.timer.after(seconds(1), [] {})) << i;
    }
    EXPECT_FALSE(fake.timer.after(seconds(1), [] {}));
    EXPECT_EQ(fake.timer.pending(), 100U);
  }
}

TEST(TimerLimit, IsExactOverThreads) {
  TimerOptions options;
  options.max_pending = 5000;
  Timer timer(options);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3000; ++i) {
        const auto handle = timer.after(hours(1), [] {});
        if (handle && i % 3 == 0) {
          handle.cancel();
        } else {
          taken += handle ? 1 : 0;
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  while (timer.after(hours(1), [] {})) {
    ++taken;
  }
  EXPECT_EQ(taken, 5000);
  EXPECT_EQ(timer.pending(), 5000U);
}

TEST(TimerPause, WhatComesDueMeanwhileFiresOnResume) {
  FakeTimer fake;
  int ran = 0;
  fake.timer.after(seconds(1), [&] { ++ran; });
  fake.timer.pause();
  fake.clock.advance(seconds(2));
  fake.timer.poll();
  EXPECT_EQ(ran, 0);
  fake.timer.after(seconds(1), [&] { ++ran; });
  fake.timer.resume();
  fake.timer.poll();
  EXPECT_EQ(ran, 1);
  fake.advance(seconds(1));
  EXPECT_EQ(ran, 2);
}

TEST(TimerPause, ResumeWakesTheDriver) {
  std::latch ran(1);
  Timer timer;
  timer.pause();
  timer.after(microseconds(1), [&] { ran.count_down(); });
  timer.resume();
  ran.wait();
}

TEST(TimerDrain, FiresWhatIsPendingAndRefusesWhatComes) {
  std::atomic<int> ran{0};
  std::atomic<int> refused{0};
  std::atomic<int> ticks{0};
  Timer timer;
  for (int i = 0; i < 100; ++i) {
    timer.after(milliseconds(i / 10), [&] {
      ++ran;
      refused += timer.after(milliseconds(1), [] { FAIL(); }) ? 0 : 1;
    });
  }
  timer.every(milliseconds(1), [&] { ++ticks; });
  const auto unfired = timer.drain(minutes(5));
  EXPECT_EQ(ran, 100);
  EXPECT_EQ(unfired.size(), 1U);  // The periodic one.
  EXPECT_GT(refused, 0);          // Those that ran after it began.
  EXPECT_EQ(timer.after(seconds(1), [] {}).refusal(), Refusal::kStopped);
}

TEST(TimerDrain, EndsInTimeAndReturnsTheRest) {
  std::atomic<bool> ran{false};
  Timer timer;
  timer.after(milliseconds(1), [&] { ran = true; });
  timer.after(hours(1), [] { FAIL(); });
  const auto unfired = timer.drain(milliseconds(50));
  EXPECT_EQ(unfired.size(), 1U);
}

TEST(TimerStop, InACallbackDoesNotWaitForThat) {
  std::latch stopped(1);
  std::atomic<std::size_t> unfired{0};
  Timer timer;
  timer.after(hours(1), [] { FAIL(); });
  timer.after(microseconds(1), [&] {
    unfired = timer.stop().size();
    stopped.count_down();
  });
  stopped.wait();
  EXPECT_EQ(unfired, 1U);
  EXPECT_EQ(timer.after(seconds(1), [] {}).refusal(), Refusal::kStopped);
}

// B15: threads enter and leave while it is shut down.
TEST(TimerStop, NeverHangsWhileOthersScheduleAndFire) {
  for (int round = 0; round < 300; ++round) {
    Timer timer({.tick = microseconds(10)});
    std::atomic<bool> go{true};
    std::thread producer([&] {
      while (go) {
        timer.after(microseconds(1), [] {});
      }
    });
    timer.after(Span(0), [] {});
    const auto unfired = timer.stop();
    go = false;
    producer.join();
    EXPECT_EQ(timer.pending(), 0U);
    const TimerStats stats = timer.stats();
    EXPECT_EQ(stats.scheduled, stats.fired + stats.cancelled);
  }
}

// ------------------------------------------------------------------------------ the calendar

struct Calendars {
  Calendars() {
    TimerOptions options;
    options.clock = ClockKind::kWall;
    options.custom_clock = &clock;
    options.custom_calendar = &calendar;
    timer.emplace(options);
  }
  void pass(Span span) {
    for (Span step = milliseconds(100); span > Span::zero(); span -= step) {
      step = std::min(step, span);
      clock.advance(step);
      calendar.set(calendar.now() + step);
      timer->poll();
    }
  }
  [[nodiscard]] Span elapsed() const { return clock.now() - FakeTimer::kStart; }

  ManualClock clock{FakeTimer::kStart};
  ManualCalendar calendar{WallTime(hours(24 * 365 * 50))};
  std::optional<PollTimer> timer;
};

TEST(TimerCalendar, FollowsTheDateWhenItIsSet) {
  Calendars c;
  std::vector<Span> fired;
  const auto note = [&] { fired.push_back(c.elapsed()); };
  const WallTime noon = c.calendar.now() + hours(1);
  const auto handle = c.timer->at(noon, note);
  c.pass(seconds(10));
  c.calendar.set(c.calendar.now() + minutes(50));
  c.pass(minutes(5));
  EXPECT_TRUE(fired.empty());
  c.calendar.set(c.calendar.now() - hours(2));
  c.pass(minutes(6));
  EXPECT_TRUE(fired.empty());
  EXPECT_EQ(handle.state(), TimerState::kPending);
  c.calendar.set(noon);
  c.pass(milliseconds(100));
  EXPECT_EQ(fired.size(), 1U);
}

// C3: a 5 s periodic job; the date is set back by an hour.
TEST(TimerCalendar, PeriodsAndDelaysDoNotFollowTheDate) {
  Calendars c;
  int runs = 0;
  bool fired = false;
  c.timer->every(seconds(5), [&] { ++runs; });
  c.timer->after(minutes(1), [&] { fired = true; });
  c.pass(seconds(7));
  c.calendar.set(c.calendar.now() - hours(1));
  c.pass(seconds(33));
  EXPECT_EQ(runs, 8);
  c.calendar.set(c.calendar.now() + hours(100));
  c.pass(seconds(19));
  EXPECT_FALSE(fired);
  EXPECT_EQ(runs, 11);
  c.pass(seconds(1));
  EXPECT_TRUE(fired);
}

TEST(TimerCalendar, IsRefusedByOtherClocks) {
  FakeTimer fake;
  EXPECT_EQ(fake.timer.at(WallTime(hours(1)), [] {}).refusal(), Refusal::kNoCalendar);
}

TEST(TimerCalendar, OfTheSystem) {
  TimerOptions options;
  options.clock = ClockKind::kWall;
  std::latch ran(3);
  Timer timer(options);
  timer.at(SystemCalendar().now() + milliseconds(2), [&] { ran.count_down(); });
  timer.at(WallTime(hours(1)), [&] { ran.count_down(); });  // In 1970.
  timer.after(milliseconds(1), [&] { ran.count_down(); });
  ran.wait();
}

// C1: the machine is suspended for 15 s; the boot clock goes on, the monotonic one does not.
TEST(TimerClock, SuspensionCountsByTheBootClockOnly) {
  for (const bool boot : {true, false}) {
    FakeTimer fake;
    std::optional<Span> fired;
    fake.timer.after(seconds(60), [&] { fired = fake.elapsed(); });
    fake.advance(seconds(40));
    if (boot) {
      fake.advance(seconds(15));
      fake.advance(seconds(5));
      EXPECT_EQ(fired, seconds(60));
    } else {
      fake.advance(seconds(19));
      EXPECT_FALSE(fired);
      fake.advance(seconds(1));  // 75 s of real time.
      EXPECT_EQ(fired, seconds(60));
    }
  }
}

TEST(TimerClock, TheBootClockDrivesAThreadToo) {
  TimerOptions options;
  options.clock = ClockKind::kBoot;
  Timer timer(options);
  timer.after(hours(1), [] {});
  for (int i = 0; i < 20; ++i) {
    std::latch ran(1);
    timer.after(microseconds(i), [&] { ran.count_down(); });
    ran.wait();
  }
}

// ------------------------------------------------------------------------------ a loop of one's
// own

TEST(PollTimer, ItsDescriptorIsReadableWhenItIsToBePolled) {
  for (const ClockKind clock : {ClockKind::kSteady, ClockKind::kBoot}) {
    PollTimer timer({.clock = clock});
    pollfd polled{timer.fd(), POLLIN, 0};
    timer.poll();
    EXPECT_EQ(::poll(&polled, 1, 0), 0);
    bool ran = false;
    timer.after(hours(1), [] {});
    EXPECT_EQ(::poll(&polled, 1, 0), 1);  // It is to sleep until then.
    timer.poll();
    EXPECT_EQ(::poll(&polled, 1, 0), 0);
    std::thread other([&] { timer.after(milliseconds(1), [&] { ran = true; }); });
    other.join();
    while (!ran) {
      ASSERT_EQ(::poll(&polled, 1, 60'000), 1);
      timer.poll();
    }
    EXPECT_EQ(::poll(&polled, 1, 0), 0);
  }
}

TEST(PollTimer, SaysWhenToPollNext) {
  FakeTimer fake;
  EXPECT_EQ(fake.timer.next_deadline(), std::nullopt);
  fake.timer.after(microseconds(1500), [] {});
  EXPECT_EQ(fake.timer.next_deadline(), FakeTimer::kStart + milliseconds(2));
}

// ------------------------------------------------------------------------------ statistics

TEST(TimerStats, CountsAndHistograms) {
  std::vector<std::string> lines;
  ManualClock clock(FakeTimer::kStart);
  TimerOptions options;
  options.custom_clock = &clock;
  options.slow_callback = milliseconds(100);
  options.log = [&](std::string_view line) { lines.emplace_back(line); };
  PollTimer timer(options);
  timer.after(milliseconds(1), [&] { clock.advance(milliseconds(500)); });
  timer.after(milliseconds(1), [&] { clock.advance(milliseconds(300)); });
  timer.after(milliseconds(2), [] { throw std::runtime_error("no"); });
  timer.after(hours(1), [] {});
  const auto cancelled = timer.after(hours(1), [] {});
  cancelled.cancel();
  clock.advance(milliseconds(2));
  timer.poll();
  const TimerStats stats = timer.stats();
  EXPECT_EQ(stats.scheduled, 5U);
  EXPECT_EQ(stats.fired, 3U);
  EXPECT_EQ(stats.cancelled, 1U);
  EXPECT_EQ(stats.pending, 1U);
  EXPECT_EQ(stats.exceptions, 1U);
  EXPECT_EQ(stats.slow, 2U);
  EXPECT_EQ(stats.lateness.count, 3U);
  EXPECT_EQ(stats.lateness.sum, milliseconds(1 + 501 + 800));
  EXPECT_EQ(stats.callback_time.sum, milliseconds(800));
  EXPECT_GE(stats.lateness.quantile(0.99), milliseconds(800));
  EXPECT_LE(stats.lateness.quantile(0.1), milliseconds(2));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("500 ms"), std::string::npos);
  EXPECT_NE(lines[1].find("no"), std::string::npos);

  const auto levels = timer.level_population();
  std::size_t sum = 0;
  for (const std::size_t level : levels) {
    sum += level;
  }
  EXPECT_EQ(sum, 1U);

  const std::string text = to_prometheus(stats, "a\"b");
  EXPECT_NE(text.find("# TYPE carillon_timer_fired_total counter\n"
                      "carillon_timer_fired_total{timer=\"a\\\"b\"} 3\n"),
            std::string::npos);
  EXPECT_NE(text.find("carillon_timer_lateness_seconds_bucket{timer=\"a\\\"b\",le=\"+Inf\"} 3\n"),
            std::string::npos);
  EXPECT_NE(text.find("carillon_timer_callback_seconds_sum{timer=\"a\\\"b\"} 0.8\n"),
            std::string::npos);
}

TEST(TimerStats, BucketsAreBounds) {
  EXPECT_EQ(TimerHistogram::bucket_of(Span(0)), 0U);
  EXPECT_EQ(TimerHistogram::bucket_of(microseconds(1)), 0U);
  for (std::size_t i = 1; i + 1 < TimerHistogram::kBuckets; ++i) {
    EXPECT_EQ(TimerHistogram::bucket_of(TimerHistogram::bound(i)), i);
    EXPECT_EQ(TimerHistogram::bucket_of(TimerHistogram::bound(i) + Span(1)), i + 1);
  }
  EXPECT_EQ(TimerHistogram::bucket_of(kForever), TimerHistogram::kBuckets - 1);
  EXPECT_EQ(TimerHistogram{}.quantile(0.5), Span::zero());
}

TEST(TimerStats, ManyTimersAreToldOnce) {
  std::vector<std::string> lines;
  TimerOptions options;
  options.many_timers = 3;
  options.log = [&](std::string_view line) { lines.emplace_back(line); };
  std::vector<std::unique_ptr<Timer>> timers;
  for (int i = 0; i < 5; ++i) {
    timers.push_back(std::make_unique<Timer>(options));
  }
  EXPECT_EQ(lines.size(), 1U);
}

// ------------------------------------------------------------------------------ fork

// It lets no process start a thread that has been forked from one with several.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CARILLON_TEST_WITH_TSAN 1
#endif
#endif
#if defined(CARILLON_TEST_WITH_TSAN)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

TEST(TimerFork, InTheChildItRefusesAndAnotherWorks) {
  std::latch ran(1);
  Timer timer;
  const auto handle = timer.after(hours(1), [] {});
  timer.after(microseconds(1), [&] { ran.count_down(); });
  ran.wait();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int wrong = 0;
    wrong |= timer.after(seconds(1), [] {}).refusal() == Refusal::kStopped ? 0 : 1;
    wrong |= handle.cancel() == CancelResult::kNotFound ? 0 : 2;
    wrong |= timer.stop().empty() ? 0 : 4;
    wrong |= timer.pending() == 0 ? 0 : 8;
    if (!kThreadSanitizer) {
      Timer own;
      std::latch done(1);
      own.after(microseconds(1), [&] { done.count_down(); });
      done.wait();
    }
    _exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(handle.state(), TimerState::kPending);
}

// ------------------------------------------------------------------------------ the test kit

TEST(ManualDriver, CallbacksRunInOrderOfDeadlinesOverAllTimersAndSeeTheirTime) {
  ManualDriver time;
  Timer coarse(time.options({.tick = seconds(1)}));
  Timer fine(time.options());
  std::vector<std::pair<char, Span>> ran;
  const auto note = [&](char name) {
    return [&, name] { ran.emplace_back(name, time.now() - ManualDriver::kStart); };
  };
  coarse.after(milliseconds(1200), note('c'));
  fine.after(milliseconds(1200), note('f'));
  fine.after(milliseconds(2500), note('l'));
  fine.after(milliseconds(10), [&] { coarse.after(milliseconds(500), note('n')); });
  time.advance(hours(1));
  EXPECT_EQ(ran, (std::vector<std::pair<char, Span>>{{'n', seconds(1)},
                                                     {'f', milliseconds(1200)},
                                                     {'c', seconds(2)},
                                                     {'l', milliseconds(2500)}}));
  EXPECT_EQ(time.now(), ManualDriver::kStart + hours(1));
}

TEST(ManualDriver, WaitsForTimersThatOtherThreadsSchedule) {
  ManualDriver time;
  Timer timer(time.options());
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { timer.after(seconds(1), [&] { ++ran; }); });
  }
  time.wait_until_armed(4);
  time.advance(seconds(1));
  EXPECT_EQ(ran, 4);
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(ManualDriver, WaitsForCallbacksOnAnExecutor) {
  ManualDriver time;
  Timer timer(time.options({.executor = std::make_shared<ThreadPoolExecutor>(
                                ThreadPoolOptions{.threads = 2, .capacity = 4})}));
  std::atomic<int> ran{0};
  std::atomic<int> wrong{0};
  for (int i = 1; i <= 50; ++i) {
    for (int j = 0; j < 10; ++j) {
      timer.after(milliseconds(i), [&, i] {
        ++ran;
        wrong += time.now() - ManualDriver::kStart == milliseconds(i) ? 0 : 1;
      });
    }
  }
  time.advance(milliseconds(25));
  EXPECT_EQ(ran, 250);
  time.advance(seconds(1));
  EXPECT_EQ(ran, 500);
  EXPECT_EQ(wrong, 0);
}

TEST(ManualDriver, ATimerMayBeMadeAndDestroyedInACallback) {
  ManualDriver time;
  auto doomed = std::make_unique<Timer>(time.options());
  std::unique_ptr<Timer> made;
  bool ran = false;
  doomed->after(seconds(9), [] { FAIL(); });
  Timer timer(time.options());
  timer.after(seconds(1), [&] {
    doomed.reset();
    made = std::make_unique<Timer>(time.options());
    made->after(seconds(1), [&] { ran = true; });
  });
  time.advance(seconds(20));
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace carillon
