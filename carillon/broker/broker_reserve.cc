// SPDX-License-Identifier: Apache-2.0
// Reserving: who gets which job, and who waits.

#include <algorithm>
#include <chrono>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNeverMs;
using internal::kNil;

namespace {

// In the last second of a held job's ttr a reserve is told kDeadlineSoon instead of waiting. The
// deadline was rounded up, so the margin begins a tick earlier: a job with a ttr of one second is
// in it from the very moment it is reserved.
constexpr std::int64_t kMarginMs = 1'001;

}  // namespace

void Broker::State::reserve(const Command& command, Session& s) {
  s.blocked_verb = Verb::kReserve;
  s.with_view = command.with_view;
  s.tubes_in_turn = command.tubes_in_turn;
  s.ttr_ms = wanted_ttr_ms(command);
  s.ticket = command.ticket;
  s.give_up_ms = command.timeout ? due_after(*command.timeout) : kNeverMs;
  if (command.timeout && *command.timeout <= Span::zero()) s.give_up_ms = now_ms_;
  try_reserve(s);
}

/// Serves the reserve or reserve-job noted in the session, or lets it wait.
void Broker::State::try_reserve(Session& s) {
  if (s.blocked_verb == Verb::kReserveJob) {
    Command again;
    again.verb = Verb::kReserveJob;
    again.ticket = s.ticket;
    again.id = s.blocked_id;
    again.with_view = s.with_view;
    again.ttr = std::chrono::milliseconds(s.ttr_ms);
    return reserve_job(again, s);
  }
  if (Job* job = best_ready(s)) return grant(*job, s);
  if (margin_begins_ms(s) <= now_ms_) return reply(s.ticket, Answer::kDeadlineSoon, 0);
  if (s.give_up_ms <= now_ms_) return reply(s.ticket, Answer::kTimedOut, 0);
  wait(s);
}

/// The most urgent ready job of all watched tubes that are not paused; null if there is none.
internal::Job* Broker::State::best_ready(const Session& s) {
  if (!available_) return nullptr;
  const auto before = [&s](const Tube& a, const Tube& b) {
    const internal::ReadyKey key_a = a.ready.top_key();
    const internal::ReadyKey key_b = b.ready.top_key();
    if (s.tubes_in_turn && key_a.priority == key_b.priority && a.last_grant != b.last_grant) {
      return a.last_grant < b.last_grant;
    }
    return key_a < key_b;
  };
  const Tube* best = nullptr;
  for (const std::uint32_t w : s.watches) {
    const Tube& tube = tubes_[watches_[w].tube];
    if (tube.paused || tube.ready.empty()) continue;
    if (best == nullptr || before(tube, *best)) best = &tube;
  }
  return best == nullptr ? nullptr : &jobs_[best->ready.top()];
}

void Broker::State::reserve_job(const Command& command, Session& s) {
  s.blocked_verb = Verb::kReserveJob;
  s.with_view = command.with_view;
  s.ttr_ms = wanted_ttr_ms(command);
  s.ticket = command.ticket;
  Job* job = find_or_near(command.id);
  if (job == nullptr && may_be_far(command.id)) return fetch_for(command, s, false);
  if (job == nullptr || job->state == JobState::kReserved) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  grant(*job, s);
}

/// Reserves `job` for the reserve or reserve-job noted in the session, and answers it.
void Broker::State::grant(Job& job, Session& s) {
  const bool from_ahead = job.read_ahead;
  const bool in_order = s.blocked_verb == Verb::kReserve;
  const bool goes_on = job.read_more;
  const bool read_more = in_order && (goes_on || (!job.body && !from_ahead));
  job.read_more = false;
  leave(job);
  ++jobs_.mutable_history(job).reserves;
  tubes_[job.tube].last_grant = ++grants_;
  ++tubes_[job.tube].reserve_count;
  ++reserve_count_;
  enter_reserved(job, s, end_of_reservation(job, s.ttr_ms));
  if (job.body) {
    reply_reserved(job, s);
    // The reply has its own hold of it.
    if (from_ahead && body_bytes_ > options_.body_budget_bytes) drop_body(job);
  } else {
    Command command;
    command.verb = s.blocked_verb;
    command.ticket = s.ticket;
    command.id = job.id;
    command.with_view = s.with_view;
    command.ttr = std::chrono::milliseconds(s.ttr_ms);
    fetch_for(command, s, true);
  }
  if (read_more) read_ahead(tubes_[job.tube], goes_on);
}

void Broker::State::reply_reserved(const Job& job, const Session& s) {
  if (s.with_view) {
    return reply_view(s.ticket, Answer::kReserved, job_view(job), job.body, needs_job(job));
  }
  reply_job(s.ticket, Answer::kReserved, job.id, job.body, needs_job(job));
}

void Broker::State::wait(Session& s) {
  s.blocked = Blocked::kWaiting;
  for (const std::uint32_t w : s.watches) {
    Watch& watch = watches_[w];
    Tube& tube = tubes_[watch.tube];
    watch.prev = tube.last_waiting;
    watch.next = kNil;
    (tube.last_waiting == kNil ? tube.first_waiting : watches_[tube.last_waiting].next) = w;
    tube.last_waiting = w;
    ++tube.waiting_count;
  }
  schedule_end_of_wait(s);
}

