// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The bytes of one connection: a non-blocking socket, with TLS over it or without.

#include <sys/uio.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "carillon/server/endpoint.h"
#include "carillon/server/output_buffer.h"
#include "carillon/server/tls_context.h"

struct ssl_st;

namespace carillon::server {

/// Threads:  the thread of its loop.
/// Lifetime: the context may go before it. Destroying it closes the socket.
class Transport {
 public:
  /// Without a context the bytes are plain.
  Transport(boost::asio::io_context& loop, FileDescriptor socket,
            const std::shared_ptr<TlsContext>& tls);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  enum class State : std::uint8_t {
    kOk,
    kBlocked,  ///< Nothing now: wait for wanted().
    kEnded,    ///< The client sends no more.
    kFailed,   ///< The connection is of no more use.
  };
  struct Read {
    State state = State::kBlocked;
    std::size_t size = 0;
  };
  /// Reads once. kOk: at least one byte.
  [[nodiscard]] Read read(std::span<char> into);
  /// The same into several places, the first first; TLS fills only that.
  [[nodiscard]] Read read(std::span<const iovec> into);
  /// Sends as much of `output` as the socket takes. kOk: all.
  [[nodiscard]] State write(OutputBuffer& output);

  /// Bytes have been decrypted, or may be, that no event of the socket will tell of.
  [[nodiscard]] bool has_pending() const noexcept;
  /// What a blocked read, or write, waits for: TLS may have to write to read. False: readable.
  [[nodiscard]] bool read_wants_write() const noexcept { return read_wants_write_; }
  [[nodiscard]] bool write_wants_read() const noexcept { return write_wants_read_; }
  [[nodiscard]] boost::asio::posix::stream_descriptor& socket() noexcept { return socket_; }

  /// Says to the client that nothing more comes.
  void end_output();
  /// Reads and drops what there is. kEnded or kFailed: the client's side is closed.
  [[nodiscard]] State discard(std::span<char> buffer);
  /// Whether the client's machine has everything that was sent.
  [[nodiscard]] bool delivered();
  /// Where the client is: ADDRESS:PORT, or "a UNIX socket". For logs.
  [[nodiscard]] std::string peer();
  /// Whether the client's machine has said that nobody is there to read what was sent. A client
  /// that has closed its side when it had read everything has not.
  [[nodiscard]] bool was_reset();

 private:
  struct Free {
    void operator()(ssl_st* tls) const noexcept;
  };
  [[nodiscard]] State failure(int result, bool& wants_other, bool is_read);

  boost::asio::posix::stream_descriptor socket_;
  std::unique_ptr<ssl_st, Free> tls_;
  bool read_wants_write_ = false;
  bool write_wants_read_ = false;
  bool tls_failed_ = false;
};

}  // namespace carillon::server
