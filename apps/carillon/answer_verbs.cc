// SPDX-License-Identifier: Apache-2.0
// carillon ack | release | bury | touch: a worker answers for a job that it reserved for a receipt.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/carillon/api.h"
#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/protocol/http/job_requests.h"

namespace carillon::app {
namespace {

struct Reserved {
  std::uint64_t id = 0;
  std::string receipt;
};

Reserved reserved_of(const std::string& id, const std::string& receipt, const std::string& where) {
  Reserved job{number_of(id, (where + "ID").c_str()), receipt};
  if (!protocol::http::parse_receipt(receipt)) {
    throw Failure{kUsage, fmt::format("{}RECEIPT: '{}' is none; reserve --receipt gives them",
                                      where, receipt)};
  }
  return job;
}

/// What `reserve --receipt --json` has printed, line by line.
std::vector<Reserved> read_reserved() {
  std::vector<Reserved> jobs;
  std::istringstream lines(read_input("standard input"));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("standard input, line {}: ", number);
    auto document = std::make_shared<protocol::http::JsonDocument>();
    if (const std::optional<std::string> wrong = document->parse(line)) {
      throw Failure{kUsage, where + "is not JSON: " + *wrong};
    }
    const JsonView job{JsonView::Document(std::move(document))};
    jobs.push_back(reserved_of(job["id"].text(), job["receipt"].text(), where));
  }
  return jobs;
}

struct Ack {
  Target target;
  std::string id;
  std::string receipt;
  bool json = false;

  void run() const {
    if ((id == "-") != receipt.empty()) {
      throw Failure{kUsage, "ID and RECEIPT are required, or - for those on standard input"};
    }
    const std::vector<Reserved> jobs =
        id == "-" ? read_reserved() : std::vector<Reserved>{reserved_of(id, receipt, {})};
    const Api api(target);
    std::vector<std::string> acked;
    std::vector<std::string> stale;
    for (std::size_t from = 0; from < jobs.size(); from += protocol::http::kMaxBatch) {
      const std::size_t until = std::min(jobs.size(), from + protocol::http::kMaxBatch);
      std::vector<std::string> items;
      for (std::size_t i = from; i < until; ++i) {
        items.push_back(JsonLine().number("id", jobs[i].id).text("receipt", jobs[i].receipt).str());
      }
      const ApiAnswer answer = api.ask("POST", "/api/v1/ack", JsonLine().list("jobs", items).str());
      for (const JsonView& result : answer.json["results"].items()) {
        const std::int64_t status = result["status"].number();
        if (status != 200 && status != 409) {
          throw failure_of(ApiAnswer{static_cast<int>(status), result["problem"]});
        }
        (status == 200 ? acked : stale).push_back(result["id"].text());
      }
    }
    if (json) fmt::print("{}\n", JsonLine().list("acked", acked).list("stale", stale).str());
    if (!stale.empty()) {
      throw Failure{kNotFound,
                    fmt::format("no longer reserved for this receipt: {}", fmt::join(stale, " "))};
    }
  }
};

/// release, bury, touch.
struct AnswerFor {
  const char* what = "";
  Target target;
  std::string id;
  std::string receipt;
  std::string delay;
  std::string priority;
  bool json = false;

  void run() const {
    const Reserved job = reserved_of(id, receipt, {});
    JsonLine request;
    request.text("receipt", job.receipt);
    if (!delay.empty()) request.number("delay_ms", wire_ms(delay, "--delay"));
    if (!priority.empty()) {
      request.number("priority", number_of(priority, "--priority", kLeastUrgent));
    }
    const ApiAnswer answer =
        Api(target).ask("POST", fmt::format("/api/v1/jobs/{}/{}", job.id, what), request.str());
    if (json) {
      fmt::print("{}\n", answer.json.json());
    } else if (std::string_view(what) == "release") {
      fmt::print("{}\n", answer.json["state"].text());
    }
  }
};

void add_receipt(CLI::App& app, std::string& id, std::string& receipt) {
  app.add_option("ID", id, "The job")->required()->type_name("");
  app.add_option("RECEIPT", receipt, "As reserve --receipt gave it")->required()->type_name("");
}

}  // namespace

void add_answer_verbs(CLI::App& program, int& status, const Connecting& connecting) {
  auto ack = std::make_shared<Ack>();
  CLI::App* app = add_client_verb(program, "ack", "Delete a job that reserve --receipt gave: done",
                                  ack->target, connecting, Speaks::kHttp);
  app->add_option("ID", ack->id,
                  "The job; -: all that reserve --receipt --json printed, on standard input")
      ->required()
      ->type_name("");
  app->add_option("RECEIPT", ack->receipt, "As reserve --receipt gave it")->type_name("");
  app->add_flag("--json", ack->json, "Print one line of JSON: acked, stale");
  on_call(app, ack, status);

  const auto add = [&](const char* name, const char* description) {
    auto verb = std::make_shared<AnswerFor>();
    verb->what = name;
    app = add_client_verb(program, name, description, verb->target, connecting, Speaks::kHttp);
    add_receipt(*app, verb->id, verb->receipt);
    return verb;
  };
  const auto add_priority = [&](std::string& priority) {
    app->add_option("-p,--priority", priority, "From now on; else as it is")->type_name("N");
  };
  auto release = add("release", "Give a job back that reserve --receipt gave");
  app->add_option("-d,--delay", release->delay,
                  "When it is ready again; else after its backoff, else at once")
      ->type_name("TIME");
  add_priority(release->priority);
  app->add_flag("--json", release->json, "Print one line of JSON: id, state");
  app->footer("\nPrints released; or buried, if its attempts are used up.");
  on_call(app, release, status);

  auto bury = add("bury", "Put a job aside that reserve --receipt gave, until it is kicked");
  add_priority(bury->priority);
  app->add_flag("--json", bury->json, "Print one line of JSON: id, state");
  on_call(app, bury, status);

  auto touch = add("touch", "Take more time for a job that reserve --receipt gave: its TTR anew");
  app->add_flag("--json", touch->json, "Print one line of JSON: id, state");
  on_call(app, touch, status);
}

}  // namespace carillon::app
