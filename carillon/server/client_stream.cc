// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/client_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace carillon::server {
namespace {

Error gone(std::string message) { return {ErrorCode::kUnavailable, std::move(message)}; }

Error system_error(const char* call) {
  return gone(std::string(call) + ": " + std::generic_category().message(errno));
}

Result<void> wait_for(int socket, short events, Span timeout, const char* otherwise) {
  pollfd watched{socket, events, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  for (;;) {
    const int ready = ::poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(ms, 1 << 30)));
    if (ready > 0) return {};
    if (ready == 0) return gone(otherwise);
    if (errno != EINTR) return system_error("poll");
  }
}

/// Whether the bytes are the beginning of an alert or a handshake: of who speaks TLS.
bool is_tls(std::span<const char> bytes) noexcept {
  return bytes.size() >= 2 && (bytes[0] == 0x15 || bytes[0] == 0x16) && bytes[1] == 0x03;
}

/// What a failure of OpenSSL means.
Error tls_error(ssl_st* tls) {
  const long verified = SSL_get_verify_result(tls);
  if (verified != X509_V_OK) {
    ERR_clear_error();
    return gone(std::string("TLS: the server's certificate is not believed: ") +
                X509_verify_cert_error_string(verified));
  }
  const unsigned long code = ERR_peek_error();
  if (ERR_GET_LIB(code) == ERR_LIB_SSL) {
    switch (ERR_GET_REASON(code)) {
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_HTTP_REQUEST: ERR_clear_error(); return gone("TLS: the server speaks none there");
      case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        ERR_clear_error();
        return gone("TLS: the server wants a certificate of the client");
      default: break;
    }
  }
  return gone("TLS: " + take_openssl_error());
}

}  // namespace

void ClientStream::Free::operator()(ssl_st* tls) const noexcept { SSL_free(tls); }

Result<ClientStream> ClientStream::connect(const Endpoint& endpoint, Span timeout,
                                           const ClientTlsContext* tls) {
  Result<FileDescriptor> socket = connect_to(endpoint, timeout);
  if (!socket) return std::move(socket).error();
  ClientStream stream(std::move(*socket), timeout);
  if (tls == nullptr) return stream;
  if (Result<void> shaken = stream.shake_hands(endpoint, *tls); !shaken) {
    return std::move(shaken).error().prefixed(endpoint.to_string());
  }
  return stream;
}

Result<void> ClientStream::shake_hands(const Endpoint& endpoint, const ClientTlsContext& context) {
  tls_.reset(SSL_new(context.native()));
  BIO* const input = BIO_new(BIO_s_mem());
  BIO* const output = BIO_new(BIO_s_mem());
  if (tls_ == nullptr || input == nullptr || output == nullptr) throw std::bad_alloc();
  BIO_set_mem_eof_return(input, -1);
  SSL_set_bio(tls_.get(), input, output);
  SSL_set_connect_state(tls_.get());
  const std::string host = endpoint.is_unix()      ? "localhost"
                           : endpoint.host.empty() ? "127.0.0.1"
                                                   : endpoint.host;
  // An address has to be in the certificate as one; a name is sent too, for who has several.
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls_.get()), host.c_str()) != 1) {
    ERR_clear_error();
    if (SSL_set1_host(tls_.get(), host.c_str()) != 1 ||
        SSL_set_tlsext_host_name(tls_.get(), host.c_str()) != 1) {
      return gone("TLS: " + take_openssl_error());
    }
  }
  for (;;) {
    ERR_clear_error();
    Result<int> done = drive(SSL_do_handshake(tls_.get()), timeout_);
    if (!done) return std::move(done).error();
    if (*done > 0) return {};
  }
}

