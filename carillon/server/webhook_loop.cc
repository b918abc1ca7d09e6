// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook_loop.h"

#include <boost/asio/post.hpp>
#include <random>
#include <string>
#include <utility>

#include "carillon/server/server.h"

namespace carillon::server {

Result<std::vector<AddressBlock>> allowed_blocks(const ServerOptions& options) {
  std::vector<AddressBlock> blocks;
  for (const std::string& text : options.webhook_allow) {
    Result<AddressBlock> block = AddressBlock::parse(text);
    if (!block) return std::move(block).error().prefixed("webhook-allow");
    blocks.push_back(*block);
  }
  return blocks;
}

WebhookLoop::WebhookLoop(boost::asio::io_context& loop, const ServerOptions& options,
                         Partitions& partitions, const Clock& clock, const Calendar& calendar,
                         std::function<void()> request_turn, Log log)
    : loop_(loop),
      calendar_(calendar),
      request_turn_(std::move(request_turn)),
      wake_(loop, request_turn_) {
  // They were checked with the other options.
  poster_options_.policy = AddressPolicy(allowed_blocks(options).value());
  poster_options_.ca_file = options.webhook_ca_file;
  poster_options_.max_connections = options.webhook_connections;
  poster_options_.user_agent = "carillon/" + std::string(version());
  Webhooks::Surroundings surroundings{partitions, clock};
  surroundings.max_connections = options.webhook_connections;
  std::random_device random;
  surroundings.seed = std::uint64_t{random()} << 32 | random();
  surroundings.request_turn = [this] { this->request_turn(); };
  surroundings.log_warning = [log = std::move(log)](std::string_view line) {
    log(LogLevel::kWarning, "webhook", line);
  };
  surroundings.make_poster = [this](HttpPoster::OnOutcome on_outcome) {
    return make_poster(std::move(on_outcome));
  };
  webhooks_ = std::make_unique<Webhooks>(std::move(surroundings));
}

Result<void> WebhookLoop::change(const ServerOptions& options) {
  Result<std::vector<AddressBlock>> blocks = allowed_blocks(options);
  if (!blocks) return std::move(blocks).error();
  HttpPosterOptions changed = poster_options_;
  changed.policy = AddressPolicy(std::move(*blocks));
  changed.ca_file = options.webhook_ca_file;
  changed.max_connections = options.webhook_connections;
  if (WebhookPoster* poster = webhooks_->poster()) {
    // It is what make_poster() has made.
    Result<void> taken = static_cast<HttpPoster*>(poster)->change(changed);
    if (!taken) return taken;
  }
  poster_options_ = std::move(changed);
  webhooks_->set_max_connections(options.webhook_connections);
  return {};
}

Result<std::unique_ptr<WebhookPoster>> WebhookLoop::make_poster(
    HttpPoster::OnOutcome on_outcome) const {
  Result<std::unique_ptr<HttpPoster>> poster =
      HttpPoster::start(poster_options_, calendar_, std::move(on_outcome));
  if (!poster) return std::move(poster).error();
  return std::unique_ptr<WebhookPoster>(std::move(*poster));
}

void WebhookLoop::request_turn() {
  if (turn_requested_.exchange(true)) return;
  boost::asio::post(loop_, [this] {
    turn_requested_ = false;
    request_turn_();
  });
}

void WebhookLoop::turn() {
  webhooks_->turn();
  wake_.set(webhooks_->next_wake());
}

}  // namespace carillon::server
