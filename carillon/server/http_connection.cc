// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_connection.h"

#include <boost/asio/post.hpp>
#include <string_view>
#include <utility>

namespace carillon::server {
namespace {

using Phase = HttpSession::Phase;

/// Reads at most in one go, of a client that sends as fast as it is read.
constexpr int kReads = 4;
/// How long a connection is kept when everything is said, so that its client gets to read it.
constexpr Span kLinger = std::chrono::milliseconds(500);

}  // namespace

HttpConnection::HttpConnection(boost::asio::io_context& loop, FileDescriptor socket,
                               const std::shared_ptr<TlsContext>& tls, broker::SessionId id,
                               HttpContext& context, const HttpTimeouts& timeouts,
                               HttpConnectionOwner& owner)
    : owner_(owner),
      timeouts_(timeouts),
      transport_(loop, std::move(socket), tls),
      session_(id, context, output_, [this] { owner_.request_work(session_.id()); }) {
  wait_readable();
  update_deadline();
}

bool HttpConnection::work() {
  if (failed_) return false;
  if (lingering_) {
    if (peer_closed_) return false;
    wait_readable();
    return true;
  }
  if (!send()) return false;
  if (output_.empty() && session_.awaits_sending()) {
    // What it was granted goes back if it is not there to take it.
    if (transport_.was_reset()) return false;
    session_.on_output_sent();
  }
  if (session_.can_resume() && owner_.accepts_work(id())) {
    session_.resume();
    owner_.request_work(id());
    update_deadline();
    return true;
  }
  if (session_.finished() && output_.empty()) return close_gently();
  if (session_.wants_input() && owner_.accepts_work(id())) wait_readable();
  update_deadline();
  return true;
}

void HttpConnection::send_answers() {
  if (!failed_ && !lingering_ && !send()) failed_ = true;
}

void HttpConnection::check_token() {
  if (lingering_ || failed_) return;
  session_.check_token();
  owner_.request_work(id());
}

void HttpConnection::stop() {
  if (lingering_ || failed_) return;
  session_.stop();
  owner_.request_work(id());
}

void HttpConnection::refuse() {
  protocol::http::Problem problem{protocol::http::ProblemKind::kOverloaded,
                                  "there are too many connections",
                                  {},
                                  "http-max-connections"};
  problem.retry_after_s = 5;
  session_.refuse_and_close(problem);
  owner_.request_work(id());
}

bool HttpConnection::on_deadline() {
  if (failed_ || lingering_ || deadline_is_for_output_) return false;
  session_.time_out();
  owner_.request_work(id());
  return true;
}

/// The deadline counts from the beginning of what it is for, not from every byte: who sends a byte
/// now and then (slow loris) gains nothing by it.
void HttpConnection::update_deadline() {
  if (waiting_writable_) return;  // Set by send(), with each byte that was taken.
  const Phase phase = session_.phase();
  if (phase == phase_ && session_.request_count() == phase_request_ && !deadline_is_for_output_) {
    return;
  }
  phase_ = phase;
  phase_request_ = session_.request_count();
  deadline_is_for_output_ = false;
  std::optional<Instant> at;
  switch (phase) {
    case Phase::kIdle: at = saturating_add(owner_.now(), timeouts_.idle); break;
    case Phase::kHead: at = saturating_add(owner_.now(), timeouts_.header); break;
    case Phase::kBody: at = saturating_add(owner_.now(), timeouts_.body); break;
    case Phase::kAnswering:
    case Phase::kFinished: break;
  }
  owner_.set_deadline(*this, at);
}

// A handler of asio may run after its connection is gone: it finds out by the id.

void HttpConnection::wait_readable() {
  if (std::exchange(waiting_readable_, true)) return;
  using boost::asio::posix::stream_descriptor;
  const auto go_on = [&owner = owner_, id = id()](const boost::system::error_code& error) {
    if (error) return;
    if (HttpConnection* connection = owner.find(id)) connection->on_readable();
  };
  if (transport_.has_pending()) {  // The socket would not tell.
    boost::asio::post(transport_.socket().get_executor(), [go_on] { go_on({}); });
    return;
  }
  transport_.socket().async_wait(
      transport_.read_wants_write() ? stream_descriptor::wait_write : stream_descriptor::wait_read,
      go_on);
}

void HttpConnection::wait_writable() {
  if (std::exchange(waiting_writable_, true)) return;
  using boost::asio::posix::stream_descriptor;
  transport_.socket().async_wait(
      transport_.write_wants_read() ? stream_descriptor::wait_read : stream_descriptor::wait_write,
      [&owner = owner_, id = id()](const boost::system::error_code& error) {
        if (error) return;
        if (HttpConnection* connection = owner.find(id)) {
          connection->waiting_writable_ = false;
          owner.request_work(id);
        }
      });
}

void HttpConnection::on_readable() {
  waiting_readable_ = false;
  if (lingering_) {
    const Transport::State state = transport_.discard(owner_.read_buffer());
    peer_closed_ = state == Transport::State::kEnded || state == Transport::State::kFailed;
  } else if (owner_.accepts_work(id())) {
    read();
  }
  if (failed_) {
    owner_.close(id());  // Destroys this.
    return;
  }
  owner_.request_work(id());
}

void HttpConnection::read() {
  for (int i = 0; i < kReads && session_.wants_input(); ++i) {
    const std::span<char> buffer = owner_.read_buffer();
    const Transport::Read got = transport_.read(buffer);
    switch (got.state) {
      case Transport::State::kOk:
        session_.receive(std::string_view(buffer.data(), got.size));
        // A plain socket that had less than was asked for has no more.
        if (got.size < buffer.size() && !transport_.has_pending()) return;
        break;
      case Transport::State::kBlocked: return;
      case Transport::State::kEnded:
        peer_closed_ = true;
        session_.end_input();
        return;
      case Transport::State::kFailed: failed_ = true; return;
    }
  }
}

/// Sends as much as the socket takes. False: the client is gone.
bool HttpConnection::send() {
  if (waiting_writable_ || output_.empty()) return true;
  const std::size_t before = output_.size();
  switch (transport_.write(output_)) {
    case Transport::State::kOk: return true;
    case Transport::State::kBlocked:
      if (!deadline_is_for_output_ || output_.size() < before) {
        deadline_is_for_output_ = true;
        owner_.set_deadline(*this, saturating_add(owner_.now(), timeouts_.write));
      }
      wait_writable();
      return true;
    default: return false;
  }
}

/// As Connection's: closing a socket with input unread resets it, and the reset may overtake the
/// response. False: it may be closed at once.
bool HttpConnection::close_gently() {
  transport_.end_output();
  if (peer_closed_) return false;
  lingering_ = true;
  owner_.set_deadline(*this, saturating_add(owner_.now(), kLinger));
  wait_readable();
  return true;
}

}  // namespace carillon::server
