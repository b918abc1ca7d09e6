// SPDX-License-Identifier: Apache-2.0
// carillon show | change | cancel | search | clear: jobs by id, by key, or all that match.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/carillon/api.h"
#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/broker/command.h"
#include "carillon/server/http_client.h"

namespace carillon::app {
namespace {

/// In the order in which a job goes through them.
const std::vector<std::string> kStates = {"delayed", "ready", "reserved", "buried"};

struct Show {
  Target target;
  JobNames job;
  bool json = false;

  void run() const {
    const ApiAnswer answer = Api(target).ask("GET", job.all().at(0).path + "?body=false");
    if (json) {
      fmt::print("{}\n", answer.json.json());
    } else {
      print_members(answer.json);
    }
  }
};

struct Change {
  Target target;
  JobNames job;
  std::string delay;
  std::string due_at;
  std::string priority;
  bool json = false;

  void run() const {
    const JobNames::Named named = job.all().at(0);
    JsonLine request;
    if (!delay.empty()) request.number("delay_ms", wire_ms(delay, "--delay"));
    if (!due_at.empty()) request.number("due_at", date_of(due_at, "--due-at"));
    if (!priority.empty()) {
      request.number("priority", number_of(priority, "--priority", kLeastUrgent));
    }
    if (delay.empty() && due_at.empty() && priority.empty()) {
      throw Failure{kUsage, "--delay, --due-at or --priority is required"};
    }
    const ApiAnswer answer = Api(target).ask("PATCH", named.path, request.str());
    if (json) fmt::print("{}\n", answer.json.json());
  }
};

struct Cancel {
  Target target;
  JobNames jobs;
  bool json = false;

  void run() const {
    const std::vector<JobNames::Named> all = jobs.all();
    const Api api(target);
    std::vector<std::string> cancelled;
    std::vector<std::string> missing;
    std::vector<std::string> reserved;
    std::vector<std::string> left;
    for (const JobNames::Named& job : all) {
      const ApiAnswer answer = api.try_to("DELETE", job.path);
      if (answer.status == 204) {
        cancelled.push_back(job.json);
        continue;
      }
      (answer.status == 404 ? missing : reserved).push_back(job.json);
      left.push_back(job.words +
                     (answer.status == 404 ? " does not exist" : " is being worked on"));
    }
    if (json) {
      fmt::print("{}\n", JsonLine()
                             .list("cancelled", cancelled)
                             .list("missing", missing)
                             .list("reserved", reserved)
                             .str());
    }
    if (!left.empty()) throw Failure{kNotFound, fmt::format("{}", fmt::join(left, ", "))};
  }
};

/// A job on a line of at most kColumns, unless its names are long.
std::string line_of(const JsonView& job, bool with_tube) {
  std::string when = job["due_at"].text();
  if (const JsonView until = job["reserved_until"]; until.exists()) when = until.text();
  std::string line =
      fmt::format("{:>10}  {:<8}  {:<24}  {:>8}", job["id"].text(), job["state"].text(),
                  when.empty() ? "-" : when, job["size"].text());
  if (with_tube) line += "  " + job["tube"].text();
  if (const JsonView key = job["key"]; key.exists()) line += "  " + key.text();
  return line;
}

struct Search {
  Target target;
  std::string tube;
  std::vector<std::string> states;
  std::string key_prefix;
  std::string due_from;
  std::string due_until;
  std::string limit = "100";
  bool json = false;

  void run() const {
    if (!tube.empty()) check_tube(tube);
    if (!key_prefix.empty()) check_key(key_prefix, "--key-prefix");
    const bool by_due = !due_from.empty() || !due_until.empty();
    std::vector<std::string> wanted;
    for (const std::string& state : kStates) {
      const bool said = std::find(states.begin(), states.end(), state) != states.end();
      if (said && by_due && state != "delayed") {
        throw Failure{kUsage, "--due-from and --due-until are for --state delayed"};
      }
      if (said || (states.empty() && (!by_due || state == "delayed"))) wanted.push_back(state);
    }
    std::string query;
    if (!key_prefix.empty()) query += "&key_prefix=" + server::url_encoded(key_prefix);
    if (!due_from.empty()) query += fmt::format("&due_from={}", date_of(due_from, "--due-from"));
    if (!due_until.empty()) {
      query += fmt::format("&due_until={}", date_of(due_until, "--due-until"));
    }
    const std::uint64_t most = number_of(limit, "--limit");
    const Api api(target);
    std::uint64_t found = 0;
    bool more = false;
    for (const std::string& state : wanted) {
      more = pages(api, state, query, most, found) || more;
      if (!flush_output()) return;
    }
    if (more) {
      print_error(
          fmt::format("carillon search: there are more than {}; --limit 0 shows all", most));
    }
    // Of a tube that is not there the API lists nothing; a misspelt name is to be noticed.
    if (found == 0 && !tube.empty()) static_cast<void>(api.ask("GET", tube_path(tube)));
  }

 private:
  void print_head() const {
    fmt::print("{:>10}  {:<8}  {:<24}  {:>8}{}  key\n", "id", "state", "due, or reserved until",
               "size", tube.empty() ? "  tube" : "");
  }

