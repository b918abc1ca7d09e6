// SPDX-License-Identifier: Apache-2.0
// carillon ls | stats | kick | pause | resume: tubes, and what is in them.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/carillon/api.h"
#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "apps/carillon/tubes.h"
#include "carillon/server/http_client.h"

namespace carillon::app {

using server::BeanstalkClient;

namespace {

TubeLine tube_of(const std::string& name, const Answer& answer) {
  const Fields fields = fields_of(answer.body);
  TubeLine tube;
  tube.name = name;
  tube.ready = count_field(fields, "current-jobs-ready");
  tube.delayed = count_field(fields, "current-jobs-delayed");
  tube.reserved = count_field(fields, "current-jobs-reserved");
  tube.buried = count_field(fields, "current-jobs-buried");
  tube.watching = count_field(fields, "current-watching");
  tube.waiting = count_field(fields, "current-waiting");
  tube.total = count_field(fields, "total-jobs");
  tube.pause_left_s = count_field(fields, "pause-time-left");
  // This connection, like each new one, watches it: that is not what was asked.
  if (tube.name == "default" && tube.watching > 0) --tube.watching;
  return tube;
}

/// Commands that are on their way at a time.
constexpr std::size_t kPipelined = 100;

}  // namespace

std::vector<TubeLine> read_tubes(BeanstalkClient& client, std::size_t most,
                                 std::uint64_t& left_out) {
  const std::string list = expect(client.ask("list-tubes"), "OK").body;
  std::vector<std::string> names;
  left_out = 0;
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("- ")) continue;
    if (names.size() == most) {
      ++left_out;
    } else {
      names.push_back(line.substr(2));
    }
  }
  std::vector<TubeLine> tubes;
  for (std::size_t first = 0; first < names.size(); first += kPipelined) {
    const std::size_t end = std::min(first + kPipelined, names.size());
    std::string commands;
    for (std::size_t i = first; i < end; ++i) commands += "stats-tube " + names[i] + "\r\n";
    if (Result<void> sent = client.send(commands); !sent) {
      throw Failure{kServerError, sent.error().message};
    }
    for (std::size_t i = first; i < end; ++i) {
      const Answer answer = value_or_fail(client.read_answer(), kServerError);
      if (answer.is("NOT_FOUND")) continue;  // It has gone since.
      if (!answer.is("OK")) throw failure_of(answer);
      tubes.push_back(tube_of(names[i], answer));
    }
  }
  return tubes;
}

namespace {

/// "1500ms" as "1s": what a column has room for.
std::string short_time(const JsonView& ms) {
  if (!ms.exists()) return "-";
  const std::int64_t seconds = ms.number() / 1'000;
  if (seconds < 120) return fmt::format("{}s", seconds);
  if (seconds < 120 * 60) return fmt::format("{}m", seconds / 60);
  return seconds < 48 * 3'600 ? fmt::format("{}h", seconds / 3'600)
                              : fmt::format("{}d", seconds / 86'400);
}

struct List {
  Target target;
  std::string prefix;
  bool long_form = false;
  bool json = false;

  void run() const {
    if (long_form) return list_by_http();
    BeanstalkClient client = connect(target);
    std::uint64_t none = 0;
    std::vector<TubeLine> tubes = read_tubes(client, std::numeric_limits<std::size_t>::max(), none);
    std::erase_if(tubes, [&](const TubeLine& tube) { return !tube.name.starts_with(prefix); });
    std::sort(tubes.begin(), tubes.end(),
              [](const TubeLine& a, const TubeLine& b) { return a.name < b.name; });
    if (json) {
      std::vector<std::string> items;
      for (const TubeLine& tube : tubes) {
        items.push_back(JsonLine()
                            .text("tube", tube.name)
                            .number("ready", tube.ready)
                            .number("delayed", tube.delayed)
                            .number("reserved", tube.reserved)
                            .number("buried", tube.buried)
                            .number("watching", tube.watching)
                            .number("waiting", tube.waiting)
                            .number("pause_left_s", tube.pause_left_s)
                            .str());
      }
      fmt::print("{}\n", JsonLine().list("tubes", items).str());
      return;
    }
    fmt::print("{:>10} {:>10} {:>10} {:>10} {:>9} {:>8}  {}\n", "ready", "delayed", "reserved",
               "buried", "watching", "waiting", "tube");
    for (const TubeLine& tube : tubes) {
      fmt::print(
          "{:>10} {:>10} {:>10} {:>10} {:>9} {:>8}  {}{}\n", tube.ready, tube.delayed,
          tube.reserved, tube.buried, tube.watching, tube.waiting, tube.name,
          tube.pause_left_s > 0 ? fmt::format(" (paused, {} s left)", tube.pause_left_s) : "");
    }
  }

