// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/carillon_c.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

// A timer, and arguments that count.
struct Counted {
  std::atomic<int> called{0};
  std::atomic<int> released{0};

  static void on_call(void* argument) {
    auto& self = *static_cast<Counted*>(argument);
    ++self.called;
    self.called.notify_all();
  }
  static void on_release(void* argument) { ++static_cast<Counted*>(argument)->released; }
  void await(int count) {
    for (int seen = called; seen < count; seen = called) {
      called.wait(seen);
    }
  }
};

class CTimer : public ::testing::Test {
 public:
  ~CTimer() override { carillon_timer_destroy(timer); }

  void create(const carillon_options& options) {
    carillon_timer_destroy(timer);
    ASSERT_EQ(carillon_timer_create(&options, &timer), CARILLON_OK);
  }
  void SetUp() override { ASSERT_EQ(carillon_timer_create(nullptr, &timer), CARILLON_OK); }
  carillon_status after(int64_t delay, carillon_handle* handle = nullptr) {
    return carillon_after(timer, delay, &Counted::on_call, &Counted::on_release, &counted, handle);
  }
  carillon_stats stats() const {
    carillon_stats stats{};
    stats.size = sizeof(stats);
    EXPECT_EQ(carillon_get_stats(timer, &stats), CARILLON_OK);
    return stats;
  }

  carillon_timer* timer = nullptr;
  Counted counted;
};

TEST_F(CTimer, FiresAndReleasesItsArgument) {
  const int64_t begun = carillon_now(timer);
  EXPECT_GT(begun, 0);
  EXPECT_EQ(after(1 * CARILLON_MS), CARILLON_OK);
  counted.await(1);
  EXPECT_GE(carillon_now(timer), begun + 1 * CARILLON_MS);
  EXPECT_EQ(carillon_at(timer, begun + 2 * CARILLON_MS, &Counted::on_call, &Counted::on_release,
                        &counted, nullptr),
            CARILLON_OK);
  counted.await(2);
  EXPECT_GE(carillon_now(timer), begun + 2 * CARILLON_MS);
  size_t unfired = 7;
  EXPECT_EQ(carillon_stop(timer, &unfired), CARILLON_OK);
  EXPECT_EQ(unfired, 0U);
  EXPECT_EQ(counted.released, 2);
}

TEST_F(CTimer, CancelReleasesTheArgumentBeforeItReturns) {
  carillon_handle handle;
  EXPECT_EQ(after(3600 * CARILLON_S, &handle), CARILLON_OK);
  EXPECT_EQ(carillon_state(&handle), CARILLON_OK);
  EXPECT_EQ(stats().pending, 1U);
  EXPECT_EQ(carillon_cancel(&handle), CARILLON_OK);
  EXPECT_EQ(counted.released, 1);
  EXPECT_EQ(carillon_cancel(&handle), CARILLON_NOT_FOUND);
  EXPECT_EQ(carillon_state(&handle), CARILLON_NOT_FOUND);
  EXPECT_EQ(counted.called, 0);
  EXPECT_EQ(stats().cancelled, 1U);
}

TEST_F(CTimer, RescheduleMovesTheDeadline) {
  carillon_handle handle;
  EXPECT_EQ(after(3600 * CARILLON_S, &handle), CARILLON_OK);
  EXPECT_EQ(carillon_reschedule(&handle, 1 * CARILLON_MS), CARILLON_OK);
  counted.await(1);
  carillon_stop(timer, nullptr);
  EXPECT_EQ(carillon_reschedule(&handle, 1 * CARILLON_MS), CARILLON_NOT_FOUND);
}

struct Beat {
  Counted counted;
  carillon_handle handle;
  std::atomic<bool> scheduled{false};
  std::atomic<int> answer{-1};

  static void on_call(void* argument) {
    auto& self = *static_cast<Beat*>(argument);
    self.scheduled.wait(false);
    if (self.counted.called == 2) {
      self.answer = carillon_cancel(&self.handle);
    }
    Counted::on_call(&self.counted);
  }
  static void on_release(void* argument) {
    Counted::on_release(&static_cast<Beat*>(argument)->counted);
  }
};

