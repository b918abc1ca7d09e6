// SPDX-License-Identifier: Apache-2.0
// Recurring jobs: which periods get an instance, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "carillon/broker/testing/commands.h"
#include "carillon/broker/testing/schedules.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kMinute = 60'000;
/// When the world begins: at midnight. Times in the tests count from there.
constexpr std::int64_t kBegin = 1'767'225'600'000;

class BrokerSchedule : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(world.calendar_ms(), kBegin);
    world.pass(seconds(100));  // Not at a whole minute.
  }

  Answer set(const ScheduleSettings& settings) {
    return world.run(s, on_schedule(Verb::kSetSchedule, settings))->answer;
  }
  ScheduleProgress progress(const std::string& name = "s") {
    const auto reply = world.run(s, on_schedule(Verb::kGetSchedule, name));
    ScheduleProgress progress = std::get<ScheduleView>(*reply->detail).record.progress;
    for (auto* time : {&progress.due_ms, &progress.queued_ms, &progress.last_ms}) {
      if (*time) **time -= kBegin;
    }
    return progress;
  }
  /// The periods of the instances put since last time.
  std::vector<std::int64_t> periods() {
    std::vector<std::int64_t> periods;
    for (const auto& instance : instances.look(world.store().durable())) {
      periods.push_back(instance.period_ms - kBegin);
    }
    return periods;
  }
  JobId last() { return progress().last_job; }
  void finish_last() { EXPECT_EQ(world.del(s, last())->answer, Answer::kDeleted); }
  void bury_last() {
    const JobId id = last();
    EXPECT_EQ(world.by_id(s, Verb::kReserveJob, id)->answer, Answer::kReserved);
    EXPECT_EQ(world.by_id(s, Verb::kBury, id)->answer, Answer::kBuried);
  }

  World world{schedule_options()};
  SessionId s = world.connect();
  Instances instances;
};

