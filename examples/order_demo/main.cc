// SPDX-License-Identifier: Apache-2.0
//
// The order scenario, end to end: "cancel the order if it is not paid in time", on a real server
// that is killed in the middle. See `order_demo --help`.

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "driver.h"
#include "interrupt.h"
#include "options.h"
#include "report.h"
#include "server_process.h"

namespace {

using namespace carillon::order_demo;

constexpr int kExitBad = 1;
constexpr int kExitNoServer = 3;
constexpr int kExitInterrupted = 130;

int run(const Options& options) {
  TemporaryFolder folder;
  ServerProcess server(options.server, folder.path(), options.keeps);
  fmt::print(stderr, "{}", banner(options));
  if (const auto started = server.start(); !started) {
    fmt::print(stderr, "order_demo: {}\n", started.error().message);
    return kExitNoServer;
  }
  Driver driver(options, server);
  const Report report = driver.run();
  fmt::print("{}", options.json ? to_json(report, driver.book()) : to_table(report, driver.book()));
  if (options.keeps) {
    folder.keep();
    fmt::print("{}", how_to_talk(server.port(), server.pid(), folder.path().string()));
    server.detach();
  }
  return is_good(report, driver.book()) ? 0 : kExitBad;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  catch_interrupts();
  try {
    return run(options);
  } catch (const Interrupted&) {
    fmt::print(stderr, "\norder_demo: interrupted; the server is stopped, its folder deleted\n");
    return kExitInterrupted;
  } catch (const std::exception& error) {
    fmt::print(stderr, "\norder_demo: {}\n", error.what());
    return kExitNoServer;
  }
}
