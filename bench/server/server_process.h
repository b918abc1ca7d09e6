// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A peer's server as a child process: started in a scratch folder, measured through /proc, ended.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "carillon/base/time.h"

namespace carillon::bench {

/// A new empty folder below `parent`, removed with all it holds when this object goes.
class ScratchDir {
 public:
  explicit ScratchDir(const std::filesystem::path& parent);
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// What a process occupies, in bytes, from /proc/PID/smaps_rollup.
struct MemoryUse {
  std::int64_t rss = 0;
  std::int64_t pss = 0;
  std::int64_t anonymous = 0;
};

/// A running server.
///
/// Lifetime: killed (SIGKILL) by the destructor, and by the kernel should this process die first.
/// Threads:  unsafe.
class ServerProcess {
 public:
  /// Starts `arguments` (the program first, found along PATH) with its output in `log`, and waits
  /// until 127.0.0.1:`port` accepts. Throws BenchError with the end of the log if it never does.
  ServerProcess(const std::vector<std::string>& arguments, std::uint16_t port,
                const std::filesystem::path& log);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// Asks it to end (SIGTERM) and waits. Throws BenchError if it does not within `limit`.
  void end_gracefully(Span limit);

  /// CPU time used so far by all its threads, user and system. Resolution: 10 ms.
  [[nodiscard]] double cpu_seconds() const;

  [[nodiscard]] MemoryUse memory() const;
  /// The memory once it has stopped changing by more than 0.5 % in 200 ms, or after 3 s.
  [[nodiscard]] MemoryUse settled_memory() const;

 private:
  [[nodiscard]] bool reap(bool wait);
  [[nodiscard]] std::string log_tail() const;

  pid_t pid_ = -1;
  std::uint16_t port_;
  std::filesystem::path log_;
};

/// A port of 127.0.0.1 that was free a moment ago.
[[nodiscard]] std::uint16_t free_port();

/// Sleeps, but not through Ctrl-C.
void pause_for(Span span);

/// The CPU time of this process so far.
[[nodiscard]] double own_cpu_seconds();

}  // namespace carillon::bench
