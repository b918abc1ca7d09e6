// SPDX-License-Identifier: Apache-2.0
// carillon plan

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/carillon/json.h"
#include "apps/carillon/option_values.h"
#include "apps/carillon/output.h"
#include "apps/carillon/verbs.h"
#include "apps/carillon/wheel_plan.h"
#include "carillon/wheel/pooled_wheel.h"

namespace carillon::app {
namespace {

struct PlanOptions {
  std::string max_delay;
  std::string tick = "1ms";
  std::string pending;
  std::string slack = "0%";
  bool json = false;
};

Result<PlanRequest> read(const PlanOptions& options) {
  PlanRequest request;
  auto max_delay =
      duration_option("--max-delay", options.max_delay, kShortestPlanned, kLongestPlanned);
  if (!max_delay) return std::move(max_delay).error();
  request.max_delay = *max_delay;
  auto tick = duration_option("--tick", options.tick, kShortestPlanned, kLongestPlanned);
  if (!tick) return std::move(tick).error();
  request.tick = *tick;
  auto pending = count_option("--pending", options.pending, 1, kMostPending);
  if (!pending) return std::move(pending).error();
  request.pending = *pending;
  auto slack = percent_option("--slack", options.slack, kMostSlack * 100);
  if (!slack) return std::move(slack).error();
  request.slack = *slack;
  return request;
}

/// Two digits that say something, or all that are there: 0.028, 1.4, 278, 1000000.
std::string rounded(double number) {
  if (number >= 9.95) return fmt::format("{:.0f}", number);
  return number >= 0.01 ? fmt::format("{:.2g}", number) : "<0.01";
}

/// In the two largest units, rounded up: "3 min 49 s", "1 d 22 h".
std::string short_span(Span span) {
  using namespace std::chrono;
  if (span > hours(24)) return span_in_words(ceil<hours>(span));
  if (span > hours(2)) return span_in_words(ceil<minutes>(span));
  if (span > minutes(2)) return span_in_words(ceil<seconds>(span));
  return span_in_words(span);
}

std::string size_in_words(std::uint64_t bytes) {
  static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < std::size(kNames)) {
    size /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", size, size < 99.5 && unit > 0 ? 1 : 0, kNames[unit]);
}

/// Rounded up to a tenth, so that it may be given as the slack.
std::string percent_above(double part) {
  return fmt::format("{:g}", std::ceil(part * 1000 - 1e-6) / 10);
}

std::string counted(std::uint64_t number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string why(const WheelPlan& plan, const PlanChoice& choice) {
  const PlanRequest& request = plan.request;
  const std::string longest = span_in_words(request.max_delay);
  switch (choice.kind) {
    case PlanKind::kHashed:
      if (choice.rounds == 0) {
        return fmt::format(
            "One turn is {}, as long as the longest delay: a timer is touched when it is scheduled "
            "and when it fires, and never moves. The slots take {}, however many timers wait.",
            counted(choice.slots, "tick"), size_in_words(choice.fixed_bytes));
      }
      return fmt::format(
          "One turn is {}, and a timer of {} is passed {} before it fires: a slot mixes timers of "
          "several turns, and is sorted when one of them is due. The slots take {}.",
          counted(choice.slots, "tick"), longest, counted(choice.rounds, "time"),
          size_in_words(choice.fixed_bytes));
    case PlanKind::kHierarchical:
      return "Exact at any distance, and the same cost whatever the delay. A timer that is not "
             "cancelled first cascades; nearly all that wait may lie in one slot of the coarsest "
             "level, and cascade at once.";
    case PlanKind::kCoarse:
      if (choice.late_by == request.tick) {
        return "Such delays all fit its finest level: no timer is later than on the other wheels.";
      }
      return fmt::format(
          "Nothing cascades, whatever the distance: for timeouts that hardly ever come. A timer of "
          "{} may be {} late: a tick, and at most {}% of its delay (--slack); up to {} of delay "
          "it "
          "is exact to the tick.",
          longest, short_span(choice.late_by), percent_above(plan.lateness(choice)),
          span_in_words(request.tick * 64));
    case PlanKind::kPooled:
      return fmt::format(
                 "Handles instead of hooks; hierarchical, with 256 slots a level. To cancel or to "
                 "postpone writes to the timer in its pool and to no neighbour: the better the "
                 "more timers, from about {} on, and the more of them are cancelled.",
                 kManyTimers) +
             (request.pending <= PooledWheel<>::kDefaultMaxSize
                  ? std::string()
                  : fmt::format(" Construct it with a max_size of {} at least: unless told, it "
                                "takes no more than {}.",
                                request.pending, PooledWheel<>::kDefaultMaxSize));
    case PlanKind::kHeap:
      return fmt::format(
          "In strict order, to the clock and not to a tick. But what comes or goes moves up to {} "
          "others, each a cache miss when they are many, and what is cancelled lazily stays: up to "
          "about {} timers.",
          std::bit_width(request.pending), kFewTimers);
  }
  return {};
}

std::string because(const WheelPlan& plan) {
  switch (plan.reason) {
    case PlanReason::kFew:
      return fmt::format("{} fit in a few cache lines: every wheel is larger than they are.",
                         counted(plan.request.pending, "timer"));
    case PlanReason::kOneTurn: return "Nothing else is as simple.";
    case PlanReason::kMayBeLate:
      return fmt::format("A slack of {:g}% allows it.", plan.request.slack * 100);
    case PlanReason::kMany: return "With so many timers cache misses decide.";
    case PlanReason::kAnyDistance:
      return "So many ticks ahead a ring would need rounds, and the timers are too few for a pool "
             "to pay.";
  }
  return {};
}

/// The columns of the table but the last: as wide as what stands in them.
constexpr std::size_t kPlanColumns = 5;
using PlanRow = std::array<std::string, kPlanColumns + 1>;

PlanRow row_of(const WheelPlan& plan, const PlanChoice& choice) {
  PlanRow row = {std::string(to_string(choice.kind)),
                 "-",
                 "no tick",
                 "-",
                 "-",
                 size_in_words(choice.bytes(plan.request.pending))};
  if (choice.levels == 0) return row;
  row[1] = choice.levels == 1 ? fmt::format("{}", choice.slots)
                              : fmt::format("{} x {}", choice.levels, choice.slots);
  row[2] = short_span(choice.late_by);
  row[3] = rounded(choice.finest_slot);
  if (choice.coarsest_slot > choice.finest_slot) row[3] += " to " + rounded(choice.coarsest_slot);
  row[4] = choice.cascades_most == 0
               ? "0"
               : fmt::format("{} (max {})", rounded(choice.cascades), choice.cascades_most);
  return row;
}

void print_table(const WheelPlan& plan) {
  std::vector<PlanRow> rows = {{"", "slots", "late by", "timers in a slot", "cascades", "memory"}};
  for (const PlanChoice& choice : plan.choices) rows.push_back(row_of(plan, choice));
  std::array<std::size_t, kPlanColumns> widths{};
  std::size_t total = 2 + std::string_view("1023 MiB").size();
  for (std::size_t i = 0; i < kPlanColumns; ++i) {
    for (const PlanRow& row : rows) widths[i] = std::max(widths[i], row[i].size());
    total += widths[i];
  }
  const std::size_t gap = total + 2 * kPlanColumns <= kColumns ? 2 : 1;
  for (const PlanRow& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < kPlanColumns; ++i) {
      line += fmt::format("{:<{}}", row[i], widths[i] + gap);
    }
    fmt::print("{}{}\n", line, row.back());
  }
}

void print(const WheelPlan& plan) {
  const PlanRequest& request = plan.request;
  const double per_tick =
      static_cast<double>(request.pending) / static_cast<double>(plan.delay_ticks);
  const std::string due = per_tick >= 1
                              ? fmt::format("{} due in each", rounded(per_tick))
                              : fmt::format("one due every {} ticks", rounded(1 / per_tick));
  fmt::print("{}", wrapped(fmt::format(
                               "{} at a time, for up to {}: {} of {}, {} if they are spread "
                               "evenly. None is ever early; each is late by less than:",
                               counted(request.pending, "timer"), span_in_words(request.max_delay),
                               counted(plan.delay_ticks, "tick"), span_in_words(request.tick), due),
                           "", 0));
  fmt::print("\n");
  print_table(plan);
  const PlanChoice& best = plan[plan.best];
  const std::string noun = best.kind == PlanKind::kHeap ? "" : " wheel";
  const std::string slots =
      best.kind == PlanKind::kHashed ? fmt::format(", {}", counted(best.slots, "slot")) : "";
  fmt::print("\nTake the {}{}{}.\n", to_string(best.kind), noun, slots);
  fmt::print("{}", wrapped(why(plan, best) + ' ' + because(plan), "  ", 2));
  fmt::print("\nThe others:\n");
  for (const PlanChoice& choice : plan.choices) {
    if (choice.kind == plan.best) continue;
    fmt::print("{}",
               wrapped(why(plan, choice), fmt::format("  {:<14}", to_string(choice.kind)), 16));
  }
}

std::int64_t ms_of(Span span) { return std::chrono::ceil<std::chrono::milliseconds>(span).count(); }

std::string json_of(const WheelPlan& plan) {
  const PlanRequest& request = plan.request;
  std::vector<std::string> choices;
  for (const PlanChoice& choice : plan.choices) {
    choices.push_back(JsonLine()
                          .text("kind", to_string(choice.kind))
                          .number("levels", choice.levels)
                          .number("slots", choice.slots)
                          .number("late_by_ms", ms_of(choice.late_by))
                          .real("finest_slot", choice.finest_slot)
                          .real("coarsest_slot", choice.coarsest_slot)
                          .real("cascades", choice.cascades)
                          .number("cascades_most", choice.cascades_most)
                          .number("rounds", choice.rounds)
                          .number("bytes", choice.bytes(request.pending))
                          .text("why", why(plan, choice))
                          .str());
  }
  return JsonLine()
      .number("max_delay_ms", ms_of(request.max_delay))
      .number("pending", request.pending)
      .number("tick_ms", ms_of(request.tick))
      .real("slack_percent", request.slack * 100)
      .text("best", to_string(plan.best))
      .text("because", because(plan))
      .list("choices", choices)
      .str();
}

Result<void> run(const PlanOptions& options) {
  Result<PlanRequest> request = read(options);
  if (!request) return std::move(request).error();
  Result<WheelPlan> plan = plan_wheel(*request);
  if (!plan) return std::move(plan).error();
  if (options.json) {
    fmt::print("{}\n", json_of(*plan));
  } else {
    print(*plan);
  }
  return {};
}

}  // namespace

void add_plan(CLI::App& program, int& status, const Connecting& connecting) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* verb = program.add_subcommand(
      "plan", "Which wheel for which load: slots, error, memory and cascades of each");
  verb->add_option("--max-delay", options->max_delay, "The longest delay")
      ->required()
      ->type_name("TIME");
  verb->add_option("--pending", options->pending, "Timers that wait at a time")
      ->required()
      ->type_name("N");
  verb->add_option("--tick", options->tick, "Length of a tick: what a timer may be late")
      ->capture_default_str()
      ->type_name("TIME");
  verb->add_option("--slack", options->slack,
                   "What it may be late beyond that, as a part of its delay; 6.4% for coarse")
      ->capture_default_str()
      ->type_name("PERCENT");
  verb->add_flag("--json", options->json, "Print one line of JSON: the wheels, and which to take");
  verb->callback([options, &status, &connecting] {
    if (connecting.said()) {
      print_long_error(fmt::format("carillon plan: {}", kForOtherVerbs));
      status = kUsage;
      return;
    }
    if (const Result<void> result = run(*options); !result) {
      print_long_error(fmt::format("carillon plan: {}", result.error().message));
      status = kUsage;
    }
  });
}

}  // namespace carillon::app