TEST_F(BrokerSchedule, AnInstanceEachPeriodToTheMillisecond) {
  EXPECT_EQ(set(every(kMinute)), Answer::kScheduleSet);
  EXPECT_TRUE(world.broker().follows_calendar());
  world.pass(milliseconds(19'999));
  EXPECT_THAT(periods(), IsEmpty());
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(2 * kMinute));
  world.pass(minutes(2));
  EXPECT_THAT(periods(), ElementsAre(3 * kMinute, 4 * kMinute));
  const ScheduleProgress at = progress();
  EXPECT_EQ(at.runs, 3U);
  EXPECT_EQ(at.missed + at.skipped, 0U);
  EXPECT_EQ(at.last_ms, 4 * kMinute);
  EXPECT_EQ(at.due_ms, 5 * kMinute);
}

TEST_F(BrokerSchedule, TheInstanceIsWhatTheSettingsSay) {
  ScheduleSettings settings = every(kMinute, "report", "reports");
  JobExtras extras;
  extras.content_type = "text/plain";
  extras.max_attempts = 3;
  settings.extras = std::make_shared<JobExtras>(extras);
  settings.priority = 7;
  settings.ttr_ms = 5'000;
  set(settings);
  world.pass(seconds(20));
  world.watch(s, "reports");
  Command reserve;
  reserve.verb = Verb::kReserve;
  reserve.with_view = true;
  const auto reply = world.run(s, std::move(reserve));
  ASSERT_EQ(reply->answer, Answer::kReserved);
  EXPECT_EQ(reply->body.view(), "of report");
  const auto& job = std::get<JobView>(*reply->detail);
  EXPECT_EQ(job.stats.priority, 7U);
  EXPECT_EQ(job.stats.ttr_ms, 5'000);
  extras.schedule = "report";
  extras.due_at_ms = kBegin + 2 * kMinute;
  EXPECT_EQ(*job.extras, extras);
}

TEST_F(BrokerSchedule, AnInstanceKeepsItsPeriodWhateverHappensToIt) {
  set(every(kMinute));
  world.pass(seconds(20));
  world.run(s, on_schedule(Verb::kDeleteSchedule, "s"));
  const JobId id = instances.look(world.store().durable()).at(0).id;
  const auto expect = [&](JobState state, Span waits) {
    const JobView view = get(world, s, id);
    EXPECT_EQ(view.stats.state, state);
    EXPECT_EQ(view.extras->due_at_ms, kBegin + 2 * kMinute);
    EXPECT_EQ(view.extras->schedule, "s");
    if (state != JobState::kDelayed) return;
    EXPECT_EQ(view.stats.time_left_ms, waits / milliseconds(1));
    EXPECT_EQ(view.due_at_ms, world.calendar_ms() + waits / milliseconds(1));
  };
  expect(JobState::kReady, {});
  world.by_id(s, Verb::kReserveJob, id);
  world.release(s, id, 0, minutes(1));
  expect(JobState::kDelayed, minutes(1));
  // It waits for that span of time, not for its period, which has come: whatever the calendar does.
  world.step_calendar(-hours(1));
  expect(JobState::kDelayed, minutes(1));
  world.step_calendar(hours(1));
  world.restart();
  s = world.connect();
  expect(JobState::kDelayed, minutes(1));
  world.pass(seconds(59));
  expect(JobState::kDelayed, seconds(1));
  world.pass(seconds(1));
  expect(JobState::kReady, {});
  world.run(s, change_delay(id, hours(1)));
  expect(JobState::kDelayed, hours(1));
  world.run(s, change_date(id, world.calendar_ms() + 5'000));
  expect(JobState::kDelayed, seconds(5));
  world.by_id(s, Verb::kKickJob, id);
  expect(JobState::kReady, {});
}

TEST_F(BrokerSchedule, WakesAWorkerThatWaits) {
  const SessionId worker = world.connect();
  EXPECT_FALSE(world.reserve(worker));
  set(every(kMinute));
  world.pass(seconds(20));
  EXPECT_EQ(world.answer(worker)->answer, Answer::kReserved);
}

TEST_F(BrokerSchedule, SetAgainAsItWasNothingMoves) {
  set(every(10 * kMinute));
  world.pass(minutes(9));
  periods();
  ScheduleSettings same = every(10 * kMinute);
  same.body = Body("other");
  const auto reply = world.run(s, on_schedule(Verb::kSetSchedule, same));
  EXPECT_EQ(reply->count, 0U) << "not new";
  EXPECT_EQ(progress().runs, 1U);
  world.pass(minutes(10));
  EXPECT_THAT(periods(), ElementsAre(20 * kMinute));
  EXPECT_EQ(world.by_id(s, Verb::kPeek, last())->body.view(), "other");
  // With another spec it is due as that says.
  set(every(7 * kMinute));
  EXPECT_EQ(progress().due_ms, 21 * kMinute);
  EXPECT_EQ(progress().runs, 2U);
}

TEST_F(BrokerSchedule, EndsWithItsSpecAndRefusesOneThatIsNone) {
  ScheduleSettings ending = every(kMinute);
  ending.spec += " until " + std::to_string(kBegin + 180'000);
  EXPECT_EQ(set(ending), Answer::kScheduleSet);
  world.pass(hours(1));
  EXPECT_THAT(periods(), ElementsAre(2 * kMinute, 3 * kMinute));
  EXPECT_EQ(progress().due_ms, std::nullopt);
  EXPECT_EQ(world.broker().next_deadline(), std::nullopt);
  ScheduleSettings none = every(kMinute, "none");
  none.spec = "0 0 30 2 *";
  EXPECT_EQ(set(none), Answer::kNeverDue);
  none.spec = "60000 until 5";
  EXPECT_EQ(set(none), Answer::kNeverDue);
  EXPECT_EQ(world.run(s, on_schedule(Verb::kGetSchedule, "none"))->answer, Answer::kNotFound);
}

TEST_F(BrokerSchedule, DeletedItPutsNoMoreAndLeavesWhatItPut) {
  set(every(kMinute));
  world.pass(minutes(1));
  const JobId id = last();
  EXPECT_EQ(world.run(s, on_schedule(Verb::kDeleteSchedule, "s"))->answer, Answer::kDeleted);
  EXPECT_EQ(world.run(s, on_schedule(Verb::kDeleteSchedule, "s"))->answer, Answer::kNotFound);
  periods();
  world.restart();
  world.pass(hours(1));
  EXPECT_THAT(periods(), IsEmpty());
  EXPECT_TRUE(world.exists(id));
}

TEST_F(BrokerSchedule, ItsTubeCannotChange) {
  set(every(kMinute));
  EXPECT_EQ(set(every(kMinute, "s", "other")), Answer::kConflict);
}

TEST_F(BrokerSchedule, PagesInTheOrderOfNames) {
  for (const char* name : {"c", "a", "b"}) set(every(kMinute, name));
  const auto page = [&](const std::string& after, std::uint64_t count) {
    const auto reply = world.run(s, on_schedule(Verb::kListSchedules, after, count));
    const auto& found = std::get<SchedulePage>(*reply->detail);
    std::string names;
    for (const ScheduleView& view : found.schedules) names += view.record.settings.name;
    return names + (found.more ? "+" : "");
  };
  EXPECT_EQ(page("", 2), "ab+");
  EXPECT_EQ(page("b", 2), "c");
  EXPECT_EQ(page("c", 2), "");
  EXPECT_EQ(page("", 1'000'000), "abc");
}

TEST_F(BrokerSchedule, RunPutsAnInstanceNowBesidesThePeriods) {
  set(every(kMinute));
  const auto reply = world.run(s, on_schedule(Verb::kRunSchedule, "s"));
  EXPECT_EQ(reply->answer, Answer::kInserted);
  EXPECT_EQ(reply->id, last());
  EXPECT_THAT(periods(), ElementsAre(100'000));
  world.pass(seconds(20));
  EXPECT_THAT(periods(), ElementsAre(2 * kMinute));
  EXPECT_EQ(world.run(s, on_schedule(Verb::kRunSchedule, "other"))->answer, Answer::kNotFound);
  ScheduleSettings alone = every(kMinute);
  alone.overlap = Overlap::kSkip;
  set(alone);
  const auto refused = world.run(s, on_schedule(Verb::kRunSchedule, "s"));
  EXPECT_EQ(refused->answer, Answer::kConflict);
  EXPECT_EQ(refused->id, last());
}

TEST_F(BrokerSchedule, LimitsOfCountAndBytesAreErrors) {
  BrokerOptions options = schedule_options();
  options.max_schedules = 2;
  options.max_schedule_bytes = 60;
  World small(options);
  const SessionId session = small.connect();
  const auto set_here = [&](const ScheduleSettings& settings) {
    return small.run(session, on_schedule(Verb::kSetSchedule, settings))->answer;
  };
  EXPECT_EQ(set_here(every(kMinute, "a")), Answer::kScheduleSet);
  EXPECT_EQ(set_here(every(kMinute, "b")), Answer::kScheduleSet);
  EXPECT_EQ(small.run(session, on_schedule(Verb::kSetSchedule, every(kMinute, "c")))->shortage,
            Shortage::kSchedules);
  ScheduleSettings large = every(kMinute, "b");
  large.body = Body(std::string(50, 'x'));
  EXPECT_EQ(small.run(session, on_schedule(Verb::kSetSchedule, large))->shortage,
            Shortage::kScheduleBytes);
  small.run(session, on_schedule(Verb::kDeleteSchedule, "a"));
  EXPECT_EQ(set_here(large), Answer::kOutOfMemory);
  large.body = Body("x");
  EXPECT_EQ(set_here(large), Answer::kScheduleSet);
}

// hibiken/asynq#842: the run that failed and was archived kept its id, and stopped the next.
TEST_F(BrokerSchedule, F9AFailedInstanceDoesNotStopTheNextPeriod) {
  for (const Overlap overlap : {Overlap::kAllow, Overlap::kSkip, Overlap::kQueue}) {
    ScheduleSettings settings = every(kMinute);
    settings.overlap = overlap;
    set(settings);
    world.pass(minutes(1));
    EXPECT_EQ(periods().size(), 1U);
    bury_last();
    world.pass(minutes(1));
    EXPECT_EQ(periods().size(), 1U);
    finish_last();
  }
}

// hibiken/asynq#267: a period of 30 minutes, and runs that take 40.
TEST_F(BrokerSchedule, F10OverlapAllowPutsAllTheSame) {
  set(every(30 * kMinute));
  world.pass(minutes(91));
  EXPECT_THAT(periods(), ElementsAre(30 * kMinute, 60 * kMinute, 90 * kMinute));
}

TEST_F(BrokerSchedule, F10OverlapSkipWaitsForTheNextPeriod) {
  ScheduleSettings settings = every(30 * kMinute);
  settings.overlap = Overlap::kSkip;
  set(settings);
  world.pass(minutes(29));
  EXPECT_THAT(periods(), ElementsAre(30 * kMinute));
  world.pass(minutes(40));
  EXPECT_THAT(periods(), IsEmpty());
  EXPECT_EQ(progress().skipped, 1U);
  finish_last();
  world.pass(minutes(10));
  EXPECT_THAT(periods(), IsEmpty());
  world.pass(minutes(20));
  EXPECT_THAT(periods(), ElementsAre(90 * kMinute));
}

TEST_F(BrokerSchedule, F10OverlapQueueRunsOneWhenTheLastEnds) {
  ScheduleSettings settings = every(30 * kMinute);
  settings.overlap = Overlap::kQueue;
  set(settings);
  world.pass(minutes(29));
  EXPECT_THAT(periods(), ElementsAre(30 * kMinute));
  world.pass(minutes(62));  // Two more periods: one is queued, one is skipped.
  EXPECT_THAT(periods(), IsEmpty());
  EXPECT_EQ(progress().queued_ms, 60 * kMinute);
  EXPECT_EQ(progress().skipped, 1U);
  finish_last();
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(60 * kMinute));
  // It waits across a restart too; buried is ended.
  world.pass(minutes(30));
  EXPECT_THAT(periods(), IsEmpty());
  EXPECT_EQ(progress().queued_ms, 120 * kMinute);
  world.restart();
  s = world.connect();
  EXPECT_THAT(periods(), IsEmpty());
  bury_last();
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(120 * kMinute));
}

// A kill between the end of an instance and the put of the one that waited for it.
TEST_F(BrokerSchedule, F10WhatIsQueuedIsPutAfterAKill) {
  ScheduleSettings settings = every(30 * kMinute);
  settings.overlap = Overlap::kQueue;
  set(settings);
  world.pass(minutes(60));
  periods();
  finish_last();
  world.restart();
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(60 * kMinute));
}

// timgit/pg-boss#557: due while every server is down.
TEST_F(BrokerSchedule, F14MissedOnceRunsTheLastOfThemOnReturn) {
  set(every(30 * kMinute));
  world.restart(hours(2));
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(120 * kMinute));
  s = world.connect();
  EXPECT_EQ(progress().missed, 3U);
  world.pass(minutes(30));
  EXPECT_THAT(periods(), ElementsAre(150 * kMinute));
}

TEST_F(BrokerSchedule, F14MissedSkipRecordsThem) {
  ScheduleSettings settings = every(30 * kMinute);
  settings.missed = Missed::kSkip;
  set(settings);
  world.restart(hours(2));  // 01:40 after the start and later: the last period is too long ago.
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), IsEmpty());
  s = world.connect();
  EXPECT_EQ(progress().missed, 4U);
  EXPECT_EQ(progress().due_ms, 150 * kMinute);
  world.pass(minutes(30));
  EXPECT_THAT(periods(), ElementsAre(150 * kMinute));
  // Within a minute it is late, not missed.
  world.pass(minutes(28));
  world.restart(seconds(40));
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(180 * kMinute));
}