/// After a call of OpenSSL that returned `result`: sends what that made, and if it wants more,
/// brings it. Returns what it returned; 0: to be called again; -1: the server has ended.
Result<int> ClientStream::drive(int result, Span timeout) {
  const int error = SSL_get_error(tls_.get(), result);
  const bool failed = error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ &&
                      error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_ZERO_RETURN;
  const Error why = failed ? tls_error(tls_.get()) : Error{};
  // Also after a failure: an alert tells the server of it.
  Result<void> sent = send_encrypted();
  if (failed) return why;
  if (!sent) return std::move(sent).error();
  if (result > 0) return result;
  if (error == SSL_ERROR_ZERO_RETURN) return -1;
  if (error == SSL_ERROR_WANT_WRITE) return 0;
  std::array<char, std::size_t{16} * 1024> buffer;
  const Result<std::size_t> got = receive_plain(buffer, timeout);
  if (!got) return got.error();
  if (*got == 0) {
    // Without its farewell what came may not have been all.
    return gone("TLS: the server closed the connection");
  }
  BIO_write(SSL_get_rbio(tls_.get()), buffer.data(), static_cast<int>(*got));
  return 0;
}

Result<void> ClientStream::send_encrypted() {
  BIO* const output = SSL_get_wbio(tls_.get());
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(output, &bytes);
  if (size <= 0) return {};
  Result<void> sent = send_plain({bytes, static_cast<std::size_t>(size)});
  static_cast<void>(BIO_reset(output));
  return sent;
}

Result<void> ClientStream::send(std::string_view bytes) {
  if (tls_ == nullptr) return send_plain(bytes);
  while (!bytes.empty()) {
    ERR_clear_error();
    const std::size_t size = std::min(bytes.size(), std::size_t{1} << 20);
    Result<int> sent = drive(SSL_write(tls_.get(), bytes.data(), static_cast<int>(size)), timeout_);
    if (!sent) return std::move(sent).error();
    if (*sent < 0) return {};  // The server has ended; what it said says why.
    bytes.remove_prefix(static_cast<std::size_t>(*sent));
  }
  return {};
}

Result<std::size_t> ClientStream::receive(std::span<char> into, Span timeout) {
  if (tls_ == nullptr) {
    const bool is_first = !has_received_;
    Result<std::size_t> got = receive_plain(into, timeout);
    if (got && is_first && is_tls(into.first(*got))) return gone("the server speaks TLS there");
    return got;
  }
  const int size =
      static_cast<int>(std::min<std::size_t>(into.size(), std::numeric_limits<int>::max()));
  for (;;) {
    ERR_clear_error();
    Result<int> got = drive(SSL_read(tls_.get(), into.data(), size), timeout);
    if (!got) return std::move(got).error();
    if (*got < 0) return std::size_t{0};
    if (*got > 0) return static_cast<std::size_t>(*got);
  }
}

Error ClientStream::ended_early() const {
  std::string message = "the server closed the connection";
  if (tls_ == nullptr && !has_received_) {
    message += " and answered nothing; if it speaks TLS there, the address has to say so";
  }
  return gone(std::move(message));
}

void ClientStream::end_output() noexcept {
  if (tls_ != nullptr) {
    ERR_clear_error();
    SSL_shutdown(tls_.get());
    static_cast<void>(send_encrypted());
    ERR_clear_error();
  }
  ::shutdown(socket_.get(), SHUT_WR);
}

Result<void> ClientStream::send_plain(std::string_view bytes) {
  while (!bytes.empty() && !reset_) {
    Result<void> ready =
        wait_for(socket_.get(), POLLOUT, timeout_, "the server does not take what is sent");
    if (!ready) return ready;
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      if (errno != EPIPE && errno != ECONNRESET) return system_error("send");
      // It may have answered before it closed: the answer says why.
      reset_ = true;
      return {};
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<std::size_t> ClientStream::receive_plain(std::span<char> into, Span timeout) {
  for (;;) {
    Result<void> ready = wait_for(socket_.get(), POLLIN, timeout, "no answer in time");
    if (!ready) return std::move(ready).error();
    const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      // Whoever does not know the protocol may close without reading.
      if (errno == ECONNRESET && !has_received_) return std::size_t{0};
      return system_error("recv");
    }
    if (got > 0) has_received_ = true;
    return static_cast<std::size_t>(got);
  }
}

}  // namespace carillon::server
