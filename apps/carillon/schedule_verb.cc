// SPDX-License-Identifier: Apache-2.0
// carillon schedule

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/carillon/option_values.h"
#include "apps/carillon/output.h"
#include "apps/carillon/schedule.h"
#include "apps/carillon/schedule_times.h"
#include "apps/carillon/verbs.h"
#include "carillon/base/clock.h"
#include "carillon/calendar/recurrence.h"
#include "carillon/calendar/rfc3339.h"

namespace carillon::app {

Result<calendar::Recurrence> recurrence_of(const std::string& spec, const std::string& time_zone) {
  if (time_zone.empty()) return calendar::Recurrence::parse(spec);
  if (spec.starts_with("every ") || spec.starts_with("@every ")) {
    return Error{
        ErrorCode::kInvalidArgument,
        "--time-zone is for cron; every counts elapsed time, which is the same everywhere"};
  }
  if (spec.starts_with("CRON_TZ=") || spec.starts_with("TZ=")) {
    return Error{ErrorCode::kInvalidArgument, "--time-zone: the text names a zone already"};
  }
  return calendar::Recurrence::cron(spec, time_zone);
}

namespace {

struct NextOptions {
  std::vector<std::string> words;
  std::string time_zone;
  std::string count = "5";
  std::string after;
  bool json = false;
};

/// Prints the times to come; an error if the options are wrong.
Result<void> print_next(const NextOptions& options) {
  std::string spec;
  for (const std::string& word : options.words) spec += (spec.empty() ? "" : " ") + word;
  Result<calendar::Recurrence> recurrence = recurrence_of(spec, options.time_zone);
  if (!recurrence) return std::move(recurrence).error();
  const auto count = count_option("--count", options.count, 1, kMostTimes);
  if (!count) return Error(count.error());
  std::int64_t after_ms = floor_ms(SystemCalendar().now());
  if (!options.after.empty()) {
    Result<std::int64_t> after = calendar::parse_rfc3339(options.after);
    if (!after) return std::move(after).error().prefixed("--after");
    after_ms = *after;
  }
  print_times(*recurrence, times_after(*recurrence, after_ms, *count), options.json);
  return {};
}

void add_next(CLI::App& schedule, int& status, const Connecting& connecting) {
  auto options = std::make_shared<NextOptions>();
  CLI::App* verb = schedule.add_subcommand("next", "When a schedule would be due; needs no server");
  verb->add_option("SPEC", options->words,
                   "every 30m, or cron: '30 2 * * MON-FRI', '0 */10 * * * *', @daily")
      ->required()
      ->type_name("");
  verb->add_option("--time-zone", options->time_zone,
                   "Whose clocks cron goes by, as Europe/Amsterdam; else UTC")
      ->type_name("ZONE");
  verb->add_option("--count,-n", options->count, "How many times")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--after", options->after,
                   "Only times after this, as 2026-03-29T00:30:00Z; else after now")
      ->type_name("TIME");
  verb->add_flag("--json", options->json, "Print an object instead of lines");
  verb->callback([options, &status, &connecting] {
    if (connecting.said()) {
      print_long_error(fmt::format("carillon schedule next: {}", kForOtherVerbs));
      status = kUsage;
      return;
    }
    if (const Result<void> result = print_next(*options); !result) {
      print_long_error(fmt::format("carillon schedule next: {}", result.error().message));
      status = kUsage;
    }
  });
}

}  // namespace

void add_schedule(CLI::App& program, int& status, const Connecting& connecting) {
  CLI::App* verb = program.add_subcommand("schedule", "Recurring jobs");
  verb->require_subcommand(1);
  add_next(*verb, status, connecting);
  add_schedule_server_verbs(*verb, status, connecting);
}

}  // namespace carillon::app
