// SPDX-License-Identifier: Apache-2.0
// carillon schedule set | ls | show | rm | run: recurring jobs that a server keeps.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/carillon/api.h"
#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "apps/carillon/option_values.h"
#include "apps/carillon/schedule.h"
#include "apps/carillon/schedule_times.h"
#include "carillon/base/clock.h"
#include "carillon/broker/schedule.h"
#include "carillon/calendar/recurrence.h"
#include "carillon/calendar/rfc3339.h"
#include "carillon/protocol/http/schedule_requests.h"
#include "carillon/server/http_client.h"

namespace carillon::app {
namespace {

std::string schedule_path(const std::string& name) {
  if (!protocol::http::is_schedule_name(name)) {
    throw Failure{kUsage, "NAME: is not 1 to 200 bytes of UTF-8 without control characters"};
  }
  return "/api/v1/schedules/" + server::url_encoded(name);
}

/// A time of the API as the clocks of `zone` show it, as schedule next does.
std::string by_its_clocks(const std::string& utc, const calendar::TimeZone& zone) {
  const Result<std::int64_t> ms = calendar::parse_rfc3339(utc);
  if (!ms) return utc;
  return by_clocks_of(zone, *ms);
}

struct Set {
  Target target;
  std::string name;
  std::string spec;
  std::string body = "-";
  std::string tube;
  std::string time_zone;
  std::string priority = "1024";
  std::string ttr = "60s";
  std::string missed = "once";
  std::string overlap = "allow";
  std::string jitter = "0s";
  Attempts attempts;
  bool json = false;

  void run() const {
    check_tube(tube);
    const std::string path = schedule_path(name);
    const Result<calendar::Recurrence> recurrence = recurrence_of(spec, time_zone);
    if (!recurrence) throw Failure{kUsage, recurrence.error().message};
    JsonLine schedule;
    schedule.text("tube", tube).text("spec", recurrence->spec());
    schedule.number("priority", number_of(priority, "--priority", kLeastUrgent));
    schedule.number("ttr_ms", wire_ms(ttr, "--ttr", kMostSeconds, 1));
    schedule.text("missed", missed).text("overlap", overlap);
    const std::int64_t jitter_ms = wire_ms(jitter, "--jitter");
    if (jitter_ms > broker::ScheduleSettings::kMaxJitterMs) {
      throw Failure{kUsage, fmt::format("--jitter: {} is out of range (0s to {}ms)", jitter,
                                        broker::ScheduleSettings::kMaxJitterMs)};
    }
    schedule.number("jitter_ms", jitter_ms);
    attempts.write(schedule);
    const Api api(target);
    schedule.bytes("body", body == "-" ? read_input("BODY") : body);
    const ApiAnswer answer = api.ask("PUT", path, schedule.str());
    if (json) {
      fmt::print("{}\n", answer.json.json());
    } else {
      fmt::print("{}\n", by_its_clocks(answer.json["next_at"].text(), recurrence->time_zone()));
    }
  }
};

struct List {
  Target target;
  bool json = false;

  void run() const {
    const Api api(target);
    std::string after;
    bool first = true;
    do {
      const ApiAnswer page =
          api.ask("GET", "/api/v1/schedules" +
                             (after.empty() ? "" : "?cursor=" + server::url_encoded(after)));
      for (const JsonView& schedule : page.json["schedules"].items()) {
        if (json) {
          fmt::print("{}\n", schedule.json());
          continue;
        }
        if (std::exchange(first, false)) {
          fmt::print("{:<24}  {:>8}  {:<16}  name\n", "next", "runs", "tube");
        }
        const std::string next = schedule["next_at"].text();
        fmt::print("{:<24}  {:>8}  {:<16}  {}\n", next.empty() ? "-" : next,
                   schedule["runs"].text(), schedule["tube"].text(), schedule["name"].text());
      }
      if (!flush_output()) return;
      after = page.json["next"].text();
    } while (!after.empty());
  }
};

struct Show {
  Target target;
  std::string name;
  const CLI::Option* next = nullptr;
  bool json = false;

  void run() const {
    const std::string path = schedule_path(name);
    std::uint64_t count = 0;
    if (const std::optional<std::string> text = said(next)) {
      count = value_or_fail(count_option("--next", *text, 1, kMostTimes), kUsage);
    }
    const ApiAnswer answer = Api(target).ask("GET", path);
    if (count > 0) {
      print_next(answer.json, count);
    } else if (json) {
      fmt::print("{}\n", answer.json.json());
    } else {
      print_members(answer.json);
    }
  }

