// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The real server as a child process on a temporary folder.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "carillon/base/result.h"

namespace carillon::order_demo {

/// A folder under $TMPDIR (or /tmp) that is deleted with its content, unless told to stay.
class TemporaryFolder {
 public:
  TemporaryFolder();  ///< Throws std::filesystem::filesystem_error.
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::filesystem::path path_;
  bool keep_ = false;
};

/// `PROGRAM serve --data FOLDER/data --listen 127.0.0.1:PORT`, its output in FOLDER/server.log.
///
/// Lifetime: the destructor kills it, unless it was detached. It also dies with this process, even
///           if that is killed, unless `outlives_us`. It has a session of its own, so that Ctrl-C
///           reaches the driver only.
class ServerProcess {
 public:
  ServerProcess(std::filesystem::path program, std::filesystem::path folder, bool outlives_us);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() { kill(); }

  /// Starts it, on the same port each time. Pre: not running.
  Result<void> start();
  /// SIGKILL, and waits until it is gone.
  void kill();
  /// Leaves it running. Pre: `outlives_us`.
  void detach() { pid_ = -1; }
  /// How it ended, if it did so by itself: "exit status 1", "signal 11".
  std::optional<std::string> ended();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string command() const;
  /// The last lines it wrote, for an error message.
  [[nodiscard]] std::string log_tail() const;

 private:
  [[nodiscard]] std::string listen_address() const;
  [[nodiscard]] std::filesystem::path data() const { return folder_ / "data"; }
  [[nodiscard]] std::filesystem::path log() const { return folder_ / "server.log"; }

  std::filesystem::path program_;
  std::filesystem::path folder_;
  bool outlives_us_;
  std::uint16_t port_;
  pid_t pid_ = -1;
};

}  // namespace carillon::order_demo
