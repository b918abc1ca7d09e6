// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/delivery.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <chrono>
#include <ctime>
#include <utility>

#include "carillon/server/webhook/http_poster_core.h"
#include "carillon/server/webhook/retry_after.h"
#include "carillon/server/webhook/signature.h"

namespace carillon::server {
namespace {

using boost::system::error_code;
using End = PostOutcome::End;

/// The rest of an answer gets so long, so that its connection can be used again.
constexpr Span kDrainTime = std::chrono::seconds(2);
/// No address of several gets less than this of the time for connecting.
constexpr Span kLeastPerAddress = std::chrono::milliseconds(250);
constexpr std::size_t kMaxAddresses = 8;

constexpr bool is_visible(char c) noexcept { return c > ' ' && c < '\x7f'; }

/// Anything as the value of a field: what is not visible ASCII, and %, as %XX.
std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (is_visible(c) && c != '%') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

/// What a client may have stored as a content type becomes a field only if it can be one.
std::string_view content_type_of(const Post& post) {
  const std::string& type = post.content_type;
  const bool usable = !type.empty() && is_visible(type.front()) && is_visible(type.back()) &&
                      std::all_of(type.begin(), type.end(),
                                  [](char c) { return is_visible(c) || c == ' ' || c == '\t'; });
  return usable ? std::string_view(type) : "application/octet-stream";
}

std::string rfc3339(std::int64_t unix_ms) {
  const std::int64_t ms = (unix_ms % 1'000 + 1'000) % 1'000;
  const auto seconds = static_cast<std::time_t>((unix_ms - ms) / 1'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", parts, ms);
}

}  // namespace

std::string request_head(const Post& post, std::string_view user_agent, std::int64_t unix_s) {
  const PostTarget& target = *post.target;
  std::string head = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\nContent-Type: {}\r\n"
      "Content-Length: {}\r\nCarillon-Job-Id: {}\r\nCarillon-Tube: {}\r\nCarillon-Attempt: {}\r\n",
      target.url.target, target.url.host_field(), user_agent, content_type_of(post),
      post.body.size(), post.job, percent_encoded(post.tube), post.attempt);
  auto to = std::back_inserter(head);
  if (post.due_at_ms) fmt::format_to(to, "Carillon-Due: {}\r\n", rfc3339(*post.due_at_ms));
  if (!post.key.empty()) fmt::format_to(to, "Carillon-Key: {}\r\n", percent_encoded(post.key));
  fmt::format_to(to, "Carillon-Timestamp: {}\r\n", unix_s);
  const std::string signature = sign_webhook(target.secrets, unix_s, post.job, post.body.view());
  if (!signature.empty()) fmt::format_to(to, "Carillon-Signature: {}\r\n", signature);
  for (const auto& [name, value] : target.headers) fmt::format_to(to, "{}: {}\r\n", name, value);
  return head += "\r\n";
}

Delivery::Delivery(HttpPosterCore& core, Post post)
    : core_(core), post_(std::move(post)), timer_(core.loop()), address_timer_(core.loop()) {}

void Delivery::start() { use_idle_or_connect(); }

void Delivery::use_idle_or_connect() {
  const WebhookUrl& url = post_.target->url;
  ++try_;
  reused_ = false;
  if (may_reuse_) connection_ = core_.take_idle(url.origin());
  if (connection_) {
    reused_ = true;
    send();
    return;
  }
  phase_ = Phase::kConnecting;
  const Span left = post_.target->timeout - (std::chrono::steady_clock::now() - begun_);
  set_timer(std::min(post_.target->connect_timeout, left), &Delivery::on_timeout);
  core_.make_room();
  connection_ = std::make_shared<PosterConnection>(core_.loop(), url.origin(), core_.rules());
  if (const std::optional<IpAddress> literal = IpAddress::parse(url.host)) {
    on_resolved({*literal});
    return;
  }
  doing_ = "resolve " + url.host;
  core_.resolver().resolve(url.host, [self = shared_from_this(),
                                      attempt = try_](const HostResolver::Addresses& addresses) {
    if (self->phase_ != Phase::kConnecting || self->try_ != attempt) return;
    if (!addresses) return self->fail(End::kUnresolved, addresses.error().message);
    self->on_resolved(*addresses);
  });
}

void Delivery::on_resolved(const std::vector<IpAddress>& addresses) {
  const std::string& host = post_.target->url.host;
  if (addresses.empty()) return fail(End::kUnresolved, "resolve " + host + ": has no address");
  addresses_.clear();
  next_address_ = 0;
  std::string refusal;
  for (const IpAddress& address : addresses) {
    if (const std::optional<std::string_view> why = core_.policy().refusal(address)) {
      refusal = fmt::format("{}: {} {}, and webhook-allow does not name it", host,
                            address.to_string(), *why);
    } else if (addresses_.size() < kMaxAddresses) {
      addresses_.push_back(address);
    }
  }
  if (addresses_.empty()) return fail(End::kRefused, refusal);
  try_next_address();
}

void Delivery::try_next_address() {
  if (next_address_ == addresses_.size()) return fail(End::kUnreachable, last_error_);
  const std::size_t left = addresses_.size() - next_address_;
  const IpAddress& address = addresses_[next_address_++];
  const WebhookUrl& url = post_.target->url;
  doing_ = fmt::format("connect to {} port {}", address.to_string(), url.port);
  const unsigned attempt = ++try_;
  if (left > 1) {
    // One that does not answer may not use up the time of the others.
    const Span used = std::chrono::steady_clock::now() - begun_;
    const Span share = (post_.target->connect_timeout - used) / static_cast<Span::rep>(left);
    address_timer_.expires_after(std::max(share, kLeastPerAddress));
    address_timer_.async_wait([self = shared_from_this(), attempt](const error_code& error) {
      if (error || self->phase_ != Phase::kConnecting || self->try_ != attempt) return;
      self->last_error_ = self->doing_ + ": no answer";
      self->try_next_address();
    });
  }
  connection_->connect(
      address, url.port, [self = shared_from_this(), attempt](const error_code& error) {
        if (self->phase_ != Phase::kConnecting || self->try_ != attempt) return;
        if (error) {
          self->last_error_ = self->doing_ + ": " + error.message();
          return self->try_next_address();
        }
        const WebhookUrl& to = self->post_.target->url;
        if (!to.tls) return self->send();
        self->doing_ = "TLS with " + to.host;
        const unsigned shaking = ++self->try_;
        self->connection_->shake_hands(
            self->core_.tls(), to.host, [self, shaking](const error_code& refused) {
              if (self->phase_ != Phase::kConnecting || self->try_ != shaking) return;
              if (refused) return self->fail(End::kTls, self->doing_ + ": " + refused.message());
              self->send();
            });
      });
}

void Delivery::send() {
  phase_ = Phase::kExchanging;
  address_timer_.cancel();
  doing_ = "wait for an answer of " + post_.target->url.origin();
  const Span used = std::chrono::steady_clock::now() - begun_;
  set_timer(post_.target->timeout - used, &Delivery::on_timeout);
  head_ = request_head(post_, core_.user_agent(), core_.unix_s());
  reader_ = std::make_unique<ResponseReader>();
  written_ = false;
  const std::array<boost::asio::const_buffer, 2> buffers{
      boost::asio::buffer(head_),
      boost::asio::buffer(post_.body.view().data(), post_.body.view().size())};
  const unsigned attempt = ++try_;
  connection_->write(buffers, [self = shared_from_this(), attempt,
                               connection = connection_](const error_code& error) {
    // An error shows in the reading too, after what the server had to say.
    if (!error && self->try_ == attempt) self->written_ = true;
  });
  read();
}

void Delivery::read() {
  connection_->read_some(boost::asio::buffer(buffer_),
                         [self = shared_from_this(), attempt = try_, connection = connection_](
                             const error_code& error, std::size_t size) {
                           if (self->phase_ == Phase::kEnded || self->try_ != attempt) return;
                           self->on_read(error, size);
                         });
}

void Delivery::on_read(const error_code& error, std::size_t size) {
  using State = ResponseReader::State;
  State state = reader_->receive({buffer_.data(), size});
  if (error && state != State::kFinished) state = reader_->end_input();
  if (phase_ == Phase::kExchanging) {
    if (reader_->status() != 0) {
      on_answer();
    } else if (error) {
      return on_closed(error == boost::asio::error::eof ? "closed before an answer"
                                                        : error.message());
    } else if (state == State::kBroken) {
      return fail(End::kGarbage, post_.target->url.origin() + ": " + reader_->error());
    }
  }
  if (phase_ == Phase::kDraining && (error || state != State::kBody)) {
    return leave_connection(!error && written_ && reader_->can_reuse_connection());
  }
  if (phase_ != Phase::kEnded) read();
}

void Delivery::on_answer() {
  PostOutcome outcome;
  outcome.end = End::kAnswered;
  outcome.status = reader_->status();
  if (!reader_->retry_after().empty()) {
    outcome.retry_after = parse_retry_after(reader_->retry_after(), core_.calendar_now());
  }
  if (!outcome.succeeded()) {
    outcome.detail = fmt::format("{} answered {}", post_.target->url.origin(), outcome.status);
  }
  phase_ = Phase::kDraining;
  set_timer(kDrainTime, &Delivery::drop);
  core_.begin_draining(shared_from_this());
  finish(std::move(outcome));
}

/// A connection that was idle may have been closed by its server in the very moment of our request:
/// that says nothing of the server, and another connection is tried, once.
void Delivery::on_closed(const std::string& why) {
  if (!reused_ || reader_->has_begun()) {
    return fail(End::kClosed, post_.target->url.origin() + ": " + why);
  }
  connection_->close();
  connection_.reset();
  may_reuse_ = false;
  use_idle_or_connect();
}

void Delivery::cancel() {
  if (phase_ == Phase::kDraining) return drop();
  if (phase_ != Phase::kEnded) fail(End::kCancelled, "cancelled");
}

void Delivery::drop() {
  if (phase_ == Phase::kDraining) leave_connection(false);
}

void Delivery::fail(End end, std::string detail) {
  phase_ = Phase::kEnded;
  timer_.cancel();
  address_timer_.cancel();
  if (connection_) connection_->close();
  PostOutcome outcome;
  outcome.end = end;
  outcome.detail = std::move(detail);
  finish(std::move(outcome));
  core_.forget(*this);
}

void Delivery::finish(PostOutcome outcome) {
  outcome.took = std::chrono::steady_clock::now() - begun_;
  core_.report(post_.id, std::move(outcome));
}

void Delivery::leave_connection(bool reusable) {
  phase_ = Phase::kEnded;
  timer_.cancel();
  address_timer_.cancel();
  ++try_;
  if (reusable) {
    core_.put_idle(std::move(connection_));
  } else {
    connection_->close();
  }
  core_.forget(*this);
}

void Delivery::set_timer(Span after, void (Delivery::*expired)()) {
  timer_.expires_after(std::max(after, Span{}));
  timer_.async_wait([self = shared_from_this(), expired, phase = phase_](const error_code& error) {
    // Its handler may be on the way already when it is set anew.
    if (!error && self->phase_ == phase &&
        self->timer_.expiry() <= std::chrono::steady_clock::now()) {
      ((*self).*expired)();
    }
  });
}

void Delivery::on_timeout() { fail(End::kTimedOut, doing_ + ": timed out"); }

}  // namespace carillon::server
