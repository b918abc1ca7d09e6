// SPDX-License-Identifier: Apache-2.0
#include "carillon/calendar/recurrence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "carillon/calendar/rfc3339.h"

namespace carillon::calendar {
namespace {

using ::testing::HasSubstr;

std::int64_t at(std::string_view text) { return parse_rfc3339(text).value(); }

std::string next(std::string_view spec, std::string_view after) {
  const Result<Recurrence> recurrence = Recurrence::parse(spec);
  if (!recurrence) return recurrence.error().message;
  const auto found = recurrence->next(at(after));
  return found ? format_rfc3339(*found) : "never";
}

std::string problem(std::string_view spec) {
  const Result<Recurrence> recurrence = Recurrence::parse(spec);
  return recurrence ? "none" : recurrence.error().message;
}

TEST(Recurrence, EveryCountsFromItsStartWhateverIsAsked) {
  EXPECT_EQ(next("every 30m", "2026-01-01T10:07:00Z"), "2026-01-01T10:30:00.000Z");
  EXPECT_EQ(next("every 30m", "2026-01-01T10:30:00Z"), "2026-01-01T11:00:00.000Z");
  EXPECT_EQ(next("every 1h30m from 2026-01-01T06:10:00Z", "2026-01-01T06:09:59.999Z"),
            "2026-01-01T06:10:00.000Z");
  EXPECT_EQ(next("every 1h30m from 2026-01-01T06:10:00Z", "2020-01-01T00:00:00Z"),
            "2026-01-01T06:10:00.000Z");
  EXPECT_EQ(next("every 1h30m from 2026-01-01T06:10:00Z", "2026-01-01T06:10:00Z"),
            "2026-01-01T07:40:00.000Z");
  EXPECT_EQ(next("every 1h30m from 2026-01-01T07:10:00+01:00", "2029-01-01T00:00:00Z"),
            "2029-01-01T00:10:00.000Z");
  EXPECT_EQ(next("every 1s1ms from 2026-01-01T00:00:00.500Z", "2026-01-01T00:00:01Z"),
            "2026-01-01T00:00:01.501Z");
  EXPECT_EQ(next("every 7d", "1969-12-30T00:00:00Z"), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(next("@every 90s", "2026-01-01T00:00:00Z"), "2026-01-01T00:01:30.000Z");
}

TEST(Recurrence, EveryDoesNotDriftHoweverLateTheRunsAre) {
  const Recurrence recurrence = Recurrence::parse("every 10s").value();
  std::int64_t now = at("2026-01-01T00:00:00Z");
  for (int run = 1; run <= 1'000; ++run) {
    const std::int64_t due = recurrence.next(now).value();
    EXPECT_EQ(due, at("2026-01-01T00:00:00Z") + std::int64_t{run} * 10'000);
    now = due + run % 9'000;  // Asked late, by less than a period.
  }
}

TEST(Recurrence, TextFormsReadBackAndAreOneForOneMeaning) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"every 90m", "every 1h30m"},
      {"every 1h30m", "every 1h30m"},
      {"@every 24h", "every 1d"},
      {"every 1m from 2026-01-01T01:00:00+01:00", "every 1m from 2026-01-01T00:00:00.000Z"},
      {"  30  2 * \t* * ", "30 2 * * *"},
      {"TZ=Europe/Amsterdam  30 2 * * *", "CRON_TZ=Europe/Amsterdam 30 2 * * *"},
      {"CRON_TZ=UTC @daily", "@daily"},
  };
  for (const auto& [text, spec] : rows) {
    const Recurrence recurrence = Recurrence::parse(text).value();
    EXPECT_EQ(recurrence.spec(), spec);
    EXPECT_EQ(Recurrence::parse(recurrence.spec())->spec(), spec);
  }
  EXPECT_EQ(Recurrence::cron("30 2 * * *", "Europe/Amsterdam")->spec(),
            "CRON_TZ=Europe/Amsterdam 30 2 * * *");
  EXPECT_EQ(Recurrence::cron("30 2 * * *", "")->spec(), "30 2 * * *");
  EXPECT_EQ(Recurrence::every(5'400'000)->spec(), "every 1h30m");
  EXPECT_EQ(Recurrence::cron("30 2 * * *", "Europe/Amsterdam")->time_zone().name(),
            "Europe/Amsterdam");
  EXPECT_EQ(Recurrence::every(5'400'000)->time_zone().name(), "UTC");
}

TEST(Recurrence, ErrorsNameTheFieldAndTheLimit) {
  EXPECT_EQ(problem(""), "spec: it is empty");
  EXPECT_EQ(problem("every 999ms"), "period: 999ms is below 1s");
  EXPECT_EQ(problem("every 0s"), "period: 0ms is below 1s");
  EXPECT_EQ(problem("every 36526d"), "period: 36526d is beyond 36525d");
  EXPECT_EQ(problem("every 999999999999999d"), "period: \"999999999999999d\" is beyond 36525d");
  EXPECT_EQ(problem("every 9999999999999999s"), "period: \"9999999999999999s\" is beyond 36525d");
  EXPECT_EQ(problem("every"), "period: it is missing");
  EXPECT_THAT(problem("every 5"), HasSubstr("\"5\" is not one as 1h30m"));
  EXPECT_THAT(problem("every 30m1h"), HasSubstr("in this order"));
  EXPECT_THAT(problem("every 1h1h"), HasSubstr("each once"));
  EXPECT_THAT(problem("every -5m"), HasSubstr("is not one as 1h30m"));
  EXPECT_THAT(problem("every 5m until 2026"), HasSubstr("\"from\" and a time"));
  EXPECT_THAT(problem("every 5m from tomorrow"), HasSubstr("from: \"tomorrow\" is not a time"));
  EXPECT_EQ(problem("every 5m from 2026-01-01T00:00:00Z x"), "spec: nothing comes after the time");
  EXPECT_THAT(problem("every 5m from 2263-01-01T00:00:00Z"), HasSubstr("is not from 1677-09-21"));
  EXPECT_EQ(problem("CRON_TZ= 0 0 * * *"), "time zone: it is missing after CRON_TZ=");
  EXPECT_THAT(problem("CRON_TZ=Mars/Olympus 0 0 * * *"), HasSubstr("time zone \"Mars/Olympus\""));
  EXPECT_EQ(problem("0 25 * * *"), "hour: 25 is beyond 23");
  EXPECT_EQ(problem(std::string(513, '*')), "spec: 513 bytes are beyond 512");
  EXPECT_THAT(Recurrence::cron(std::string(513, '*'), "").error().message, HasSubstr("512 bytes"));
}

TEST(Recurrence, EndsWithTheCalendarAndTakesAnyNumber) {
  const std::int64_t ends[] = {std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max()};
  for (const std::string_view spec : {"every 1s", "every 36525d from 2026-01-01T00:00:00Z",
                                      "* * * * *", "CRON_TZ=Europe/Amsterdam 0 0 1 1 *"}) {
    const Recurrence recurrence = Recurrence::parse(spec).value();
    EXPECT_NE(recurrence.next(ends[0]), std::nullopt) << spec;
    EXPECT_EQ(recurrence.next(ends[1]), std::nullopt) << spec;
  }
  EXPECT_EQ(next("every 36525d from 2200-01-01T00:00:00Z", "2261-01-01T00:00:00Z"), "never");
  EXPECT_EQ(next_of_spec("no spec", 0), std::nullopt);
  EXPECT_EQ(next_of_spec("every 1s", 0), 1'000);
}

}  // namespace
}  // namespace carillon::calendar
