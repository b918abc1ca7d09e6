// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The broker's side of webhooks: sessions that reserve jobs as any worker does.
///
/// A session that has a job does not reserve another: each job that is under way has a session of
/// its own, and at most one session a tube waits for the next. If this process is killed, all of
/// them end, and their jobs are ready again.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "carillon/broker/command.h"
#include "carillon/broker/reply.h"
#include "carillon/server/partitions.h"
#include "carillon/server/webhook/pump.h"

namespace carillon::server {

/// Threads:  the network thread.
/// Lifetime: the partitions must outlive it, and what the functions refer to. Its jobs are ready
///           again when it is destroyed.
class WebhookSessions {
 public:
  /// Called from turn().
  struct Events {
    std::function<void(const std::string& tube, PostId, WebhookJob)> on_job;
    std::function<void(const std::string& tube)> on_reserve_failed;
    std::function<void(PostId, WebhookFinished)> on_finished;
  };

  WebhookSessions(Partitions& partitions, Events events);
  ~WebhookSessions();
  WebhookSessions(const WebhookSessions&) = delete;
  WebhookSessions& operator=(const WebhookSessions&) = delete;

  /// Whether a session is one of here.
  [[nodiscard]] static bool owns(broker::SessionId session) noexcept {
    return session >> 62 == 1;  // Bit 63 marks those of HTTP.
  }

  // As WebhookPump::Outside.

  void reserve(const std::string& tube);
  void cancel_reserve(const std::string& tube);
  void finish(PostId id, const WebhookFinish& finish);
  void give_back(PostId id);
  void touch(PostId id);

  /// Keeps the reply for turn().
  void on_reply(broker::Ticket ticket, broker::Reply reply);
  /// Handles what has been answered. To be called in a turn of the event loop, outside of calls
  /// into the partitions.
  void turn();
  [[nodiscard]] bool has_work() const noexcept { return !inbox_.empty(); }

  /// Ends the sessions of a tube: those that have no job now, the others when they have none. A
  /// reserve of it ends that.
  void leave(const std::string& tube);
  [[nodiscard]] std::size_t size() const noexcept { return sessions_.size(); }

 private:
  enum class Phase : std::uint8_t { kFree, kReserving, kHolding, kFinishing };
  struct Session {
    broker::SessionId id = 0;
    std::string tube;
    std::size_t partition = 0;
    Phase phase = Phase::kFree;
    std::uint64_t watch_slot = 0;  // 0: it watches.
    std::uint64_t slot = 0;        // Of the reserve, or of what finishes the job.
    PostId post = 0;
    broker::JobId job = 0;
    std::uint32_t priority = 0;
  };
  struct Kept {
    broker::Ticket ticket;
    broker::Reply reply;
  };

  Session& open(const std::string& tube);
  void close(Session& session);
  void submit(const Session& session, broker::Command command, std::uint64_t slot);
  void handle(broker::Ticket ticket, broker::Reply reply);
  void on_reserved(Session& session, broker::Reply reply);
  void on_watched(Session& session, const broker::Reply& reply);
  void set_free(Session& session);
  [[nodiscard]] Session* holder_of(PostId id);
  [[nodiscard]] bool has_sessions(const std::string& tube) const;

  Partitions& partitions_;
  const Events events_;
  std::unordered_map<broker::SessionId, std::unique_ptr<Session>> sessions_;
  std::unordered_map<std::string, std::vector<Session*>> free_;  // By tube.
  std::unordered_map<std::string, Session*> reserving_;          // By tube.
  std::unordered_map<PostId, Session*> holding_;
  std::unordered_set<std::string> left_;  // Tubes that were left, and have sessions still.
  std::vector<Kept> inbox_;
  broker::SessionId last_session_ = broker::SessionId{1} << 62;
  std::uint64_t last_slot_ = 0;
  PostId last_post_ = 0;
};

}  // namespace carillon::server
