// SPDX-License-Identifier: Apache-2.0
// Which times a line of cron names, and what happens to them when clocks are set. Times are written
// with the offset that the clocks of the zone show, so that a table reads as a wall clock does.
#include "carillon/calendar/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "carillon/calendar/recurrence.h"
#include "carillon/calendar/rfc3339.h"

namespace carillon::calendar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t at(std::string_view text) { return parse_rfc3339(text).value(); }

/// The next `count` times after `after` as UTC.
std::vector<std::string> times(std::string_view spec, std::string_view after, int count) {
  const Result<Recurrence> recurrence = Recurrence::parse(spec);
  if (!recurrence) return {recurrence.error().message};
  std::vector<std::string> found;
  std::int64_t now = at(after);
  for (int i = 0; i < count; ++i) {
    const auto next = recurrence->next(now);
    if (!next) {
      found.emplace_back("never");
      break;
    }
    found.push_back(format_rfc3339(*next));
    now = *next;
  }
  return found;
}

struct Row {
  std::string_view spec;
  std::string_view after;
  std::vector<std::string_view> expected;  // With any offset.
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::vector<std::string> expected;
    expected.reserve(row.expected.size());
    for (const std::string_view text : row.expected) expected.push_back(format_rfc3339(at(text)));
    EXPECT_EQ(times(row.spec, row.after, static_cast<int>(expected.size())), expected)
        << row.spec << " after " << row.after;
  }
}

std::string problem(std::string_view line) {
  const Result<Cron> cron = Cron::parse(line);
  return cron ? "none" : cron.error().message;
}