TEST_F(BrokerSchedule, F14ALongGapCostsLittleAndEndsAtTheLastPeriod) {
  set(every(1'000));
  world.restart(hours(24 * 365 * 10));
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(100'000 + std::int64_t{24} * 365 * 10 * 3'600'000));
  s = world.connect();
  EXPECT_EQ(progress().missed, 1'000U);
}

// openwhisk-package-alarms#196: 600 schedules on one minute.
TEST_F(BrokerSchedule, F21JitterSpreadsAHerdAndKeepsEachInItsPlace) {
  for (int i = 0; i < 600; ++i) {
    ScheduleSettings settings = every(10 * kMinute, "s" + std::to_string(i));
    settings.jitter_ms = 60'000;
    set(settings);
  }
  world.pass(minutes(8));
  EXPECT_THAT(periods(), IsEmpty());
  std::size_t total = 0;
  std::vector<std::string> first_minute;
  for (int tenth = 0; tenth < 10; ++tenth) {
    world.pass(tenth == 0 ? seconds(26) : seconds(6));
    const auto put = instances.look(world.store().durable());
    EXPECT_GT(put.size(), 30U) << tenth;
    EXPECT_LT(put.size(), 90U) << tenth;
    total += put.size();
    for (const auto& instance : put) {
      EXPECT_EQ(instance.period_ms, kBegin + 10 * kMinute);
      first_minute.push_back(instance.schedule);
    }
  }
  EXPECT_EQ(total, 600U);
  // The next time, and after a restart, in the same order.
  world.restart();
  world.pass(minutes(10));
  std::vector<std::string> second_minute;
  for (const auto& instance : instances.look(world.store().durable())) {
    second_minute.push_back(instance.schedule);
  }
  EXPECT_EQ(second_minute, first_minute);
}

TEST_F(BrokerSchedule, FollowsTheCalendar) {
  set(every(60 * kMinute));
  world.step_calendar(minutes(58));
  world.pass(seconds(19));
  EXPECT_THAT(periods(), IsEmpty());
  world.pass(seconds(1));
  EXPECT_THAT(periods(), ElementsAre(60 * kMinute));
  // Set forward over several periods: the last of them.
  world.step_calendar(hours(5));
  world.pass(milliseconds(1));
  EXPECT_THAT(periods(), ElementsAre(360 * kMinute));
  // Set back: periods that were put are not put again.
  world.step_calendar(-hours(2));
  world.pass(hours(3) - seconds(1));
  EXPECT_THAT(periods(), IsEmpty());
  world.pass(seconds(1));
  EXPECT_THAT(periods(), ElementsAre(420 * kMinute));
}

// A clock that was wrong by years must not silence a schedule for years.
TEST_F(BrokerSchedule, ACalendarThatGoesFarBackWasWrongBefore) {
  set(every(60 * kMinute));
  world.step_calendar(hours(24 * 365 * 4));
  world.pass(hours(1));
  EXPECT_EQ(periods().size(), 2U);
  world.step_calendar(-hours(24 * 365 * 4));
  world.pass(hours(1));
  EXPECT_EQ(periods(), std::vector<std::int64_t>{120 * kMinute});
  // Also if that is found at a start.
  world.step_calendar(hours(24 * 365 * 4));
  world.pass(hours(1));
  periods();
  world.step_calendar(-hours(24 * 365 * 4));
  world.restart();
  world.pass(hours(1));
  EXPECT_EQ(periods().size(), 1U);
}

TEST_F(BrokerSchedule, AFullTubeHoldsTheInstanceUpAndLosesNone) {
  CommandOptions options;
  options.settings.max_jobs = 1;
  Command limit;
  limit.verb = Verb::kSetTube;
  limit.tube = "default";
  limit.options = std::make_shared<const CommandOptions>(options);
  ASSERT_EQ(world.run(s, std::move(limit))->answer, Answer::kTubeSet);
  set(every(kMinute));
  world.pass(minutes(1));
  EXPECT_THAT(periods(), ElementsAre(2 * kMinute));
  world.pass(seconds(30));
  EXPECT_THAT(periods(), IsEmpty());
  finish_last();
  world.pass(seconds(1));
  EXPECT_THAT(periods(), ElementsAre(3 * kMinute));
}

// Both are in one batch: whichever part of it is lost, the other is too.
TEST_F(BrokerSchedule, AFailedCommitPutsThePeriodAgainAndAWrittenOneDoesNot) {
  for (const std::size_t written : {0U, 1U}) {
    World manual(schedule_options(), true);
    const SessionId session = manual.connect();
    manual.commit();
    (void)manual.run(session, on_schedule(Verb::kSetSchedule, every(kMinute)));
    manual.commit();
    Instances seen;
    manual.pass(minutes(1));
    manual.submit();
    manual.fail_commits(written);
    EXPECT_EQ(seen.look(manual.store().durable()).size(), written);
    manual.finish_recovery();
    manual.pass(milliseconds(1));
    manual.commit();
    EXPECT_EQ(seen.look(manual.store().durable()).size(), 1 - written);
    EXPECT_EQ(manual.store().durable().schedules.at("s").progress.runs, 1U);
  }
}

}  // namespace
}  // namespace carillon::broker::testing
