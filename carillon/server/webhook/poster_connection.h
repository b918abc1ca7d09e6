// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A connection to the server of a webhook, plain or TLS, that can carry several posts.

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "carillon/server/webhook/address_policy.h"

namespace carillon::server {

/// Threads:  the thread of its loop.
/// Lifetime: whoever starts an operation keeps it alive until the handler has run.
class PosterConnection {
 public:
  using Done = std::function<void(const boost::system::error_code&)>;
  using Transferred = std::function<void(const boost::system::error_code&, std::size_t)>;

  /// `rules`: HttpPosterCore::rules() when it is made.
  PosterConnection(boost::asio::io_context& loop, std::string origin, unsigned rules)
      : socket_(loop), origin_(std::move(origin)), rules_(rules) {}

  /// Scheme, host and port that it was opened for.
  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }

  [[nodiscard]] unsigned rules() const noexcept { return rules_; }

  /// May be called again after an error, with another address.
  void connect(const IpAddress& address, std::uint16_t port, Done done);
  /// `host`: the name, or address, that the certificate has to be of.
  void shake_hands(boost::asio::ssl::context& context, const std::string& host, Done done);
  void write(std::span<const boost::asio::const_buffer> buffers, Done done);
  void read_some(boost::asio::mutable_buffer buffer, Transferred done);
  /// Ends what is going on with an error.
  void close() noexcept;

  /// Whether it is open and nothing has come on it, neither bytes nor an end.
  [[nodiscard]] bool is_quiet() noexcept;

 private:
  boost::asio::ip::tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
  const std::string origin_;
  const unsigned rules_;
};

}  // namespace carillon::server
