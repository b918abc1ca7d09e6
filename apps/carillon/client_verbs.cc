// SPDX-License-Identifier: Apache-2.0
// carillon put | reserve | delete | peek: a client on the command line.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/protocol/beanstalk/request.h"
#include "carillon/server/units.h"

namespace carillon::app {
namespace {

using server::BeanstalkClient;

/// A job, with whatever bytes its body has: as they are, or as one line of JSON.
void print_job(const Answer& answer, bool json) {
  if (json) {
    JsonLine job;
    job.number("id", answer.id()).number("size", answer.body.size()).bytes("body", answer.body);
    fmt::print("{}\n", job.str());
  } else {
    print_error(fmt::format("{}", answer.id()));
    std::fwrite(answer.body.data(), 1, answer.body.size(), stdout);
    if (!answer.body.ends_with('\n')) std::fputc('\n', stdout);
  }
}

// The verbs.

/// All of standard input.
std::string read_input() {
  std::string bytes;
  char buffer[64 * 1024];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, stdin)) {
    bytes.append(buffer, got);
    if (bytes.size() > protocol::beanstalk::kMaxJobSizeCap) {
      throw Failure{kUsage,
                    fmt::format("BODY: standard input has more than the {} bytes of any job",
                                protocol::beanstalk::kMaxJobSizeCap)};
    }
  }
  if (std::ferror(stdin) != 0) throw Failure{kUsage, "BODY: standard input cannot be read"};
  return bytes;
}

struct Put {
  Target target;
  std::string tube = "default";
  std::string delay = "0s";
  std::string ttr = "60s";
  std::string priority = "1024";
  std::string body = "-";
  bool json = false;

  void run() const {
    check_tube(tube);
    const std::uint32_t delay_s = wire_seconds(delay, "--delay", kMostSeconds);
    const std::uint32_t ttr_s = wire_seconds(ttr, "--ttr", kMostSeconds);
    const auto urgency =
        static_cast<std::uint32_t>(number_of(priority, "--priority", kLeastUrgent));
    const std::string bytes = body == "-" ? read_input() : body;
    BeanstalkClient client = connect(target);
    expect(client.ask("use " + tube), "USING");
    const Answer put = expect(client.put(urgency, delay_s, ttr_s, bytes), "INSERTED");
    fmt::print("{}\n", json ? JsonLine().number("id", put.id()).str() : std::to_string(put.id()));
  }
};

struct Reserve {
  Target target;
  std::vector<std::string> tubes = {"default"};
  std::string timeout = "0s";
  bool forever = false;
  bool remove = false;
  bool bury = false;
  const CLI::Option* release = nullptr;
  bool json = false;

  void run() const {
    for (const std::string& tube : tubes) check_tube(tube);
    const std::uint32_t wait_s = wire_seconds(timeout, "--timeout", kMostWaitSeconds);
    const Span wait = forever ? kForever : std::chrono::seconds(wait_s);
    std::optional<std::uint32_t> release_s;
    if (const std::optional<std::string> delay = said(release)) {
      release_s = wire_seconds(*delay, "--release", kMostSeconds);
    }
    BeanstalkClient client = connect(target);
    bool ignore_default = true;
    for (const std::string& tube : tubes) {
      ignore_default = ignore_default && tube != "default";
      expect(client.ask("watch " + tube), "WATCHING");
    }
    if (ignore_default) expect(client.ask("ignore default"), "WATCHING");
    const std::string line = forever ? "reserve" : fmt::format("reserve-with-timeout {}", wait_s);
    const Answer job = expect(client.ask_waiting(line, wait), "RESERVED",
                              fmt::format("no job was ready in {}", fmt::join(tubes, ", ")));
    // First what the caller came for: once deleted it exists nowhere else.
    print_job(job, json);
    if (!flush_output()) throw Failure{kServerError, "so the job is left with the server"};
    const std::string name = fmt::format("job {}", job.id());
    if (remove) expect(client.ask(fmt::format("delete {}", job.id())), "DELETED", name);
    if (!bury && !release_s) return;
    // Both commands set the priority, which is to stay as it is.
    const Fields fields =
        fields_of(expect(client.ask(fmt::format("stats-job {}", job.id())), "OK", name).body);
    const std::string priority = field(fields, "pri");
    if (bury) {
      expect(client.ask(fmt::format("bury {} {}", job.id(), priority)), "BURIED", name);
    } else {
      expect(client.ask(fmt::format("release {} {} {}", job.id(), priority, *release_s)),
             "RELEASED", name);
    }
  }
};

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
  std::string tube = "default";
  std::string state = "ready";
  bool json = false;

  void run() const {
    check_tube(tube);
    if (const std::optional<std::string> id = said(by_id)) {
      const std::uint64_t number = number_of(*id, "ID");
      BeanstalkClient client = connect(target);
      const std::string absent = fmt::format("there is no job {}", number);
      print_job(expect(client.ask(fmt::format("peek {}", number)), "FOUND", absent), json);
      return;
    }
    BeanstalkClient client = connect(target);
    expect(client.ask("use " + tube), "USING");
    const std::string absent = fmt::format("there is no {} job in tube {}", state, tube);
    print_job(expect(client.ask("peek-" + state), "FOUND", absent), json);
  }
};