 private:
  void list_by_http() const {
    const Api api(target);
    std::vector<std::string> items;
    std::string after;
    if (!prefix.empty()) check_tube(prefix);
    do {
      std::string path = "/api/v1/tubes?limit=1000";
      if (!prefix.empty()) path += "&prefix=" + server::url_encoded(prefix);
      if (!after.empty()) path += "&cursor=" + server::url_encoded(after);
      const ApiAnswer page = api.ask("GET", path);
      for (const JsonView& tube : page.json["tubes"].items()) {
        if (json) {
          items.push_back(json_of(tube));
          continue;
        }
        if (items.empty()) {
          fmt::print("{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "ready", "delayed", "reserved",
                     "buried", "oldest", "next due", "tube");
        }
        items.emplace_back();
        const JsonView jobs = tube["jobs"];
        const bool has_ready = jobs["ready"].number() > 0;
        fmt::print("{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", jobs["ready"].text(),
                   jobs["delayed"].text(), jobs["reserved"].text(), jobs["buried"].text(),
                   short_time(has_ready ? tube["oldest_ready_age_ms"] : JsonView()),
                   short_time(tube["next_due_in_ms"]), tube["name"].text());
      }
      after = page.json["next"].text();
    } while (!after.empty());
    if (json) fmt::print("{}\n", JsonLine().list("tubes", items).str());
  }

  static std::string json_of(const JsonView& tube) {
    const JsonView jobs = tube["jobs"];
    return JsonLine()
        .text("tube", tube["name"].text())
        .raw("ready", jobs["ready"].json())
        .raw("delayed", jobs["delayed"].json())
        .raw("reserved", jobs["reserved"].json())
        .raw("buried", jobs["buried"].json())
        .raw("watching", tube["watching"].json())
        .raw("waiting", tube["waiting"].json())
        .number("pause_left_s", (tube["pause_left_ms"].number() + 999) / 1'000)
        .raw("total_jobs", tube["total_jobs"].json())
        .raw("oldest_ready_age_ms", tube["oldest_ready_age_ms"].json())
        .raw("next_due_in_ms", tube["next_due_in_ms"].json())
        .str();
  }
};

/// A number if it is one, as JSON knows it; else a string.
void add_field(JsonLine& object, const std::string& name, const std::string& value) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), number, std::chars_format::fixed);
  const bool zeros = value.size() > 1 && value.front() == '0' && value[1] != '.';
  if (error == std::errc() && end == value.data() + value.size() && !zeros) {
    object.raw(name, value);
  } else if (value == "true" || value == "false") {
    object.flag(name, value == "true");
  } else {
    object.text(name, value);
  }
}

struct Stats {
  Target target;
  const CLI::Option* by_tube = nullptr;
  const CLI::Option* by_job = nullptr;
  bool json = false;

  void run() const {
    std::string line = "stats";
    std::string absent;
    if (const std::optional<std::string> tube = said(by_tube)) {
      check_tube(*tube);
      line = "stats-tube " + *tube;
      absent = "there is no tube " + *tube;
    } else if (const std::optional<std::string> job = said(by_job)) {
      const std::uint64_t number = number_of(*job, "--job");
      line = fmt::format("stats-job {}", number);
      absent = fmt::format("there is no job {}", number);
    }
    BeanstalkClient client = connect(target);
    const Fields fields = fields_of(expect(client.ask(line), "OK", absent).body);
    if (json) {
      JsonLine object;
      for (const auto& [name, value] : fields) {
        // Names stay text, whatever they look like.
        if (name == "name" || name == "tube" || name == "id") {
          object.text(name, value);
        } else {
          add_field(object, name, value);
        }
      }
      fmt::print("{}\n", object.str());
      return;
    }
    std::size_t width = 0;
    for (const auto& [name, value] : fields) width = std::max(width, name.size());
    for (const auto& [name, value] : fields) fmt::print("{:<{}}  {}\n", name, width, value);
  }
};

struct Kick {
  Target target;
  std::string tube = "default";
  std::string count = "1";
  std::vector<std::string> words;
  bool json = false;

