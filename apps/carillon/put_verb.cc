// SPDX-License-Identifier: Apache-2.0
// carillon put

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "apps/carillon/api.h"
#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/protocol/http/job_requests.h"

namespace carillon::app {
namespace {

struct Put {
  Target target;
  std::string tube = "default";
  std::string delay = "0s";
  std::string due_at;
  std::string ttr = "60s";
  std::string priority = "1024";
  std::string key;
  std::string on_conflict = "return";
  std::string content_type;
  Attempts attempts;
  std::string body = "-";
  bool json = false;

  const CLI::Option* key_option = nullptr;

  void run() const {
    check_tube(tube);
    const auto urgency =
        static_cast<std::uint32_t>(number_of(priority, "--priority", kLeastUrgent));
    if (key_option->count() > 0) check_key(key, "--key");
    const bool over_http = key_option->count() > 0 || !due_at.empty() || attempts.said() ||
                           !content_type.empty() || target.of_verb.http->count() > 0;
    if (over_http) {
      put_by_http(urgency);
    } else {
      put_by_beanstalk(urgency);
    }
  }

 private:
  [[nodiscard]] std::string bytes() const { return body == "-" ? read_input("BODY") : body; }

  void put_by_beanstalk(std::uint32_t urgency) const {
    const std::uint32_t delay_s = wire_seconds(delay, "--delay", kMostSeconds);
    const std::uint32_t ttr_s = wire_seconds(ttr, "--ttr", kMostSeconds);
    const std::string sent = bytes();
    server::BeanstalkClient client = connect(target);
    expect(client.ask("use " + tube), "USING");
    const Answer put = expect(client.put(urgency, delay_s, ttr_s, sent), "INSERTED");
    fmt::print("{}\n", json ? JsonLine().number("id", put.id()).str() : std::to_string(put.id()));
  }

  /// beanstalkd's protocol has no words for these.
  void put_by_http(std::uint32_t urgency) const {
    JsonLine job;
    job.number("priority", urgency);
    job.number("ttr_ms", wire_ms(ttr, "--ttr", kMostSeconds, 1));
    if (due_at.empty()) {
      job.number("delay_ms", wire_ms(delay, "--delay"));
    } else {
      job.number("due_at", date_of(due_at, "--due-at"));
    }
    if (!key.empty()) job.text("key", key).text("on_conflict", on_conflict);
    if (!content_type.empty()) {
      if (!protocol::http::is_content_type(content_type)) {
        throw Failure{kUsage, fmt::format("--content-type: '{}' is not a type and a subtype of at "
                                          "most {} printable bytes",
                                          content_type, protocol::http::kMaxContentTypeSize)};
      }
      job.text("content_type", content_type);
    }
    attempts.write(job);
    const Api api(target);
    job.bytes("body", bytes());
    const ApiAnswer put = api.ask("POST", tube_path(tube) + "/jobs", job.str());
    if (!json) {
      fmt::print("{}\n", put.json["id"].text());
      return;
    }
    JsonLine line;
    line.raw("id", put.json["id"].json());
    if (!key.empty()) {
      line.flag("existing", put.json["existing"].flag());
      line.flag("replaced", put.json["replaced"].flag());
    }
    fmt::print("{}\n", line.str());
  }
};

}  // namespace

void add_put(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Put>();
  CLI::App* app = add_client_verb(program, "put", "Put a job and print its id", verb->target,
                                  connecting, Speaks::kBoth);
  app->add_option("-t,--tube", verb->tube, "Tube to put it into")->capture_default_str();
  CLI::Option* delay =
      app->add_option("-d,--delay", verb->delay, "When it becomes ready; whole seconds, rounded up")
          ->capture_default_str()
          ->type_name("TIME");
  app->add_option("--due-at", verb->due_at,
                  "Or a date, as 2030-01-31T12:00:00Z or milliseconds since 1970; follows the "
                  "calendar")
      ->type_name("DATE")
      ->excludes(delay);
  app->add_option("--ttr", verb->ttr,
                  "How long a worker may have it; whole seconds, rounded up, at least one")
      ->capture_default_str()
      ->type_name("TIME");
  app->add_option("-p,--priority", verb->priority, "0 is the most urgent")
      ->capture_default_str()
      ->type_name("N");
  CLI::Option* key =
      app->add_option("-k,--key", verb->key,
                      "Your name of it, which no other job of the tube has at the time")
          ->type_name("KEY");
  verb->key_option = key;
  app->add_option("--on-conflict", verb->on_conflict,
                  "If a job has the key: return its id, replace it, or refuse")
      ->capture_default_str()
      ->check(CLI::IsMember({"return", "replace", "refuse"}))
      ->type_name("WHAT")
      ->needs(key);
  verb->attempts.add_to(*app);
  app->add_option("--content-type", verb->content_type, "What the body is, as application/json")
      ->type_name("TYPE");
  app->add_flag("--json", verb->json,
                "Print one line of JSON: id; with --key existing and replaced");
  app->add_option("BODY", verb->body, "The body; - or nothing: standard input")->type_name("");
  app->footer(
      "\nWith --due-at, --key, --max-attempts, --backoff or --content-type it goes over\nthe HTTP "
      "API, and times are exact to the millisecond.");
  on_call(app, verb, status);
}

}  // namespace carillon::app
