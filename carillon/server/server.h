// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The server: opens the store, listens, and runs until it is told to stop.
///
///     SIGTERM, SIGINT   drain: accept no more, answer what has arrived, commit, checkpoint, end;
///                       after drain-timeout, or at the second signal, end at once
///     SIGUSR1           drain mode as beanstalkd's: puts are refused, everything else goes on
///     SIGUSR2           makes a backup in backup-folder, named after the time
///     SIGHUP            reads the configuration again, if it was told how (reload_by), and the
///                       tokens and the certificate of the HTTP API
///     SIGPIPE           nothing

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/server/log.h"
#include "carillon/server/made_backup.h"
#include "carillon/server/options.h"

namespace carillon::server {

/// The version of the program, as in CMakeLists.txt.
[[nodiscard]] std::string_view version() noexcept;

/// Threads:  start() and run() on one thread, which becomes the network thread; request_stop(),
///           request_drain_mode() and request_reload() from any.
/// Signals:  the process's handlers of those above belong to it from start() on.
/// Errors:   start(): a folder that cannot be opened, an address that cannot be listened on.
class Server {
 public:
  using Log = server::Log;
  /// How the configuration is read again. Both are called on the network thread.
  struct Reload {
    /// The options as they would be at a start now.
    std::function<Result<ServerOptions>()> read;
    /// Those of them that can change while the server runs have been applied; the rest is what it
    /// was. May be empty.
    std::function<void(const ServerOptions&)> applied;
  };

  /// Recovers what the folder holds and listens. Clients can connect from now on; they are served
  /// while run() runs. `log` is called from any thread.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Log log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens; ports that were asked for as 0 are the real ones.
  [[nodiscard]] std::vector<Endpoint> endpoints() const;
  /// The same of HTTP, with TLS and without.
  [[nodiscard]] std::vector<Endpoint> http_endpoints() const;

  /// Serves until it is stopped. Returns whether the stop was clean: everything received had been
  /// answered and the checkpoint was durable within drain-timeout.
  bool run();

  /// As SIGTERM, SIGUSR1 and SIGHUP.
  void request_stop();
  void request_drain_mode();
  void request_reload();
  /// Begins a backup, as BackupRunner::start() says; `done` is called on the network thread, unless
  /// the server ends before. From any thread.
  void back_up(std::string name, BackupDone done);
  /// Before run().
  void reload_by(Reload reload);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace carillon::server
