// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A peer's server as a child process: started in a scratch folder, measured through /proc, ended.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/server/engine.h"
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

/// What a process and its children occupy, in bytes, from /proc/PID/smaps_rollup. Where there are
/// children, `rss` is `pss`: what they share is counted once.
struct MemoryUse {
  std::int64_t rss = 0;
  std::int64_t pss = 0;
  std::int64_t anonymous = 0;
};

/// What is to be started, and how it is ended.
struct ServerCommand {
  std::vector<std::string> words;  ///< The program, found along PATH, and its arguments.
  Address address;                 ///< Where it will listen.
  int end_signal = 15;             ///< SIGTERM: ends it in an orderly way.
  int kill_signal = 9;             ///< SIGKILL: ends it at once, and those that it started.
  unsigned user = 0;               ///< Whom it runs as; 0: as whoever runs this.
  unsigned group = 0;
};

/// A running server.
///
/// Lifetime: killed by the destructor, and by the kernel should this process die first.
/// Threads:  unsafe.
class ServerProcess {
 public:
  /// Starts it with its output in `log`, and waits until its address accepts. Throws BenchError
  /// with the end of the log if it never does.
  ServerProcess(ServerCommand command, const std::filesystem::path& log);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] const Address& address() const noexcept { return command_.address; }

  /// Asks it to end and waits. Throws BenchError if it does not within `limit`.
  void end_gracefully(Span limit);
  /// Ends it as a crash would, and waits.
  void kill();

  /// CPU time used so far by all its threads and its children, user and system. Resolution: 10 ms,
  /// but of children, which have a thread each, 1 ns.
  [[nodiscard]] double cpu_seconds() const;

  [[nodiscard]] MemoryUse memory() const;
  /// The memory once it has stopped changing by more than 0.5 % in 200 ms, or after 3 s.
  [[nodiscard]] MemoryUse settled_memory() const;

 private:
  [[nodiscard]] bool reap(bool wait);
  [[nodiscard]] std::string log_tail() const;

  pid_t pid_ = -1;
  ServerCommand command_;
  std::filesystem::path log_;
};

/// Runs a program to its end, as `user` and `group` if those are not 0. Throws BenchError with what
/// it said if it fails.
void run_to_end(const std::vector<std::string>& words, unsigned user, unsigned group,
                const std::filesystem::path& log);

/// A port of 127.0.0.1 that was free a moment ago.
[[nodiscard]] std::uint16_t free_port();

/// Sleeps, but not through Ctrl-C.
void pause_for(Span span);

/// The CPU time of this process so far.
[[nodiscard]] double own_cpu_seconds();

}  // namespace carillon::bench
