// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The bytes of one connection to a server, blocking, each step within a time: with TLS over the
/// socket or without.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "carillon/base/result.h"
#include "carillon/base/time.h"
#include "carillon/server/endpoint.h"
#include "carillon/server/tls_context.h"

struct ssl_st;

namespace carillon::server {

/// Threads:  one object, one thread.
/// Lifetime: the context may go before it. Destroying it closes the socket.
/// Errors:   kUnavailable, and say what to do: whom to believe, which side speaks no TLS. After one
///           only destruction makes sense.
class ClientStream {
 public:
  /// Connects; with a context it shakes hands too, and the certificate has to be of the endpoint's
  /// host. `timeout`: for each step, here and later.
  [[nodiscard]] static Result<ClientStream> connect(const Endpoint& endpoint, Span timeout,
                                                    const ClientTlsContext* tls);

  Result<void> send(std::string_view bytes);
  /// Reads once, at least one byte. 0: the end of what the server sends, or a connection that it
  /// reset before it had sent anything.
  [[nodiscard]] Result<std::size_t> receive(std::span<char> into, Span timeout);
  /// What it means if that is not where it should end.
  [[nodiscard]] Error ended_early() const;
  /// Closes the sending side.
  void end_output() noexcept;

 private:
  struct Free {
    void operator()(ssl_st* tls) const noexcept;
  };
  ClientStream(FileDescriptor socket, Span timeout)
      : socket_(std::move(socket)), timeout_(timeout) {}

  Result<void> shake_hands(const Endpoint& endpoint, const ClientTlsContext& context);
  Result<void> send_plain(std::string_view bytes);
  Result<std::size_t> receive_plain(std::span<char> into, Span timeout);
  Result<void> send_encrypted();
  Result<int> drive(int result, Span timeout);

  FileDescriptor socket_;
  Span timeout_;
  std::unique_ptr<ssl_st, Free> tls_;
  bool reset_ = false;         ///< Nobody takes what is sent; what was sent to us may say why.
  bool has_received_ = false;  ///< Anything at all.
};

}  // namespace carillon::server