TEST_F(CTimer, APeriodicTimerEndsItself) {
  Beat beat;
  EXPECT_EQ(carillon_every(timer, 1 * CARILLON_MS, CARILLON_REPEAT_SKIP, &Beat::on_call,
                           &Beat::on_release, &beat, &beat.handle),
            CARILLON_OK);
  beat.scheduled = true;
  beat.scheduled.notify_all();
  beat.counted.await(3);
  carillon_stop(timer, nullptr);
  EXPECT_EQ(beat.answer, CARILLON_RUNNING);
  EXPECT_EQ(beat.counted.called, 3);
  EXPECT_EQ(beat.counted.released, 1);
}

TEST_F(CTimer, StopReleasesWhatHadNotFired) {
  for (int i = 0; i < 5; ++i) {
    after(3600 * CARILLON_S);
  }
  size_t unfired = 0;
  EXPECT_EQ(carillon_stop(timer, &unfired), CARILLON_OK);
  EXPECT_EQ(unfired, 5U);
  EXPECT_EQ(counted.released, 5);
  EXPECT_EQ(after(1), CARILLON_STOPPED);
  EXPECT_EQ(counted.released, 6) << "refused";
  EXPECT_EQ(carillon_stop(timer, &unfired), CARILLON_OK);
  EXPECT_EQ(unfired, 0U);
}

TEST_F(CTimer, DrainLetsFireWhatIsPending) {
  after(1 * CARILLON_MS);
  after(2 * CARILLON_MS);
  size_t unfired = 7;
  EXPECT_EQ(carillon_drain(timer, 60 * CARILLON_S, &unfired), CARILLON_OK);
  EXPECT_EQ(unfired, 0U);
  EXPECT_EQ(counted.called, 2);
}

TEST_F(CTimer, PauseHoldsBackWhatIsDue) {
  EXPECT_EQ(carillon_pause(timer), CARILLON_OK);
  after(0);
  EXPECT_EQ(carillon_resume(timer), CARILLON_OK);
  counted.await(1);
}

TEST_F(CTimer, OptionsAreHeeded) {
  carillon_options options = CARILLON_OPTIONS_INIT;
  options.tick_ns = 100 * CARILLON_US;
  options.executor = CARILLON_EXECUTOR_INLINE;
  options.clock = CARILLON_CLOCK_BOOT;
  options.max_pending = 2;
  options.shards = 1;
  options.thread_name = "c-timer";
  create(options);
  carillon_handle first;
  EXPECT_EQ(after(3600 * CARILLON_S, &first), CARILLON_OK);
  EXPECT_EQ(after(3600 * CARILLON_S), CARILLON_OK);
  EXPECT_EQ(after(3600 * CARILLON_S), CARILLON_LIMIT);
  EXPECT_EQ(counted.released, 1) << "that which was refused";
  EXPECT_EQ(stats().rejected, 1U);
  EXPECT_EQ(carillon_cancel(&first), CARILLON_OK);
  EXPECT_EQ(after(100 * CARILLON_US), CARILLON_OK);
  counted.await(1);
}

TEST_F(CTimer, OptionsOfAnOlderProgramAreShorter) {
  carillon_options options = CARILLON_OPTIONS_INIT;
  options.size = offsetof(carillon_options, threads);
  std::memset(reinterpret_cast<char*>(&options) + options.size, 0xff,
              sizeof(options) - options.size);
  create(options);
  EXPECT_EQ(after(0), CARILLON_OK);
  counted.await(1);
  carillon_stats all{};
  all.size = offsetof(carillon_stats, cancelled);
  all.cancelled = 77;
  EXPECT_EQ(carillon_get_stats(timer, &all), CARILLON_OK);
  EXPECT_EQ(all.scheduled, 1U);
  EXPECT_EQ(all.cancelled, 77U) << "beyond what the caller has";
}

