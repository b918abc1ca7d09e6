// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/asio.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "carillon/timer/asio_fixture.h"
#include "carillon/timer/manual_driver.h"

namespace carillon {
namespace {

using namespace std::chrono_literals;
using testing::error_code;
using testing::kAborted;
using testing::Log;
using testing::wheel_timer;
namespace net = testing::net;
using Entries = std::vector<Log::Entry>;

using Asio = testing::AsioOnManualTime;

// ------------------------------------------------------------------------------ wheel_timer

TEST_F(Asio, WheelTimerGoesByTheClockOfItsTimer) {
  wheel_timer wait(timer, io);
  EXPECT_EQ(&wait.timer(), &timer);
  wait.expires_after(10ms);
  wait.async_wait(log.handler(1));
  wait.async_wait(log.handler(2));
  EXPECT_EQ(timer.pending(), 1U) << "one timer for all waits";
  advance(10ms - 1ns);
  EXPECT_TRUE(log.entries().empty());
  EXPECT_FALSE(io.stopped()) << "there is work";
  advance(1ns);
  EXPECT_EQ(log.entries(), (Entries{{1, {}}, {2, {}}}));
  EXPECT_TRUE(io.stopped());
}

TEST_F(Asio, WheelTimerThatIsCancelledLeavesNothing) {
  wheel_timer wait(timer, io);
  wait.expires_after(1h);
  wait.async_wait(log.handler(1));
  wait.cancel();
  EXPECT_EQ(timer.pending(), 0U);
  run();
  EXPECT_TRUE(io.stopped());
}

TEST_F(Asio, WheelTimerEndsAbortedWhenItsTimerIsStopped) {
  wheel_timer wait(timer, io);
  wait.expires_after(1h);
  wait.async_wait(log.handler(1));
  EXPECT_EQ(timer.stop().size(), 1U);
  wait.async_wait(log.handler(2));
  run();
  EXPECT_EQ(log.entries(), (Entries{{1, kAborted}, {2, kAborted}}));
  error_code error;
  wait.wait(error);
  EXPECT_EQ(error, kAborted);
}

TEST_F(Asio, WheelTimerSaysThatTheTimerIsFull) {
  TimerOptions options;
  options.max_pending = 1;
  Timer full(time.options(options));
  wheel_timer first(full, io);
  wheel_timer second(full, io);
  first.expires_after(1h);
  second.expires_after(1h);
  first.async_wait(log.handler(1));
  second.async_wait(log.handler(2));
  run();
  EXPECT_EQ(log.entries(), (Entries{{2, net::error::no_buffer_space}}));
  first.cancel();
  second.async_wait(log.handler(3));
  EXPECT_EQ(second.cancel(), 1U) << "there was room again";
  run();
}

TEST_F(Asio, OneTimerServesManyContexts) {
  const auto witness = std::make_shared<int>(0);
  std::optional<net::io_context> other(std::in_place);
  auto abandoned = std::make_unique<wheel_timer>(timer, *other);
  wheel_timer kept(timer, io);
  for (wheel_timer* wait : {abandoned.get(), &kept}) {
    wait->expires_after(1ms);
    wait->async_wait([witness](error_code) { ++*witness; });
  }
  EXPECT_EQ(timer.pending(), 2U);
  abandoned.reset();
  other.reset();
  EXPECT_EQ(witness.use_count(), 2) << "the handler of that context is destroyed";
  EXPECT_EQ(timer.pending(), 1U);
  advance(1ms);
  EXPECT_EQ(*witness, 1);
}

// The driver's thread posts to a context that is being destroyed, or would.
TEST(AsioThreads, AContextMayBeDestroyedWhileTimersFire) {
  Timer timer;
  for (int round = 0; round < 200; ++round) {
    const auto witness = std::make_shared<int>(0);
    {
      net::io_context io;
      for (int i = 0; i < 8; ++i) {
        auto wait = std::make_shared<wheel_timer>(timer, io);
        wait->expires_after(i * 50us);
        wheel_timer& waiting = *wait;
        waiting.async_wait([wait, witness](error_code) {});
      }
      for (int i = 0; i < round; ++i) {
        std::this_thread::yield();
      }
    }
    EXPECT_EQ(witness.use_count(), 1);
  }
}

// ------------------------------------------------------------------------------ make_executor

TEST_F(Asio, CallbacksRunWhereTheContextRuns) {
  TimerOptions options;
  options.executor = carillon::asio::make_executor(io);
  Timer posting(options);
  std::thread::id ran_on;
  auto work = net::make_work_guard(io);
  posting.after(1ms, [&] {
    ran_on = std::this_thread::get_id();
    work.reset();
  });
  io.run();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST_F(Asio, CallbacksOnAStrand) {
  TimerOptions options;
  options.executor = carillon::asio::make_executor(net::make_strand(io));
  Timer posting(options);
  auto work = net::make_work_guard(io);
  int count = 0;  // Unguarded: the strand does that.
  for (int i = 0; i < 100; ++i) {
    posting.after(1ms, [&] {
      if (++count == 100) {
        work.reset();
      }
    });
  }
  std::thread second([&] { io.run(); });
  io.run();
  second.join();
  EXPECT_EQ(count, 100);
}

}  // namespace
}  // namespace carillon
