// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/connection.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace carillon::server {
namespace {

/// Pieces of output sent with one system call.
constexpr std::size_t kVectors = 64;
/// Read at most when the input is ended by us and not by the client.
constexpr std::size_t kLastReads = 64;

bool is_transient(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Connection::Connection(boost::asio::io_context& loop, FileDescriptor socket, broker::SessionId id,
                       SessionContext& context, ConnectionOwner& owner)
    : owner_(owner), socket_(loop), session_(id, context, output_) {
  socket_.assign(socket.get());  // Throws if the kernel cannot watch one more.
  static_cast<void>(socket.release());
  wait_readable();
}

void Connection::on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply) {
  session_.on_reply(partition, slot, std::move(reply));
  owner_.request_work(session_.id());
}

Connection::State Connection::work() {
  if (failed_) return State::kClosed;
  if (lingering_) {
    if (peer_closed_) return State::kClosed;
    wait_readable();
    return State::kOpen;
  }
  if (!send()) return State::kClosed;
  if (session_.can_resume() && owner_.accepts_work(session_.id())) {
    session_.resume();
    // Another turn commits what that asked for, and sends what was answered at once.
    owner_.request_work(session_.id());
    return State::kOpen;
  }
  if (session_.finished() && output_.empty()) return close_gently();
  if (session_.wants_input() && !peer_closed_ && owner_.accepts_work(session_.id())) {
    wait_readable();
  }
  return State::kOpen;
}

void Connection::send_answers() {
  if (!failed_ && !lingering_ && !send()) failed_ = true;
}

void Connection::end_input() {
  if (lingering_ || failed_) return;
  for (std::size_t i = 0; i < kLastReads && session_.wants_input() && read_once(); ++i) {
  }
  session_.end_input();
  owner_.request_work(session_.id());
}

// A handler of asio may run after its connection is gone: it finds out by the id.

void Connection::wait_readable() {
  if (std::exchange(waiting_readable_, true)) return;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [&owner = owner_, id = session_.id()](const boost::system::error_code& error) {
                       if (error) return;
                       if (Connection* connection = owner.find(id)) connection->on_readable();
                     });
}

void Connection::wait_writable() {
  if (std::exchange(waiting_writable_, true)) return;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                     [&owner = owner_, id = session_.id()](const boost::system::error_code& error) {
                       if (error) return;
                       if (Connection* connection = owner.find(id)) {
                         connection->waiting_writable_ = false;
                         owner.request_work(id);
                       }
                     });
}

void Connection::on_readable() {
  waiting_readable_ = false;
  if (lingering_) {
    discard();
  } else if (owner_.accepts_work(session_.id())) {
    read_once();
  }
  if (failed_ || (peer_closed_ && session_.finished() && output_.empty())) {
    owner_.close(session_.id());  // Destroys this.
    return;
  }
  owner_.request_work(session_.id());
}

/// Returns whether there was anything.
bool Connection::read_once() {
  const std::span<char> shared = owner_.read_buffer();
  const std::span<char> body = session_.body_room();
  std::array<iovec, 2> vectors;
  std::size_t count = 0;
  if (!body.empty()) vectors[count++] = {body.data(), body.size()};
  vectors[count++] = {shared.data(), shared.size()};
  const ssize_t got = ::readv(socket_.native_handle(), vectors.data(), static_cast<int>(count));
  if (got < 0) {
    failed_ = !is_transient(errno);
    return false;
  }
  if (got == 0) {
    peer_closed_ = true;
    session_.end_input();
    return false;
  }
  std::size_t left = static_cast<std::size_t>(got);
  if (!body.empty()) {
    const std::size_t in_place = std::min(left, body.size());
    session_.body_filled(in_place);
    left -= in_place;
  }
  session_.receive(std::string_view(shared.data(), left));
  return true;
}

/// Sends as much as the socket takes. False: the client is gone.
bool Connection::send() {
  if (waiting_writable_) return true;
  while (!output_.empty()) {
    std::array<iovec, kVectors> vectors;
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = output_.describe(vectors);
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (!is_transient(errno)) return false;
      wait_writable();
      return true;
    }
    output_.consume(static_cast<std::size_t>(sent));
  }
  return true;
}

void Connection::discard() {
  const std::span<char> shared = owner_.read_buffer();
  const ssize_t got = ::recv(socket_.native_handle(), shared.data(), shared.size(), 0);
  if (got == 0 || (got < 0 && !is_transient(errno))) peer_closed_ = true;
}

bool Connection::delivered() {
  int unsent = 0;
  ::ioctl(socket_.native_handle(), SIOCOUTQ, &unsent);
  return unsent == 0;
}

/// Closing a socket with input unread resets it, and the reset may overtake answers on the way. So,
/// unless the client's machine has everything and has sent nothing more: send the end, and read
/// until the client's, or until that is so.
Connection::State Connection::close_gently() {
  int unread = 0;
  ::ioctl(socket_.native_handle(), FIONREAD, &unread);
  if (peer_closed_ || (unread == 0 && delivered())) return State::kClosed;
  ::shutdown(socket_.native_handle(), SHUT_WR);
  lingering_ = true;
  wait_readable();
  return State::kLingering;
}

}  // namespace carillon::server
