// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Webhooks on the event loop of a server: from options to a poster, and from posts back to turns.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/result.h"
#include "carillon/server/log.h"
#include "carillon/server/options.h"
#include "carillon/server/partitions.h"
#include "carillon/server/wake_timer.h"
#include "carillon/server/webhook/address_policy.h"
#include "carillon/server/webhook/webhooks.h"

namespace carillon::server {

/// The blocks of the option webhook-allow. Errors: the first that is none.
[[nodiscard]] Result<std::vector<AddressBlock>> allowed_blocks(const ServerOptions& options);

/// Threads:  the network thread.
/// Lifetime: the loop, the partitions and the clocks must outlive it; the loop must run nothing
///           after its destruction.
class WebhookLoop {
 public:
  /// `request_turn`: turn() is to be called soon. The options count from apply() on, which comes
  /// before start().
  WebhookLoop(boost::asio::io_context& loop, Partitions& partitions, const Clock& clock,
              const Calendar& calendar, std::function<void()> request_turn, Log log);

  /// Looks for the tubes that have a webhook, and serves those from now on.
  void start() { webhooks_->load(); }
  /// What is to change when options do: what could fail has been done.
  class Change {
    friend WebhookLoop;
    HttpPosterOptions options_;
    std::shared_ptr<boost::asio::ssl::context> tls_;
  };
  /// From those of the options that may change while the server runs, and the file of authorities.
  /// Changes nothing. Errors: what cannot be read or made out.
  [[nodiscard]] Result<Change> prepare(const ServerOptions& options) const;
  void apply(Change change);
  /// In each turn of the server, outside of calls into the partitions.
  void turn();

  Webhooks& operator*() noexcept { return *webhooks_; }
  Webhooks* operator->() noexcept { return webhooks_.get(); }

 private:
  [[nodiscard]] Result<std::unique_ptr<WebhookPoster>> make_poster(
      HttpPoster::OnOutcome on_outcome) const;
  void request_turn();

  boost::asio::io_context& loop_;
  HttpPosterOptions poster_options_;
  const Calendar& calendar_;
  const std::function<void()> request_turn_;
  // Set from any thread until the network thread has taken notice.
  std::atomic<bool> turn_requested_ = false;
  WakeTimer wake_;
  std::unique_ptr<Webhooks> webhooks_;  // Dies first: its poster's thread asks for turns.
};

}  // namespace carillon::server
