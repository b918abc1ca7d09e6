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

#include "bench/server/server_process.h"

namespace carillon::bench {

inline constexpr std::string_view kCarillonData = "carillon --data";
inline constexpr std::string_view kCarillonMemory = "carillon --memory";
inline constexpr std::string_view kBeanstalkd = "beanstalkd";
inline constexpr std::string_view kBeanstalkdF50 = "beanstalkd -f50";
inline constexpr std::string_view kBeanstalkdF0 = "beanstalkd -f0";
inline constexpr std::string_view kRedis = "redis always";
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

  [[nodiscard]] ServerProcess& server() noexcept { return *server_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return server_->port(); }

  /// Ends the server in an orderly way and starts it again on the same folder.
  void restart();

 private:
  void start();

  std::string name_;
  const Surroundings& surroundings_;
  ScratchDir scratch_;
  std::unique_ptr<ServerProcess> server_;
};

[[nodiscard]] constexpr bool speaks_redis(std::string_view peer) noexcept { return peer == kRedis; }

/// Why `peer` cannot run here ("redis-server is not installed: apt install redis-server"), or
/// empty.
[[nodiscard]] std::string why_missing(std::string_view peer, const Surroundings& surroundings);

/// Throws BenchError unless the server says it has been given `expected` jobs since it started:
/// the work that was timed was the work that was done.
void verify_jobs_put(std::string_view peer, std::uint16_t port, std::uint64_t expected);

/// Throws BenchError unless `expected` jobs are delayed there now.
void verify_jobs_delayed(std::string_view peer, std::uint16_t port, std::uint64_t expected);

}  // namespace carillon::bench
