// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One client's socket: moves bytes between it and a ClientSession.
///
/// A connection owns no read buffer. When its socket is readable it reads once, into a buffer that
/// all connections share, and lets its session parse that in place; then it asks for a turn. In
/// the turn, work() sends everything that was answered with one system call, and only then waits
/// for more input. So an idle connection costs its objects and nothing else, and a client that does
/// not read its answers is not read either.

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "carillon/server/client_session.h"
#include "carillon/server/endpoint.h"
#include "carillon/server/output_buffer.h"
#include "carillon/server/transport.h"
#include "carillon/wheel/hook.h"

namespace carillon::server {

/// What a connection needs of the server around it.
class ConnectionOwner {
 public:
  /// Calls Connection::work() of this session at the end of the present turn.
  virtual void request_work(broker::SessionId session) = 0;
  /// Destroys the connection of this session, now.
  virtual void close(broker::SessionId session) = 0;
  /// Whether the partitions take more commands. When that becomes true, every connection that was
  /// told no gets its work() again.
  [[nodiscard]] virtual bool accepts_work(broker::SessionId asking) = 0;
  /// For one read at a time.
  [[nodiscard]] virtual std::span<char> read_buffer() = 0;
  /// The connection of this session, if it is still there.
  [[nodiscard]] virtual class Connection* find(broker::SessionId session) = 0;

 protected:
  ~ConnectionOwner() = default;
};

/// The hook is for the time that it has to log in.
///
/// Threads:  the network thread.
/// Lifetime: the loop, the context and the owner must outlive it. Destroying it closes the socket;
///           what waits for it finds it gone by asking the owner.
/// Errors:   of the socket end the connection; work() says so.
class Connection : public WheelHook {
 public:
  /// With `tls` the bytes are encrypted; null: plain.
  Connection(boost::asio::io_context& loop, FileDescriptor socket,
             const std::shared_ptr<TlsContext>& tls, broker::SessionId id, SessionContext& context,
             ConnectionOwner& owner);

  void on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply);

  enum class State : std::uint8_t {
    kOpen,
    kLingering,  ///< All has been said as of now; it waits for the client to close its side.
    kClosed,     ///< To be destroyed.
  };
  /// Sends what there is, goes on with commands that had to wait, and waits for what comes next.
  State work();
  /// Sends what has been answered and does nothing else. What becomes of the client is for work().
  void send_answers();

  /// Whether the client's machine has everything that was sent.
  [[nodiscard]] bool delivered();

  /// The logins have changed.
  void check_login();
  /// Whether it has to log in and has not.
  [[nodiscard]] bool lacks_login() const noexcept { return session_.lacks_login(); }
  [[nodiscard]] broker::SessionId id() const noexcept { return session_.id(); }
  /// Where the client is.
  [[nodiscard]] std::string peer() { return transport_.peer(); }

  /// Reads what has already arrived, and takes it for all there will be.
  void end_input();

 private:
  void wait_readable();
  void wait_writable();
  void on_readable();
  bool read_once();
  bool send();
  void discard();
  State close_gently();

  ConnectionOwner& owner_;
  Transport transport_;
  OutputBuffer output_;
  ClientSession session_;
  bool waiting_readable_ = false;
  bool waiting_writable_ = false;
  bool peer_closed_ = false;
  bool failed_ = false;
  bool lingering_ = false;
};

}  // namespace carillon::server
