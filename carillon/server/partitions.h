// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What sessions need of the partitions, wherever those run; and which partition owns what.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "carillon/broker/command.h"

namespace carillon::server {

/// The most partitions a server can have; a session keeps sets of them in a word.
inline constexpr std::size_t kMaxPartitions = 64;

/// Threads: called by the network thread only. Replies come back to it through a function that the
/// implementation was given, perhaps before submit() returns.
class Partitions {
 public:
  virtual ~Partitions() = default;

  [[nodiscard]] virtual std::size_t count() const noexcept = 0;
  /// In every partition.
  virtual void open_session(broker::SessionId session) = 0;
  virtual void close_session(broker::SessionId session) = 0;
  /// A waiting reserve of the session ends with kTimedOut.
  virtual void end_waiting(std::size_t partition, broker::SessionId session) = 0;
  /// The views in `command` need not outlive the call.
  virtual void submit(std::size_t partition, broker::Command command) = 0;
  /// Whether a reserve of the session may still be waiting for a job. False: it has been decided
  /// and only its reply is to come, as when that has to wait for the disk.
  [[nodiscard]] virtual bool may_wait(broker::SessionId session) const = 0;
};

/// The partition that owns a tube: FNV-1a of its name. Jobs lie where this says, so it is part of
/// the format of a data folder and never changes.
[[nodiscard]] constexpr std::size_t partition_of_tube(std::string_view tube,
                                                      std::size_t partitions) noexcept {
  if (partitions == 1) return 0;
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : tube) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash % partitions;
}

/// The partition that gave out a job id: ids of partition p are p + 1, p + 1 + partitions, ...
[[nodiscard]] constexpr std::size_t partition_of_job(broker::JobId id,
                                                     std::size_t partitions) noexcept {
  return partitions == 1 ? 0 : (id - 1) % partitions;
}

}  // namespace carillon::server
