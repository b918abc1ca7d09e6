// SPDX-License-Identifier: Apache-2.0
// How often the feed of the dashboard has the partitions walk over the wheel.

#include "carillon/server/dashboard_feed.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_events.h"

namespace carillon::server {
namespace {

using broker::Verb;

/// Answers what the feed asks for, with so many jobs in memory, and counts the walks.
class CountingPartitions final : public Partitions {
 public:
  [[nodiscard]] std::size_t count() const noexcept override { return 1; }
  void open_session(broker::SessionId) override {}
  void close_session(broker::SessionId) override {}
  void end_waiting(std::size_t, broker::SessionId) override {}
  void submit(std::size_t, broker::Command command) override {
    commands_.push_back(std::move(command));
  }
  [[nodiscard]] bool may_wait(broker::SessionId) const override { return false; }

  void answer_all(HttpDesk& desk) {
    while (!commands_.empty()) {
      const broker::Command command = std::move(commands_.front());
      commands_.erase(commands_.begin());
      broker::Reply reply;
      reply.answer = fails ? broker::Answer::kInternalError : broker::Answer::kStats;
      if (command.verb == Verb::kStats) {
        broker::PartitionStats stats;
        stats.jobs.delayed = jobs_in_memory + 5'000'000;
        stats.far_jobs = 5'000'000;
        reply.detail = std::make_unique<broker::Detail>(stats);
      } else if (command.verb == Verb::kWheel) {
        ++walks;
        broker::WheelView wheel;
        wheel.far = walks;
        reply.detail = std::make_unique<broker::Detail>(std::move(wheel));
      } else {
        reply.detail = std::make_unique<broker::Detail>(broker::TubeNames{});
      }
      if (fails) reply.detail.reset();
      desk.on_reply(0, command.ticket.slot, std::move(reply));
    }
  }

  std::uint64_t jobs_in_memory = 0;
  std::uint64_t walks = 0;
  bool fails = false;

 private:
  std::vector<broker::Command> commands_;
};

class DashboardFeedTest : public testing::Test {
 protected:
  /// So many seconds of being watched; returns how often the wheel was walked over.
  std::uint64_t watch(int seconds) {
    const std::uint64_t before = partitions_.walks;
    for (int i = 0; i < seconds; ++i) {
      published_.clear();
      feed_.gather(true);
      partitions_.answer_all(desk_);
      EXPECT_EQ(published_, partitions_.fails ? "unavailable" : "stats");
      clock_.advance_to(clock_.now() + std::chrono::seconds(1));
    }
    return partitions_.walks - before;
  }

  CountingPartitions partitions_;
  HttpGuard guard_;
  HttpDesk desk_{1, partitions_};
  HttpEvents events_;
  ManualClock clock_{Instant(std::chrono::seconds(100))};
  ManualCalendar calendar_;
  HttpContext context_{.partitions = partitions_,
                       .guard = guard_,
                       .desk = desk_,
                       .events = events_,
                       .calendar = calendar_};
  std::string published_;
  DashboardFeed feed_{context_, desk_, clock_,
                      [this](std::string_view event, std::string_view) { published_ = event; }};
};

TEST_F(DashboardFeedTest, TheWheelIsWalkedOverLessOftenTheMoreJobsThereAre) {
  EXPECT_EQ(watch(10), 10U);
  partitions_.jobs_in_memory = 99'999;
  EXPECT_EQ(watch(10), 10U);
  partitions_.jobs_in_memory = 100'000;
  EXPECT_EQ(watch(20), 10U);
  partitions_.jobs_in_memory = 1'000'000;
  EXPECT_LE(watch(30), 4U);
  partitions_.jobs_in_memory = 50'000'000;
  EXPECT_EQ(watch(30), 3U);
}

TEST_F(DashboardFeedTest, WhatWasSeenBeforeAFailureIsNotShownAfterIt) {
  partitions_.jobs_in_memory = 50'000'000;
  watch(3);
  partitions_.fails = true;
  watch(1);
  partitions_.fails = false;
  EXPECT_EQ(watch(1), 1U);
}

}  // namespace
}  // namespace carillon::server