  /// Prints those in a state, page by page. Returns whether there are more than `most` (0: none is
  /// too many); `found` counts.
  bool pages(const Api& api, const std::string& state, const std::string& query, std::uint64_t most,
             std::uint64_t& found) const {
    const std::string path = tube.empty() ? "/api/v1/jobs" : tube_path(tube) + "/jobs";
    constexpr std::uint64_t kPage = broker::ListQuery::kMaxPage;
    std::string cursor;
    do {
      // One more than wanted tells whether there are more.
      const std::uint64_t page = most == 0 ? kPage : std::min(kPage, most - found + 1);
      std::string target_of_page = fmt::format("{}?state={}&limit={}{}", path, state, page, query);
      if (!cursor.empty()) target_of_page += "&cursor=" + server::url_encoded(cursor);
      const ApiAnswer answer = api.ask("GET", target_of_page);
      for (const JsonView& job : answer.json["jobs"].items()) {
        if (most != 0 && found == most) return true;
        if (found++ == 0 && !json) print_head();
        fmt::print("{}\n", json ? job.json() : line_of(job, tube.empty()));
      }
      if (!flush_output()) return false;
      cursor = answer.json["next"].text();
    } while (!cursor.empty());
    return false;
  }
};

struct Clear {
  Target target;
  std::string tube;
  std::vector<std::string> states;
  bool json = false;

  void run() const {
    check_tube(tube);
    std::vector<std::string> quoted;
    for (const std::string& state : states) {
      if (state == "all") {
        quoted = {"\"ready\"", "\"delayed\"", "\"buried\""};
        break;
      }
      const std::string name = json_string(state);
      if (std::find(quoted.begin(), quoted.end(), name) == quoted.end()) quoted.push_back(name);
    }
    const ApiAnswer answer = Api(target).ask("POST", tube_path(tube) + "/clear",
                                             JsonLine().list("states", quoted).str(), kClearTime);
    if (json) {
      fmt::print("{}\n",
                 JsonLine().text("tube", tube).raw("cleared", answer.json["cleared"].json()).str());
    } else {
      fmt::print("{}\n", answer.json["cleared"].text());
    }
  }

  /// Beyond the patience: a tube may be large.
  static constexpr Span kClearTime = std::chrono::minutes(10);
};

}  // namespace

void add_job_verbs(CLI::App& program, int& status, const Connecting& connecting) {
  const auto add = [&](const char* name, const char* description, Target& target) {
    return add_client_verb(program, name, description, target, connecting, Speaks::kHttp);
  };
  auto show = std::make_shared<Show>();
  CLI::App* app = add("show", "Print all that is known of a job but its body", show->target);
  show->job.add_to(*app, "Its id", 1);
  app->add_flag("--json", show->json, "Print one line of JSON: the job");
  on_call(app, show, status);

  auto change = std::make_shared<Change>();
  app = add("change", "Give a job that waits another time or priority, in place: it keeps its id",
            change->target);
  change->job.add_to(*app, "Its id", 1);
  CLI::Option* delay =
      app->add_option("-d,--delay", change->delay, "When it becomes ready, from now")
          ->type_name("TIME");
  app->add_option("--due-at", change->due_at,
                  "Or a date, as 2030-01-31T12:00:00Z or milliseconds since 1970")
      ->type_name("DATE")
      ->excludes(delay);
  app->add_option("-p,--priority", change->priority, "0 is the most urgent")->type_name("N");
  app->add_flag("--json", change->json, "Print one line of JSON: the job as it is then");
  on_call(app, change, status);

  auto cancel = std::make_shared<Cancel>();
  app = add("cancel", "Delete jobs that nobody is working on", cancel->target);
  cancel->jobs.add_to(*app, "Their ids", CLI::detail::expected_max_vector_size);
  app->add_flag("--json", cancel->json, "Print one line of JSON: cancelled, missing, reserved");
  on_call(app, cancel, status);

  auto search = std::make_shared<Search>();
  app = add("search", "List jobs: of a tube or all, by state, key and due time", search->target);
  app->add_option("-t,--tube", search->tube, "Only of this tube");
  app->add_option("--state", search->states,
                  "Only those delayed, ready, reserved or buried; may be repeated")
      ->check(CLI::IsMember(kStates))
      ->type_name("STATE")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
  app->add_option("--key-prefix", search->key_prefix, "Only those whose key begins so")
      ->type_name("TEXT");
  app->add_option("--due-from", search->due_from,
                  "Only those delayed until then or later: a date, as 2030-01-31T12:00:00Z or "
                  "milliseconds since 1970")
      ->type_name("DATE");
  app->add_option("--due-until", search->due_until, "Only those delayed until before then")
      ->type_name("DATE");
  app->add_option("-n,--limit", search->limit, "How many at most; 0: all")
      ->capture_default_str()
      ->type_name("N");
  app->add_flag("--json", search->json, "Print a line of JSON for each job");
  app->footer(
      "\nDelayed ones come in the order in which they are due, others in that of their\nids.");
  on_call(app, search, status);

  auto clear = std::make_shared<Clear>();
  app = add("clear", "Delete all jobs of a tube that are in a state, and print how many",
            clear->target);
  app->add_option("-t,--tube", clear->tube, "The tube")->required();
  app->add_option("--state", clear->states, "ready, delayed, buried or all; may be repeated")
      ->required()
      ->check(CLI::IsMember({"ready", "delayed", "buried", "all"}))
      ->type_name("STATE")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
  app->add_flag("--json", clear->json, "Print one line of JSON: tube, cleared");
  on_call(app, clear, status);
}

}  // namespace carillon::app