void Broker::State::schedule_end_of_wait(Session& s) {
  const std::int64_t deadline = std::min(s.give_up_ms, margin_begins_ms(s));
  if (deadline == kNeverMs) {
    wheel_.cancel(s);
  } else {
    wheel_.reschedule(s, tick(deadline));
  }
}

/// Pre: the session waits.
void Broker::State::end_wait(Session& s) {
  s.blocked = Blocked::kNo;
  wheel_.cancel(s);
  for (const std::uint32_t w : s.watches) {
    Watch& watch = watches_[w];
    Tube& tube = tubes_[watch.tube];
    (watch.prev == kNil ? tube.first_waiting : watches_[watch.prev].next) = watch.next;
    (watch.next == kNil ? tube.last_waiting : watches_[watch.next].prev) = watch.prev;
    watch.prev = watch.next = kNil;
    --tube.waiting_count;
  }
}

/// Ends the session's reserve, if it has one without an answer.
void Broker::State::cancel_reserve(Session& s) {
  if (s.blocked == Blocked::kWaiting || s.blocked == Blocked::kBody) cancel_blocked(s);
}

/// Ends whatever the session waits for, without a reply.
void Broker::State::cancel_blocked(Session& s) {
  switch (s.blocked) {
    case Blocked::kNo: break;
    case Blocked::kWaiting: end_wait(s); break;
    case Blocked::kBody: {
      drop_fetch_waiter(s);
      // The client never saw that it has it.
      Command back;
      back.id = s.blocked_id;
      s.blocked = Blocked::kNo;
      unreserve(back, s);
      break;
    }
    case Blocked::kFetch: drop_fetch_waiter(s); break;
    case Blocked::kKey: drop_key_waiter(s); break;
    case Blocked::kScan: {
      const auto scan = std::find_if(scans_.begin(), scans_.end(),
                                     [&](const auto& own) { return own->session == s.index; });
      drop_scan(static_cast<std::size_t>(scan - scans_.begin()));
      break;
    }
    case Blocked::kFar: {
      Tube& tube = tubes_[s.blocked_tube];
      std::erase_if(tube.far->questions,
                    [&](const FarQuestion& question) { return question.session == s.index; });
      drop_far_if_idle(tube);
      remove_if_unused(tube);
      break;
    }
  }
  s.blocked = Blocked::kNo;
  std::erase(sessions_to_retry_, s.id);
}

void Broker::State::end_waiting(SessionId id, WallTime now) {
  enter(now);
  Session& s = session(id);
  if (s.blocked != Blocked::kWaiting) return;
  end_wait(s);
  reply(s.ticket, Answer::kTimedOut, 0);
}

/// A tube may have what somebody waits for.
void Broker::State::note_ready(Tube& tube) {
  if (tube.waiting_count == 0 || tube.to_be_served) return;
  tube.to_be_served = true;
  tubes_to_serve_.push_back(tube.index);
}

/// Gives ready jobs to those who wait: the most urgent job of all tubes where somebody waits, to
/// who has waited longest there; and again. (It is also the most urgent that this session could
/// have: a tube with a ready job and a session waiting for it is always among those to be served.)
void Broker::State::serve_waiting() {
  const auto later = [this](std::uint32_t a, std::uint32_t b) {
    return tubes_[b].ready.top_key() < tubes_[a].ready.top_key();
  };
  const auto done = [this](std::uint32_t index) {
    if (!tubes_.contains(index)) return true;
    const Tube& tube = tubes_[index];
    return tube.paused || tube.ready.empty() || tube.waiting_count == 0;
  };
  std::vector<std::uint32_t>& heap = tubes_to_serve_;
  for (const std::uint32_t index : heap) {
    if (tubes_.contains(index)) tubes_[index].to_be_served = false;
  }
  std::erase_if(heap, done);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Tube& tube = tubes_[heap.back()];
    // Nobody may be left: those who waited here may have been served from elsewhere.
    if (tube.waiting_count > 0) {
      Session& s = sessions_[watches_[tube.first_waiting].session];
      end_wait(s);
      grant(jobs_[tube.ready.top()], s);
    }
    if (done(heap.back())) {
      heap.pop_back();
    } else {
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
}

/// When the margin of the held job whose reservation ends first begins.
std::int64_t Broker::State::margin_begins_ms(Session& s) {
  const std::uint32_t soonest = soonest_held(s);
  return soonest == kNil ? kNeverMs : jobs_[soonest].deadline_ms() - kMarginMs;
}

/// The hook of a waiting session has expired.
void Broker::State::time_is_up(Session& s) {
  if (s.blocked != Blocked::kWaiting) return;
  const std::int64_t margin_ms = margin_begins_ms(s);
  if (margin_ms <= now_ms_ || s.give_up_ms <= now_ms_) {
    end_wait(s);
    reply(s.ticket, margin_ms <= now_ms_ ? Answer::kDeadlineSoon : Answer::kTimedOut, 0);
    return;
  }
  // The job that it was for has gone since.
  schedule_end_of_wait(s);
}

}  // namespace carillon::broker