  void print_next(const JsonView& schedule, std::uint64_t count) const {
    const std::string spec = schedule["spec"].text();
    const Result<calendar::Recurrence> recurrence = calendar::Recurrence::parse(spec);
    // Of a server that knows more than this program, or a machine without its time zones.
    if (!recurrence) {
      throw Failure{kServerError,
                    fmt::format("--next: '{}': {}", spec, recurrence.error().message)};
    }
    const Result<std::int64_t> due_ms = calendar::parse_rfc3339(schedule["due_at"].text());
    const Result<std::int64_t> next_ms = calendar::parse_rfc3339(schedule["next_at"].text());
    std::vector<DueTime> times;  // None if no time is to come.
    if (due_ms && next_ms) {
      times = times_from(*recurrence, {.due_ms = *due_ms, .next_ms = *next_ms},
                         floor_ms(SystemCalendar().now()), count);
    }
    print_times(*recurrence, times, json);
  }
};

struct Remove {
  Target target;
  std::vector<std::string> names;
  bool json = false;

  void run() const {
    std::vector<std::string> paths;
    paths.reserve(names.size());
    for (const std::string& name : names) paths.push_back(schedule_path(name));
    const Api api(target);
    std::vector<std::string> deleted;
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool gone = api.try_to("DELETE", paths[i]).status == 204;
      (gone ? deleted : missing).push_back(json_string(names[i]));
    }
    if (json) {
      fmt::print("{}\n", JsonLine().list("deleted", deleted).list("missing", missing).str());
    }
    if (!missing.empty()) {
      throw Failure{kNotFound, fmt::format("there is no schedule {}", fmt::join(missing, ", "))};
    }
  }
};

struct Run {
  Target target;
  std::string name;
  bool json = false;

  void run() const {
    const ApiAnswer answer = Api(target).ask("POST", schedule_path(name) + "/run");
    if (json) {
      fmt::print("{}\n", answer.json.json());
    } else {
      fmt::print("{}\n", answer.json["id"].text());
    }
  }
};

}  // namespace

void add_schedule_server_verbs(CLI::App& schedule, int& status, const Connecting& connecting) {
  const auto add = [&](const char* name, const char* description, Target& target) {
    return add_client_verb(schedule, name, description, target, connecting, Speaks::kHttp);
  };
  auto set = std::make_shared<Set>();
  CLI::App* app =
      add("set", "Make a schedule, or change it; print when it is due next", set->target);
  app->add_option("NAME", set->name, "Its name")->required()->type_name("");
  app->add_option("SPEC", set->spec,
                  "In one word: 'every 30m', or cron: '30 2 * * MON-FRI', '0 */10 * * * *', @daily")
      ->required()
      ->type_name("");
  app->add_option("BODY", set->body, "Of its jobs; - or nothing: standard input")->type_name("");
  app->add_option("-t,--tube", set->tube, "Tube that it puts jobs into")->required();
  app->add_option("--time-zone", set->time_zone,
                  "Whose clocks cron goes by, as Europe/Amsterdam; else UTC")
      ->type_name("ZONE");
  app->add_option("--missed", set->missed,
                  "Due times that passed while no server ran: once for all, or skip")
      ->capture_default_str()
      ->check(CLI::IsMember({"once", "skip"}))
      ->type_name("WHAT");
  app->add_option("--overlap", set->overlap,
                  "While the job before is not done: allow another, skip, or queue one")
      ->capture_default_str()
      ->check(CLI::IsMember({"allow", "skip", "queue"}))
      ->type_name("WHAT");
  app->add_option("--jitter", set->jitter, "Later by up to this, always as much, by the name")
      ->capture_default_str()
      ->type_name("TIME");
  app->add_option("-p,--priority", set->priority, "0 is the most urgent")
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--ttr", set->ttr, "How long a worker may have a job")
      ->capture_default_str()
      ->type_name("TIME");
  set->attempts.add_to(*app);
  app->add_flag("--json", set->json, "Print one line of JSON: the schedule");
  on_call(app, set, status);

  auto list = std::make_shared<List>();
  app = add("ls", "List the schedules", list->target);
  app->add_flag("--json", list->json, "Print a line of JSON for each schedule");
  on_call(app, list, status);

  auto show = std::make_shared<Show>();
  app = add("show", "Print a schedule, but not its body", show->target);
  app->add_option("NAME", show->name, "Its name")->required()->type_name("");
  show->next =
      app->add_option("-n,--next", "Print the next N times of its jobs instead")->type_name("N");
  app->add_flag("--json", show->json, "Print one line of JSON: the schedule, with its body");
  on_call(app, show, status);

  auto remove = std::make_shared<Remove>();
  app = add("rm", "Delete schedules; jobs that they have put stay", remove->target);
  app->add_option("NAME", remove->names, "Their names")->required()->type_name("");
  app->add_flag("--json", remove->json, "Print one line of JSON: deleted, missing");
  on_call(app, remove, status);

  auto run = std::make_shared<Run>();
  app = add("run", "Put a job of a schedule now, and print its id", run->target);
  app->add_option("NAME", run->name, "Its name")->required()->type_name("");
  app->add_flag("--json", run->json, "Print one line of JSON: id");
  on_call(app, run, status);
}

}  // namespace carillon::app
