// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/poster_connection.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>
#include <vector>

namespace carillon::server {

using boost::asio::ip::tcp;
using boost::system::error_code;

void PosterConnection::connect(const IpAddress& address, std::uint16_t port, Done done) {
  error_code ignored;
  socket_.close(ignored);
  boost::asio::ip::address to = boost::asio::ip::address_v6(address.bytes());
  if (address.is_v4()) {
    to = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, to.to_v6());
  }
  // The socket is opened by it.
  socket_.async_connect(tcp::endpoint(to, port),
                        [this, done = std::move(done)](const error_code& error) {
                          error_code ignored_option;
                          if (!error) socket_.set_option(tcp::no_delay(true), ignored_option);
                          done(error);
                        });
}

void PosterConnection::shake_hands(boost::asio::ssl::context& context, const std::string& host,
                                   Done done) {
  tls_.emplace(socket_, context);
  error_code error;
  // A name for virtual hosts; RFC 6066 forbids addresses.
  if (!IpAddress::parse(host) &&
      SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str()) != 1) {
    error = boost::asio::error::invalid_argument;
  }
  if (!error) tls_->set_verify_callback(boost::asio::ssl::host_name_verification(host), error);
  if (error) {
    boost::asio::post(socket_.get_executor(), [done = std::move(done), error] { done(error); });
    return;
  }
  tls_->async_handshake(boost::asio::ssl::stream_base::client, std::move(done));
}

void PosterConnection::write(std::span<const boost::asio::const_buffer> buffers, Done done) {
  const std::vector<boost::asio::const_buffer> all(buffers.begin(), buffers.end());
  auto handler = [done = std::move(done)](const error_code& error, std::size_t) { done(error); };
  if (tls_) {
    boost::asio::async_write(*tls_, all, std::move(handler));
  } else {
    boost::asio::async_write(socket_, all, std::move(handler));
  }
}

void PosterConnection::read_some(boost::asio::mutable_buffer buffer, Transferred done) {
  if (tls_) {
    tls_->async_read_some(buffer, std::move(done));
  } else {
    socket_.async_read_some(buffer, std::move(done));
  }
}

void PosterConnection::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

bool PosterConnection::is_quiet() noexcept {
  if (!socket_.is_open()) return false;
  // TLS may have sent a session ticket after the last answer, which says nothing against it: of
  // such a connection only the end is seen here.
  char byte = 0;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  return got > 0 && tls_.has_value();
}

}  // namespace carillon::server
