// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/transport.h"

#include <linux/sockios.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

namespace carillon::server {
namespace {

/// Pieces of output sent with one system call.
constexpr std::size_t kVectors = 64;

bool is_transient(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

void Transport::Free::operator()(ssl_st* tls) const noexcept { SSL_free(tls); }

Transport::Transport(boost::asio::io_context& loop, FileDescriptor socket,
                     const std::shared_ptr<TlsContext>& tls)
    : socket_(loop) {
  if (tls != nullptr) {
    tls_.reset(SSL_new(tls->native()));
    if (tls_ == nullptr || SSL_set_fd(tls_.get(), socket.get()) != 1) throw std::bad_alloc();
    SSL_set_accept_state(tls_.get());
  }
  socket_.assign(socket.get());  // Throws if the kernel cannot watch one more.
  static_cast<void>(socket.release());
}

Transport::~Transport() = default;

Transport::State Transport::failure(int result, bool& wants_other, bool is_read) {
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ: wants_other = !is_read; return State::kBlocked;
    case SSL_ERROR_WANT_WRITE: wants_other = is_read; return State::kBlocked;
    case SSL_ERROR_ZERO_RETURN: return is_read ? State::kEnded : State::kFailed;
    default:
      tls_failed_ = true;
      ERR_clear_error();
      return State::kFailed;
  }
}

Transport::Read Transport::read(std::span<char> into) {
  if (tls_ != nullptr) {
    read_wants_write_ = false;
    ERR_clear_error();
    const int size =
        static_cast<int>(std::min<std::size_t>(into.size(), std::numeric_limits<int>::max()));
    const int got = SSL_read(tls_.get(), into.data(), size);
    if (got > 0) return {State::kOk, static_cast<std::size_t>(got)};
    return {failure(got, read_wants_write_, true), 0};
  }
  const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
  if (got > 0) return {State::kOk, static_cast<std::size_t>(got)};
  if (got == 0) return {State::kEnded, 0};
  return {is_transient(errno) ? State::kBlocked : State::kFailed, 0};
}

Transport::Read Transport::read(std::span<const iovec> into) {
  if (tls_ != nullptr) {
    return read(std::span<char>(static_cast<char*>(into[0].iov_base), into[0].iov_len));
  }
  const ssize_t got = ::readv(socket_.native_handle(), into.data(), static_cast<int>(into.size()));
  if (got > 0) return {State::kOk, static_cast<std::size_t>(got)};
  if (got == 0) return {State::kEnded, 0};
  return {is_transient(errno) ? State::kBlocked : State::kFailed, 0};
}

Transport::State Transport::write(OutputBuffer& output) {
  write_wants_read_ = false;
  while (!output.empty()) {
    std::array<iovec, kVectors> vectors;
    if (tls_ != nullptr) {
      static_cast<void>(output.describe(vectors));
      ERR_clear_error();
      const int sent = SSL_write(
          tls_.get(), vectors[0].iov_base,
          static_cast<int>(std::min<std::size_t>(vectors[0].iov_len, std::size_t{1} << 20)));
      if (sent <= 0) return failure(sent, write_wants_read_, false);
      output.consume(static_cast<std::size_t>(sent));
      continue;
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = output.describe(vectors);
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return is_transient(errno) ? State::kBlocked : State::kFailed;
    }
    output.consume(static_cast<std::size_t>(sent));
  }
  return State::kOk;
}

bool Transport::has_pending() const noexcept {
  return tls_ != nullptr && SSL_has_pending(tls_.get()) == 1;
}

void Transport::end_output() {
  if (tls_ != nullptr && !tls_failed_ && SSL_is_init_finished(tls_.get()) == 1) {
    ERR_clear_error();
    SSL_shutdown(tls_.get());
    ERR_clear_error();
  }
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

Transport::State Transport::discard(std::span<char> buffer) {
  const ssize_t got = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
  if (got == 0) return State::kEnded;
  if (got < 0 && !is_transient(errno)) return State::kFailed;
  return State::kOk;
}

bool Transport::delivered() {
  int unsent = 0;
  ::ioctl(socket_.native_handle(), SIOCOUTQ, &unsent);
  return unsent == 0;
}

std::string Transport::peer() {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(socket_.native_handle(), generic, &size) != 0) return "a client that is gone";
  if (address.ss_family == AF_UNIX) return "a UNIX socket";
  if (::getnameinfo(generic, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  const std::string name = host.data();
  return (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + port.data();
}

bool Transport::was_reset() {
  pollfd state{socket_.native_handle(), 0, 0};
  return ::poll(&state, 1, 0) > 0;  // POLLERR or POLLHUP, which are always told.
}

}  // namespace carillon::server
