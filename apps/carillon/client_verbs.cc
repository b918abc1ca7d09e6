// SPDX-License-Identifier: Apache-2.0
// carillon delete | peek: a client on the command line.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/carillon/api.h"
#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/server/http_client.h"

namespace carillon::app {
namespace {

using server::BeanstalkClient;

struct Delete {
  Target target;
  std::vector<std::string> words;
  bool json = false;

  void run() const {
    std::vector<std::uint64_t> ids;
    for (const std::string& word : words) ids.push_back(number_of(word, "ID"));
    BeanstalkClient client = connect(target);
    std::vector<std::string> deleted;
    std::vector<std::string> missing;
    for (const std::uint64_t id : ids) {
      const Answer answer = value_or_fail(client.ask(fmt::format("delete {}", id)), kServerError);
      if (answer.is("NOT_FOUND")) {
        missing.push_back(std::to_string(id));
      } else if (answer.is("DELETED")) {
        deleted.push_back(std::to_string(id));
      } else {
        throw failure_of(answer);
      }
    }
    if (json) {
      fmt::print("{}\n", JsonLine().list("deleted", deleted).list("missing", missing).str());
    }
    if (!missing.empty()) {
      throw Failure{kNotFound, fmt::format("not found, or reserved by another connection: {}",
                                           fmt::join(missing, " "))};
    }
  }
};

struct Peek {
  Target target;
  const CLI::Option* by_id = nullptr;
  const CLI::Option* by_key = nullptr;
  std::string tube = "default";
  std::string state = "ready";
  bool json = false;

  void run() const {
    check_tube(tube);
    if (const std::optional<std::string> id = said(by_id)) {
      const std::uint64_t number = number_of(*id, "ID");
      BeanstalkClient client = connect(target);
      const std::string absent = fmt::format("there is no job {}", number);
      const Answer job = expect(client.ask(fmt::format("peek {}", number)), "FOUND", absent);
      print_job(job.id(), job.body, json);
      return;
    }
    if (const std::optional<std::string> key = said(by_key)) {
      check_key(*key, "--key");
      const ApiAnswer answer =
          Api(target).ask("GET", tube_path(tube) + "/keys/" + server::url_encoded(*key));
      print_job(number_of(answer.json["id"].text(), "id"), body_of(answer.json), json);
      return;
    }
    BeanstalkClient client = connect(target);
    expect(client.ask("use " + tube), "USING");
    const std::string absent = fmt::format("there is no {} job in tube {}", state, tube);
    const Answer job = expect(client.ask("peek-" + state), "FOUND", absent);
    print_job(job.id(), job.body, json);
  }
};

// Their options.

void add_delete(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Delete>();
  CLI::App* app = add_client_verb(program, "delete", "Delete jobs", verb->target, connecting);
  app->add_option("ID", verb->words, "Their ids")->required()->type_name("");
  app->add_flag("--json", verb->json, "Print one line of JSON: deleted, missing");
  on_call(app, verb, status);
}

void add_peek(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Peek>();
  CLI::App* app = add_client_verb(
      program, "peek", "Print a job without reserving it: by id or key, or the next of a tube",
      verb->target, connecting, Speaks::kBoth);
  // Text, read by number_of().
  CLI::Option* id = app->add_option("ID", "Its id")->type_name("")->expected(1);
  verb->by_id = id;
  app->add_option("-t,--tube", verb->tube, "Tube to look into")
      ->capture_default_str()
      ->excludes(id);
  CLI::Option* state = app->add_option("--state", verb->state, "ready, delayed or buried")
                           ->capture_default_str()
                           ->check(CLI::IsMember({"ready", "delayed", "buried"}))
                           ->type_name("STATE")
                           ->excludes(id);
  verb->by_key = app->add_option("-k,--key", "Its key in the tube, asked for over HTTP")
                     ->type_name("KEY")
                     ->expected(1)
                     ->excludes(id)
                     ->excludes(state);
  app->add_flag("--json", verb->json, "Print one line of JSON: id, size, body or body_base64");
  on_call(app, verb, status);
}

}  // namespace

void add_client_verbs(CLI::App& program, int& status, const Connecting& connecting) {
  add_delete(program, status, connecting);
  add_peek(program, status, connecting);
}

}  // namespace carillon::app
