// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <system_error>

namespace carillon::order_demo {
namespace {

// The server built beside this program.
std::filesystem::path default_server() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "carillon";
}

[[noreturn]] void refuse(const std::string& what) {
  fmt::print(stderr, "order_demo: {}\nRun with --help for what there is.\n", what);
  std::exit(kExitUsage);
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  options.server = default_server();
  std::string server = options.server.string();
  bool no_kill = false;

  CLI::App app(
      "The order scenario on a real carillon server: orders that lapse unless they are\n"
      "paid, a kill -9 in the middle, and a count at the end.",
      "order_demo");
  app.add_option("--server", server, "Run as PROGRAM serve [carillon beside this one]")
      ->type_name("PROGRAM");
  app.add_option("--orders", options.orders, "How many orders, 1 to 10000000")
      ->capture_default_str()
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{10'000'000}));
  auto* seed = app.add_option("--seed", options.seed, "Seed of all that is random [a fresh one]");
  app.add_option("--min-delay", options.min_delay_s, "Shortest time to pay, 1 to 3600 s")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{3600}));
  app.add_option("--max-delay", options.max_delay_s, "Longest time to pay, 1 to 3600 s")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{3600}));
  app.add_flag("--no-kill", no_kill, "Do not kill the server in the middle");
  app.add_flag("--keep", options.keeps, "Leave the server running, and its folder");
  app.add_flag("--json", options.json, "Print one line of JSON instead of the table");
  app.footer(
      "Exit status: 0 all is well; 1 a job was lost, early, twice without a cause, or\n"
      "the sum is wrong; 2 a wrong command line; 3 the server could not be run.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    std::exit(app.exit(help));
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  }

  options.server = std::filesystem::absolute(server);
  options.kills = !no_kill;
  if (options.min_delay_s > options.max_delay_s) {
    refuse(fmt::format("--min-delay {} is above --max-delay {}", options.min_delay_s,
                       options.max_delay_s));
  }
  if (::access(options.server.c_str(), X_OK) != 0) {
    refuse(fmt::format("--server {}: no such program; build it, or name another",
                       options.server.string()));
  }
  if (seed->count() == 0) {
    options.seed = std::random_device{}();
  }
  return options;
}

}  // namespace carillon::order_demo
