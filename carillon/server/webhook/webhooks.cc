// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/webhooks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carillon/server/webhook/settings_document.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Reply;
using broker::Verb;

/// The session that asks which tubes have a webhook.
constexpr broker::SessionId kAsking = broker::SessionId{1} << 62;
/// Questions at a time: there may be a hundred thousand tubes.
constexpr std::size_t kMaxAsked = 64;
/// A partition whose store is being recovered is asked again after this.
constexpr Span kAskAgain = std::chrono::seconds(1);

/// The last failure, for people.
std::string in_words(const WebhookNews& news) {
  if (news.end == PostOutcome::End::kAnswered) return fmt::format("answered {}", news.status);
  return news.error.empty() ? std::string(to_string(news.end))
                            : fmt::format("{}: {}", to_string(news.end), news.error);
}

}  // namespace

Webhooks::Webhooks(Surroundings surroundings)
    : outside_(std::move(surroundings)),
      pump_(outside_.max_connections, *this, outside_.seed, outside_.clock.now()),
      sessions_(std::make_unique<WebhookSessions>(
          outside_.partitions,
          WebhookSessions::Events{[this](const std::string& tube, PostId id, WebhookJob job) {
                                    pump_.on_job(tube, id, std::move(job), outside_.clock.now());
                                  },
                                  [this](const std::string& tube) {
                                    pump_.on_reserve_failed(tube, outside_.clock.now());
                                  },
                                  [this](PostId id, WebhookFinished finished) {
                                    pump_.on_finished(id, finished, outside_.clock.now());
                                  }})) {}

Webhooks::~Webhooks() { close(); }

// Which tubes have one.

void Webhooks::load() {
  loaded_ = true;
  outside_.partitions.open_session(kAsking);
  for (std::size_t i = 0; i < outside_.partitions.count(); ++i) {
    to_ask_.push_back({i, Verb::kListTubes, {}});
  }
  ask_more();
}

void Webhooks::ask_more() {
  while (!to_ask_.empty() && asked_.size() < kMaxAsked) {
    Asked asked = std::move(to_ask_.back());
    to_ask_.pop_back();
    const std::uint64_t slot = ++last_slot_;
    const Asked& question = asked_.emplace(slot, std::move(asked)).first->second;
    broker::Command command;
    command.verb = question.verb;
    command.ticket = {kAsking, slot};
    command.tube = question.tube;
    submitted_ = true;
    outside_.partitions.submit(question.partition, std::move(command));
  }
}

void Webhooks::look_again(const std::string& tube) {
  if (!loaded_ || closed_ || stopping_) return;
  // Before all that is still to be asked, so that it is asked at once, if at all possible.
  to_ask_.push_back({partition_of_tube(tube, outside_.partitions.count()), Verb::kStatsTube, tube});
  ask_more();
  outside_.request_turn();
}

void Webhooks::on_listed(std::size_t partition, const Reply& reply) {
  const auto* names = reply.detail ? std::get_if<broker::TubeNames>(reply.detail.get()) : nullptr;
  if (names == nullptr) return;
  for (const std::string& name : *names) to_ask_.push_back({partition, Verb::kStatsTube, name});
}

/// A tube that is not there has no webhook.
void Webhooks::on_described(const std::string& tube, const Reply& reply) {
  const auto* stats = reply.detail ? std::get_if<broker::TubeStats>(reply.detail.get()) : nullptr;
  set_document(tube, stats == nullptr ? std::string() : stats->settings.document);
}

void Webhooks::set_document(const std::string& tube, const std::string& document) {
  Result<std::optional<WebhookSettings>> webhook = webhook_of(document);
  if (!webhook) {
    outside_.log(LogLevel::kWarning, "webhook",
                 "webhook of tube " + tube + ": " + webhook.error().message);
    return set_settings(tube, std::nullopt);
  }
  set_settings(tube, std::move(*webhook));
}

void Webhooks::set_settings(const std::string& tube, std::optional<WebhookSettings> settings) {
  if (closed_) return;
  if (!settings) {
    if (settings_.erase(tube) == 0) return;
    pump_.remove_hook(tube, outside_.clock.now());
    sessions_->leave(tube);
    return outside_.request_turn();
  }
  if (!poster_) {
    Result<std::unique_ptr<WebhookPoster>> poster =
        outside_.make_poster([this](PostId id, PostOutcome outcome) {
          {
            const MutexLock lock(mutex_);
            outcomes_.emplace_back(id, std::move(outcome));
            if (outcomes_.size() > 1) return;  // A turn is on its way.
          }
          outside_.request_turn();
        });
    if (!poster) {
      return outside_.log(LogLevel::kWarning, "webhook",
                          "webhooks cannot be posted: " + poster.error().message);
    }
    poster_ = std::move(*poster);
  }
  settings_[tube] = *settings;
  pump_.set_hook(tube, std::move(*settings), outside_.clock.now());
  outside_.request_turn();
}

// Turns.