// Their options.

void add_put(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Put>();
  CLI::App* app =
      add_client_verb(program, "put", "Put a job and print its id", verb->target, connecting);
  app->add_option("-t,--tube", verb->tube, "Tube to put it into")->capture_default_str();
  app->add_option("-d,--delay", verb->delay, "When it becomes ready; whole seconds, rounded up")
      ->capture_default_str()
      ->type_name("TIME");
  app->add_option("--ttr", verb->ttr,
                  "How long a worker may have it; whole seconds, rounded up, at least one")
      ->capture_default_str()
      ->type_name("TIME");
  app->add_option("-p,--priority", verb->priority, "0 is the most urgent")
      ->capture_default_str()
      ->type_name("N");
  app->add_flag("--json", verb->json, "Print one line of JSON: id");
  app->add_option("BODY", verb->body, "The body; - or nothing: standard input")->type_name("");
  on_call(app, verb, status);
}

void add_reserve(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Reserve>();
  CLI::App* app =
      add_client_verb(program, "reserve",
                      "Reserve a job and print it; unless told otherwise it is ready again after",
                      verb->target, connecting);
  app->add_option("-t,--tube", verb->tubes, "Tube to take it from; may be repeated")
      ->capture_default_str()
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
  CLI::Option* timeout = app->add_option("--timeout", verb->timeout,
                                         "How long to wait for one; whole seconds, rounded up")
                             ->capture_default_str()
                             ->type_name("TIME");
  app->add_flag("--wait", verb->forever, "Wait for ever")->excludes(timeout);
  CLI::Option* remove =
      app->add_flag("--delete", verb->remove, "Delete it once it has been printed");
  CLI::Option* bury =
      app->add_flag("--bury", verb->bury, "Bury it once it has been printed")->excludes(remove);
  verb->release = app->add_option("--release", "Have it ready again only so much later")
                      ->type_name("TIME")
                      ->expected(1)
                      ->excludes(remove)
                      ->excludes(bury);
  app->add_flag("--json", verb->json, "Print one line of JSON: id, size, body or body_base64");
  on_call(app, verb, status);
}

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
      program, "peek", "Print a job without reserving it: that with the id, or the next of a tube",
      verb->target, connecting);
  // Text, read by number_of().
  CLI::Option* id = app->add_option("ID", "Its id")->type_name("")->expected(1);
  verb->by_id = id;
  app->add_option("-t,--tube", verb->tube, "Tube to look into")
      ->capture_default_str()
      ->excludes(id);
  app->add_option("--state", verb->state, "ready, delayed or buried")
      ->capture_default_str()
      ->check(CLI::IsMember({"ready", "delayed", "buried"}))
      ->type_name("STATE")
      ->excludes(id);
  app->add_flag("--json", verb->json, "Print one line of JSON: id, size, body or body_base64");
  on_call(app, verb, status);
}

}  // namespace

void add_client_verbs(CLI::App& program, int& status, const Connecting& connecting) {
  add_put(program, status, connecting);
  add_reserve(program, status, connecting);
  add_delete(program, status, connecting);
  add_peek(program, status, connecting);
}

}  // namespace carillon::app
