// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook_loop.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <random>
#include <string>
#include <utility>

#include "carillon/server/option_file.h"
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

WebhookLoop::WebhookLoop(boost::asio::io_context& loop, Partitions& partitions, const Clock& clock,
                         const Calendar& calendar, std::function<void()> request_turn, Log log)
    : loop_(loop),
      calendar_(calendar),
      request_turn_(std::move(request_turn)),
      wake_(loop, request_turn_) {
  poster_options_.user_agent = "carillon/" + std::string(version());
  Webhooks::Surroundings surroundings{partitions, clock};
  std::random_device random;
  surroundings.seed = std::uint64_t{random()} << 32 | random();
  surroundings.request_turn = [this] { this->request_turn(); };
  surroundings.log = std::move(log);
  surroundings.refusal = [this](const std::string& host) -> std::optional<std::string> {
    const std::optional<IpAddress> address = IpAddress::parse(host);
    if (!address) return std::nullopt;
    const auto refusal = poster_options_.policy.refusal(*address);
    return refusal ? std::optional<std::string>(*refusal) : std::nullopt;
  };
  surroundings.make_poster = [this](HttpPoster::OnOutcome on_outcome) {
    return make_poster(std::move(on_outcome));
  };
  webhooks_ = std::make_unique<Webhooks>(std::move(surroundings));
}

Result<WebhookLoop::Change> WebhookLoop::prepare(const ServerOptions& options) const {
  Result<std::vector<AddressBlock>> blocks = allowed_blocks(options);
  if (!blocks) return std::move(blocks).error();
  Change change;
  change.options_ = poster_options_;
  change.options_.policy = AddressPolicy(std::move(*blocks));
  change.options_.authorities.clear();
  change.options_.max_connections = options.webhook_connections;
  if (!options.webhook_ca_file.empty()) {
    Result<std::string> authorities =
        read_option_file(options.webhook_ca_file, "webhook-ca-file", kMaxAuthoritiesFile);
    if (!authorities) return std::move(authorities).error();
    if (authorities->empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("webhook-ca-file '{}': it is empty", options.webhook_ca_file)};
    }
    change.options_.authorities = std::move(*authorities);
  }
  Result<std::shared_ptr<boost::asio::ssl::context>> tls =
      HttpPoster::make_tls(change.options_.authorities);
  if (!tls) {
    return std::move(tls).error().prefixed(
        fmt::format("webhook-ca-file '{}'", options.webhook_ca_file));
  }
  change.tls_ = std::move(*tls);
  return change;
}

void WebhookLoop::apply(Change change) {
  poster_options_ = std::move(change.options_);
  if (WebhookPoster* poster = webhooks_->poster()) {
    // It is what make_poster() has made.
    static_cast<HttpPoster*>(poster)->change(poster_options_, std::move(change.tls_));
  }
  webhooks_->set_max_connections(poster_options_.max_connections);
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
