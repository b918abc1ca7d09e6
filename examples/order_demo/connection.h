// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One client connection of the beanstalkd protocol that never waits: commands go out as fast as
/// they are given (pipelining), answers come back in the order asked.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/result.h"

namespace carillon::order_demo {

enum class Verb : std::uint8_t {
  kSetUp,     ///< use, watch, ignore
  kPut,       ///< place an order
  kPay,       ///< delete the job of an order that was paid
  kReserve,   ///< wait for an order that was not paid
  kFinish,    ///< delete the job of an order that was cancelled
  kStats,     ///< is the server there?
  kStatsTube  ///< what is left?
};

/// A command that was sent and whose answer is awaited.
struct Request {
  Verb verb;
  bool retried = false;    ///< kPay: an earlier one was cut off by the kill
  std::uint32_t copy = 0;  ///< kPut, kPay, kFinish: index of a copy in the OrderBook
};

struct Reply {
  std::string_view line;  ///< without CRLF
  std::string_view body;  ///< of RESERVED and OK, without CRLF
  Instant received_at;    ///< read after the bytes were: never earlier than they came
};

/// A TCP connection to a loopback port.
///
/// Threads: one. Lifetime: owns the socket.
/// Errors:  a lost connection is not an error here: `is_open()` turns false, and
///          `take_unanswered()` tells what was cut off.
class Connection {
 public:
  using OnReply = std::function<void(const Request&, const Reply&)>;

  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(); }

  /// Opens it. kUnavailable if nobody listens. Pre: not open.
  Result<void> connect(std::uint16_t port);
  void close();

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }

  /// Appends a command; `flush` sends it. Pre: open.
  void send(Request request, std::string_view bytes);
  /// Writes what the socket takes. Returns whether something is left, to be written when it can.
  bool flush();
  /// Reads what has come and hands over each answer. Whatever was sent before the server died is
  /// handed over before the connection closes.
  void read(const Clock& clock, const OnReply& on_reply);

  [[nodiscard]] std::size_t unanswered() const { return unanswered_.size(); }
  /// Unanswered requests of one kind.
  [[nodiscard]] std::size_t unanswered(Verb verb) const;
  /// Hands over what will never be answered. Pre: closed.
  std::vector<Request> take_unanswered();

 private:
  /// Takes one whole answer off `in_`, if there is one.
  bool next_reply(Reply& reply);

  int fd_ = -1;
  std::string out_;
  std::size_t out_sent_ = 0;
  std::string in_;
  std::size_t in_used_ = 0;
  std::deque<Request> unanswered_;
};

}  // namespace carillon::order_demo
