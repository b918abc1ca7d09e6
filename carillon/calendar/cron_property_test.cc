// SPDX-License-Identifier: Apache-2.0
// Random lines in many zones, around the days on which their clocks are set, against a model that
// walks from minute to minute and asks the C library what the clocks show.
//
// CARILLON_SEED=n repeats the run of seed n, CARILLON_RUNS=n makes n runs instead of the default.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/calendar/cron.h"
#include "carillon/calendar/recurrence.h"
#include "carillon/calendar/rfc3339.h"
#include "carillon/calendar/time_zone.h"

namespace carillon::calendar {
namespace {

constexpr std::array<const char*, 16> kZones = {
    "Europe/Amsterdam", "Europe/Dublin",     "America/New_York", "America/Sao_Paulo",
    "America/Havana",   "America/St_Johns",  "America/Nuuk",     "America/Santiago",
    "Asia/Kolkata",     "Asia/Gaza",         "Asia/Tehran",      "Australia/Lord_Howe",
    "Pacific/Apia",     "Africa/Casablanca", "Antarctica/Troll", "UTC"};

/// What the clocks of the zone in TZ show, by the C library: local seconds since 1970.
std::int64_t shown(std::int64_t at_s) {
  const auto time = static_cast<std::time_t>(at_s);
  std::tm local{};
  ::localtime_r(&time, &local);
  return at_s + local.tm_gmtoff;
}

/// A field as written, and the values it names: evaluated apart from the parser.
struct Field {
  std::string text;
  std::vector<bool> named;
};

class Trial {
 public:
  explicit Trial(std::uint64_t seed) : random_(seed) {}

  void run() {
    const char* zone = kZones[static_cast<std::size_t>(random_.below(kZones.size()))];
    ::setenv("TZ", zone, 1);
    ::tzset();
    const Field minute = field(0, 59, 0.3);
    const Field hour = field(0, 23, 0.3);
    const Field day = field(1, 31, 0.7);
    const Field month = field(1, 12, 0.8);
    const Field weekday = field(0, 6, 0.7);
    const std::string line =
        minute.text + " " + hour.text + " " + day.text + " " + month.text + " " + weekday.text;
    SCOPED_TRACE(std::string(zone) + " " + line);
    const Result<Cron> cron = Cron::parse(line);
    if (!cron) return;  // Names no day.
    const TimeZone time_zone = TimeZone::find(zone).value();

    const auto named = [&](std::int64_t local_s) {
      const auto point = static_cast<std::time_t>(local_s);
      std::tm tm{};
      ::gmtime_r(&point, &tm);
      const bool of_month = day.named[static_cast<std::size_t>(tm.tm_mday)];
      const bool of_week = weekday.named[static_cast<std::size_t>(tm.tm_wday)];
      const bool both = day.text.front() == '*' || weekday.text.front() == '*';
      return minute.named[static_cast<std::size_t>(tm.tm_min)] &&
             hour.named[static_cast<std::size_t>(tm.tm_hour)] &&
             month.named[static_cast<std::size_t>(tm.tm_mon + 1)] &&
             (both ? of_month && of_week : of_month || of_week);
    };
    const bool rhythm = minute.text.front() == '*' || hour.text.front() == '*';

    // Some days around a setting of the clocks (or any), between 1975 and 2090.
    const std::int64_t middle = near_a_change(time_zone);
    const std::int64_t begin = (middle / 60 - std::int64_t{60} * 24 * 3) * 60;
    const std::int64_t end = begin + std::int64_t{60} * 60 * 24 * 7;
    std::vector<std::int64_t> expected;
    std::int64_t latest = shown(begin - 60);  // No local time after it has been shown.
    for (std::int64_t now = begin; now < end; now += 60) {
      const std::int64_t local = shown(now);
      bool due = false;
      if (rhythm) {
        due = named(local);
      } else {
        // All that the clocks have passed since: more than one minute if they jumped.
        for (std::int64_t passed = latest + 60; passed <= local; passed += 60) {
          due = due || named(passed);
        }
      }
      latest = std::max(latest, local);
      if (due) expected.push_back(now);
    }
    std::vector<std::int64_t> found;
    for (auto next = cron->next(begin - 1, time_zone); next && *next < end;
         next = cron->next(*next, time_zone)) {
      found.push_back(*next);
    }
    EXPECT_EQ(found, expected) << "around " << format_rfc3339(middle * 1'000);
    // From any moment, not only from one run to the next.
    for (int i = 0; i < 20; ++i) {
      const std::int64_t after =
          begin + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(end - begin)));
      const auto next = std::upper_bound(expected.begin(), expected.end(), after);
      if (next == expected.end()) continue;
      EXPECT_EQ(cron->next(after, time_zone), *next) << "after " << format_rfc3339(after * 1'000);
    }
    runs_ += static_cast<int>(expected.size());
  }

  [[nodiscard]] int runs() const { return runs_; }

 private:
  Field field(int least, int most, double any) {
    Field field{"", std::vector<bool>(static_cast<std::size_t>(most) + 1)};
    const auto name = [&](int first, int last, int step) {
      for (int v = first; v <= last; v += step) field.named[static_cast<std::size_t>(v)] = true;
    };
    if (static_cast<double>(random_.below(1'000)) < any * 1'000) {
      const int step = random_.one_in(2) ? 1 : static_cast<int>(random_.between(1, most));
      field.text = step == 1 ? "*" : "*/" + std::to_string(step);
      name(least, most, step);
      return field;
    }
    const int parts = static_cast<int>(random_.between(1, 3));
    for (int i = 0; i < parts; ++i) {
      if (i > 0) field.text += ",";
      const int first = static_cast<int>(random_.between(least, most));
      switch (random_.below(3)) {
        case 0:
          field.text += std::to_string(first);
          name(first, first, 1);
          break;
        case 1: {
          const int last = static_cast<int>(random_.between(first, most));
          field.text += std::to_string(first) + "-" + std::to_string(last);
          name(first, last, 1);
          break;
        }
        default: {
          const int last = static_cast<int>(random_.between(first, most));
          const int step = static_cast<int>(random_.between(1, most));
          field.text +=
              std::to_string(first) + "-" + std::to_string(last) + "/" + std::to_string(step);
          name(first, last, step);
        }
      }
    }
    return field;
  }

  std::int64_t near_a_change(const TimeZone& zone) {
    const std::int64_t any = random_.between(157'766'400, 3'786'912'000);  // 1975, 2090
    if (random_.one_in(4)) return any;
    const OffsetPeriod period = zone.period_at(any);
    if (period.end_s < 3'786'912'000) return period.end_s;
    return any;
  }

  Random random_;
  int runs_ = 0;
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(CronProperty, AgreesWithAWalkFromMinuteToMinute) {
  const std::uint64_t only = from_environment("CARILLON_SEED", 0);
  const std::uint64_t first = only != 0 ? only : 1;
  const std::uint64_t count = only != 0 ? 1 : from_environment("CARILLON_RUNS", 600);
  std::int64_t runs = 0;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE("CARILLON_SEED=" + std::to_string(seed));
    Trial trial(seed);
    trial.run();
    runs += trial.runs();
  }
  // It was about something.
  if (only == 0) {
    EXPECT_GT(runs, static_cast<std::int64_t>(count));
  }
}

}  // namespace
}  // namespace carillon::calendar
