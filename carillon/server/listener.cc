// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace carillon::server {
namespace {

/// Accepted in one go, so that a flood of connections does not hold up those that are open.
constexpr int kAcceptAtOnce = 64;

void set_options(int fd, bool tcp) noexcept {
  if (!tcp) return;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Listener::Listener(boost::asio::io_context& loop, ListeningSocket socket,
                   std::function<void(FileDescriptor)> on_accept, Log log)
    : origin_{{}, std::move(socket.at), socket.device, socket.inode},
      socket_(loop, socket.fd.release()),
      pause_(loop),
      on_accept_(std::move(on_accept)),
      log_(std::move(log)) {
  wait();
}

void Listener::close() {
  if (!socket_.is_open()) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  pause_.cancel();
  if (origin_.owns_path()) ::unlink(at().path.c_str());
}

void Listener::wait() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (!error) accept_some();
                     });
}

void Listener::accept_some() {
  if (!socket_.is_open()) return;  // Closed since the event.
  for (int i = 0; i < kAcceptAtOnce; ++i) {
    FileDescriptor fd(
        ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.is_open()) {
      paused_before_ = false;
      set_options(fd.get(), !at().is_unix());
      on_accept_(std::move(fd));
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) break;
    if (!is_shortage(error)) continue;  // That one client went away again.
    if (!std::exchange(paused_before_, true)) {
      log_(LogLevel::kError, "accept",
           fmt::format("{}: accepting pauses: {}", at().to_string(),
                       std::generic_category().message(error)));
    }
    pause_.expires_after(kPause);
    pause_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) accept_some();
    });
    return;
  }
  wait();
}

}  // namespace carillon::server
