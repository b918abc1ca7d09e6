// SPDX-License-Identifier: Apache-2.0
// Looking at jobs, and reading from the store what is not in memory: a body, or a far job.
//
// At most one fetch a job is in flight. Its answer may be out of date when it comes, since a scan
// may have brought the same job near meanwhile, and that one may even be gone again. So the answer
// is believed only for a job that memory has never had since the fetch was asked for (known is
// false); of any other job it gives the body, which never changes, and memory the rest.

#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

void Broker::State::peek(const Command& command, Session& s) {
  if (Job* job = find_or_near(command.id)) return show(*job, command.ticket, s);
  if (may_be_far(command.id)) return fetch_for(command, s, false);
  reply(command.ticket, Answer::kNotFound, needs_all());
}

void Broker::State::peek_ready(const Command& command, Session& s) {
  const Tube* tube = find_tube(command.tube);
  if (tube == nullptr || tube->ready.empty()) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  show(jobs_[tube->ready.top()], command.ticket, s);
}

void Broker::State::peek_delayed(const Command& command, Session& s) {
  Tube* tube = find_tube(command.tube);
  if (tube == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  FarQuestion question;
  question.session = s.index;
  question.ticket = command.ticket;
  question.verb = Verb::kPeekDelayed;
  ask_far(*tube, question);
}

void Broker::State::peek_buried(const Command& command, Session& s) {
  const Tube* tube = find_tube(command.tube);
  if (tube == nullptr || tube->buried.count == 0) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  show(jobs_[tube->buried.first], command.ticket, s);
}

/// Answers a peek with `job`, as soon as its body is there.
void Broker::State::show(Job& job, const Ticket& ticket, Session& s) {
  if (job.body) {
    return reply_job(ticket, Answer::kFound, job.id, job.body, needs_job(job));
  }
  Command command;
  command.verb = Verb::kPeek;
  command.ticket = ticket;
  command.id = job.id;
  fetch_for(command, s, true);
}

/// Whether a job that is not in memory may lie in the store.
bool Broker::State::may_be_far(JobId id) const {
  if (far_count_ == 0 || id >= next_id_ || erased_from_afar_.contains(id)) return false;
  const auto fetch = fetches_.find(id);
  return fetch == fetches_.end() || !fetch->second.known;
}

/// Lets the session's command wait for the job it names, or, if memory has that, for its body.
void Broker::State::fetch_for(const Command& command, Session& s, bool known) {
  const bool reserving = command.verb == Verb::kReserve || command.verb == Verb::kReserveJob;
  s.blocked = known && reserving ? Blocked::kBody : Blocked::kFetch;
  s.blocked_id = command.id;
  s.ticket = command.ticket;
  const auto [fetch, asked] = fetches_.try_emplace(command.id);
  fetch->second.known |= known;
  fetch->second.waiters.push_back({s.index, command});
  // A view of the caller's; whoever names a job by id needs no tube.
  fetch->second.waiters.back().command.tube = {};
  if (asked) effects_.fetch(wanted(command.id));
}

/// A job for the store to read: where it lies is known if it is in memory.
WantedJob Broker::State::wanted(JobId id) {
  const Job* job = jobs_.find(id);
  return {id, job == nullptr ? std::nullopt : std::optional(job->place)};
}

void Broker::State::drop_fetch_waiter(const Session& s) {
  const auto fetch = fetches_.find(s.blocked_id);
  CARILLON_CHECK(fetch != fetches_.end(), "nobody fetches job ", s.blocked_id);
  // The fetch stays noted until it is answered.
  std::erase_if(fetch->second.waiters,
                [&](const FetchWaiter& waiter) { return waiter.session == s.index; });
}

void Broker::State::on_fetched(JobId id, std::optional<StoredJob> stored, WallTime now) {
  enter(now);
  const auto fetch = fetches_.find(id);
  CARILLON_CHECK(fetch != fetches_.end(), "job ", id, " was not asked for");
  if (stored && !stored->body && stored->record.body_size == 0) stored->body = Body("");
  const bool has_body = stored && stored->body;
  const Job* job = jobs_.find(id);
  // The store does not have what it was given: who waits for it must not wait for ever.
  if (job != nullptr && !job->body && !has_body) return fail_fetch(id);
  const PendingFetch done = std::move(fetch->second);
  fetches_.erase(fetch);
  if (done.known || (stored && stored->place != Place::kFar)) {
    // Near and settled jobs are in memory, or gone.
    for (const FetchWaiter& waiter : done.waiters) resume(waiter, id, stored);
    Job* ahead = jobs_.find(id);
    if (ahead != nullptr && ahead->read_ahead && !ahead->body) set_body(*ahead, stored->body);
  } else {
    for (const FetchWaiter& waiter : done.waiters) {
      // An earlier waiter may have deleted it, brought it near or moved it.
      (void)settle_moved(id);
      const bool far = stored && jobs_.find(id) == nullptr && !erased_from_afar_.contains(id) &&
                       tube_by_number_.contains(stored->record.tube);
      if (far) {
        sessions_[waiter.session].blocked = Blocked::kNo;
        resume_far(waiter, *stored);
      } else {
        resume(waiter, id, stored);
      }
    }
  }
  settle_waiters();
}

/// Goes on with a command that waited for job `id`, which is in memory, or gone.
void Broker::State::resume(const FetchWaiter& waiter, JobId id,
                           const std::optional<StoredJob>& stored) {
  Session& s = sessions_[waiter.session];
  s.blocked = Blocked::kNo;
  Job* job = jobs_.find(id);
  if (job == nullptr) {
    if (waiter.command.verb == Verb::kReserve) return try_reserve(s);
    return reply(waiter.command.ticket, Answer::kNotFound, needs_all());
  }
  const bool had_body = static_cast<bool>(job->body);
  if (!had_body && stored) set_body(*job, stored->body);
  resume_in_memory(waiter, *job);
  // Kept if there is room; the reply has its own hold of it.
  job = jobs_.find(id);
  if (!had_body && job != nullptr && body_bytes_ > options_.body_budget_bytes) drop_body(*job);
}

void Broker::State::resume_in_memory(const FetchWaiter& waiter, Job& job) {
  Session& s = sessions_[waiter.session];
  const Verb verb = waiter.command.verb;
  if (job.state == JobState::kReserved && job.holder == s.index &&
      (verb == Verb::kReserve || verb == Verb::kReserveJob)) {
    restart_ttr(job, s, s.ttr_ms);
    return reply_reserved(job, s);
  }
  Command command = waiter.command;
  dispatch(command, s);
}

/// Executes a command on a far job, which need not come near to be looked at or deleted.
void Broker::State::resume_far(const FetchWaiter& waiter, const StoredJob& stored) {
  const JobRecord& record = stored.record;
  const Command& command = waiter.command;
  Tube& tube = tubes_[tube_by_number_.at(record.tube)];
  switch (command.verb) {
    case Verb::kPeek:
      return reply_job(command.ticket, Answer::kFound, record.id, stored.body, needs_all());
    case Verb::kGet:
      return reply_view(command.ticket, Answer::kFound, far_job_view(record, tube),
                        command.with_body ? stored.body : Body(), needs_all());
    case Verb::kStatsJob:
      return reply_detail(command.ticket, far_job_stats(record, tube), needs_all());
    case Verb::kDelete:
    case Verb::kCancel:
      erase_far(tube, record, stored.updated);
      return reply(command.ticket, Answer::kDeleted, needs_all());
    case Verb::kChange: return change_far(command, stored, tube);
    case Verb::kKickJob:
    case Verb::kReserveJob: {
      Job& job = settle(tube, record);
      drop_far_if_idle(tube);
      if (stored.body) set_body(job, stored.body);
      return resume_in_memory(waiter, job);
    }
    default: CARILLON_CHECK(false, "verb ", static_cast<int>(command.verb), " waited for a job");
  }
}

void Broker::State::on_fetch_failed(JobId id, WallTime now) {
  enter(now);
  fail_fetch(id);
}

void Broker::State::fail_fetch(JobId id) {
  const auto fetch = fetches_.find(id);
  CARILLON_CHECK(fetch != fetches_.end(), "job ", id, " was not asked for");
  const PendingFetch failed = std::move(fetch->second);
  fetches_.erase(fetch);
  for (const FetchWaiter& waiter : failed.waiters) {
    Session& s = sessions_[waiter.session];
    if (s.blocked == Blocked::kBody) {
      Command back;
      back.id = id;
      unreserve(back, s);
    }
    s.blocked = Blocked::kNo;
    reply(waiter.command.ticket, Answer::kInternalError, 0);
  }
  // Whoever wants it next reads it again.
  if (Job* job = jobs_.find(id); job != nullptr && job->read_ahead && !job->body) {
    end_read_ahead(*job);
  }
  settle_waiters();
}

}  // namespace carillon::broker
