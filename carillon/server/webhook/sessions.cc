// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/sessions.h"

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::server {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;

WebhookSessions::WebhookSessions(Partitions& partitions, Events events)
    : partitions_(partitions), events_(std::move(events)) {}

WebhookSessions::~WebhookSessions() {
  for (const auto& [id, session] : sessions_) partitions_.close_session(id);
}

WebhookSessions::Session& WebhookSessions::open(const std::string& tube) {
  auto session = std::make_unique<Session>();
  session->id = ++last_session_;
  session->tube = tube;
  session->partition = partition_of_tube(tube, partitions_.count());
  Session& opened = *session;
  sessions_.emplace(opened.id, std::move(session));
  partitions_.open_session(opened.id);
  Command watch;
  watch.verb = Verb::kWatch;
  watch.tube = opened.tube;
  submit(opened, std::move(watch), opened.watch_slot = ++last_slot_);
  return opened;
}

void WebhookSessions::close(Session& session) {
  const broker::SessionId id = session.id;
  sessions_.erase(id);
  partitions_.close_session(id);
}

void WebhookSessions::submit(const Session& session, Command command, std::uint64_t slot) {
  command.ticket = {session.id, slot};
  partitions_.submit(session.partition, std::move(command));
}

void WebhookSessions::reserve(const std::string& tube) {
  left_.erase(tube);
  std::vector<Session*>& free = free_[tube];
  Session* session = nullptr;
  if (free.empty()) {
    session = &open(tube);
  } else {
    session = free.back();
    free.pop_back();
  }
  session->phase = Phase::kReserving;
  const bool fresh = reserving_.emplace(tube, session).second;
  CARILLON_CHECK(fresh, "two reserves of ", tube);
  Command reserve;
  reserve.verb = Verb::kReserve;
  reserve.with_view = true;
  submit(*session, std::move(reserve), session->slot = ++last_slot_);
}

/// If it has been granted a job already, the partition takes that back, and the reply that is on
/// its way finds nobody who waits for it.
void WebhookSessions::cancel_reserve(const std::string& tube) {
  const auto found = reserving_.find(tube);
  if (found == reserving_.end()) return;
  Session& session = *found->second;
  reserving_.erase(found);
  Command cancel;
  cancel.verb = Verb::kCancelReserve;
  submit(session, std::move(cancel), session.slot);
  set_free(session);
}

void WebhookSessions::set_free(Session& session) {
  if (left_.contains(session.tube)) {
    const std::string tube = session.tube;
    close(session);
    if (!has_sessions(tube)) left_.erase(tube);
    return;
  }
  session.phase = Phase::kFree;
  session.slot = 0;
  session.post = 0;
  session.job = 0;
  free_[session.tube].push_back(&session);
}

WebhookSessions::Session* WebhookSessions::holder_of(PostId id) {
  const auto found = holding_.find(id);
  return found == holding_.end() ? nullptr : found->second;
}

void WebhookSessions::finish(PostId id, const WebhookFinish& finish) {
  Session* session = holder_of(id);
  CARILLON_CHECK(session != nullptr, "reservation ", id);
  using What = WebhookFinish::What;
  Command command;
  command.verb = finish.what == What::kDelete    ? Verb::kDelete
                 : finish.what == What::kRelease ? Verb::kRelease
                                                 : Verb::kBury;
  command.id = session->job;
  command.priority = session->priority;
  command.delay = finish.delay;
  session->phase = Phase::kFinishing;
  submit(*session, std::move(command), session->slot = ++last_slot_);
}

void WebhookSessions::give_back(PostId id) {
  Session* session = holder_of(id);
  CARILLON_CHECK(session != nullptr, "reservation ", id);
  holding_.erase(id);
  Command command;
  command.verb = Verb::kUnreserve;
  command.id = session->job;
  submit(*session, std::move(command), ++last_slot_);
  set_free(*session);
}

void WebhookSessions::touch(PostId id) {
  Session* session = holder_of(id);
  if (session == nullptr) return;
  Command command;
  command.verb = Verb::kTouch;
  command.id = session->job;
  submit(*session, std::move(command), ++last_slot_);
}

void WebhookSessions::on_reply(broker::Ticket ticket, Reply reply) {
  inbox_.push_back({ticket, std::move(reply)});
}

void WebhookSessions::turn() {
  while (!inbox_.empty()) {
    for (Kept& kept : std::exchange(inbox_, {})) handle(kept.ticket, std::move(kept.reply));
  }
}

void WebhookSessions::handle(broker::Ticket ticket, Reply reply) {
  const auto found = sessions_.find(ticket.session);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  if (ticket.slot == session.watch_slot) return on_watched(session, reply);
  if (ticket.slot != session.slot) return;  // Of a touch, or of a reserve that was cancelled.
  if (session.phase == Phase::kReserving) return on_reserved(session, std::move(reply));
  CARILLON_CHECK(session.phase == Phase::kFinishing);
  const PostId post = session.post;
  WebhookFinished finished = WebhookFinished::kDone;
  switch (reply.answer) {
    case Answer::kDeleted:
    case Answer::kReleased: break;
    case Answer::kBuried: finished = WebhookFinished::kBuried; break;
    case Answer::kNotFound: finished = WebhookFinished::kGone; break;
    default: finished = WebhookFinished::kFailed; break;
  }
  if (finished != WebhookFinished::kFailed) {
    holding_.erase(post);
    set_free(session);
  }
  events_.on_finished(post, finished);
}

/// Only if there may be no more tubes, which one with settings need not fear, is it not watched.
void WebhookSessions::on_watched(Session& session, const Reply& reply) {
  session.watch_slot = 0;
  if (reply.answer == Answer::kWatching) return;
  const std::string tube = session.tube;
  const bool reserving = session.phase == Phase::kReserving;
  if (reserving) reserving_.erase(tube);
  std::erase(free_[tube], &session);
  close(session);
  if (reserving) events_.on_reserve_failed(tube);
}

void WebhookSessions::on_reserved(Session& session, Reply reply) {
  const std::string tube = session.tube;
  reserving_.erase(tube);
  if (reply.answer != Answer::kReserved) {
    set_free(session);
    return events_.on_reserve_failed(tube);
  }
  session.phase = Phase::kHolding;
  session.slot = 0;
  session.job = reply.id;
  session.post = ++last_post_;
  holding_.emplace(session.post, &session);
  WebhookJob job;
  job.id = reply.id;
  job.body = std::move(reply.body);
  if (const auto* detail =
          reply.detail ? std::get_if<broker::JobView>(reply.detail.get()) : nullptr) {
    session.priority = detail->stats.priority;
    job.attempt = detail->attempt;
    job.ttr = std::chrono::milliseconds(detail->stats.ttr_ms);
    // Not if a release has replaced the delay, or a kick has ended it.
    if (job.attempt <= 1 && detail->stats.history.kicks == 0) {
      job.due_at_ms = detail->created_at_ms + detail->stats.delay_ms;
    }
    if (detail->extras) {
      const broker::JobExtras& extras = *detail->extras;
      job.key = extras.key;
      job.content_type = extras.content_type;
      if (extras.due_at_ms) job.due_at_ms = extras.due_at_ms;
      if (extras.backoff_base_ms > 0) {
        const std::int64_t cap = std::max(extras.backoff_base_ms, extras.backoff_cap_ms);
        job.backoff = WebhookBackoff{std::chrono::milliseconds(extras.backoff_base_ms),
                                     std::chrono::milliseconds(cap), extras.backoff_jitter};
      }
    }
  }
  events_.on_job(tube, session.post, std::move(job));
}

void WebhookSessions::leave(const std::string& tube) {
  if (const auto found = free_.find(tube); found != free_.end()) {
    const std::vector<Session*> sessions = std::move(found->second);
    free_.erase(found);
    for (Session* session : sessions) close(*session);
  }
  if (has_sessions(tube)) left_.insert(tube);
}

bool WebhookSessions::has_sessions(const std::string& tube) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& each) { return each.second->tube == tube; });
}

}  // namespace carillon::server
