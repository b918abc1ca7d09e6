// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The servers that are measured beside each other, each at the settings that suit it best.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/server/dialect.h"
#include "bench/server/server_process.h"

namespace carillon::bench {

inline constexpr std::string_view kCarillonData = "carillon --data";
inline constexpr std::string_view kCarillonMemory = "carillon --memory";
inline constexpr std::string_view kBeanstalkd = "beanstalkd";
inline constexpr std::string_view kBeanstalkdF50 = "beanstalkd -f50";
inline constexpr std::string_view kBeanstalkdF0 = "beanstalkd -f0";
inline constexpr std::string_view kRedis = "redis always";
inline constexpr std::string_view kRedisEverysec = "redis everysec";
inline constexpr std::string_view kPostgres = "postgres";
/// carillon --data by its HTTP API.
inline constexpr std::string_view kCarillonHttp = "carillon http";
/// Not a server: append + fdatasync of one record, the floor of every durable reply.
inline constexpr std::string_view kBareAppend = "bare fdatasync";

/// Where the servers run and which carillon is meant.
struct Surroundings {
  std::string carillon;                      ///< Path of the binary.
  std::vector<std::string> carillon_extras;  ///< Appended to `carillon serve ...`.
  std::filesystem::path dir;                 ///< Parent of all scratch folders, on a real disk.
};

/// A server of one peer in a scratch folder of its own; both go with this object.
///
/// Example:
///     RunningPeer peer(kBeanstalkdF50, surroundings);
///     load(peer.server().port());
class RunningPeer {
 public:
  RunningPeer(std::string_view name, const Surroundings& surroundings);

  /// Where a load connects to is server().address().
  [[nodiscard]] ServerProcess& server() noexcept { return *server_; }

  /// Ends the server in an orderly way and starts it again on the same folder.
  void restart();
  /// Ends it in an orderly way, and as a crash would.
  void end();
  void crash();
  /// Starts it again on the same folder, and waits until it serves.
  void start();

  /// Throws BenchError unless the server says it has been given `expected` jobs since it started:
  /// the work that was timed was the work that was done.
  void verify_jobs_put(std::uint64_t expected) const { verify_count("total-jobs: ", expected); }
  /// Throws BenchError unless `expected` jobs are delayed there now.
  void verify_jobs_delayed(std::uint64_t expected) const {
    verify_count("current-jobs-delayed: ", expected);
  }

  /// The size of all files that it keeps, in bytes as allocated on disk.
  [[nodiscard]] std::int64_t disk_bytes() const;

 private:
  void verify_count(std::string_view key, std::uint64_t expected) const;

  std::string name_;
  const Surroundings& surroundings_;
  ScratchDir scratch_;
  std::uint16_t question_port_ = 0;  ///< Where statistics are asked for.
  std::unique_ptr<ServerProcess> server_;
};

[[nodiscard]] constexpr bool speaks_redis(std::string_view peer) noexcept {
  return peer.starts_with("redis");
}

/// Of a new connection to that peer; null for those that speak beanstalk's protocol.
[[nodiscard]] std::unique_ptr<Dialect> make_dialect(std::string_view peer);

/// Why `peer` cannot run here ("redis-server is not installed: apt install redis-server"), or
/// empty.
[[nodiscard]] std::string why_missing(std::string_view peer, const Surroundings& surroundings);

}  // namespace carillon::bench