TEST_F(CTimer, WhatIsNotAllowedIsInvalid) {
  carillon_timer* other = nullptr;
  carillon_options options = CARILLON_OPTIONS_INIT;
  options.size = sizeof(options) + 1;
  EXPECT_EQ(carillon_timer_create(&options, &other), CARILLON_INVALID);
  options = CARILLON_OPTIONS_INIT;
  options.tick_ns = -1;
  EXPECT_EQ(carillon_timer_create(&options, &other), CARILLON_INVALID);
  options = CARILLON_OPTIONS_INIT;
  options.clock = static_cast<carillon_clock>(7);
  EXPECT_EQ(carillon_timer_create(&options, &other), CARILLON_INVALID);
  EXPECT_EQ(carillon_timer_create(nullptr, nullptr), CARILLON_INVALID);
  EXPECT_EQ(other, nullptr);

  EXPECT_EQ(carillon_after(nullptr, 0, &Counted::on_call, &Counted::on_release, &counted, nullptr),
            CARILLON_INVALID);
  EXPECT_EQ(carillon_after(timer, 0, nullptr, &Counted::on_release, &counted, nullptr),
            CARILLON_INVALID);
  EXPECT_EQ(carillon_every(timer, 1, static_cast<carillon_repeat>(9), &Counted::on_call,
                           &Counted::on_release, &counted, nullptr),
            CARILLON_INVALID);
  EXPECT_EQ(counted.released, 3) << "each released what it was given";
  EXPECT_EQ(carillon_cancel(nullptr), CARILLON_INVALID);
  EXPECT_EQ(carillon_reschedule(nullptr, 0), CARILLON_INVALID);
  EXPECT_EQ(carillon_state(nullptr), CARILLON_INVALID);
  EXPECT_EQ(carillon_get_stats(timer, nullptr), CARILLON_INVALID);
  EXPECT_EQ(carillon_stop(nullptr, nullptr), CARILLON_INVALID);
  EXPECT_EQ(carillon_drain(nullptr, 0, nullptr), CARILLON_INVALID);
  EXPECT_EQ(carillon_pause(nullptr), CARILLON_INVALID);
  EXPECT_EQ(carillon_resume(nullptr), CARILLON_INVALID);
  EXPECT_EQ(carillon_now(nullptr), 0);
  carillon_timer_destroy(nullptr);
}

TEST_F(CTimer, HandlesNameNothingWhenTheyAreNullOrTheTimerIsGone) {
  carillon_handle zeros;
  std::memset(&zeros, 0, sizeof(zeros));
  EXPECT_EQ(carillon_cancel(&zeros), CARILLON_NOT_FOUND);
  EXPECT_EQ(carillon_reschedule(&zeros, 0), CARILLON_NOT_FOUND);
  carillon_handle handle;
  after(3600 * CARILLON_S, &handle);
  carillon_timer_destroy(timer);
  timer = nullptr;
  EXPECT_EQ(counted.released, 1);
  EXPECT_EQ(carillon_cancel(&handle), CARILLON_NOT_FOUND);
}

TEST_F(CTimer, DelaysThatAreBeyondTheClockAreNeverNow) {
  carillon_handle handle;
  EXPECT_EQ(after(std::numeric_limits<int64_t>::max(), &handle), CARILLON_OK);
  EXPECT_EQ(after(std::numeric_limits<int64_t>::min()), CARILLON_OK);
  counted.await(1);
  EXPECT_EQ(carillon_cancel(&handle), CARILLON_OK);
}

TEST_F(CTimer, ACallbackMayDestroyItsTimer) {
  struct Last {
    carillon_timer* timer;
    Counted counted;
  };
  Last last;
  last.timer = timer;
  EXPECT_EQ(carillon_after(
                timer, 0,
                [](void* argument) {
                  auto& self = *static_cast<Last*>(argument);
                  carillon_timer_destroy(self.timer);
                  Counted::on_call(&self.counted);
                },
                [](void* argument) {
                  auto& self = *static_cast<Last*>(argument);
                  ++self.counted.released;
                  self.counted.released.notify_all();
                },
                &last, nullptr),
            CARILLON_OK);
  last.counted.await(1);
  last.counted.released.wait(0);
  timer = nullptr;
}

TEST(CStatus, EachHasAText) {
  for (int i = CARILLON_OK; i <= CARILLON_NOT_FOUND; ++i) {
    EXPECT_STRNE(carillon_status_text(static_cast<carillon_status>(i)), "unknown status");
  }
  EXPECT_STREQ(carillon_status_text(static_cast<carillon_status>(99)), "unknown status");
}

}  // namespace
