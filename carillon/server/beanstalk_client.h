// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A small blocking client of beanstalkd's protocol, for the command line and for tests.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "carillon/base/result.h"
#include "carillon/base/time.h"
#include "carillon/server/client_stream.h"
#include "carillon/server/endpoint.h"

namespace carillon::server {

/// One connection.
///
/// Threads: one object, one thread.
/// Errors:  kUnavailable: cannot connect, the server closed the connection or did not answer in
/// time;
///          kCorrupt: the answer is not of the protocol. After an error only destruction makes
///          sense.
class BeanstalkClient {
 public:
  /// An answer: its line without CRLF, and the body if the line announces one.
  struct Answer {
    std::string line;
    std::string body;

    /// Whether the line is `word`, or `word` and more.
    [[nodiscard]] bool is(std::string_view word) const noexcept;
    /// The number behind the first word; 0 if there is none.
    [[nodiscard]] std::uint64_t id() const noexcept;
  };

  /// `timeout`: for connecting, and for each answer unless it is given another. With `tls` the
  /// bytes are encrypted.
  [[nodiscard]] static Result<BeanstalkClient> connect(const Endpoint& endpoint, Span timeout,
                                                       const ClientTlsContext* tls = nullptr);

  /// Sends a command line, without its CRLF, and reads the answer.
  Result<Answer> ask(std::string_view line);
  /// The same, but waits for the answer `extra` longer: a reserve that may wait itself.
  Result<Answer> ask_waiting(std::string_view line, Span extra);
  Result<Answer> put(std::uint32_t priority, std::uint32_t delay_s, std::uint32_t ttr_s,
                     std::string_view body);

  // The halves, for pipelining and for bytes that are no command.

  Result<void> send(std::string_view bytes);
  Result<Answer> read_answer(Span timeout);
  Result<Answer> read_answer() { return read_answer(timeout_); }
  /// Everything up to the server's end of the connection.
  Result<std::string> read_to_end();
  /// Closes the sending side.
  void end_input() noexcept;

 private:
  BeanstalkClient(ClientStream stream, Span timeout)
      : stream_(std::move(stream)), timeout_(timeout) {}

  Result<bool> fill(Span timeout);
  Result<std::string> take_line(Span timeout);
  Result<std::string> take_body(std::size_t size, Span timeout);

  ClientStream stream_;
  Span timeout_;
  std::string input_;
};

}  // namespace carillon::server
