// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The HTTP half of the server: listeners and connections on the network thread, beside those of
/// beanstalk, over the same partitions.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/server/dashboard_feed.h"
#include "carillon/server/http_connection.h"
#include "carillon/server/http_context.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_events.h"
#include "carillon/server/listener.h"
#include "carillon/server/log.h"
#include "carillon/server/log_pace.h"
#include "carillon/server/options.h"
#include "carillon/server/partition_group.h"
#include "carillon/server/wake_timer.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon::server {

/// Threads:  the network thread.
/// Lifetime: the loop, the partitions and the clocks must outlive it; the loop must run nothing
///           after its destruction.
class HttpServer final : private HttpConnectionOwner {
 public:
  struct Outside {
    PartitionGroup& partitions;
    const Clock& clock;
    const Calendar& calendar;
    Webhooks* webhooks;
    /// turn() is to be called soon.
    std::function<void()> request_turn;
    /// Whether there may be one more connection, of whatever kind.
    std::function<bool()> has_room;
    std::function<HttpContext::ServerFacts()> describe;
    /// A client has shown a token that nobody knows.
    std::function<void(const std::string& peer)> on_failed_login;
    Log log;
  };

  HttpServer(boost::asio::io_context& loop, const ServerOptions& options, Outside outside);
  ~HttpServer();

  /// What is to change when options or the files that they name do: what could fail has been done.
  class Change {
    friend HttpServer;
    std::optional<HttpTokens> tokens_;
    std::shared_ptr<TlsContext> tls_;
  };
  /// Reads the tokens and the certificate that `options` name. Changes nothing.
  [[nodiscard]] static Result<Change> prepare(const ServerOptions& options);
  /// Takes over what was prepared, and of the options (of the constructor) those that may change.
  void apply(Change change);
  /// Reads the tokens and the certificate, and listens.
  Result<void> open();

  /// Whether the session is one of here.
  [[nodiscard]] static bool owns(broker::SessionId session) noexcept {
    return (session & kMark) != 0;
  }
  void on_reply(std::size_t partition, broker::Ticket ticket, broker::Reply reply);
  /// Between the turns of the partitions: connections do what they have to do.
  void turn();
  /// The partitions are going to block: what has been answered is sent.
  void send_answers();

  void enter_drain_mode() { context_.draining = true; }
  /// Accepts no more, ends what waits, and closes each connection when its request is answered.
  void stop();
  /// Ends all connections now.
  void close_all();
  [[nodiscard]] std::size_t size() const noexcept { return connections_.size(); }
  /// Reserves that wait for a job.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return context_.waiting; }
  [[nodiscard]] std::vector<Endpoint> endpoints() const;

  static constexpr broker::SessionId kMark = broker::SessionId{1} << 63;
  static constexpr broker::SessionId kWatcher = kMark | broker::SessionId{1} << 62;

 private:
  // HttpConnectionOwner.
  void request_work(broker::SessionId session) override;
  void close(broker::SessionId session) override;
  bool accepts_work(broker::SessionId asking) override;
  std::span<char> read_buffer() override { return read_buffer_; }
  HttpConnection* find(broker::SessionId session) override;
  [[nodiscard]] Instant now() const override { return outside_.clock.now(); }
  void set_deadline(HttpConnection& connection, std::optional<Instant> at) override;

  Result<void> listen(const std::vector<Endpoint>& endpoints, bool with_tls);
  void on_accept(FileDescriptor socket, bool with_tls);
  void note_refusal();
  void deliver(std::size_t partition, broker::Ticket ticket, broker::Reply reply);
  void on_wake();
  void tick_events();

  boost::asio::io_context& loop_;
  const ServerOptions& options_;  // The server's: they may change, and reload() says so.
  Outside outside_;
  HttpTimeouts timeouts_;
  std::shared_ptr<TlsContext> tls_;
  HttpGuard guard_;
  HttpDesk desk_;
  HttpEvents events_;
  HttpContext context_;
  HttpDesk watcher_;  // The feed's.
  DashboardFeed feed_;
  HierarchicalWheel deadlines_;  // In ms of the clock.
  WakeTimer wake_;
  std::optional<Instant> wake_at_;
  boost::asio::steady_timer events_timer_;
  std::unordered_map<broker::SessionId, std::unique_ptr<HttpConnection>> connections_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<char> read_buffer_;
  struct QueuedReply {
    std::size_t partition;
    broker::Ticket ticket;
    broker::Reply reply;
  };
  std::vector<QueuedReply> replies_;     // Until the next turn.
  std::vector<QueuedReply> delivering_;  // In a turn; else empty, kept for its memory.
  std::vector<broker::SessionId> to_work_;
  std::vector<broker::SessionId> held_up_;
  broker::SessionId last_id_ = kMark;
  LogPace refused_;
  bool turning_ = false;
};

}  // namespace carillon::server
