// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/connection.h"

#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <string_view>
#include <utility>

namespace carillon::server {
namespace {

/// Read at most when the input is ended by us and not by the client.
constexpr std::size_t kLastReads = 64;

}  // namespace

Connection::Connection(boost::asio::io_context& loop, FileDescriptor socket,
                       const std::shared_ptr<TlsContext>& tls, broker::SessionId id,
                       SessionContext& context, ConnectionOwner& owner)
    : owner_(owner), transport_(loop, std::move(socket), tls), session_(id, context, output_) {
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

void Connection::check_login() {
  session_.check_login();
  owner_.request_work(session_.id());
}

// A handler of asio may run after its connection is gone: it finds out by the id.

void Connection::wait_readable() {
  if (std::exchange(waiting_readable_, true)) return;
  using boost::asio::posix::stream_descriptor;
  const auto go_on = [&owner = owner_, id = session_.id()](const boost::system::error_code& error) {
    if (error) return;
    if (Connection* connection = owner.find(id)) connection->on_readable();
  };
  if (transport_.has_pending()) {  // The socket would not tell.
    boost::asio::post(transport_.socket().get_executor(), [go_on] { go_on({}); });
    return;
  }
  transport_.socket().async_wait(
      transport_.read_wants_write() ? stream_descriptor::wait_write : stream_descriptor::wait_read,
      go_on);
}

void Connection::wait_writable() {
  if (std::exchange(waiting_writable_, true)) return;
  using boost::asio::posix::stream_descriptor;
  transport_.socket().async_wait(
      transport_.write_wants_read() ? stream_descriptor::wait_read : stream_descriptor::wait_write,
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
  const Transport::Read got = transport_.read(std::span<const iovec>(vectors.data(), count));
  switch (got.state) {
    case Transport::State::kOk: break;
    case Transport::State::kBlocked: return false;
    case Transport::State::kFailed: failed_ = true; return false;
    case Transport::State::kEnded:
      peer_closed_ = true;
      session_.end_input();
      return false;
  }
  std::size_t left = got.size;
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
  switch (transport_.write(output_)) {
    case Transport::State::kOk: return true;
    case Transport::State::kBlocked: wait_writable(); return true;
    default: return false;
  }
}

void Connection::discard() {
  const Transport::State state = transport_.discard(owner_.read_buffer());
  if (state != Transport::State::kOk) peer_closed_ = true;
}

bool Connection::delivered() { return transport_.delivered(); }

/// Closing a socket with input unread resets it, and the reset may overtake answers on the way. So,
/// unless the client's machine has everything and has sent nothing more: send the end, and read
/// until the client's, or until that is so.
Connection::State Connection::close_gently() {
  int unread = 0;
  ::ioctl(transport_.socket().native_handle(), FIONREAD, &unread);
  if (peer_closed_ || (unread == 0 && delivered())) return State::kClosed;
  transport_.end_output();
  lingering_ = true;
  wait_readable();
  return State::kLingering;
}

}  // namespace carillon::server
