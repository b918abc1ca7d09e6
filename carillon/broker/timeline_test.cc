// SPDX-License-Identifier: Apache-2.0
#include "carillon/broker/timeline.h"

#include <gtest/gtest.h>

namespace carillon::broker {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr WallTime kNoon{hours(24 * 365 * 56)};

TEST(Timeline, StandsOnTheCalendarTheFirstTime) {
  ManualClock clock(Instant(seconds(1'000)));
  const Timeline timeline(clock, kNoon, "boot 1", {}, WallTime{});
  EXPECT_EQ(timeline.now(), kNoon);
  clock.advance(seconds(5));
  EXPECT_EQ(timeline.now(), kNoon + seconds(5));
}

TEST(Timeline, DoesNotFollowTheCalendarWithinOneBoot) {
  ManualClock clock(Instant(seconds(1'000)));
  const Timeline first(clock, kNoon, "boot 1", {}, WallTime{});
  clock.advance(seconds(10));
  // The date was set back a day, then forward a year, while the server was down.
  for (const WallTime calendar : {kNoon - hours(24), kNoon + hours(24 * 365)}) {
    const Timeline second(clock, calendar, "boot 1", first.anchor(), kNoon + seconds(3));
    EXPECT_EQ(second.now(), kNoon + seconds(10));
    EXPECT_EQ(second.anchor(), first.anchor());
  }
}

TEST(Timeline, FollowsTheCalendarOverAReboot) {
  ManualClock before(Instant(seconds(1'000)));
  const Timeline first(before, kNoon, "boot 1", {}, WallTime{});
  ManualClock after(Instant(seconds(20)));
  const Timeline second(after, kNoon + hours(2), "boot 2", first.anchor(), kNoon + seconds(3));
  EXPECT_EQ(second.now(), kNoon + hours(2));
  EXPECT_EQ(second.anchor().boot_id, "boot 2");
}

// Never early: a calendar that is behind after a reboot does not put off what has been reached, and
// time does not go back.
TEST(Timeline, NeverGoesBackBehindWhatWasReached) {
  ManualClock clock(Instant(seconds(20)));
  const WallTime latest = kNoon + hours(5);
  const Timeline rebooted(clock, kNoon, "boot 2", {"boot 1", Span(1)}, latest);
  EXPECT_EQ(rebooted.now(), latest);
  // Within one boot too: the folder may come from another machine.
  const Timeline copied(clock, kNoon, "boot 1", {"boot 1", Span(1)}, latest);
  EXPECT_EQ(copied.now(), latest);
}

TEST(Timeline, AnUnknownBootMatchesNoOther) {
  ManualClock clock(Instant(seconds(1'000)));
  const Timeline first(clock, kNoon, "", {}, WallTime{});
  const Timeline second(clock, kNoon + hours(1), "", first.anchor(), WallTime{});
  EXPECT_EQ(second.now(), kNoon + hours(1));
}

TEST(Timeline, TellsTheInstantOfAPoint) {
  ManualClock clock(Instant(seconds(1'000)));
  const Timeline timeline(clock, kNoon, "boot 1", {}, WallTime{});
  EXPECT_EQ(timeline.instant_of(kNoon + seconds(30)), Instant(seconds(1'030)));
  EXPECT_EQ(timeline.instant_of(kNoon - seconds(30)), Instant(seconds(970)));
  // The end of time must not become now.
  EXPECT_GT(timeline.instant_of(WallTime::max()), Instant(hours(24 * 365 * 200)));
}

}  // namespace
}  // namespace carillon::broker
