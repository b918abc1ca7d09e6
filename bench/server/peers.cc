// SPDX-License-Identifier: Apache-2.0
#include "bench/server/peers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "bench/common/environment.h"
#include "bench/common/interrupt.h"
#include "bench/server/engine.h"
#include "bench/server/postgres_cluster.h"

namespace carillon::bench {
namespace {

constexpr Span kEndLimit = std::chrono::seconds(60);

std::string program_of(std::string_view peer, const Surroundings& surroundings) {
  if (peer.starts_with("carillon")) return surroundings.carillon;
  if (speaks_redis(peer)) return "redis-server";
  if (peer == kPostgres) return find_postgres_program("postgres");
  if (peer == kBareAppend) return {};
  return "beanstalkd";
}

ServerCommand carillon_command(std::string_view peer, const Surroundings& surroundings,
                               const std::string& dir, std::uint16_t port) {
  ServerCommand command;
  command.address.port = port;
  command.words = {surroundings.carillon, "serve", "--listen", fmt::format("127.0.0.1:{}", port)};
  const auto add = [&command](std::initializer_list<std::string> more) {
    command.words.insert(command.words.end(), more);
  };
  if (peer == kCarillonMemory) {
    add({"--memory"});
  } else {
    add({"--data", dir});
  }
  if (peer == kCarillonHttp) {
    command.address.port = free_port();
    add({"--http-listen", fmt::format("127.0.0.1:{}", command.address.port)});
  } else {
    add({"--http-listen", "none"});
  }
  command.words.insert(command.words.end(), surroundings.carillon_extras.begin(),
                       surroundings.carillon_extras.end());
  return command;
}

ServerCommand command_of(std::string_view peer, const Surroundings& surroundings,
                         const std::string& dir, std::uint16_t port) {
  if (peer.starts_with("carillon")) return carillon_command(peer, surroundings, dir, port);
  if (peer == kPostgres) return postgres_command(dir);
  ServerCommand command;
  command.address.port = port;
  const std::string number = fmt::format("{}", port);
  if (speaks_redis(peer)) {
    // No snapshots and no rewriting of the log behind the back of a measurement.
    command.words = {"redis-server",
                     "--bind",
                     "127.0.0.1",
                     "--port",
                     number,
                     "--dir",
                     dir,
                     "--appendonly",
                     "yes",
                     "--appendfsync",
                     peer == kRedis ? "always" : "everysec",
                     "--save",
                     "",
                     "--auto-aof-rewrite-percentage",
                     "0",
                     "--loglevel",
                     "warning"};
    return command;
  }
  command.words = {"beanstalkd", "-l", "127.0.0.1", "-p", number};
  if (peer == kBeanstalkdF50) command.words.insert(command.words.end(), {"-b", dir, "-f50"});
  if (peer == kBeanstalkdF0) command.words.insert(command.words.end(), {"-b", dir, "-f0"});
  return command;
}

// The number that follows `key` in `text`.
std::uint64_t number_after(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string::npos) throw BenchError(fmt::format("no \"{}\" in the answer", key));
  return std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// Redis accepts connections while it reads its log.
void await_redis(std::uint16_t port) {
  while (ask(port, "PING\r\n", "\r\n") != "+PONG\r\n") pause_for(std::chrono::milliseconds(2));
}

}  // namespace

RunningPeer::RunningPeer(std::string_view name, const Surroundings& surroundings)
    : name_(name), surroundings_(surroundings), scratch_(surroundings.dir) {
  std::filesystem::create_directory(scratch_.path() / "data");
  // What those before it have left to be written is not for this one to wait for, at its first
  // sync.
  if (const int folder = ::open(scratch_.path().c_str(), O_RDONLY | O_CLOEXEC); folder >= 0) {
    ::syncfs(folder);
    ::close(folder);
  }
  start();
}

void RunningPeer::start() {
  const std::string dir = (scratch_.path() / "data").string();
  question_port_ = free_port();
  if (name_ == kPostgres) make_postgres_cluster(scratch_.path(), dir);
  server_ = std::make_unique<ServerProcess>(command_of(name_, surroundings_, dir, question_port_),
                                            scratch_.path() / "log");
  if (speaks_redis(name_)) await_redis(question_port_);
  if (name_ == kPostgres) prepare_postgres(server_->address());
}

void RunningPeer::restart() {
  end();
  start();
}

void RunningPeer::end() {
  server_->end_gracefully(kEndLimit);
  server_.reset();
}

void RunningPeer::crash() {
  server_->kill();
  server_.reset();
}

void RunningPeer::verify_count(std::string_view key, std::uint64_t expected) const {
  // Redis holds all jobs in one hash and PostgreSQL in one table; the others say it in the
  // statistics of the tube, under `key`.
  std::uint64_t found = 0;
  if (speaks_redis(name_)) {
    found = number_after(ask(question_port_, "HLEN jobs\r\n", "\r\n"), ":");
  } else if (name_ == kPostgres) {
    found = count_postgres_jobs(server_->address());
  } else {
    found = number_after(ask(question_port_, "stats-tube default\r\n", "\n\r\n"), key);
  }
  if (found != expected) {
    throw BenchError(
        fmt::format("{} acknowledged {} jobs, but its {}{}", name_, expected, key, found));
  }
}

std::int64_t RunningPeer::disk_bytes() const {
  constexpr std::int64_t kBlockBytes = 512;  // the unit of st_blocks, whatever the disk's is
  std::int64_t sum = 0;
  std::error_code vanished;  // a file may go while we look
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(scratch_.path() / "data", vanished)) {
    struct stat status = {};
    if (::lstat(entry.path().c_str(), &status) == 0) sum += status.st_blocks * kBlockBytes;
  }
  return sum;
}

std::unique_ptr<Dialect> make_dialect(std::string_view peer) {
  if (speaks_redis(peer)) return make_redis_dialect();
  if (peer == kPostgres) return make_postgres_dialect();
  if (peer == kCarillonHttp) return make_http_dialect();
  return nullptr;
}

std::string why_missing(std::string_view peer, const Surroundings& surroundings) {
  if (peer == kBareAppend) return {};
  const std::string program = program_of(peer, surroundings);
  if (!program.empty() && !find_program(program).empty()) return {};
  if (peer.starts_with("carillon")) {
    return fmt::format("no carillon at {}: build it, or name it with --server", program);
  }
  const std::string_view package = peer == kPostgres ? "postgresql-15" : program;
  return fmt::format("{} is not installed: apt-get install {}", peer, package);
}

}  // namespace carillon::bench
