// SPDX-License-Identifier: Apache-2.0
// carillon: the server and its command line.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "apps/carillon/json.h"
#include "apps/carillon/output.h"
#include "apps/carillon/verbs.h"
#include "carillon/server/server.h"

namespace {

constexpr const char* kDescription =
    "Durable delayed jobs: a server that speaks beanstalkd's protocol, and a client\nfor it.";
constexpr const char* kFooter =
    "\nDurations: 500ms, 30s, 5m, 2h, 1d; a bare number is seconds.\n"
    "Sizes: 65535, 64KiB, 16MiB, 1GiB.\n"
    "Exit status: 0 done; 1 not found, or nothing in time; 2 wrong usage; 3 cannot\n"
    "connect, an error of the server, or output that cannot be written; 4 a folder\n"
    "that is not sound.";

/// Says what is wrong with the command line; returns the exit status.
int refuse(const CLI::App& program, const CLI::ParseError& error) {
  // Of a word that it does not know and one that is missing, CLI11 tells the latter.
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::vector<std::string> unknown = program.remaining(true);
    if (!unknown.empty()) return refuse(program, CLI::ExtrasError(program.get_name(), unknown));
  }
  std::string name = "carillon";
  for (const CLI::App* verb : program.get_subcommands()) name += " " + verb->get_name();
  carillon::app::print_long_error(
      fmt::format("{}: {}\nRun {} --help for what there is.", name, error.what(), name));
  return carillon::app::kUsage;
}

int run(int argc, char** argv) {
  CLI::App program{kDescription, "carillon"};
  program.require_subcommand(0, 1);
  program.footer(kFooter);
  program.formatter(carillon::app::make_help_formatter());  // The verbs inherit it.
  int status = carillon::app::kOk;
  const std::string version = fmt::format("carillon {}", carillon::server::version());
  program.set_version_flag("--version", version, "Print the version and end");
  const carillon::app::Connecting connecting = carillon::app::add_connecting(program);
  carillon::app::add_serve(program, status, connecting);
  carillon::app::add_put(program, status, connecting);
  carillon::app::add_reserve(program, status, connecting);
  carillon::app::add_answer_verbs(program, status, connecting);
  carillon::app::add_client_verbs(program, status, connecting);
  carillon::app::add_job_verbs(program, status, connecting);
  carillon::app::add_tube_verbs(program, status, connecting);
  carillon::app::add_top(program, status, connecting);
  carillon::app::add_bench(program, status, connecting);
  carillon::app::add_folder_verbs(program, status);
  carillon::app::add_trace(program, status, connecting);
  carillon::app::add_plan(program, status, connecting);
  carillon::app::add_schedule(program, status, connecting);
  carillon::app::add_completions(program);
  CLI::App* version_verb = program.add_subcommand("version", "Print the version");
  bool version_json = false;
  version_verb->add_flag("--json", version_json, "Print one line of JSON: version");
  version_verb->callback([&] {
    const std::string number(carillon::server::version());
    fmt::print("{}\n",
               version_json ? carillon::app::JsonLine().text("version", number).str() : version);
  });
  try {
    program.parse(argc, argv);
    // Not by require_subcommand(1), which would not say which word it did not know.
    if (program.get_subcommands().empty()) throw CLI::RequiredError("A verb");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return refuse(program, error);
    program.exit(error);  // --help, --version
    return carillon::app::kOk;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  carillon::app::take_standard_descriptors();
  int status = carillon::app::kServerError;
  try {
    status = run(argc, argv);
  } catch (const std::exception& error) {
    // A failed write to standard output may have thrown: it is reported below.
    if (std::ferror(stdout) == 0) {
      carillon::app::print_long_error(std::string("carillon: ") + error.what());
    }
  }
  if (carillon::app::flush_output()) return status;
  return status == carillon::app::kOk ? carillon::app::kServerError : status;
}
