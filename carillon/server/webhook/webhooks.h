// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The webhooks of a server: finds out which tubes have one, and joins the pump that decides, the
/// sessions that reserve, and the poster that posts.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/mutex.h"
#include "carillon/base/result.h"
#include "carillon/broker/reply.h"
#include "carillon/server/log.h"
#include "carillon/server/partitions.h"
#include "carillon/server/webhook/http_poster.h"
#include "carillon/server/webhook/pump.h"
#include "carillon/server/webhook/sessions.h"

namespace carillon::server {

/// Threads:  the network thread.
/// Lifetime: the partitions, the clock and what the functions refer to must outlive it.
class Webhooks final : private WebhookPump::Outside {
 public:
  using MakePoster =
      std::function<Result<std::unique_ptr<WebhookPoster>>(HttpPoster::OnOutcome on_outcome)>;

  struct Surroundings {
    Partitions& partitions;
    const Clock& clock;
    std::size_t max_connections = 1'000;
    std::uint64_t seed = 1;
    /// turn() is to be called soon, on the network thread. Called from any thread.
    std::function<void()> request_turn = {};
    Log log = {};
    /// Why webhooks may not connect to `host`, if it is an address; nothing: they may, or it is a
    /// name, of which nobody knows before it is resolved.
    std::function<std::optional<std::string>(const std::string& host)> refusal = {};
    /// Starts what posts; called when the first webhook is found.
    MakePoster make_poster = {};
  };

  explicit Webhooks(Surroundings surroundings);
  ~Webhooks() override;

  /// See WebhookPump::set_max_connections().
  void set_max_connections(std::size_t most) {
    pump_.set_max_connections(most, outside_.clock.now());
  }
  /// See WebhookPump::hold().
  void hold(bool held) { pump_.hold(held, outside_.clock.now()); }
  /// See Surroundings::refusal.
  [[nodiscard]] std::optional<std::string> refusal(const std::string& host) const {
    return outside_.refusal ? outside_.refusal(host) : std::nullopt;
  }
  /// What posts; null: no webhook was found yet, or it is over.
  [[nodiscard]] WebhookPoster* poster() noexcept { return poster_.get(); }

  /// Asks the partitions which tubes have a webhook, and goes on until all have said.
  void load();
  /// A tube's settings are being changed: to be called after that was submitted. What its partition
  /// says behind it counts.
  void look_again(const std::string& tube);

  /// Whether a session is one of here.
  [[nodiscard]] static bool owns(broker::SessionId session) noexcept {
    return WebhookSessions::owns(session);
  }
  /// May come from inside a call into the partitions.
  void on_reply(std::size_t partition, broker::Ticket ticket, broker::Reply reply);
  /// To be called in each turn of the event loop, outside of calls into the partitions.
  void turn();
  /// When turn() has something to do though nothing arrives.
  [[nodiscard]] std::optional<Instant> next_wake() const;

  /// Asks for no more jobs; what is being posted goes on until idle().
  void stop();
  /// Ends what is being posted.
  void cancel_posts();
  [[nodiscard]] bool idle() const noexcept { return closed_ || pump_.idle(); }
  /// Leaves the partitions: nothing is submitted any more, and jobs that are being posted are ready
  /// again.
  void close();

  [[nodiscard]] std::optional<WebhookState> state_of(const std::string& tube) const;
  /// As set; null: it has none.
  [[nodiscard]] const WebhookSettings* settings_of(const std::string& tube) const;
  [[nodiscard]] WebhookTotals totals() const;
  /// That are open in the partitions.
  [[nodiscard]] std::size_t session_count() const noexcept {
    return sessions_ ? sessions_->size() : 0;
  }

 private:
  // WebhookPump::Outside.
  void reserve(const std::string& tube) override;
  void cancel_reserve(const std::string& tube) override;
  void post(Post post) override;
  void cancel_post(PostId id) override;
  void finish(PostId id, const WebhookFinish& finish) override;
  void give_back(PostId id) override;
  void touch(PostId id) override;
  void tell(const std::string& tube, const WebhookNews& news) override;

  void on_listed(std::size_t partition, const broker::Reply& reply);
  void on_described(const std::string& tube, const broker::Reply& reply);
  void set_document(const std::string& tube, const std::string& document);
  void ask_more();
  void take_outcomes();
  void set_settings(const std::string& tube, std::optional<WebhookSettings> settings);

  const Surroundings outside_;
  WebhookPump pump_;
  std::unordered_map<std::string, WebhookSettings> settings_;
  std::unique_ptr<WebhookSessions> sessions_;

  // Finding the tubes that have one: a session of its own asks for the list, then for each tube.
  struct Asked {
    std::size_t partition = 0;
    broker::Verb verb{};
    std::string tube;
  };
  bool loaded_ = false;
  bool stopping_ = false;
  std::uint64_t last_slot_ = 0;
  std::unordered_map<std::uint64_t, Asked> asked_;  // By slot.
  std::vector<Asked> to_ask_;
  std::vector<std::pair<broker::Ticket, broker::Reply>> answers_;
  std::optional<Instant> ask_again_at_;

  bool submitted_ = false;  // Something, since the last turn.
  bool closed_ = false;

  Mutex mutex_;
  std::vector<std::pair<PostId, PostOutcome>> outcomes_ CARILLON_GUARDED_BY(mutex_);
  std::unique_ptr<WebhookPoster> poster_;  // Dies first: it reports to the rest.
};

}  // namespace carillon::server
