// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One HTTP client's socket: moves bytes between it and an HttpSession, and knows how long the
/// client may take for what it has to do. As Connection, it reads and sends once a turn, into and
/// from what all connections share.

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "carillon/base/time.h"
#include "carillon/server/http_session.h"
#include "carillon/server/transport.h"
#include "carillon/wheel/hook.h"

namespace carillon::server {

/// How long a client may take.
struct HttpTimeouts {
  Span idle = std::chrono::seconds(75);    ///< From a response to the next request.
  Span header = std::chrono::seconds(10);  ///< From the first byte of a request to its body.
  Span body = std::chrono::seconds(60);    ///< For the body.
  Span write = std::chrono::seconds(30);   ///< Without taking a byte of what is sent.
};

/// What an HTTP connection needs of the server around it.
class HttpConnectionOwner {
 public:
  /// Calls HttpConnection::work() of this session in the present turn or the next.
  virtual void request_work(broker::SessionId session) = 0;
  /// Destroys the connection of this session, now.
  virtual void close(broker::SessionId session) = 0;
  /// Whether the partitions take more commands; if not, work() is called when they do.
  [[nodiscard]] virtual bool accepts_work(broker::SessionId asking) = 0;
  [[nodiscard]] virtual std::span<char> read_buffer() = 0;
  [[nodiscard]] virtual class HttpConnection* find(broker::SessionId session) = 0;
  [[nodiscard]] virtual Instant now() const = 0;
  /// Calls HttpConnection::on_deadline() at `at` instead of whenever it was to; nullopt: never.
  virtual void set_deadline(class HttpConnection& connection, std::optional<Instant> at) = 0;

 protected:
  ~HttpConnectionOwner() = default;
};

/// Threads:  the network thread.
/// Lifetime: the loop, the context and the owner must outlive it. Destroying it closes the socket.
class HttpConnection : public WheelHook {
 public:
  HttpConnection(boost::asio::io_context& loop, FileDescriptor socket,
                 const std::shared_ptr<TlsContext>& tls, broker::SessionId id, HttpContext& context,
                 const HttpTimeouts& timeouts, HttpConnectionOwner& owner);

  void on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply) {
    session_.on_reply(partition, slot, std::move(reply));
  }
  /// Sends what there is, goes on with what had to wait, and waits for what comes next. False: to
  /// be destroyed.
  [[nodiscard]] bool work();
  /// Sends what has been answered and does nothing else.
  void send_answers();
  /// The client took too long. False: to be destroyed.
  [[nodiscard]] bool on_deadline();
  /// There are too many connections: says so, without waiting for a request, and closes.
  void refuse();
  /// The tokens have changed.
  void check_token();
  /// Takes no more requests; closes when the present one has its response.
  void stop();

  [[nodiscard]] broker::SessionId id() const noexcept { return session_.id(); }
  /// Where the client is.
  [[nodiscard]] std::string peer() { return transport_.peer(); }

  bool listed = false;   ///< For the owner: work() is going to be called ...
  bool held_up = false;  ///< ... or is to be, when the partitions take more.

 private:
  void wait_readable();
  void wait_writable();
  void on_readable();
  void read();
  bool send();
  bool close_gently();
  void update_deadline();

  HttpConnectionOwner& owner_;
  const HttpTimeouts& timeouts_;
  Transport transport_;
  OutputBuffer output_;
  HttpSession session_;
  bool waiting_readable_ = false;
  bool waiting_writable_ = false;
  bool peer_closed_ = false;
  bool failed_ = false;
  bool lingering_ = false;

  // What the deadline is for: it is set anew when that changes.
  HttpSession::Phase phase_ = HttpSession::Phase::kFinished;
  std::uint64_t phase_request_ = 0;
  bool deadline_is_for_output_ = false;
};

}  // namespace carillon::server
