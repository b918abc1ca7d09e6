// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_server.h"

#include <fmt/format.h>

#include <boost/system/system_error.hpp>
#include <new>
#include <random>
#include <utility>

#include "carillon/server/stats_document.h"

namespace carillon::server {
namespace {

/// One read takes at most this much.
constexpr std::size_t kReadBuffer = std::size_t{64} * 1024;
/// Refused connections are logged this often at most.
constexpr Span kRefusalLogInterval = std::chrono::seconds(10);
/// Events of statistics come this often.
constexpr auto kEventInterval = std::chrono::seconds(1);

/// Connections beyond the limit that are told so; those beyond these are just closed.
constexpr std::size_t kRefusedPolitely = 64;
/// Memory for more replies than this is given back after the turn that needed it.
constexpr std::size_t kKeptReplies = 16'384;

}  // namespace

HttpServer::HttpServer(boost::asio::io_context& loop, const ServerOptions& options, Outside outside)
    : loop_(loop),
      options_(options),
      outside_(std::move(outside)),
      desk_(kMark, outside_.partitions,
            [this](std::size_t partition, broker::Ticket ticket, broker::Reply reply) {
              deliver(partition, ticket, std::move(reply));
            }),
      context_{.partitions = outside_.partitions,
               .guard = guard_,
               .desk = desk_,
               .events = events_,
               .calendar = outside_.calendar,
               .webhooks = outside_.webhooks,
               .metric_tubes = MetricTubes(options.metrics_tubes)},
      watcher_(kWatcher, outside_.partitions),
      feed_(
          context_, watcher_, outside_.clock,
          [this](std::string_view event, std::string_view json) { events_.publish(event, json); }),
      deadlines_(static_cast<Tick>(floor_ms(outside_.clock.now()))),
      wake_(loop, [this] { on_wake(); }),
      events_timer_(loop),
      read_buffer_(kReadBuffer),
      refused_(kRefusalLogInterval) {
  std::random_device random;
  context_.epoch = std::uint64_t{random()} << 32 | random();
  context_.describe = outside_.describe;
  context_.deliver = [this](std::size_t partition, broker::Ticket ticket, broker::Reply reply) {
    deliver(partition, ticket, std::move(reply));
  };
  context_.on_failed_login = [this](broker::SessionId session) {
    if (HttpConnection* connection = find(session)) outside_.on_failed_login(connection->peer());
  };
  events_.on_first([this] { tick_events(); });
  events_.greet([this] {
    std::string text = HttpEvents::event_of("history", feed_.history());
    if (!feed_.last_stats().empty()) text += HttpEvents::event_of("stats", feed_.last_stats());
    return text;
  });
}

HttpServer::~HttpServer() {
  listeners_.clear();
  connections_.clear();
}

Result<void> HttpServer::open() {
  Result<Change> change = prepare(options_);
  if (!change) return std::move(change).error();
  apply(std::move(*change));
  if (Result<void> http = listen(options_.http_listen, false); !http) {
    Error error = std::move(http).error().prefixed("http-listen");
    if (options_.said.contains("http-listen")) return error;
    // Nobody asked for it: a second server on this machine goes on without.
    outside_.log(
        LogLevel::kWarning, "http_unavailable",
        fmt::format("there is no HTTP, since the default address is taken: {}", error.message));
  }
  if (Result<void> https = listen(options_.https_listen, true); !https) {
    return std::move(https).error().prefixed("https-listen");
  }
  return {};
}

Result<HttpServer::Change> HttpServer::prepare(const ServerOptions& options) {
  Change change;
  if (!options.http_tokens.empty()) {
    Result<HttpTokens> loaded = HttpTokens::load(options.http_tokens);
    if (!loaded) return std::move(loaded).error().prefixed("http-tokens");
    change.tokens_ = std::move(*loaded);
  }
  if (!options.https_listen.empty()) {
    Result<std::shared_ptr<TlsContext>> loaded =
        TlsContext::load({options.tls_cert, options.tls_key, options.tls_client_ca});
    if (!loaded) return std::move(loaded).error();
    change.tls_ = std::move(*loaded);
  }
  return change;
}

void HttpServer::apply(Change change) {
  guard_.set_tokens(std::move(change.tokens_));
  for (const auto& [session, connection] : connections_) connection->check_token();
  guard_.allow_hosts({options_.http_allowed_host.begin(), options_.http_allowed_host.end()});
  tls_ = std::move(change.tls_);
  timeouts_ = {options_.http_idle_timeout, options_.http_header_timeout, options_.http_body_timeout,
               options_.http_write_timeout};
  context_.limits = {options_.http_max_header,   options_.http_max_body, options_.http_max_bodies,
                     options_.http_max_requests, options_.max_job_size,  options_.max_unsent};
  context_.metric_tubes.set_limit(options_.metrics_tubes);
}

Result<void> HttpServer::listen(const std::vector<Endpoint>& endpoints, bool with_tls) {
  for (const Endpoint& endpoint : endpoints) {
    Result<std::vector<ListeningSocket>> sockets = listen_on(endpoint);
    if (!sockets) return std::move(sockets).error();
    for (ListeningSocket& socket : *sockets) {
      listeners_.push_back(std::make_unique<Listener>(
          loop_, std::move(socket),
          [this, with_tls](FileDescriptor fd) { on_accept(std::move(fd), with_tls); },
          outside_.log));
    }
  }
  return {};
}

std::vector<Endpoint> HttpServer::endpoints() const {
  std::vector<Endpoint> endpoints;
  endpoints.reserve(listeners_.size());
  for (const auto& listener : listeners_) endpoints.push_back(listener->at());
  return endpoints;
}

// Connections.

HttpConnection* HttpServer::find(broker::SessionId session) {
  const auto found = connections_.find(session);
  return found == connections_.end() ? nullptr : found->second.get();
}

void HttpServer::on_accept(FileDescriptor socket, bool with_tls) {
  const std::size_t most = options_.http_max_connections;
  const bool refused = connections_.size() >= most || !outside_.has_room();
  if (refused) {
    note_refusal();
    // A handshake is more than they are worth.
    if (with_tls || connections_.size() >= most + kRefusedPolitely || !outside_.has_room()) return;
  }
  const broker::SessionId id = ++last_id_;
  HttpConnectionOwner& owner = *this;
  try {
    connections_.emplace(
        id, std::make_unique<HttpConnection>(loop_, std::move(socket), with_tls ? tls_ : nullptr,
                                             id, context_, timeouts_, owner));
    if (refused) find(id)->refuse();
  } catch (const boost::system::system_error& error) {
    outside_.log(LogLevel::kError, "connection_failed",
                 fmt::format("an HTTP connection cannot be watched: {}", error.what()));
  } catch (const std::bad_alloc&) {
    outside_.log(LogLevel::kError, "connection_failed",
                 "there is no memory for an HTTP connection");
  }
  outside_.request_turn();
}

void HttpServer::note_refusal() {
  const std::optional<std::uint64_t> refused = refused_.note(now());
  if (!refused) return;
  outside_.log(LogLevel::kWarning, "connections_refused",
               fmt::format("http-max-connections: {} are open, {} more refused",
                           connections_.size(), *refused),
               {{"open", connections_.size()}, {"refused", *refused}});
}

void HttpServer::close(broker::SessionId session) {
  const auto found = connections_.find(session);
  if (found == connections_.end()) return;
  // First out of the table: its destruction may look for it there.
  const std::unique_ptr<HttpConnection> gone = std::move(found->second);
  connections_.erase(found);
  outside_.request_turn();  // What it had reserved went back to ready.
}

/// May come from inside a call into the partitions, and whoever gets it may call into them again,
/// which is not allowed in there: so it is delivered between their turns.
void HttpServer::on_reply(std::size_t partition, broker::Ticket ticket, broker::Reply reply) {
  if (ticket.slot == 0) return;  // Nobody waits for it.
  replies_.push_back({partition, ticket, std::move(reply)});
  outside_.request_turn();
}

void HttpServer::deliver(std::size_t partition, broker::Ticket ticket, broker::Reply reply) {
  if (HttpConnection* connection = find(ticket.session)) {
    connection->on_reply(partition, ticket.slot, std::move(reply));
  }
}

// Turns.

void HttpServer::request_work(broker::SessionId session) {
  HttpConnection* connection = find(session);
  // One that is being constructed asks for nothing yet.
  if (connection == nullptr || std::exchange(connection->listed, true)) return;
  to_work_.push_back(session);
  outside_.request_turn();
}

bool HttpServer::accepts_work(broker::SessionId asking) {
  if (outside_.partitions.accepts_work()) return true;
  HttpConnection* connection = find(asking);
  if (connection != nullptr && !std::exchange(connection->held_up, true)) {
    held_up_.push_back(asking);
  }
  return false;
}

void HttpServer::turn() {
  if (!held_up_.empty() && outside_.partitions.accepts_work()) {
    for (const broker::SessionId session : std::exchange(held_up_, {})) {
      if (HttpConnection* connection = find(session)) {
        connection->held_up = false;
        request_work(session);
      }
    }
  }
  // Those that come meanwhile are delivered next time. Whoever gets one may have asked for more.
  if (!replies_.empty()) outside_.request_turn();
  delivering_.swap(replies_);
  for (QueuedReply& queued : delivering_) {
    if (queued.ticket.session == desk_.id()) {
      desk_.on_reply(queued.partition, queued.ticket.slot, std::move(queued.reply));
    } else if (queued.ticket.session == watcher_.id()) {
      watcher_.on_reply(queued.partition, queued.ticket.slot, std::move(queued.reply));
    } else {
      deliver(queued.partition, queued.ticket, std::move(queued.reply));
    }
  }
  delivering_.clear();
  if (delivering_.capacity() > kKeptReplies) delivering_.shrink_to_fit();
  // Those marked meanwhile have their turn next time.
  for (const broker::SessionId session : std::exchange(to_work_, {})) {
    HttpConnection* connection = find(session);
    if (connection == nullptr) continue;
    connection->listed = false;
    if (!connection->work()) close(session);
  }
}

void HttpServer::send_answers() {
  for (const broker::SessionId session : to_work_) {
    if (HttpConnection* connection = find(session)) connection->send_answers();
  }
}

// Time.

/// The timer is set for the earliest deadline when it was last looked at. Deadlines are mostly put
/// off before they come, so it goes off about once for a timeout, not once for a request.
void HttpServer::set_deadline(HttpConnection& connection, std::optional<Instant> at) {
  if (!at) {
    deadlines_.cancel(connection);
    return;
  }
  deadlines_.reschedule(connection, static_cast<Tick>(ceil_ms(*at)));
  if (!wake_at_ || *at < *wake_at_) {
    wake_at_ = at;
    wake_.set(at);
  }
}

void HttpServer::on_wake() {
  deadlines_.advance(static_cast<Tick>(floor_ms(now())), [this](WheelHook& hook) {
    auto& connection = static_cast<HttpConnection&>(hook);
    if (!connection.on_deadline()) close(connection.id());
  });
  wake_at_.reset();
  if (const std::optional<Tick> next = deadlines_.next_deadline()) {
    wake_at_ =
        Instant(saturating_span<std::chrono::milliseconds>(static_cast<std::int64_t>(*next)));
  }
  wake_.set(wake_at_);
}

void HttpServer::tick_events() {
  const bool is_watched = events_.size() > 0;
  if (!feed_.is_wanted(is_watched)) return;
  feed_.gather(is_watched);
  outside_.request_turn();
  events_timer_.expires_after(kEventInterval);
  events_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) tick_events();
  });
}

// The end.

void HttpServer::stop() {
  context_.stopping = true;
  for (const auto& listener : listeners_) listener->close();
  for (const auto& [session, connection] : connections_) connection->stop();
}

void HttpServer::close_all() {
  while (!connections_.empty()) close(connections_.begin()->first);
}

}  // namespace carillon::server
