// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/http_poster.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "carillon/server/webhook/http_poster_core.h"

namespace carillon::server {

using boost::system::error_code;

HttpPosterCore::HttpPosterCore(const HttpPosterOptions& options, const Calendar& calendar,
                               HttpPoster::OnOutcome on_outcome)
    : options_(options),
      calendar_(calendar),
      on_outcome_(std::move(on_outcome)),
      resolver_(options.lookup,
                [this](std::function<void()> call) { boost::asio::post(loop_, std::move(call)); }) {
}

Result<std::shared_ptr<boost::asio::ssl::context>> HttpPoster::make_tls(
    const std::string& authorities) {
  auto made = std::make_shared<boost::asio::ssl::context>(boost::asio::ssl::context::tls_client);
  boost::asio::ssl::context& tls = *made;
  error_code error;
  tls.set_options(boost::asio::ssl::context::default_workarounds |
                      boost::asio::ssl::context::no_tlsv1 | boost::asio::ssl::context::no_tlsv1_1,
                  error);
  if (!error) tls.set_verify_mode(boost::asio::ssl::verify_peer, error);
  if (error) return Error{ErrorCode::kIo, "webhooks: TLS: " + error.message()};
  if (authorities.empty()) {
    tls.set_default_verify_paths(error);
    if (error) return Error{ErrorCode::kIo, "webhooks: system authorities: " + error.message()};
  } else {
    tls.add_certificate_authority(boost::asio::buffer(authorities), error);
    if (error) return Error{ErrorCode::kInvalidArgument, error.message()};
  }
  return made;
}

Result<void> HttpPosterCore::configure() {
  Result<std::shared_ptr<boost::asio::ssl::context>> tls =
      HttpPoster::make_tls(options_.authorities);
  if (!tls) return std::move(tls).error();
  tls_ = std::move(**tls);
  return {};
}

void HttpPosterCore::change(AddressPolicy policy, std::size_t max_connections,
                            boost::asio::ssl::context tls) {
  options_.policy = std::move(policy);
  options_.max_connections = max_connections;
  tls_ = std::move(tls);
  ++rules_;
  idle_.clear();
  idle_timer_.cancel();
}

void HttpPosterCore::start(Post post) {
  const PostId id = post.id;
  if (stopping_) return report(id, PostOutcome());
  auto delivery = std::make_shared<Delivery>(*this, std::move(post));
  deliveries_.emplace(id, delivery);
  delivery->start();
}

void HttpPosterCore::cancel(PostId id) {
  const auto found = deliveries_.find(id);
  if (found == deliveries_.end()) return;
  const std::shared_ptr<Delivery> delivery = found->second;
  delivery->cancel();
}

void HttpPosterCore::stop() {
  stopping_ = true;
  idle_timer_.cancel();
  idle_.clear();
  std::vector<std::shared_ptr<Delivery>> all;
  for (const auto& [id, delivery] : deliveries_) all.push_back(delivery);
  for (const std::shared_ptr<Delivery>& delivery : all) delivery->cancel();
  work_.reset();
}

void HttpPosterCore::report(PostId id, PostOutcome outcome) { on_outcome_(id, std::move(outcome)); }

void HttpPosterCore::begin_draining(const std::shared_ptr<Delivery>& delivery) {
  std::erase_if(draining_, [](const auto& weak) { return weak.expired(); });
  draining_.push_back(delivery);
}

void HttpPosterCore::forget(const Delivery& delivery) {
  const auto found = deliveries_.find(delivery.id());
  if (found != deliveries_.end() && found->second.get() == &delivery) deliveries_.erase(found);
}

std::shared_ptr<PosterConnection> HttpPosterCore::take_idle(const std::string& origin) {
  // The last one that became idle is the least likely to have been closed by its server.
  for (auto each = idle_.end(); each != idle_.begin();) {
    --each;
    if (each->connection->origin() != origin) continue;
    std::shared_ptr<PosterConnection> connection = std::move(each->connection);
    each = idle_.erase(each);
    if (connection->is_quiet()) return connection;
    connection->close();
  }
  return nullptr;
}

void HttpPosterCore::put_idle(std::shared_ptr<PosterConnection> connection) {
  if (stopping_ || options_.idle_for <= Span{} || connection->rules() != rules_) return;
  idle_.push_back({std::move(connection), std::chrono::steady_clock::now() + options_.idle_for});
  if (idle_.size() == 1) expect_expiry();
}

void HttpPosterCore::expect_expiry() {
  idle_timer_.expires_at(idle_.front().until);
  idle_timer_.async_wait([this](const error_code& error) {
    if (error || stopping_) return;
    const auto now = std::chrono::steady_clock::now();
    while (!idle_.empty() && idle_.front().until <= now) idle_.pop_front();
    if (!idle_.empty()) expect_expiry();
  });
}

void HttpPosterCore::make_room() {
  // The one that room is made for is among the deliveries already.
  while (idle_.size() + deliveries_.size() > options_.max_connections) {
    if (!idle_.empty()) {
      idle_.pop_front();
      continue;
    }
    std::shared_ptr<Delivery> oldest;
    while (!oldest && !draining_.empty()) {
      oldest = draining_.front().lock();
      draining_.pop_front();
    }
    if (!oldest) return;
    oldest->drop();
  }
}

HttpPoster::HttpPoster(std::unique_ptr<HttpPosterCore> core)
    : core_(std::move(core)), thread_([this] { core_->run(); }) {}

Result<std::unique_ptr<HttpPoster>> HttpPoster::start(const HttpPosterOptions& options,
                                                      const Calendar& calendar,
                                                      OnOutcome on_outcome) {
  auto core = std::make_unique<HttpPosterCore>(options, calendar, std::move(on_outcome));
  if (Result<void> configured = core->configure(); !configured) {
    return std::move(configured).error();
  }
  return std::unique_ptr<HttpPoster>(new HttpPoster(std::move(core)));
}

HttpPoster::~HttpPoster() {
  boost::asio::post(core_->loop(), [this] { core_->stop(); });
  thread_.join();
}

void HttpPoster::post(Post post) {
  boost::asio::post(core_->loop(),
                    [this, post = std::move(post)]() mutable { core_->start(std::move(post)); });
}

void HttpPoster::change(const HttpPosterOptions& options,
                        std::shared_ptr<boost::asio::ssl::context> tls) {
  boost::asio::post(core_->loop(), [this, tls = std::move(tls), policy = options.policy,
                                    most = options.max_connections]() mutable {
    core_->change(std::move(policy), most, std::move(*tls));
  });
}

void HttpPoster::cancel(PostId id) {
  boost::asio::post(core_->loop(), [this, id] { core_->cancel(id); });
}

}  // namespace carillon::server
