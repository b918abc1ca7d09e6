// SPDX-License-Identifier: Apache-2.0
// carillon put | reserve | delete | peek | stats | ls: a client on the command line.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/carillon/output.h"
#include "apps/carillon/verbs.h"
#include "carillon/protocol/beanstalk/request.h"
#include "carillon/server/beanstalk_client.h"
#include "carillon/server/units.h"

namespace carillon::app {
namespace {

using server::BeanstalkClient;
using Answer = BeanstalkClient::Answer;

/// What went wrong, on its way to main.
struct Failure {
  ExitStatus status;
  std::string message;
};

constexpr const char* kDefaultServer = "127.0.0.1:11300";
constexpr const char* kDefaultPatience = "5s";
constexpr const char* kServerVariable = "CARILLON_SERVER";

/// Where a verb finds the server: what is said behind the verb, else before it.
struct Target {
  Connecting of_verb;
  Connecting of_program;
};

template <class T>
T value_or_fail(Result<T> result, ExitStatus status) {
  if (!result) throw Failure{status, result.error().message};
  return std::move(*result);
}

Span span_of(const std::string& text, const char* option) {
  Result<Span> span = server::parse_duration(text);
  if (!span) throw Failure{kUsage, fmt::format("{}: {}", option, span.error().message)};
  return *span;
}

/// What the protocol can say of a delay or a time to run, of a priority, and of a wait.
constexpr std::uint32_t kMostSeconds = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kLeastUrgent = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kMostWaitSeconds = std::numeric_limits<std::int32_t>::max();

std::uint32_t wire_seconds(const std::string& text, const char* option, std::uint32_t most) {
  const Span span = span_of(text, option);
  if (span > std::chrono::seconds(most)) {
    throw Failure{kUsage, fmt::format("{}: {} is out of range (0s to {}s)", option, text, most)};
  }
  return server::ceil_seconds(span);
}

/// Numbers are taken as text from the command line: its parser would read 010 as eight.
std::uint64_t number_of(const std::string& text, const char* option,
                        std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  const Result<std::uint64_t> number = server::parse_count(text);
  if (!number || *number > most) {
    throw Failure{kUsage, fmt::format("{}: '{}' is not a number from 0 to {}", option, text, most)};
  }
  return *number;
}

/// What the command line says of it, even if that is nothing: "".
std::optional<std::string> said(const CLI::Option* option) {
  if (option->count() == 0) return std::nullopt;
  return option->results().back();
}

BeanstalkClient connect(const Target& target) {
  const char* named_by = "--server";
  std::optional<std::string> address = said(target.of_verb.server);
  if (!address) address = said(target.of_program.server);
  if (const char* variable = std::getenv(kServerVariable); !address && variable != nullptr) {
    named_by = kServerVariable;
    address = variable;
  }
  Result<server::Endpoint> at = server::Endpoint::parse(address.value_or(kDefaultServer));
  if (!at) throw Failure{kUsage, fmt::format("{}: {}", named_by, at.error().message)};
  std::optional<std::string> patience = said(target.of_verb.patience);
  if (!patience) patience = said(target.of_program.patience);
  const Span wait = span_of(patience.value_or(kDefaultPatience), "--patience");
  Result<BeanstalkClient> client = BeanstalkClient::connect(*at, wait);
  if (client) return std::move(*client);
  std::string message = client.error().message;
  const std::string refused = std::generic_category().message(ECONNREFUSED);
  if (message.find(refused) != std::string::npos) {
    message += "; does a server run there? carillon serve starts one";
  }
  throw Failure{kServerError, std::move(message)};
}

/// The failure that an answer is which was not hoped for: NOT_FOUND and the like with status 1,
/// anything else with 3.
Failure failure_of(const Answer& answer) {
  for (const char* absent : {"NOT_FOUND", "TIMED_OUT", "DEADLINE_SOON"}) {
    if (answer.line == absent) return {kNotFound, answer.line};
  }
  for (const char* refusal : {"BAD_FORMAT", "BURIED", "DRAINING", "EXPECTED_CRLF", "INTERNAL_ERROR",
                              "JOB_TOO_BIG", "NOT_IGNORED", "OUT_OF_MEMORY", "UNKNOWN_COMMAND"}) {
    if (answer.is(refusal)) return {kServerError, answer.line};
  }
  return {kServerError, fmt::format("the server answered nonsense: '{}'", answer.line)};
}

/// An answer whose first word is `word`; others are failures. `absent` says what is not there if
/// the status is 1.
Answer expect(Result<Answer> result, std::string_view word, const std::string& absent = {}) {
  Answer answer = value_or_fail(std::move(result), kServerError);
  if (answer.is(word)) return answer;
  Failure failure = failure_of(answer);
  if (failure.status == kNotFound && !absent.empty()) failure.message += ": " + absent;
  throw failure;
}

void check_tube(const std::string& tube) {
  if (!protocol::beanstalk::is_tube_name(tube)) {
    throw Failure{kUsage, fmt::format("--tube: '{}' is not 1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( "
                                      "), the first of them not '-'",
                                      tube)};
  }
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.append("\\").append(1, c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out += '"';
}

/// A job, with whatever bytes its body has: as they are, or as one line of JSON.
void print_job(const Answer& answer, bool json) {
  if (json) {
    fmt::print("{{\"id\":{},\"size\":{},\"body\":{}}}\n", answer.id(), answer.body.size(),
               json_string(answer.body));
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

  void run() const {
    check_tube(tube);
    const std::uint32_t delay_s = wire_seconds(delay, "--delay", kMostSeconds);
    const std::uint32_t ttr_s = wire_seconds(ttr, "--ttr", kMostSeconds);
    const auto urgency =
        static_cast<std::uint32_t>(number_of(priority, "--priority", kLeastUrgent));
    const std::string bytes = body == "-" ? read_input() : body;
    BeanstalkClient client = connect(target);
    expect(client.ask("use " + tube), "USING");
    fmt::print("{}\n", expect(client.put(urgency, delay_s, ttr_s, bytes), "INSERTED").id());
  }
};

struct Reserve {
  Target target;
  std::vector<std::string> tubes = {"default"};
  std::string timeout = "0s";
  bool forever = false;
  bool remove = false;
  bool json = false;

  void run() const {
    for (const std::string& tube : tubes) check_tube(tube);
    const std::uint32_t wait_s = wire_seconds(timeout, "--timeout", kMostWaitSeconds);
    const Span wait = forever ? kForever : std::chrono::seconds(wait_s);
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
    if (remove) {
      expect(client.ask(fmt::format("delete {}", job.id())), "DELETED",
             fmt::format("job {}", job.id()));
    }
  }
};

struct Delete {
  Target target;
  std::vector<std::string> words;

  void run() const {
    std::vector<std::uint64_t> ids;
    for (const std::string& word : words) ids.push_back(number_of(word, "ID"));
    BeanstalkClient client = connect(target);
    std::vector<std::uint64_t> missing;
    for (const std::uint64_t id : ids) {
      const Answer answer = value_or_fail(client.ask(fmt::format("delete {}", id)), kServerError);
      if (answer.is("NOT_FOUND")) {
        missing.push_back(id);
      } else if (!answer.is("DELETED")) {
        throw failure_of(answer);
      }
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

/// "key: value" lines without the head and without quotes.
std::vector<std::pair<std::string, std::string>> fields_of(const std::string& document) {
  std::vector<std::pair<std::string, std::string>> fields;
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 2);
    if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
    fields.emplace_back(line.substr(0, colon), std::move(value));
  }
  return fields;
}

std::string field(const std::vector<std::pair<std::string, std::string>>& fields,
                  std::string_view key) {
  for (const auto& [name, value] : fields) {
    if (name == key) return value;
  }
  throw Failure{kServerError, fmt::format("the server's statistics have no {}", key)};
}

struct Stats {
  Target target;
  const CLI::Option* by_tube = nullptr;
  const CLI::Option* by_job = nullptr;

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
    const auto fields = fields_of(expect(client.ask(line), "OK", absent).body);
    std::size_t width = 0;
    for (const auto& [name, value] : fields) width = std::max(width, name.size());
    for (const auto& [name, value] : fields) fmt::print("{:<{}}  {}\n", name, width, value);
  }
};

struct List {
  Target target;

  void run() const {
    BeanstalkClient client = connect(target);
    const std::string names = expect(client.ask("list-tubes"), "OK").body;
    constexpr const char* kKeys[] = {"current-jobs-ready",    "current-jobs-delayed",
                                     "current-jobs-reserved", "current-jobs-buried",
                                     "current-watching",      "current-waiting"};
    fmt::print("{:>10} {:>10} {:>10} {:>10} {:>9} {:>8}  {}\n", "ready", "delayed", "reserved",
               "buried", "watching", "waiting", "tube");
    std::istringstream lines(names);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("- ")) continue;
      const std::string tube = line.substr(2);
      const Answer answer = value_or_fail(client.ask("stats-tube " + tube), kServerError);
      if (answer.is("NOT_FOUND")) continue;  // It has gone since.
      if (!answer.is("OK")) throw failure_of(answer);
      const auto fields = fields_of(answer.body);
      std::vector<std::string> values;
      for (const char* key : kKeys) values.push_back(field(fields, key));
      if (tube == "default") {
        // This connection, like each new one, watches it: that is not what was asked.
        const Result<std::uint64_t> watching = server::parse_count(values[4]);
        if (watching && *watching > 0) values[4] = std::to_string(*watching - 1);
      }
      fmt::print("{:>10} {:>10} {:>10} {:>10} {:>9} {:>8}  {}\n", values[0], values[1], values[2],
                 values[3], values[4], values[5], tube);
    }
  }
};

// Their options.

CLI::App* add_verb(CLI::App& program, const char* name, const char* description, Target& target) {
  CLI::App* verb = program.add_subcommand(name, description);
  target.of_verb = add_connecting(*verb);
  return verb;
}

template <class Verb>
std::shared_ptr<Verb> make_verb(const Connecting& of_program) {
  auto verb = std::make_shared<Verb>();
  verb->target.of_program = of_program;
  return verb;
}

template <class Verb>
void on_call(CLI::App* app, const char* name, std::shared_ptr<Verb> verb, int& status) {
  app->callback([name, verb, &status] {
    try {
      verb->run();
    } catch (const Failure& failure) {
      print_error(fmt::format("carillon {}: {}", name, failure.message));
      status = failure.status;
    }
  });
}

void add_put(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = make_verb<Put>(connecting);
  CLI::App* app = add_verb(program, "put", "Put a job and print its id", verb->target);
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
  app->add_option("BODY", verb->body, "The body; - or nothing: standard input")->type_name("");
  on_call(app, "put", verb, status);
}

void add_reserve(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = make_verb<Reserve>(connecting);
  CLI::App* app = add_verb(
      program, "reserve",
      "Reserve a job and print it; unless it is deleted it is ready again after", verb->target);
  app->add_option("-t,--tube", verb->tubes, "Tube to take it from; may be repeated")
      ->capture_default_str()
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
  CLI::Option* timeout = app->add_option("--timeout", verb->timeout,
                                         "How long to wait for one; whole seconds, rounded up")
                             ->capture_default_str()
                             ->type_name("TIME");
  app->add_flag("--wait", verb->forever, "Wait for ever")->excludes(timeout);
  app->add_flag("--delete", verb->remove, "Delete it once it has been printed");
  app->add_flag("--json", verb->json, "Print one line of JSON: id, size, body");
  on_call(app, "reserve", verb, status);
}

void add_delete(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = make_verb<Delete>(connecting);
  CLI::App* app = add_verb(program, "delete", "Delete jobs", verb->target);
  app->add_option("ID", verb->words, "Their ids")->required()->type_name("");
  on_call(app, "delete", verb, status);
}

void add_peek(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = make_verb<Peek>(connecting);
  CLI::App* app = add_verb(
      program, "peek", "Print a job without reserving it: that with the id, or the next of a tube",
      verb->target);
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
  app->add_flag("--json", verb->json, "Print one line of JSON: id, size, body");
  on_call(app, "peek", verb, status);
}

void add_stats(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = make_verb<Stats>(connecting);
  CLI::App* app = add_verb(program, "stats", "Print the statistics of the server, a tube or a job",
                           verb->target);
  CLI::Option* tube = app->add_option("-t,--tube", "Of this tube")->type_name("TEXT")->expected(1);
  verb->by_tube = tube;
  verb->by_job = app->add_option("-j,--job", "Of the job with this id")
                     ->type_name("N")
                     ->expected(1)
                     ->excludes(tube);
  on_call(app, "stats", verb, status);
}

void add_ls(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = make_verb<List>(connecting);
  on_call(add_verb(program, "ls", "List the tubes and what is in them", verb->target), "ls", verb,
          status);
}

}  // namespace

Connecting add_connecting(CLI::App& app) {
  const auto add = [&app](const char* name, const char* type, const std::string& help) {
    return app.add_option(name, help)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  Connecting connecting;
  connecting.server =
      add("-s,--server", "ADDRESS",
          fmt::format("Address of the server: HOST:PORT or unix:PATH; or the variable {} [{}]",
                      kServerVariable, kDefaultServer));
  connecting.patience = add("--patience", "TIME",
                            fmt::format("How long to wait for the server [{}]", kDefaultPatience));
  return connecting;
}

void add_client_verbs(CLI::App& program, int& status, const Connecting& connecting) {
  add_put(program, status, connecting);
  add_reserve(program, status, connecting);
  add_delete(program, status, connecting);
  add_peek(program, status, connecting);
  add_stats(program, status, connecting);
  add_ls(program, status, connecting);
}

}  // namespace carillon::app
