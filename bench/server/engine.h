// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The client side of a load: many connections of one thread, as light as the kernel lets it be,
/// because client and server share the machine and a heavy client would measure itself.
///
/// One epoll, non-blocking sockets. For each readable connection one read, the conversation
/// consumes every whole reply, and what it says next goes out in one write: a window that is kept
/// full costs a read and a write for as many replies as happened to have come. The same engine
/// drives every peer, whatever its protocol.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/time.h"

namespace carillon::bench {

/// Where a server listens: a port of 127.0.0.1, or a Unix socket of the abstract namespace.
struct Address {
  std::uint16_t port = 0;
  std::string name = {};  ///< Of the Unix socket, if port is 0.
};

/// What one connection says and expects.
///
/// Callbacks: all from inside Engine::add and Engine::run, on its thread.
class Conversation {
 public:
  virtual ~Conversation() = default;

  /// Introduces itself on a connection that was just made, and waits for the answer; before run()
  /// and so before anything is timed.
  virtual void greet(int fd) { static_cast<void>(fd); }

  /// Appends the first commands to `out`. Called once, when run() begins.
  virtual void start(std::string& out) = 0;

  /// Takes whole replies off the front of `in`, appends what they call for to `out`.
  /// `read_at` is when the bytes were read. Returns how many bytes were taken.
  virtual std::size_t consume(std::string_view in, Instant read_at, std::string& out) = 0;

  /// Whether nothing more is expected.
  [[nodiscard]] virtual bool done() const = 0;

  /// When this side speaks next of its own accord; Instant::max() is never.
  [[nodiscard]] virtual Instant speaks_at() const { return Instant::max(); }
  /// Called once speaks_at() has passed.
  virtual void speak(Instant now, std::string& out) {
    static_cast<void>(now);
    static_cast<void>(out);
  }
};

/// Runs conversations with one server on this machine until all are done.
///
/// Threads: unsafe; one thread.
/// Lifetime: conversations are borrowed and must outlive the engine.
/// Errors:  throws BenchError if the server closes, refuses or falls silent; Interrupted.
class Engine {
 public:
  explicit Engine(Address address);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Connects one more conversation.
  void add(Conversation& conversation);

  /// Runs until all conversations are done. Returns how long that took. An engine runs once.
  Span run(Span limit);

 private:
  struct Connection;

  void flush(Connection& connection);
  void on_readable(Connection& connection);
  void speak_when_due();
  void note_if_done(Connection& connection);
  [[nodiscard]] Instant next_speech() const;
  void watch(Connection& connection, bool writable);

  Address address_;
  int epoll_ = -1;
  std::size_t unfinished_ = 0;
  std::vector<std::unique_ptr<Connection>> connections_;
};

/// A connected, blocking socket, TCP without Nagle's delay, or -1 with errno.
[[nodiscard]] int connect_to(const Address& address);

/// Asks one question on a connection of its own and returns what came back until `terminator`
/// ended it. Blocking, for set-up and verification only.
[[nodiscard]] std::string ask(std::uint16_t port, std::string_view question,
                              std::string_view terminator);

}  // namespace carillon::bench
