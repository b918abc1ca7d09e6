// SPDX-License-Identifier: Apache-2.0
// carillon reserve

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/carillon/api.h"
#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/protocol/http/job_requests.h"

namespace carillon::app {
namespace {

using server::BeanstalkClient;

struct Reserve {
  Target target;
  std::vector<std::string> tubes = {"default"};
  std::string timeout = "0s";
  bool forever = false;
  bool remove = false;
  bool bury = false;
  const CLI::Option* release = nullptr;
  bool with_receipt = false;
  const CLI::Option* most = nullptr;
  bool json = false;

  void run() const {
    for (const std::string& tube : tubes) check_tube(tube);
    if (with_receipt) return reserve_by_http();
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
    print_job(job.id(), job.body, json);
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

 private:
  /// A reservation that outlives this command.
  void reserve_by_http() const {
    std::uint64_t max = 1;
    if (const std::optional<std::string> count = said(most)) {
      max = number_of(*count, "--max", protocol::http::kMaxReserve);
      if (max == 0) throw Failure{kUsage, "--max: 0 is out of range (1 to 1000)"};
    }
    if (max > 1 && !json) throw Failure{kUsage, "--max: several jobs are printed with --json"};
    if (tubes.size() > protocol::http::kMaxReserveTubes) {
      throw Failure{kUsage, fmt::format("--tube: with --receipt there are at most {}",
                                        protocol::http::kMaxReserveTubes)};
    }
    std::int64_t left_ms = wire_ms(timeout, "--timeout", kMostWaitSeconds);
    std::vector<std::string> names;
    names.reserve(tubes.size());
    for (const std::string& tube : tubes) names.push_back(json_string(tube));
    const Api api(target);
    // The API waits for a time; more is asked for again.
    for (;;) {
      const std::int64_t wait_ms = forever ? kWaitMs : std::min(left_ms, kWaitMs);
      const ApiAnswer answer = api.ask(
          "POST", "/api/v1/reserve",
          JsonLine().list("tubes", names).number("max", max).number("wait_ms", wait_ms).str(),
          std::chrono::milliseconds(wait_ms));
      const std::vector<JsonView> jobs = answer.json["jobs"].items();
      for (const JsonView& job : jobs) print_reserved(job);
      if (!jobs.empty()) return;
      left_ms -= wait_ms;
      if (!forever && left_ms <= 0) {
        throw Failure{kNotFound,
                      fmt::format("TIMED_OUT: no job was ready in {}", fmt::join(tubes, ", "))};
      }
    }
  }

  void print_reserved(const JsonView& job) const {
    if (json) {
      fmt::print("{}\n", job.json());
      return;
    }
    print_error(job["id"].text() + " " + job["receipt"].text());
    print_bytes(body_of(job));
  }

  static constexpr std::int64_t kWaitMs = 60'000;
};

}  // namespace

void add_reserve(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Reserve>();
  CLI::App* app =
      add_client_verb(program, "reserve",
                      "Reserve a job and print it; unless told otherwise it is ready again after",
                      verb->target, connecting, Speaks::kBoth);
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
  CLI::Option* release = app->add_option("--release", "Have it ready again only so much later")
                             ->type_name("TIME")
                             ->expected(1)
                             ->excludes(remove)
                             ->excludes(bury);
  verb->release = release;
  CLI::Option* receipt = app->add_flag("--receipt", verb->with_receipt,
                                       "Over HTTP: keep it for its TTR, and print the receipt that "
                                       "ack, release, bury and touch take")
                             ->excludes(remove)
                             ->excludes(bury)
                             ->excludes(release);
  verb->most = app->add_option("-n,--max", "With --receipt: how many at most, of those ready [1]")
                   ->type_name("N")
                   ->expected(1)
                   ->needs(receipt);
  app->add_flag("--json", verb->json,
                "Print one line of JSON: id, size, body or body_base64; with --receipt a line for "
                "each job, with all that is known of it");
  on_call(app, verb, status);
}

}  // namespace carillon::app
