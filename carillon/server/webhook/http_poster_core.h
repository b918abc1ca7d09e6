// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the deliveries of a poster share: loop, resolver, TLS, idle connections.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "carillon/base/clock.h"
#include "carillon/base/result.h"
#include "carillon/server/webhook/delivery.h"
#include "carillon/server/webhook/host_resolver.h"
#include "carillon/server/webhook/http_poster.h"

namespace carillon::server {

/// Threads: the poster's, but for construction and configure().
class HttpPosterCore {
 public:
  HttpPosterCore(const HttpPosterOptions& options, const Calendar& calendar,
                 HttpPoster::OnOutcome on_outcome);

  /// Takes the certificate authorities of the options.
  Result<void> configure();
  /// See HttpPoster::change().
  void change(AddressPolicy policy, std::size_t max_connections, boost::asio::ssl::context tls);
  void run() { loop_.run(); }
  void start(Post post);
  void cancel(PostId id);
  /// Cancels everything; run() returns when that is done.
  void stop();

  [[nodiscard]] boost::asio::io_context& loop() noexcept { return loop_; }

  // For deliveries.

  /// Counts changes: a connection that was made by the rules before is not used again.
  [[nodiscard]] unsigned rules() const noexcept { return rules_; }
  [[nodiscard]] boost::asio::ssl::context& tls() noexcept { return tls_; }
  [[nodiscard]] HostResolver& resolver() noexcept { return resolver_; }
  [[nodiscard]] const AddressPolicy& policy() const noexcept { return options_.policy; }
  [[nodiscard]] const std::string& user_agent() const noexcept { return options_.user_agent; }
  [[nodiscard]] WallTime calendar_now() const { return calendar_.now(); }
  [[nodiscard]] std::int64_t unix_s() const { return floor_ms(calendar_.now()) / 1'000; }
  void report(PostId id, PostOutcome outcome);
  /// The outcome of it has been reported, but not all of the answer read.
  void begin_draining(const std::shared_ptr<Delivery>& delivery);
  void forget(const Delivery& delivery);

  /// An idle connection that seems to be alive; null: none.
  std::shared_ptr<PosterConnection> take_idle(const std::string& origin);
  void put_idle(std::shared_ptr<PosterConnection> connection);
  /// Closes one that nobody needs, if there are as many connections as may be.
  void make_room();

 private:
  struct Idle {
    std::shared_ptr<PosterConnection> connection;
    std::chrono::steady_clock::time_point until;
  };
  void expect_expiry();

  HttpPosterOptions options_;
  const Calendar& calendar_;
  const HttpPoster::OnOutcome on_outcome_;

  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  boost::asio::ssl::context tls_{boost::asio::ssl::context::tls_client};
  HostResolver resolver_;
  boost::asio::steady_timer idle_timer_{loop_};
  std::list<Idle> idle_;  // The one that became idle first is at the front.
  std::unordered_map<PostId, std::shared_ptr<Delivery>> deliveries_;
  std::list<std::weak_ptr<Delivery>> draining_;  // The one that began first is at the front.
  unsigned rules_ = 0;
  bool stopping_ = false;
};

}  // namespace carillon::server