  void run() const {
    check_tube(tube);
    const std::uint64_t most = number_of(count, "--count", 0xFFFF'FFFFU);
    std::vector<std::uint64_t> ids;
    for (const std::string& word : words) ids.push_back(number_of(word, "ID"));
    BeanstalkClient client = connect(target);
    std::uint64_t kicked = 0;
    std::vector<std::string> missing;
    if (ids.empty()) {
      expect(client.ask("use " + tube), "USING");
      kicked = expect(client.ask(fmt::format("kick {}", most)), "KICKED").id();
    }
    for (const std::uint64_t id : ids) {
      const Answer answer = value_or_fail(client.ask(fmt::format("kick-job {}", id)), kServerError);
      if (answer.is("NOT_FOUND")) {
        missing.push_back(std::to_string(id));
      } else if (answer.is("KICKED")) {
        ++kicked;
      } else {
        throw failure_of(answer);
      }
    }
    if (json) {
      fmt::print("{}\n", JsonLine().number("kicked", kicked).list("missing", missing).str());
    } else {
      fmt::print("{}\n", kicked);
    }
    if (!missing.empty()) {
      throw Failure{kNotFound, fmt::format("not found, or neither buried nor delayed: {}",
                                           fmt::join(missing, " "))};
    }
  }
};

struct Pause {
  Target target;
  std::string tube;
  std::string time;
  bool json = false;

  void run() const {
    check_tube(tube);
    const std::uint32_t pause_s = wire_seconds(time, "--for", kMostSeconds);
    BeanstalkClient client = connect(target);
    expect(client.ask(fmt::format("pause-tube {} {}", tube, pause_s)), "PAUSED",
           "there is no tube " + tube);
    if (json) {
      fmt::print("{}\n", JsonLine().text("tube", tube).number("pause_s", pause_s).str());
    }
  }
};

void add_ls(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<List>();
  CLI::App* app = add_client_verb(program, "ls", "List the tubes and what is in them", verb->target,
                                  connecting, Speaks::kBoth);
  app->add_option("--prefix", verb->prefix, "Only those whose name begins so");
  app->add_flag("-l,--long", verb->long_form,
                "Over HTTP: also how old the oldest ready job is, and when the next is due");
  app->add_flag("--json", verb->json, "Print one line of JSON: tubes");
  on_call(app, verb, status);
}

void add_stats(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Stats>();
  CLI::App* app =
      add_client_verb(program, "stats", "Print the statistics of the server, a tube or a job",
                      verb->target, connecting);
  CLI::Option* tube = app->add_option("-t,--tube", "Of this tube")->type_name("TEXT")->expected(1);
  verb->by_tube = tube;
  verb->by_job = app->add_option("-j,--job", "Of the job with this id")
                     ->type_name("N")
                     ->expected(1)
                     ->excludes(tube);
  app->add_flag("--json", verb->json, "Print one line of JSON: name and value of each");
  on_call(app, verb, status);
}

void add_kick(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Kick>();
  CLI::App* app = add_client_verb(
      program, "kick", "Make jobs ready that are buried, or else delayed, and print how many",
      verb->target, connecting);
  // Text, read by number_of().
  CLI::Option* ids = app->add_option("ID", verb->words, "Only these jobs")->type_name("");
  app->add_option("-t,--tube", verb->tube, "Tube whose jobs are kicked, the first ones first")
      ->capture_default_str()
      ->excludes(ids);
  app->add_option("-n,--count", verb->count, "How many at most")
      ->capture_default_str()
      ->type_name("N")
      ->excludes(ids);
  app->add_flag("--json", verb->json, "Print one line of JSON: kicked, missing");
  on_call(app, verb, status);
}

void add_pause(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Pause>();
  CLI::App* app = add_client_verb(program, "pause",
                                  "Have no job of a tube reserved for a time; all else goes on",
                                  verb->target, connecting);
  app->add_option("-t,--tube", verb->tube, "The tube")->required();
  app->add_option("--for", verb->time, "How long; whole seconds, rounded up")
      ->required()
      ->type_name("TIME");
  app->add_flag("--json", verb->json, "Print one line of JSON: tube, pause_s");
  on_call(app, verb, status);
}

void add_resume(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Pause>();
  verb->time = "0s";
  CLI::App* app =
      add_client_verb(program, "resume", "End the pause of a tube", verb->target, connecting);
  app->add_option("-t,--tube", verb->tube, "The tube")->required();
  app->add_flag("--json", verb->json, "Print one line of JSON: tube, pause_s");
  on_call(app, verb, status);
}

}  // namespace

void add_tube_verbs(CLI::App& program, int& status, const Connecting& connecting) {
  add_ls(program, status, connecting);
  add_stats(program, status, connecting);
  add_kick(program, status, connecting);
  add_pause(program, status, connecting);
  add_resume(program, status, connecting);
}

}  // namespace carillon::app
