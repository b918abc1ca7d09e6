// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>

#include "bench/timer/targets.h"

namespace carillon::bench {
namespace {

// T7 is Kafka's experiment with its purgatory, which is yet to come.
constexpr std::array<std::string_view, 7> kBenches = {"T1", "T2", "T3", "T4", "T5", "T6", "T8"};

constexpr std::size_t kMillion = 1'000'000;
constexpr Span kMinute = std::chrono::seconds(60);
constexpr Span kFiveMinutes = std::chrono::seconds(300);

std::vector<Step> full_plan() {
  const auto pairs = [](std::size_t pending) {
    return Load{
        .bench = "T3", .threads = {1, 2, 4}, .pending = pending, .seconds = 1, .delay = kMinute};
  };
  const auto adding = [](std::size_t threads) {
    return Load{
        .bench = "T1", .timers = kMillion, .threads = {threads}, .rounds = 5, .delay = kMinute};
  };
  return {
      {adding(1), 5},
      {adding(4), 5},
      {{.bench = "T2", .timers = kMillion, .delay = kMinute}, 3},
      {pairs(0), 5},
      {pairs(kMillion), 5},
      {{.bench = "T4", .timers = 100'000, .seconds = 5}, 3},
      {{.bench = "T5", .seconds = 10}, 1},
      {{.bench = "T6", .seconds = 1, .delay = kMinute}, 5},
      {{.bench = "T8", .seconds = 60, .rate = 100'000, .delay = kFiveMinutes}, 1},
  };
}

std::vector<Step> check_plan() {
  return {
      {{.bench = "T1", .timers = kMillion, .threads = {1}, .rounds = 1, .delay = kMinute}, 3},
      {{.bench = "T2", .timers = kMillion, .delay = kMinute}, 1},
      {{.bench = "T3", .threads = {1, 2, 4}, .seconds = 0.25, .delay = kMinute}, 3},
      {{.bench = "T4", .timers = 20'000, .seconds = 1}, 2},
      {{.bench = "T5", .seconds = 2}, 1},
      {{.bench = "T8", .seconds = 3, .rate = 100'000, .delay = kFiveMinutes}, 1},
  };
}

bool is_named(std::string_view names, std::string_view name) {
  for (std::string_view rest = names; !rest.empty();) {
    const std::size_t end = std::min(rest.find('|'), rest.size());
    if (rest.substr(0, end) == name) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Measures carillon::Timer beside other timers for many threads, each in a process of its "
      "own.",
      "bench_timer");
  add_common_options(app, options, {kBenches.begin(), kBenches.end()},
                     "T1 add, T2 memory, T3 add and cancel, T4 lateness, T5 idle, T6 cancel from "
                     "another thread, T8 memory over time");
  add_name_option(app, options, "--subject");
  add_from_option(app, options);
  parse_or_exit(app, options, argc, argv);
  return options;
}

std::vector<Step> plan(const Options& options) {
  std::vector<Step> steps = options.check ? check_plan() : full_plan();
  std::erase_if(steps, [&](const Step& step) { return !options.wants_bench(step.load.bench); });
  for (Step& step : steps) {
    if (options.reps > 0) step.reps = options.reps;
  }
  return steps;
}

std::vector<std::string_view> benches_of(const Options& options) {
  std::vector<std::string_view> wanted;
  for (const std::string_view bench : kBenches) {
    if (options.wants_bench(bench)) wanted.push_back(bench);
  }
  return wanted;
}

bool is_wanted(const Options& options, const SubjectEntry& subject, const Load& load) {
  if (!takes_part(subject, load) || !options.wants_name(subject.name)) return false;
  if (!options.check || !options.names.empty()) return true;
  const auto targets = timer_targets();
  return std::any_of(targets.begin(), targets.end(), [&](const Target& target) {
    const bool judged = target.limit_in_check != 0 || target.limit == 0;
    return judged && target.bench == load.bench &&
           (is_named(target.subject, subject.name) || is_named(target.rival, subject.name));
  });
}

std::string cell_of(const Load& load, const Measurement& measurement) {
  if (load.bench == "T2") return "60 s";
  if (load.bench == "T4") return "1 ms ticks";
  if (load.bench == "T5") return "an hour away";
  if (load.bench == "T6") return "one adds, one cancels";
  if (load.bench == "T8") return "100 k pairs/s";
  double threads = 0;
  for (const auto& [name, value] : measurement.params) {
    if (name == "threads") threads = value;
  }
  return fmt::format("{:.0f} thread{}{}", threads, threads == 1 ? "" : "s",
                     load.pending > 0 ? ", 1 M pending" : "");
}

}  // namespace carillon::bench
