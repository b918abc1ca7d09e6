// SPDX-License-Identifier: Apache-2.0
// carillon top

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "apps/carillon/option_values.h"
#include "apps/carillon/top_screen.h"
#include "carillon/base/clock.h"

namespace carillon::app {
namespace {

/// Tubes that are asked for at a time: each is a command.
constexpr std::size_t kMostTubes = 500;

double seconds_field(const Fields& fields, std::string_view key) {
  return std::strtod(field(fields, key).c_str(), nullptr);
}

/// Of a key that only carillon has; nothing of other servers of the protocol.
std::optional<std::uint64_t> own_count(const Fields& fields, std::string_view key) {
  for (const auto& [name, value] : fields) {
    if (name == key) return count_field(fields, key);
  }
  return std::nullopt;
}

TopSample sample(server::BeanstalkClient& client) {
  const Fields fields = fields_of(expect(client.ask("stats"), "OK").body);
  TopSample now;
  now.at = SteadyClock().now();
  now.version = field(fields, "version");
  now.uptime_s = count_field(fields, "uptime");
  // Without this one.
  now.connections = std::max<std::uint64_t>(count_field(fields, "current-connections"), 1) - 1;
  now.connections += own_count(fields, "carillon-http-connections").value_or(0);
  now.waiting = count_field(fields, "current-waiting") +
                own_count(fields, "carillon-http-waiting").value_or(0);
  now.ready = count_field(fields, "current-jobs-ready");
  now.delayed = count_field(fields, "current-jobs-delayed");
  now.reserved = count_field(fields, "current-jobs-reserved");
  now.buried = count_field(fields, "current-jobs-buried");
  now.puts = count_field(fields, "total-jobs");
  // beanstalkd itself says how often it was asked, and of its own protocol only.
  now.reserves = own_count(fields, "carillon-reserves")
                     .value_or(count_field(fields, "cmd-reserve") +
                               count_field(fields, "cmd-reserve-with-timeout"));
  now.deletes = own_count(fields, "carillon-deletes").value_or(count_field(fields, "cmd-delete"));
  now.timeouts = count_field(fields, "job-timeouts");
  now.cpu_s = seconds_field(fields, "rusage-utime") + seconds_field(fields, "rusage-stime");
  now.draining = field(fields, "draining") == "true";
  now.tubes = read_tubes(client, kMostTubes, now.tubes_left_out);
  return now;
}

std::string json_of(const TopSample& now, const TopRates& rates) {
  std::vector<std::string> tubes;
  for (const TubeLine& tube : now.tubes) {
    tubes.push_back(JsonLine()
                        .text("tube", tube.name)
                        .number("ready", tube.ready)
                        .number("delayed", tube.delayed)
                        .number("reserved", tube.reserved)
                        .number("buried", tube.buried)
                        .number("waiting", tube.waiting)
                        .number("total", tube.total)
                        .str());
  }
  return JsonLine()
      .number("uptime_s", now.uptime_s)
      .number("connections", now.connections)
      .number("waiting", now.waiting)
      .number("ready", now.ready)
      .number("delayed", now.delayed)
      .number("reserved", now.reserved)
      .number("buried", now.buried)
      .real("puts_per_s", rates.puts)
      .real("reserves_per_s", rates.reserves)
      .real("deletes_per_s", rates.deletes)
      .real("timeouts_per_s", rates.timeouts)
      .real("cpu_cores", rates.cpu)
      .list("tubes", tubes)
      .str();
}

struct Top {
  Target target;
  std::string interval = "1s";
  std::string count = "0";
  bool json = false;

  void run() const {
    const Span every =
        value_or_fail(duration_option("--interval", interval, std::chrono::milliseconds(100),
                                      std::chrono::hours(1)),
                      kUsage);
    if (json) {
      print_lines(every, number_of(count, "--count"));
    } else if (const int signal = watch(every); signal != 0) {
      std::raise(signal);
    }
  }

 private:
  void print_lines(Span every, std::uint64_t most) const {
    server::BeanstalkClient client = connect(target);
    TopSample before = sample(client);
    for (std::uint64_t i = 0; most == 0 || i < most; ++i) {
      std::this_thread::sleep_for(every);
      TopSample now = sample(client);
      fmt::print("{}\n", json_of(now, rates_between(before, now)));
      if (!flush_output()) return;
      before = std::move(now);
    }
  }

  /// Returns the signal that ended it, 0 if nobody minds.
  int watch(Span every) const {
    // Before the screen is taken: what is wrong at the start is said where it can be read.
    std::optional<server::BeanstalkClient> client = connect(target);
    TopSample now = sample(*client);
    std::optional<TopSample> before;
    TopView view;
    view.address = address_of(target).to_string();
    Result<Terminal> terminal = Terminal::open();
    if (!terminal) {
      throw Failure{kUsage, terminal.error().message + "; --json prints lines instead"};
    }
    const SteadyClock clock;
    for (Instant next = clock.now() + every;;) {
      terminal->show(draw_top(now, before, view, terminal->size()));
      const Terminal::Happened happened = terminal->wait(next - clock.now());
      switch (happened.event) {
        case Terminal::Event::kEnd:
          // Ctrl-C is how one leaves; of any other signal the process dies as it would have.
          return happened.signal == SIGINT ? 0 : happened.signal;
        case Terminal::Event::kKey:
          if (!happened.arrow && (happened.key == 'q' || happened.key == 'Q')) return 0;
          press(happened, view);
          continue;
        case Terminal::Event::kResized: continue;
        case Terminal::Event::kTimeout: break;
      }
      next = clock.now() + every;
      try {
        if (!client) client = connect(target);
        TopSample newer = sample(*client);
        before = std::exchange(now, std::move(newer));
        view.problem.clear();
      } catch (const Failure& failure) {
        client.reset();
        view.problem = failure.message;
      }
    }
  }

  static void press(const Terminal::Happened& happened, TopView& view) {
    const bool down = happened.arrow ? happened.key == 'B' : happened.key == 'j';
    const bool up = happened.arrow ? happened.key == 'A' : happened.key == 'k';
    if (down) ++view.first;
    if (up && view.first > 0) --view.first;
    if (!happened.arrow && happened.key == 's') {
      view.order = static_cast<TopOrder>((static_cast<int>(view.order) + 1) % kTopOrders);
      view.first = 0;
    }
  }
};

}  // namespace

void add_top(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Top>();
  CLI::App* app = add_client_verb(program, "top", "Watch a server: jobs, rates, tubes",
                                  verb->target, connecting);
  app->add_option("-i,--interval", verb->interval, "How often to look")
      ->capture_default_str()
      ->type_name("TIME");
  CLI::Option* json = app->add_flag("--json", verb->json, "Print a line of JSON each time");
  app->add_option("-n,--count", verb->count, "With --json: end after so many; 0: never")
      ->capture_default_str()
      ->type_name("N")
      ->needs(json);
  app->footer(
      "\nKeys: q or Ctrl-C ends it, s sorts by ready, delayed, puts, name; j and k or\nthe arrows "
      "scroll.");
  on_call(app, verb, status);
}

}  // namespace carillon::app