TEST(Cron, FieldsListsRangesStepsAndNames) {
  check({
      {"0 6 * * *", "2026-01-01T05:59:59Z", {"2026-01-01T06:00:00Z", "2026-01-02T06:00:00Z"}},
      {"0 6 * * *", "2026-01-01T06:00:00Z", {"2026-01-02T06:00:00Z"}},
      {"*/20 * * * *",
       "2026-01-01T00:00:00Z",
       {"2026-01-01T00:20:00Z", "2026-01-01T00:40:00Z", "2026-01-01T01:00:00Z"}},
      {"5/20 9 * * *",
       "2026-01-01T00:00:00Z",
       {"2026-01-01T09:05:00Z", "2026-01-01T09:25:00Z", "2026-01-01T09:45:00Z",
        "2026-01-02T09:05:00Z"}},
      {"0 8-18/5,22 * * *",
       "2026-01-01T00:00:00Z",
       {"2026-01-01T08:00:00Z", "2026-01-01T13:00:00Z", "2026-01-01T18:00:00Z",
        "2026-01-01T22:00:00Z"}},
      {"0 0 1 jan,Jul *", "2026-01-01T00:00:00Z", {"2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z"}},
      {"0 9 * * mon-FRI",
       "2026-11-26T12:00:00Z",
       {"2026-11-27T09:00:00Z", "2026-11-30T09:00:00Z", "2026-12-01T09:00:00Z"}},
      // Sunday is 0, 7, and the end of a range.
      {"0 0 * * 0", "2026-11-26T00:00:00Z", {"2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z"}},
      {"0 0 * * 7", "2026-11-26T00:00:00Z", {"2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z"}},
      {"0 0 * * SAT-SUN", "2026-11-26T00:00:00Z", {"2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z"}},
      {"0 0 ? * 5-7",
       "2026-11-26T00:00:00Z",
       {"2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z",
        "2026-12-04T00:00:00Z"}},
      // Six fields: seconds first.
      {"*/25 0 0 1 1 *",
       "2026-01-01T00:00:00Z",
       {"2026-01-01T00:00:25Z", "2026-01-01T00:00:50Z", "2027-01-01T00:00:00Z"}},
      {"30 59 23 31 12 ?", "2026-01-01T00:00:00.001Z", {"2026-12-31T23:59:30Z"}},
      // What a month lacks does not come in it.
      {"0 0 31 * *",
       "2026-01-31T00:00:00Z",
       {"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z"}},
      {"0 0 29 2 *", "2026-01-01T00:00:00Z", {"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
      {"0 0 29 FEB *", "2096-03-01T00:00:00Z", {"2104-02-29T00:00:00Z"}},  // 2100 has none.
  });
}

TEST(Cron, Words) {
  check({
      {"@yearly", "2026-11-26T12:00:00Z", {"2027-01-01T00:00:00Z"}},
      {"@annually", "2026-11-26T12:00:00Z", {"2027-01-01T00:00:00Z"}},
      {"@monthly", "2026-11-26T12:00:00Z", {"2026-12-01T00:00:00Z"}},
      {"@weekly", "2026-11-26T12:00:00Z", {"2026-11-29T00:00:00Z"}},
      {"@Daily", "2026-11-26T12:00:00Z", {"2026-11-27T00:00:00Z"}},
      {"@midnight", "2026-11-26T12:00:00Z", {"2026-11-27T00:00:00Z"}},
      {"@hourly", "2026-11-26T12:00:00Z", {"2026-11-26T13:00:00Z"}},
  });
  EXPECT_THAT(problem("@reboot"), HasSubstr("@reboot"));
}

TEST(Cron, DayOfMonthAndDayOfWeekAsInVixieCron) {
  check({
      // Both restricted: either.
      {"0 0 13 * FRI",
       "2026-11-01T00:00:00Z",
       {"2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z",
        "2026-11-27T00:00:00Z", "2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z",
        "2026-12-13T00:00:00Z"}},
      // One begins with a star: both. Odd days that are Mondays.
      {"0 0 */2 * MON",
       "2026-11-01T00:00:00Z",
       {"2026-11-09T00:00:00Z", "2026-11-23T00:00:00Z", "2026-12-07T00:00:00Z"}},
      {"0 0 1-7 * */7", "2026-11-02T00:00:00Z", {"2026-12-06T00:00:00Z", "2027-01-03T00:00:00Z"}},
  });
}

TEST(Cron, LastDaysNearestWeekdaysAndNthWeekdays) {
  check({
      {"0 0 L * *",
       "2027-12-31T00:00:00Z",
       {"2028-01-31T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z",
        "2028-04-30T00:00:00Z"}},
      {"0 0 L-3 * *", "2027-02-01T00:00:00Z", {"2027-02-25T00:00:00Z", "2027-03-28T00:00:00Z"}},
      {"0 0 L-30 * *", "2027-02-01T00:00:00Z", {"2027-03-01T00:00:00Z", "2027-05-01T00:00:00Z"}},
      // January 2028 ends on a Monday; April on a Sunday; September on a Saturday.
      {"0 0 LW 1,4,9 *",
       "2028-01-01T00:00:00Z",
       {"2028-01-31T00:00:00Z", "2028-04-28T00:00:00Z", "2028-09-29T00:00:00Z"}},
      // Saturday 15 August 2026: Friday. Sunday 15 November: Monday. Wednesday 15 July: itself.
      {"0 0 15W 7,8,11 *",
       "2026-07-01T00:00:00Z",
       {"2026-07-15T00:00:00Z", "2026-08-14T00:00:00Z", "2026-11-16T00:00:00Z"}},
      // Never into another month: Saturday 1 August 2026, Sunday 31 January and 31 May 2027.
      {"0 0 1W 8 *", "2026-07-01T00:00:00Z", {"2026-08-03T00:00:00Z"}},
      {"0 0 31W 1,2,5 *", "2027-01-01T00:00:00Z", {"2027-01-29T00:00:00Z", "2027-05-31T00:00:00Z"}},
      {"0 0 28w 2 *", "2027-01-01T00:00:00Z", {"2027-02-26T00:00:00Z"}},  // A Sunday, and the last.
      {"0 0 * * FRI#2", "2026-11-01T00:00:00Z", {"2026-11-13T00:00:00Z", "2026-12-11T00:00:00Z"}},
      {"0 0 * * 1#5", "2026-11-01T00:00:00Z", {"2026-11-30T00:00:00Z", "2027-03-29T00:00:00Z"}},
      {"0 0 * * friL,7#1",
       "2026-11-01T00:00:00Z",
       {"2026-11-27T00:00:00Z", "2026-12-06T00:00:00Z", "2026-12-25T00:00:00Z"}},
      {"0 0 ? * 0L", "2026-11-01T00:00:00Z", {"2026-11-29T00:00:00Z", "2026-12-27T00:00:00Z"}},
  });
}

// quartz-scheduler.org-site#112: the time of day existed again since two days, and was passed over.
TEST(Cron, C7TimeOfDayInTheGapDoesNotLoseALaterDay) {
  check({{"CRON_TZ=Europe/Amsterdam 30 2 * * *",
          "2025-04-01T02:00:00+02:00",
          {"2025-04-01T02:30:00+02:00", "2025-04-02T02:30:00+02:00"}}});
  // From the first of March, day by day: on the 30th the clocks jump from 02:00 to 03:00.
  check({{"CRON_TZ=Europe/Amsterdam 30 2 * * *",
          "2025-03-28T12:00:00+01:00",
          {"2025-03-29T02:30:00+01:00", "2025-03-30T03:00:00+02:00", "2025-03-31T02:30:00+02:00",
           "2025-04-01T02:30:00+02:00"}}});
}

// OptimalBits/bull#2207: ran twice, an hour apart, on the first Monday after.
TEST(Cron, C8WeeklyOverTheAutumnChangeRunsOnceAtItsLocalTime) {
  check(
      {{"CRON_TZ=America/New_York 0 6 * * MON",
        "2025-10-27T00:00:00-04:00",
        {"2025-10-27T06:00:00-04:00", "2025-11-03T06:00:00-05:00", "2025-11-10T06:00:00-05:00"}}});
}

// avifenesh/glide-mq#74.
TEST(Cron, C9TimeOfDayInTheSkippedHourRunsOnceWhenTheGapEnds) {
  check({
      {"CRON_TZ=America/New_York 30 2 * * *",
       "2026-03-07T12:00:00-05:00",
       {"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
      // Many in the gap are one; and so is one at its end.
      {"CRON_TZ=America/New_York 0,15,30,45 2,3 * * *",
       "2026-03-08T01:59:00-05:00",
       {"2026-03-08T03:00:00-04:00", "2026-03-08T03:15:00-04:00"}},
      // Asked at that instant, and in the hour after it: not again.
      {"CRON_TZ=America/New_York 30 2 * * *",
       "2026-03-08T03:00:00-04:00",
       {"2026-03-09T02:30:00-04:00"}},
      {"CRON_TZ=America/New_York 30 2 * * *",
       "2026-03-08T03:10:00-04:00",
       {"2026-03-09T02:30:00-04:00"}},
      {"CRON_TZ=America/New_York 30 2 8 3 *",
       "2025-04-01T00:00:00-04:00",
       {"2026-03-08T03:00:00-04:00", "2027-03-08T02:30:00-05:00"}},
      // A gap at midnight: the day begins at 01:00.
      {"CRON_TZ=America/Sao_Paulo @daily",
       "2018-11-03T12:00:00-03:00",
       {"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
      // Half an hour.
      {"CRON_TZ=Australia/Lord_Howe 15 2 * * *",
       "2025-10-04T12:00:00+10:30",
       {"2025-10-05T02:30:00+11:00", "2025-10-06T02:15:00+11:00"}},
      // A whole day: Samoa had no 30 December 2011.
      {"CRON_TZ=Pacific/Apia 0 6 * * *",
       "2011-12-29T12:00:00-10:00",
       {"2011-12-31T00:00:00+14:00", "2011-12-31T06:00:00+14:00", "2012-01-01T06:00:00+14:00"}},
  });
}

TEST(Cron, C9TimeOfDayInTheRepeatedHourRunsTheFirstTimeOnly) {
  check({
      {"CRON_TZ=America/New_York 30 1 * * *",
       "2025-11-01T12:00:00-04:00",
       {"2025-11-02T01:30:00-04:00", "2025-11-03T01:30:00-05:00"}},
      // Asked between the two.
      {"CRON_TZ=America/New_York 30 1 * * *",
       "2025-11-02T01:45:00-04:00",
       {"2025-11-03T01:30:00-05:00"}},
      {"CRON_TZ=America/New_York 30 1 * * *",
       "2025-11-02T01:10:00-05:00",
       {"2025-11-03T01:30:00-05:00"}},
      {"CRON_TZ=Europe/Amsterdam 0,30 2 * * *",
       "2025-10-26T00:00:00+02:00",
       {"2025-10-26T02:00:00+02:00", "2025-10-26T02:30:00+02:00", "2025-10-27T02:00:00+01:00"}},
      // At the instant at which the repetition ends.
      {"CRON_TZ=Europe/Amsterdam 0 3 * * *",
       "2025-10-26T02:59:00+02:00",
       {"2025-10-26T03:00:00+01:00"}},
      // Midnight twice, and a part of yesterday again.
      {"CRON_TZ=America/Havana @daily",
       "2025-11-01T12:00:00-04:00",
       {"2025-11-02T00:00:00-04:00", "2025-11-03T00:00:00-05:00"}},
      {"CRON_TZ=America/Sao_Paulo 30 23 * * *",
       "2019-02-16T12:00:00-02:00",
       {"2019-02-16T23:30:00-02:00", "2019-02-17T23:30:00-03:00"}},
      {"CRON_TZ=Australia/Lord_Howe 45 1 * * *",
       "2026-04-04T12:00:00+11:00",
       {"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},
  });
}

TEST(Cron, RhythmGoesOnWithRealTimeWhenClocksAreSet) {
  check({
      {"CRON_TZ=Europe/Amsterdam */30 * * * *",
       "2025-03-30T01:10:00+01:00",
       {"2025-03-30T01:30:00+01:00", "2025-03-30T03:00:00+02:00", "2025-03-30T03:30:00+02:00"}},
      {"CRON_TZ=Europe/Amsterdam */30 * * * *",
       "2025-10-26T01:45:00+02:00",
       {"2025-10-26T02:00:00+02:00", "2025-10-26T02:30:00+02:00", "2025-10-26T02:00:00+01:00",
        "2025-10-26T02:30:00+01:00", "2025-10-26T03:00:00+01:00"}},
      {"CRON_TZ=Europe/Amsterdam @hourly",
       "2025-10-26T01:45:00+02:00",
       {"2025-10-26T02:00:00+02:00", "2025-10-26T02:00:00+01:00", "2025-10-26T03:00:00+01:00"}},
      {"CRON_TZ=Europe/Amsterdam 15 * * * *",
       "2025-03-30T01:10:00+01:00",
       {"2025-03-30T01:15:00+01:00", "2025-03-30T03:15:00+02:00"}},
      // As in Vixie's cron, also where only the minute begins with a star.
      {"CRON_TZ=Europe/Amsterdam */30 2 * * *",
       "2025-03-29T12:00:00+01:00",
       {"2025-03-31T02:00:00+02:00"}},
      {"CRON_TZ=Europe/Amsterdam */10 0 */2 * * *",
       "2025-10-26T02:00:40+02:00",
       {"2025-10-26T02:00:50+02:00", "2025-10-26T02:00:00+01:00"}},
  });
  EXPECT_TRUE(Cron::parse("*/5 * * * *")->is_rhythm());
  EXPECT_TRUE(Cron::parse("0 */2 * * *")->is_rhythm());
  EXPECT_FALSE(Cron::parse("0 0-23 * * *")->is_rhythm());
  EXPECT_FALSE(Cron::parse("* 30 2 * * *")->is_rhythm());
}

// Files of the database list changes up to 2037; after that a rule holds.
TEST(Cron, ClocksAreSetAfter2037Too) {
  check({
      {"CRON_TZ=Europe/Amsterdam 0 6 * * *",
       "2044-03-26T12:00:00+01:00",
       {"2044-03-27T06:00:00+02:00"}},
      {"CRON_TZ=America/New_York 30 2 * * *",
       "2060-03-13T12:00:00-05:00",
       {"2060-03-14T03:00:00-04:00", "2060-03-15T02:30:00-04:00"}},
      {"CRON_TZ=Australia/Sydney 30 2 * * *",
       "2050-04-02T12:00:00+11:00",
       {"2050-04-03T02:30:00+11:00", "2050-04-04T02:30:00+10:00"}},
      {"CRON_TZ=America/Nuuk 0 12 * * *",
       "2050-03-26T13:00:00-02:00",
       {"2050-03-27T12:00:00-01:00"}},
  });
}

TEST(Cron, ErrorsNameTheFieldAndTheLimit) {
  EXPECT_EQ(problem("60 * * * *"), "minute: 60 is beyond 59");
  EXPECT_EQ(problem("* 24 * * *"), "hour: 24 is beyond 23");
  EXPECT_EQ(problem("* * 0 * *"), "day of month: 0 is before 1");
  EXPECT_EQ(problem("* * 32W * *"), "day of month: 32 is beyond 31");
  EXPECT_EQ(problem("* * L-31 * *"), "day of month: L-31 is beyond L-30");
  EXPECT_EQ(problem("* * L-x * *"), "day of month: \"L-x\" is not L-n as in L-3");
  EXPECT_EQ(problem("* * * 13 *"), "month: 13 is beyond 12");
  EXPECT_EQ(problem("* * * * 8"), "day of week: 8 is beyond 7");
  EXPECT_EQ(problem("* * * * L"),
            "day of week: \"L\" is not a number from 0 to 7 or a name as SUN");
  EXPECT_EQ(problem("* * * * FRI#6"), "day of week: in \"FRI#6\" a number from 1 to 5 follows #");
  EXPECT_EQ(problem("61 * * * * *"), "second: 61 is beyond 59");
  EXPECT_EQ(problem("*/0 * * * *"), "minute: the step is at least 1");
  EXPECT_EQ(problem("*/90 * * * *"), "minute: the step 90 is beyond 59");
  EXPECT_EQ(problem("*/x * * * *"), "minute: the step \"x\" is not a number");
  EXPECT_EQ(problem("* 22-2 * * *"), "hour: the range 22-2 ends before it begins; name two ranges");
  EXPECT_EQ(problem("1,,2 * * * *"), "minute: a value is missing");
  EXPECT_EQ(problem("1- * * * *"), "minute: a value is missing");
  EXPECT_EQ(problem("MON * * * *"), "minute: \"MON\" is not a number from 0 to 59");
  EXPECT_EQ(problem("? * * * *"), "minute: \"?\" is not a number from 0 to 59");
  EXPECT_EQ(problem("1000000 * * * *"), "minute: \"1000000\" is not a number from 0 to 59");
  EXPECT_THAT(problem("* * * *"), HasSubstr("4 fields"));
  EXPECT_THAT(problem("* * * * * * *"), HasSubstr("7 fields"));
  EXPECT_THAT(problem(""), HasSubstr("0 fields"));
}

TEST(Cron, ALineThatNamesNoDayIsRefused) {
  for (const std::string_view line :
       {"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31W 2 *", "0 0 30 FEB ?", "0 0 L-29 2 *"}) {
    EXPECT_EQ(problem(line), "day of month, month, day of week: there is no such day in any year")
        << line;
  }
  // But one that is rare is not: Monday 29 February; "L-28" of February, in leap years.
  EXPECT_THAT(times("0 0 29 2 */1", "2026-01-01T00:00:00Z", 1), ElementsAre(HasSubstr("2028")));
  EXPECT_THAT(times("0 0 L-28 2 *", "2026-01-01T00:00:00Z", 1),
              ElementsAre("2028-02-01T00:00:00.000Z"));
  EXPECT_EQ(problem("0 0 30 2 MON"), "none");  // Or Mondays in February.
}

TEST(Cron, EndsWithTheCalendar) {
  EXPECT_THAT(times("@yearly", "2261-06-01T00:00:00Z", 2),
              ElementsAre("2262-01-01T00:00:00.000Z", "never"));
  const Cron cron = Cron::parse("* * * * *").value();
  EXPECT_EQ(cron.next(std::numeric_limits<std::int64_t>::max(), TimeZone()), std::nullopt);
  EXPECT_NE(cron.next(std::numeric_limits<std::int64_t>::min(), TimeZone()), std::nullopt);
}

}  // namespace
}  // namespace carillon::calendar
