// SPDX-License-Identifier: Apache-2.0
// Jobs with a date follow the calendar, however that is set; others do not notice.
#include <gtest/gtest.h>

#include "carillon/broker/testing/commands.h"

namespace carillon::broker::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

class BrokerCalendar : public ::testing::Test {
 protected:
  World world{far_options()};
  SessionId s = world.connect();

  JobId put_in(Span span, std::string_view body = "dated") {
    const std::int64_t due_at = floor_ms(world.calendar() + span);
    return world.run(s, put_command(body, with_date(due_at)))->id;
  }
  bool is_ready(JobId id) { return get(world, s, id).stats.state == JobState::kReady; }
};

TEST_F(BrokerCalendar, ADateIsKeptToTheMillisecond) {
  world.step_calendar(hours(5) + Span(123'456));
  const JobId id = put_in(seconds(10));
  EXPECT_EQ(get(world, s, id).due_at_ms, world.calendar_ms() + 10'000);
  EXPECT_TRUE(world.broker().follows_calendar());
  world.pass(milliseconds(9'998));
  EXPECT_FALSE(is_ready(id));
  world.pass(milliseconds(2));
  EXPECT_TRUE(is_ready(id));
}

TEST_F(BrokerCalendar, TimesThatAreShownDoNotFlicker) {
  world.step_calendar(hours(5) + Span(999'990));
  const JobId id = world.put_id(s, "relative", seconds(30));
  const JobView before = get(world, s, id);
  for (const int ns : {20, -15, 30, -40}) {
    world.step_calendar(Span(ns));
    const JobView now = get(world, s, id);
    EXPECT_EQ(now.created_at_ms, before.created_at_ms) << ns;
    EXPECT_EQ(now.due_at_ms, before.due_at_ms) << ns;
  }
  world.step_calendar(milliseconds(2));
  EXPECT_EQ(get(world, s, id).created_at_ms, before.created_at_ms + 2);
}

TEST_F(BrokerCalendar, ADateThatHasPassedIsNow) {
  EXPECT_TRUE(is_ready(put_in(Span::zero())));
  EXPECT_TRUE(is_ready(put_in(-hours(1'000))));
}

TEST_F(BrokerCalendar, AStepForwardMakesItDue) {
  const JobId near = put_in(seconds(30));
  const JobId far = put_in(hours(10));
  const JobId relative = world.put_id(s, "relative", seconds(30));
  const JobId far_relative = world.put_id(s, "far relative", hours(10));
  world.step_calendar(seconds(30));
  world.advance();
  world.pass(milliseconds(1));
  EXPECT_TRUE(is_ready(near));
  EXPECT_FALSE(is_ready(far));
  world.step_calendar(hours(10));
  world.pass(milliseconds(2));
  EXPECT_TRUE(is_ready(far)) << "a step beyond the horizon has not loaded it";
  EXPECT_FALSE(is_ready(relative)) << "a delay has followed the calendar";
  EXPECT_FALSE(is_ready(far_relative)) << "a delay has followed the calendar";
  world.pass(hours(10));
  EXPECT_TRUE(is_ready(far_relative));
}

TEST_F(BrokerCalendar, AStepBackMakesItWaitNearOrFar) {
  const JobId near = put_in(seconds(30));
  const JobId far = put_in(minutes(10));
  world.step_calendar(-hours(1));
  world.pass(minutes(20));
  EXPECT_FALSE(is_ready(near));
  EXPECT_FALSE(is_ready(far));
  world.pass(minutes(40) + seconds(29));
  EXPECT_FALSE(is_ready(near));
  world.pass(seconds(1) + milliseconds(1));
  EXPECT_TRUE(is_ready(near));
  world.pass(minutes(10));
  EXPECT_TRUE(is_ready(far));
}

TEST_F(BrokerCalendar, AClockThatIsSlewedMakesNobodyEarlyAndNobodyMuchLate) {
  const JobId first = put_in(seconds(20));
  for (int i = 0; i < 1'000; ++i) {
    world.step_calendar(-Span(4'000));
    world.pass(milliseconds(20));
  }
  // 4 ms behind: it is not due for those.
  EXPECT_FALSE(is_ready(first));
  world.pass(milliseconds(5));
  EXPECT_TRUE(is_ready(first));
  const JobId second = put_in(seconds(20));
  for (int i = 0; i < 1'000; ++i) {
    world.step_calendar(Span(20'000));
    world.pass(milliseconds(20));
  }
  EXPECT_TRUE(is_ready(second)) << "20 ms ahead, and not noticed";
}

TEST_F(BrokerCalendar, ItCountsAcrossARestartToo) {
  const JobId near = put_in(seconds(30));
  const JobId far = put_in(hours(2));
  world.step_calendar(-minutes(10));
  world.restart(seconds(40));
  s = world.connect();
  world.pass(seconds(10));
  EXPECT_FALSE(is_ready(near)) << "the calendar had been set back";
  world.step_calendar(minutes(10));
  world.pass(milliseconds(1));
  EXPECT_TRUE(is_ready(near));
  world.step_calendar(hours(3));
  world.restart();
  s = world.connect();
  world.pass(milliseconds(2));
  EXPECT_TRUE(is_ready(far));
}

TEST_F(BrokerCalendar, WhoWasReleasedWithADelayHasNoDateAnyMore) {
  const JobId id = put_in(seconds(1));
  world.pass(seconds(1));
  ASSERT_EQ(world.poll(s)->id, id);
  world.release(s, id, 0, seconds(5));
  EXPECT_FALSE(get(world, s, id).extras);
  world.step_calendar(-hours(1));
  world.pass(seconds(5));
  EXPECT_TRUE(is_ready(id));
}

TEST_F(BrokerCalendar, ADateMayBeChangedForADelayAndADelayForADate) {
  const JobId id = put_in(hours(5));
  world.run(s, change_delay(id, hours(6)));
  EXPECT_FALSE(get(world, s, id).extras);
  world.step_calendar(hours(7));
  world.pass(milliseconds(2));
  EXPECT_FALSE(is_ready(id));
  const std::int64_t due_at = world.calendar_ms() + 9 * 3'600'000;
  world.run(s, change_date(id, due_at));
  EXPECT_EQ(get(world, s, id).due_at_ms, due_at);
  world.step_calendar(hours(9));
  world.pass(milliseconds(2));
  EXPECT_TRUE(is_ready(id));
  EXPECT_EQ(world.broker().follows_calendar(), true);
  world.del(s, id);
  EXPECT_FALSE(world.broker().follows_calendar());
}

TEST_F(BrokerCalendar, PeekDelayedAndKickGoByWhereItStandsNow) {
  world.put_id(s, "relative", minutes(30));
  put_in(hours(1));
  world.step_calendar(minutes(45));
  EXPECT_EQ(world.by_tube(s, Verb::kPeekDelayed, "default")->body.view(), "dated");
  world.kick(s, 1);
  EXPECT_EQ(world.poll(s)->body.view(), "dated");
}

TEST_F(BrokerCalendar, AbsurdDatesAreFarAndDoNotWrap) {
  for (const std::int64_t due_at :
       {std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 53}) {
    const JobId id = world.run(s, put_command("x", with_date(due_at)))->id;
    world.step_calendar(hours(24 * 365 * 10));
    world.pass(hours(1));
    EXPECT_FALSE(is_ready(id));
    EXPECT_EQ(get(world, s, id).due_at_ms, due_at);
  }
  EXPECT_TRUE(is_ready(
      world.run(s, put_command("x", with_date(std::numeric_limits<std::int64_t>::min())))->id));
}

}  // namespace
}  // namespace carillon::broker::testing
