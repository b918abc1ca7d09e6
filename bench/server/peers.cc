// SPDX-License-Identifier: Apache-2.0
#include "bench/server/peers.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "bench/common/environment.h"
#include "bench/common/interrupt.h"
#include "bench/server/engine.h"

namespace carillon::bench {
namespace {

constexpr Span kEndLimit = std::chrono::seconds(60);

std::string program_of(std::string_view peer, const Surroundings& surroundings) {
  if (peer.starts_with("carillon")) return surroundings.carillon;
  if (peer == kRedis) return "redis-server";
  if (peer == kBareAppend) return {};
  return "beanstalkd";
}

std::vector<std::string> command_of(std::string_view peer, const Surroundings& surroundings,
                                    const std::string& dir, std::uint16_t port) {
  const std::string number = fmt::format("{}", port);
  std::vector<std::string> words = {program_of(peer, surroundings)};
  const auto add = [&words](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  if (peer.starts_with("carillon")) {
    add({"serve", "--listen", fmt::format("127.0.0.1:{}", port), "--http-listen", "none"});
    if (peer == kCarillonData) {
      add({"--data", dir});
    } else {
      add({"--memory"});
    }
    words.insert(words.end(), surroundings.carillon_extras.begin(),
                 surroundings.carillon_extras.end());
  } else if (peer == kRedis) {
    // No snapshots and no rewriting of the log behind the back of a measurement.
    add({"--bind", "127.0.0.1", "--port", number, "--dir", dir, "--appendonly", "yes",
         "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0",
         "--loglevel", "warning"});
  } else {
    add({"-l", "127.0.0.1", "-p", number});
    if (peer == kBeanstalkdF50) add({"-b", dir, "-f50"});
    if (peer == kBeanstalkdF0) add({"-b", dir, "-f0"});
  }
  return words;
}

// The number that follows `key` in `text`.
std::uint64_t number_after(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string::npos) throw BenchError(fmt::format("no \"{}\" in the answer", key));
  return std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// Redis holds all jobs in one hash; the others say it in the statistics of the tube, under `key`.
void verify_count(std::string_view peer, std::uint16_t port, std::string_view key,
                  std::uint64_t expected) {
  const std::uint64_t found =
      speaks_redis(peer) ? number_after(ask(port, "HLEN jobs\r\n", "\r\n"), ":")
                         : number_after(ask(port, "stats-tube default\r\n", "\n\r\n"), key);
  if (found != expected) {
    throw BenchError(
        fmt::format("{} acknowledged {} jobs, but its {}{}", peer, expected, key, found));
  }
}

}  // namespace

RunningPeer::RunningPeer(std::string_view name, const Surroundings& surroundings)
    : name_(name), surroundings_(surroundings), scratch_(surroundings.dir) {
  std::filesystem::create_directory(scratch_.path() / "data");
  start();
}

void RunningPeer::start() {
  const std::uint16_t port = free_port();
  const std::string dir = (scratch_.path() / "data").string();
  server_ = std::make_unique<ServerProcess>(command_of(name_, surroundings_, dir, port), port,
                                            scratch_.path() / "log");
}

void RunningPeer::restart() {
  server_->end_gracefully(kEndLimit);
  server_.reset();
  start();
}

std::string why_missing(std::string_view peer, const Surroundings& surroundings) {
  if (peer == kBareAppend) return {};
  const std::string program = program_of(peer, surroundings);
  if (!find_program(program).empty()) return {};
  if (peer.starts_with("carillon")) {
    return fmt::format("no carillon at {}: build it, or name it with --server", program);
  }
  return fmt::format("{} is not installed: apt-get install {}", program, program);
}

void verify_jobs_put(std::string_view peer, std::uint16_t port, std::uint64_t expected) {
  verify_count(peer, port, "total-jobs: ", expected);
}

void verify_jobs_delayed(std::string_view peer, std::uint16_t port, std::uint64_t expected) {
  verify_count(peer, port, "current-jobs-delayed: ", expected);
}

}  // namespace carillon::bench
