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

void say_how_to_talk(const ServerProcess& server, const TemporaryFolder& folder) {
  const auto nc = fmt::format("nc 127.0.0.1 {}", server.port());
  fmt::print(
      "\nThe server is still running: 127.0.0.1:{}, process {}, folder {}\n"
      "Talk to it:\n"
      "  printf 'put 0 5 60 5\\r\\nhello\\r\\nquit\\r\\n' | {}     # due in 5 s\n"
      "  printf 'reserve-with-timeout 10\\r\\nquit\\r\\n' | {}  # waits for it\n"
      "  printf 'stats\\r\\nquit\\r\\n' | {}\n"
      "Stop it and delete its folder:\n"
      "  kill {} && sleep 1 && rm -r {}\n",
      server.port(), server.pid(), folder.path().string(), nc, nc, nc, server.pid(),
      folder.path().string());
}

int run(const Options& options) {
  TemporaryFolder folder;
  ServerProcess server(options.server, folder.path(), options.keeps);
  fmt::print(stderr,
             "{} orders, each unpaid after {} to {} s unless its job is deleted; 90 % are paid{}\n"
             "seed {}, server {}\n",
             options.orders, options.min_delay_s, options.max_delay_s,
             options.kills ? "; kill -9 in the middle" : "", options.seed, options.server.string());
  if (const auto started = server.start(); !started) {
    fmt::print(stderr, "order_demo: {}\n", started.error().message);
    return kExitNoServer;
  }
  Driver driver(options, server);
  const Report report = driver.run();
  fmt::print("{}", options.json ? to_json(report, driver.book()) : to_table(report, driver.book()));
  if (options.keeps) {
    folder.keep();
    say_how_to_talk(server, folder);
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