void Webhooks::on_reply(std::size_t, broker::Ticket ticket, Reply reply) {
  if (ticket.session == kAsking) {
    answers_.emplace_back(ticket, std::move(reply));
  } else if (!closed_) {
    sessions_->on_reply(ticket, std::move(reply));
  }
  outside_.request_turn();
}

void Webhooks::turn() {
  if (closed_) return;
  const Instant now = outside_.clock.now();
  take_outcomes();
  for (auto& [ticket, reply] : std::exchange(answers_, {})) {
    const auto found = asked_.find(ticket.slot);
    if (found == asked_.end()) continue;
    Asked asked = std::move(found->second);
    asked_.erase(found);
    if (stopping_) continue;
    if (reply.answer == Answer::kInternalError) {
      to_ask_.push_back(std::move(asked));
      ask_again_at_ = saturating_add(now, kAskAgain);
    } else if (asked.verb == Verb::kListTubes) {
      on_listed(asked.partition, reply);
    } else {
      on_described(asked.tube, reply);
    }
  }
  if (ask_again_at_ && *ask_again_at_ <= now) ask_again_at_.reset();
  if (!ask_again_at_) ask_more();
  sessions_->turn();
  pump_.advance(outside_.clock.now());
  if (std::exchange(submitted_, false) || !answers_.empty() || sessions_->has_work()) {
    outside_.request_turn();  // For the partitions to go on with it.
  }
}

void Webhooks::take_outcomes() {
  std::vector<std::pair<PostId, PostOutcome>> outcomes;
  {
    const MutexLock lock(mutex_);
    outcomes.swap(outcomes_);
  }
  for (const auto& [id, outcome] : outcomes) {
    pump_.on_outcome(id, outcome, outside_.clock.now());
  }
}

std::optional<Instant> Webhooks::next_wake() const {
  if (closed_) return std::nullopt;
  std::optional<Instant> wake = pump_.next_wake();
  if (ask_again_at_ && (!wake || *ask_again_at_ < *wake)) wake = ask_again_at_;
  return wake;
}

// What the pump wants.

void Webhooks::reserve(const std::string& tube) {
  submitted_ = true;
  sessions_->reserve(tube);
}
void Webhooks::cancel_reserve(const std::string& tube) {
  submitted_ = true;
  sessions_->cancel_reserve(tube);
}
void Webhooks::finish(PostId id, const WebhookFinish& finish) {
  submitted_ = true;
  sessions_->finish(id, finish);
}
void Webhooks::give_back(PostId id) {
  submitted_ = true;
  sessions_->give_back(id);
}
void Webhooks::touch(PostId id) {
  submitted_ = true;
  sessions_->touch(id);
}
void Webhooks::post(Post post) { poster_->post(std::move(post)); }
void Webhooks::tell(const std::string& tube, const WebhookNews& news) {
  using What = WebhookNews::What;
  const std::string error = in_words(news);
  switch (news.what) {
    case What::kFailing:
      return outside_.log(LogLevel::kWarning, "webhook_failing",
                          fmt::format("the webhook of tube {} begins to fail: {}", tube, error),
                          {{"tube", tube}, {"error", error}});
    case What::kPaused:
      return outside_.log(
          LogLevel::kWarning, "webhook_paused",
          fmt::format("the webhook of tube {} pauses after {} failures in a row, and tries a job "
                      "now and then: {}",
                      tube, news.count, error),
          {{"tube", tube}, {"failures", news.count}, {"error", error}});
    case What::kRecovered:
      return outside_.log(
          LogLevel::kInfo, "webhook_recovered",
          fmt::format("the webhook of tube {} works again, after {} failures", tube, news.count),
          {{"tube", tube}, {"failures", news.count}});
    case What::kBuried:
      return outside_.log(
          LogLevel::kWarning, "webhook_buried",
          fmt::format("the webhook of tube {} has buried {} {}, the last failure: {}", tube,
                      news.count, news.count == 1 ? "job" : "jobs", error),
          {{"tube", tube}, {"jobs", news.count}, {"error", error}});
  }
}

void Webhooks::cancel_post(PostId id) { poster_->cancel(id); }

// The end.

void Webhooks::stop() {
  if (closed_) return;
  stopping_ = true;
  to_ask_.clear();
  ask_again_at_.reset();
  pump_.stop(outside_.clock.now());
  outside_.request_turn();
}

void Webhooks::cancel_posts() {
  if (!closed_) pump_.cancel_posts();
}

void Webhooks::close() {
  if (std::exchange(closed_, true)) return;
  poster_.reset();
  sessions_.reset();
  if (loaded_) outside_.partitions.close_session(kAsking);
}

// To look at.

std::optional<WebhookState> Webhooks::state_of(const std::string& tube) const {
  return pump_.state_of(tube, outside_.clock.now());
}

const WebhookSettings* Webhooks::settings_of(const std::string& tube) const {
  const auto found = settings_.find(tube);
  return found == settings_.end() ? nullptr : &found->second;
}

WebhookTotals Webhooks::totals() const { return pump_.totals(outside_.clock.now()); }

}  // namespace carillon::server
