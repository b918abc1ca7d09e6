// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the example and its test start: a Redis server, and holders of the lock.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "carillon/base/time.h"

namespace carillon::redis_lock {

/// A program that has been started, and what it says on its standard output, line by line.
///
/// Lifetime: the destructor kills it. It also dies with this process.
/// Errors:   std::system_error if it cannot be started.
class Child {
 public:
  explicit Child(std::vector<std::string> words);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The next line; nothing if none comes within `at_most`, or it has ended.
  std::optional<std::string> line(Span at_most);
  /// Ends its standard input: by that a holder is told to give the lock back.
  void end_input();
  void signal(int number) const;
  /// SIGKILL, and waits until it is gone.
  void kill();

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string read_;
};

/// redis-server on a unix socket in a folder of its own, nothing kept on disk.
///
/// Lifetime: the destructor kills it and deletes the folder.
/// Errors:   std::system_error, std::runtime_error: it does not run.
class RedisServer {
 public:
  RedisServer();
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  [[nodiscard]] const std::string& unix_socket() const { return unix_socket_; }
  /// Returns when it answers. Pre: not running.
  void start();
  /// SIGKILL. All that it knew is lost.
  void stop() { child_.reset(); }
  /// It neither answers nor forgets, until it is resumed.
  void suspend() const;
  void resume() const;

 private:
  std::string folder_;
  std::string unix_socket_;
  std::optional<Child> child_;
};

}  // namespace carillon::redis_lock
