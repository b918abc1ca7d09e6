// SPDX-License-Identifier: Apache-2.0
// Where a Timer meets what is not its own: a fork, an executor that is full or cannot start, a
// stop() within a callback, a thread that never lets go of a lock.

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <clocale>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "carillon/timer/internal/spin_lock.h"
#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeTimer;
using testing::QueueExecutor;

// ------------------------------------------------------------------------------ fork

// The descriptor that the core of a Timer that is gone keeps for the next one is the parent's.
TEST(TimerFork, TheChildUsesNoDescriptorOfTheParent) {
  for (const ClockKind clock : {ClockKind::kSteady, ClockKind::kBoot}) {
    {
      PollTimer first({.clock = clock});
      ASSERT_GE(first.fd(), 0);
    }
    int begin[2];
    ASSERT_EQ(pipe(begin), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      char byte = 0;
      int wrong = ::read(begin[0], &byte, 1) == 1 ? 0 : 1;
      PollTimer own({.clock = clock});
      wrong |= own.fd() >= 0 ? 0 : 2;
      own.after(hours(1), [] {});
      own.poll();  // Has its descriptor readable in an hour.
      _exit(wrong);
    }
    PollTimer timer({.clock = clock});
    pollfd polled{timer.fd(), POLLIN, 0};
    timer.after(hours(1), [] {});
    EXPECT_EQ(::poll(&polled, 1, 0), 1);  // It is to be polled, to sleep until then.
    ASSERT_EQ(::write(begin[1], "x", 1), 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(::poll(&polled, 1, 0), 1);
    ::close(begin[0]);
    ::close(begin[1]);
  }
}

// ------------------------------------------------------------------------------ stop()

// Whoever is the last to use what the callback uses waits for it, although the first stop() was in
// that callback and did not.
TEST(TimerStop, AfterOneInACallbackAnotherWaitsForThatCallback) {
  const auto pool = std::make_shared<ThreadPoolExecutor>();
  for (const std::shared_ptr<Executor>& executor :
       {std::shared_ptr<Executor>(), inline_executor(), std::shared_ptr<Executor>(pool)}) {
    for (int how = 0; how < 3; ++how) {
      std::latch stopped(1);
      std::atomic<bool> waiting{false};
      std::atomic<bool> over{false};
      auto timer = std::make_unique<Timer>(TimerOptions{.executor = executor});
      Timer* const used = timer.get();
      timer->after(microseconds(1), [&, used] {
        how == 2 ? used->drain(hours(1)) : used->stop();
        stopped.count_down();
        while (!waiting) {
          std::this_thread::yield();
        }
        // Time enough for one that does not wait to be found out.
        for (int i = 0; i < 1000; ++i) {
          std::this_thread::yield();
        }
        over = true;
      });
      stopped.wait();
      waiting = true;
      if (how == 0) {
        timer.reset();
      } else {
        timer->stop();
      }
      EXPECT_TRUE(over) << how;
      timer.reset();
    }
  }
}

// ------------------------------------------------------------------------------ executors

// While there is one, no thread can be started: its stack would be larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 47);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

TEST(ThreadPool, WithoutAThreadScheduleThrowsAndSchedulesNothing) {
  // On a clock of its own, so that the thread that is missing is the pool's.
  FakeTimer fake({.executor = std::make_shared<ThreadPoolExecutor>()});
  {
    const NoThreads no_threads;
    EXPECT_THROW(fake.timer.after(seconds(1), [] { FAIL(); }), std::system_error);
    EXPECT_THROW(fake.timer.every(seconds(1), [] { FAIL(); }), std::system_error);
    EXPECT_THROW(fake.timer.keyed(1).after(seconds(1), [] { FAIL(); }), std::system_error);
    Timer timer;
    EXPECT_THROW(timer.after(seconds(1), [] { FAIL(); }), std::system_error);
    EXPECT_EQ(timer.pending(), 0U);
  }
  EXPECT_EQ(fake.timer.pending(), 0U);
  std::latch ran(1);
  fake.timer.after(seconds(1), [&] { ran.count_down(); });
  fake.clock.advance(seconds(1));
  fake.timer.poll();
  ran.wait();
}

TEST(ThreadPool, DoesWithOneThreadIfThereAreNoMore) {
  Timer timer({.pool = {.threads = 4}});
  timer.after(hours(1), [] { FAIL(); });  // Starts the driver, and one thread.
  const NoThreads no_threads;
  std::latch ran(100);
  for (int i = 0; i < 100; ++i) {
    timer.after(microseconds(i * 100), [&] { ran.count_down(); });
  }
  ran.wait();
}

// Refuses to work three times.
class LateExecutor final : public Executor {
 public:
  [[nodiscard]] std::size_t try_execute(std::span<Firing> firings, RoomListener&) override {
    if (++calls_ <= 3) {
      throw std::system_error(EAGAIN, std::generic_category(), "no thread");
    }
    for (Firing& firing : firings) {
      firing();
    }
    return firings.size();
  }

 private:
  int calls_ = 0;
};

TEST(Executor, IsAskedAgainIfItThrowsThatThereIsNoThread) {
  Timer timer({.executor = std::make_shared<LateExecutor>()});
  std::latch ran(2);
  timer.after(microseconds(1), [&] { ran.count_down(); });
  timer.after(microseconds(1), [&] { ran.count_down(); });
  ran.wait();

  FakeTimer fake({.executor = std::make_shared<LateExecutor>()});
  int runs = 0;
  fake.timer.after(milliseconds(1), [&] { ++runs; });
  fake.clock.advance(milliseconds(1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(fake.timer.poll(), std::system_error);
    EXPECT_LE(fake.timer.next_deadline(), fake.clock.now());
  }
  fake.timer.poll();
  EXPECT_EQ(runs, 1);
}

// The examples of executor.h, and other functions.
void take_function(const std::function<void()>& callback) { callback(); }
void take_firing(Firing firing) { firing(); }

TEST(FunctionExecutor, TakesWhateverTakesACallable) {
  std::deque<std::function<void()>> queue;
  std::deque<UniqueFunction<void()>> moved;
  const std::vector<std::shared_ptr<Executor>> executors{
      function_executor(
          [&](std::function<void()> callback) { queue.push_back(std::move(callback)); }),
      function_executor([&](const std::function<void()>& callback) { queue.push_back(callback); }),
      function_executor(std::function<void(std::function<void()>)>(
          [&](std::function<void()> callback) { queue.push_back(std::move(callback)); })),
      function_executor([&](auto&& callback) { moved.emplace_back(std::move(callback)); }),
      function_executor([&](UniqueFunction<void()> callback) mutable noexcept {
        moved.push_back(std::move(callback));
      }),
      function_executor([&](Firing&& firing) { moved.emplace_back(std::move(firing)); }),
      function_executor(&take_function),
      function_executor(take_firing),
  };
  int runs = 0;
  for (const auto& executor : executors) {
    FakeTimer fake({.executor = executor});
    fake.timer.after(seconds(1), [&] { ++runs; });
    fake.advance(seconds(1));
    while (!queue.empty()) {
      queue.front()();
      queue.pop_front();
    }
    while (!moved.empty()) {
      moved.front()();
      moved.pop_front();
    }
  }
  EXPECT_EQ(runs, 8);
}

TEST(PollTimer, SaysNoDeadlineWhileTheExecutorHasNoRoom) {
  const auto queue = std::make_shared<QueueExecutor>(1);
  FakeTimer fake({.executor = queue});
  int runs = 0;
  fake.timer.after(milliseconds(1), [&] { ++runs; });
  fake.timer.after(milliseconds(1), [&] { ++runs; });
  fake.clock.advance(milliseconds(1));
  fake.timer.poll();
  EXPECT_EQ(fake.timer.next_deadline(), std::nullopt);
  fake.timer.after(milliseconds(1), [] {});
  EXPECT_EQ(fake.timer.next_deadline(), std::nullopt);
  queue->run();  // Says that there is room.
  EXPECT_LE(fake.timer.next_deadline(), fake.clock.now());
  fake.timer.poll();
  queue->run();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(fake.timer.next_deadline(), fake.clock.now() + milliseconds(1));
}

TEST(PollTimer, IsNotPolledAgainForWhatItsCallbacksSchedule) {
  PollTimer timer;
  pollfd polled{timer.fd(), POLLIN, 0};
  int runs = 0;
  std::function<void()> again = [&] {
    ++runs;
    timer.after(hours(1), again);
  };
  timer.after(Span::zero(), again);
  timer.every(milliseconds(1), [&] { ++runs; }, Repeat::kFixedDelay);
  timer.poll();
  for (int turn = 0; turn < 20; ++turn) {
    ASSERT_EQ(::poll(&polled, 1, 60'000), 1);
    const int before = runs;
    timer.poll();
    EXPECT_GT(runs, before);
  }
}

TEST(PollTimerDeathTest, PolledInACallbackStopsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FakeTimer fake;
  fake.timer.after(seconds(1), [&] { fake.timer.poll(); });
  EXPECT_DEATH(fake.advance(seconds(1)), "in a callback");
}

// An executor with room for one callback; when it has been refused another, another thread makes
// room, after a while.
class SlowExecutor final : public Executor {
 public:
  ~SlowExecutor() override { join(); }
  [[nodiscard]] std::size_t try_execute(std::span<Firing> firings,
                                        RoomListener& listener) override {
    ++calls_;
    if (!room_.exchange(false)) {
      return 0;
    }
    firings[0]();
    join();
    thread_ = std::thread([this, &listener] {
      for (int i = 0; i < 1000; ++i) {
        std::this_thread::yield();
      }
      room_ = true;
      listener.on_room();
    });
    return 1;
  }
  [[nodiscard]] int calls() const { return calls_; }

 private:
  void join() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  std::thread thread_;
  std::atomic<bool> room_{true};
  int calls_ = 0;
};

TEST(ManualDriver, WaitsForRoomInTheExecutor) {
  const auto slow = std::make_shared<SlowExecutor>();
  ManualDriver time;
  Timer timer(time.options({.executor = slow}));
  int runs = 0;
  timer.after(milliseconds(1), [&] { ++runs; });
  timer.after(milliseconds(1), [&] { ++runs; });
  time.advance(seconds(1));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(slow->calls(), 2);
}

TEST(ManualDriver, IsArmedByATimerThatIsPracticallyNever) {
  ManualDriver time;
  Timer timer(time.options());
  std::thread other([&] { timer.after(hours::max(), [] {}); });
  time.wait_until_armed(1);
  EXPECT_EQ(timer.pending(), 1U);
  other.join();
}

// ------------------------------------------------------------------------------ the limit

TEST(KeyedTimer, ReplacesAtTheLimitWhatIsDueAndWaits) {
  const auto queue = std::make_shared<QueueExecutor>();
  FakeTimer fake({.executor = queue, .max_pending = 2});
  fake.timer.keyed(1).after(milliseconds(1), [] { FAIL(); });
  fake.timer.after(hours(1), [] {});
  fake.advance(milliseconds(1));
  ASSERT_EQ(queue->size(), 1U);
  bool ran = false;
  const auto handle = fake.timer.keyed(1).after(milliseconds(5), [&] { ran = true; });
  EXPECT_TRUE(handle);
  EXPECT_EQ(fake.timer.pending(), 2U);
  EXPECT_EQ(fake.timer.keyed(2).after(seconds(1), [] {}).refusal(), Refusal::kLimit);
  queue->run();
  EXPECT_FALSE(ran);
  fake.advance(milliseconds(5));
  queue->run();
  EXPECT_TRUE(ran);
  // It has given its place back, once.
  EXPECT_TRUE(fake.timer.keyed(1).after(seconds(1), [] {}));
  EXPECT_EQ(fake.timer.keyed(2).after(seconds(1), [] {}).refusal(), Refusal::kLimit);
}

TEST(KeyedTimer, ReplacesAtTheLimitWhileTheOneBeforeBegins) {
  const auto pool = std::make_shared<ThreadPoolExecutor>();
  std::atomic<int> ran{0};
  int taken = 0;
  {
    Timer timer({.tick = microseconds(10), .executor = pool, .max_pending = 1});
    for (int i = 0; i < 2000; ++i) {
      taken += timer.keyed(1).after(microseconds(i % 50), [&] { ++ran; }) ? 1 : 0;
    }
    timer.drain(hours(1));
    EXPECT_EQ(timer.stats().fired + timer.stats().cancelled, static_cast<std::uint64_t>(taken));
    EXPECT_EQ(timer.stats().fired, static_cast<std::uint64_t>(ran));
  }
  EXPECT_GT(taken, 0);
}

// ------------------------------------------------------------------------------ callbacks

TEST(TimerDeathTest, AnEmptyCallbackStopsTheProgramWhereItIsScheduled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FakeTimer fake;
  EXPECT_DEATH(fake.timer.after(hours(1), TimerCallback()), "empty callback");
  EXPECT_DEATH(fake.timer.at(Instant::max(), TimerCallback()), "empty callback");
  EXPECT_DEATH(fake.timer.every(hours(1), TimerCallback()), "empty callback");
  EXPECT_DEATH(fake.timer.keyed(1).after(hours(1), TimerCallback()), "empty callback");
}

// ------------------------------------------------------------------------------ clocks

TEST(TimerClock, ATimeOfTheSteadyClockIsConvertedForTheBootClock) {
  for (const ClockKind clock : {ClockKind::kSteady, ClockKind::kBoot, ClockKind::kWall}) {
    PollTimer timer({.clock = clock});
    const Instant earliest = timer.now() + hours(1);
    timer.at(std::chrono::steady_clock::now() + hours(1), [] {});
    const Instant latest = timer.now() + hours(1) + 2 * timer.tick();
    EXPECT_GE(timer.next_deadline(), earliest);
    EXPECT_LE(timer.next_deadline(), latest);
    timer.at(std::chrono::steady_clock::time_point(), [] {});
    EXPECT_LE(timer.next_deadline(), timer.now() + timer.tick());  // It has passed.
    timer.at(std::chrono::steady_clock::time_point::max(), [] {});
  }
  FakeTimer fake;
  bool ran = false;
  fake.timer.at(
      std::chrono::steady_clock::time_point((FakeTimer::kStart + seconds(5)).time_since_epoch()),
      [&] { ran = true; });
  fake.advance(seconds(5));
  EXPECT_TRUE(ran);
}

// ------------------------------------------------------------------------------ the lock

// One that locks it again and again, and hardly ever has it unlocked, keeps no other out.
TEST(SpinLock, AThreadThatLoopsKeepsNoOtherOut) {
  internal::SpinLock lock;
  std::atomic<bool> over{false};
  std::vector<std::thread> loopers;
  std::uint64_t inside = 0;
  std::uint64_t done[2] = {0, 0};
  for (int t = 0; t < 2; ++t) {
    loopers.emplace_back([&, t] {
      while (!over.load(std::memory_order_relaxed)) {
        const internal::SpinLockHold hold(lock);
        for (int i = 0; i < 50; ++i) {
          ++inside;
        }
        ++done[t];
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const internal::SpinLockHold hold(lock);
    ++inside;
  }
  over = true;
  for (auto& looper : loopers) {
    looper.join();
  }
  EXPECT_EQ(inside, 200 + 50 * (done[0] + done[1]));
}

// ------------------------------------------------------------------------------ the text

TEST(TimerStats, TheTextDoesNotFollowTheLocale) {
  TimerStats stats;
  stats.lateness.buckets[3] = 1;
  stats.lateness.count = 1;
  stats.lateness.sum = microseconds(7);
  const std::string before = setlocale(LC_NUMERIC, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {  // As far as they are installed.
    if (setlocale(LC_NUMERIC, name) == nullptr) {
      continue;
    }
    const std::string text = to_prometheus(stats, "x");
    EXPECT_NE(text.find("le=\"1e-06\"} 0\n"), std::string::npos) << name;
    EXPECT_NE(text.find("le=\"0.001024\"} 1\n"), std::string::npos) << name;
    EXPECT_NE(text.find("lateness_seconds_sum{timer=\"x\"} 7e-06\n"), std::string::npos) << name;
  }
  setlocale(LC_NUMERIC, before.c_str());
}

}  // namespace
}  // namespace carillon
