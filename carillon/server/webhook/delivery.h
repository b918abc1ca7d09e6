// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One post on its way: a connection of the pool or a new one, the request, the answer.

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/server/webhook/address_policy.h"
#include "carillon/server/webhook/post.h"
#include "carillon/server/webhook/poster_connection.h"
#include "carillon/server/webhook/response_reader.h"

namespace carillon::server {

class HttpPosterCore;

/// The head of the request: `unix_s` is the time of the signature.
[[nodiscard]] std::string request_head(const Post& post, std::string_view user_agent,
                                       std::int64_t unix_s);

/// Threads:  the poster's.
/// Lifetime: keeps itself alive while something of it is going on; the core outlives it.
class Delivery : public std::enable_shared_from_this<Delivery> {
 public:
  Delivery(HttpPosterCore& core, Post post);

  void start();
  /// Ends it with kCancelled, if it has not ended.
  void cancel();
  /// Stops reading the rest of an answer that has been reported.
  void drop();

  [[nodiscard]] PostId id() const noexcept { return post_.id; }

 private:
  enum class Phase : std::uint8_t { kConnecting, kExchanging, kDraining, kEnded };

  void use_idle_or_connect();
  void on_resolved(const std::vector<IpAddress>& addresses);
  void try_next_address();
  void send();
  void read();
  void on_read(const boost::system::error_code& error, std::size_t size);
  void on_answer();
  void on_closed(const std::string& why);
  void finish(PostOutcome outcome);
  void fail(PostOutcome::End end, std::string detail);
  void leave_connection(bool reusable);
  void set_timer(Span after, void (Delivery::*expired)());
  void on_timeout();

  HttpPosterCore& core_;
  const Post post_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer address_timer_;
  Phase phase_ = Phase::kConnecting;
  // Counts tries, of addresses and connections: what an earlier one still reports is void.
  unsigned try_ = 0;
  std::string doing_;  // For people: "connect to 192.0.2.1".

  std::vector<IpAddress> addresses_;
  std::size_t next_address_ = 0;
  std::string last_error_;

  std::shared_ptr<PosterConnection> connection_;
  bool reused_ = false;
  bool may_reuse_ = true;
  bool written_ = false;
  std::string head_;
  std::unique_ptr<ResponseReader> reader_;
  std::array<char, 4'096> buffer_{};
};

}  // namespace carillon::server
