// SPDX-License-Identifier: Apache-2.0
// Moves: a job into a state and out of it, with everything that follows in memory and nothing that
// is written.

#include <algorithm>
#include <memory>
#include <utility>

#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

namespace {

// beanstalkd's threshold of "urgent" in the statistics.
constexpr std::uint32_t kUrgentBelow = 1024;

}  // namespace

void Broker::State::count(Tube& tube, const Job& job, int change) {
  const auto step = static_cast<std::uint64_t>(static_cast<std::int64_t>(change));
  switch (job.state) {
    case JobState::kReady:
      counts_.ready += step;
      if (job.priority < kUrgentBelow) {
        counts_.urgent += step;
        tube.urgent_count += step;
      }
      return;
    case JobState::kDelayed: counts_.delayed += step; return;
    case JobState::kBuried: counts_.buried += step; return;
    case JobState::kReserved:
      counts_.reserved += step;
      tube.reserved_count += step;
      return;
  }
}

void Broker::State::enter_ready(Job& job) {
  Tube& tube = tubes_[job.tube];
  job.state = JobState::kReady;
  job.next = internal::ReadyAges::moment(now_ms_);
  tube.ready.push(jobs_, job);
  tube.ready_ages.enter(job.next);
  count(tube, job, +1);
  note_ready(tube);
}

void Broker::State::enter_delayed(Job& job, std::int64_t due_ms) {
  Tube& tube = tubes_[job.tube];
  job.state = JobState::kDelayed;
  wheel_.schedule(job, tick(due_ms));
  jobs_.push_back(tube.delayed, job);
  tube.front.note(jobs_, job);
  count(tube, job, +1);
}

void Broker::State::enter_buried(Job& job) {
  Tube& tube = tubes_[job.tube];
  job.state = JobState::kBuried;
  jobs_.push_back(tube.buried, job);
  count(tube, job, +1);
  if (job.has_extras) note_ended_instance(job);
}

void Broker::State::enter_reserved(Job& job, Session& session, std::int64_t deadline_ms) {
  job.state = JobState::kReserved;
  job.holder = session.index;
  wheel_.schedule(job, tick(deadline_ms));
  const bool first = session.reserved.count == 0;
  const bool soonest_known = session.soonest != kNil;
  jobs_.push_back(session.reserved, job);
  if (first || (soonest_known && job.deadline_ms() < jobs_[session.soonest].deadline_ms())) {
    session.soonest = job.index;
  }
  count(tubes_[job.tube], job, +1);
}

/// What a reserve or touch asks for, rounded up; 0: nothing, the job's own TTR counts.
std::int64_t Broker::State::wanted_ttr_ms(const Command& command) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::max(Span::zero(), command.ttr)).count();
}

std::int64_t Broker::State::end_of_reservation(const Job& job, std::int64_t ttr_ms) const {
  return due_after(std::chrono::milliseconds(ttr_ms > 0 ? ttr_ms : job.ttr_ms.get()));
}

/// Pre: `holder` has reserved `job`.
void Broker::State::restart_ttr(Job& job, Session& holder, std::int64_t ttr_ms) {
  wheel_.reschedule(job, tick(end_of_reservation(job, ttr_ms)));
  if (holder.soonest == job.index) {
    holder.soonest = kNil;
  } else if (holder.soonest != kNil && job.deadline_ms() < jobs_[holder.soonest].deadline_ms()) {
    holder.soonest = job.index;  // It has less time than it had.
  }
}

/// Takes `job` out of the state it is in. It must enter one again, or be forgotten.
void Broker::State::leave(Job& job) {
  Tube& tube = tubes_[job.tube];
  count(tube, job, -1);
  switch (job.state) {
    case JobState::kReady:
      if (job.read_ahead) end_read_ahead(job);
      tube.ready.remove(jobs_, job);
      tube.ready_ages.leave(job.next);
      job.next = kNil;
      return;
    case JobState::kDelayed:
      wheel_.cancel(job);
      jobs_.unlink(tube.delayed, job);
      return;
    case JobState::kBuried: jobs_.unlink(tube.buried, job); return;
    case JobState::kReserved: {
      Session& holder = sessions_[job.holder];
      wheel_.cancel(job);
      jobs_.unlink(holder.reserved, job);
      if (holder.soonest == job.index) holder.soonest = kNil;
      job.holder = kNil;
      return;
    }
  }
}

/// Pre: it has left its state.
void Broker::State::forget_job(Job& job) {
  drop_body(job);
  extras_.remove(job);
  jobs_.remove(job);
}

void Broker::State::set_extras(Job& job, SharedExtras extras) {
  extras_.set(job, std::move(extras));
}

/// The job waits for a span of time from now on, whatever the calendar says.
void Broker::State::forget_date(Job& job) {
  const JobExtras* extras = extras_.of(job);
  if (!date_of(extras)) return;
  auto without = std::make_shared<JobExtras>(*extras);
  without->due_at_ms.reset();
  extras_.set(job, std::move(without));
}

/// Whether the job has no attempt left.
bool Broker::State::used_up(const Job& job) const {
  const JobExtras* extras = extras_.of(job);
  return extras != nullptr && extras->max_attempts > 0 &&
         jobs_.history(job).reserves >= extras->max_attempts;
}

/// Pre: it has left its state.
void Broker::State::bury_used_up(Job& job) {
  ++jobs_.mutable_history(job).buries;
  enter_buried(job);
  write_update(job, next_bury_order_++);
  effects_.on_used_up(job.id, tubes_[job.tube].name, jobs_.history(job).reserves);
}

/// How long the job waits after an attempt that failed.
Span Broker::State::backoff_of(const Job& job) {
  const JobExtras* extras = extras_.of(job);
  if (extras == nullptr || extras->backoff_base_ms <= 0) return Span::zero();
  const std::uint32_t attempt = std::max<std::uint32_t>(1, jobs_.history(job).reserves);
  const std::int64_t cap = std::max(extras->backoff_base_ms, extras->backoff_cap_ms);
  // Doubled 62 times at most, by when it is beyond any cap or has overflowed.
  std::int64_t delay_ms = extras->backoff_base_ms;
  for (std::uint32_t i = 1; i < attempt && delay_ms < cap; ++i) {
    delay_ms = delay_ms > cap / 2 ? cap : delay_ms * 2;
  }
  delay_ms = std::min(delay_ms, cap);
  if (extras->backoff_jitter) delay_ms = random_.between(0, delay_ms);
  return saturating_span<std::chrono::milliseconds>(delay_ms);
}

/// Ends a reservation in whose time the job was not done: it is ready again, unless its extras say
/// that it has to wait, or that this was the last attempt.
void Broker::State::end_attempt(Job& job) {
  const JobExtras* extras = extras_.of(job);
  if (extras == nullptr || (extras->max_attempts == 0 && extras->backoff_base_ms <= 0)) {
    return give_back(job);
  }
  leave(job);
  if (used_up(job)) {
    return bury_used_up(job);
  }
  if (const Span delay = backoff_of(job); delay > Span::zero()) {
    forget_date(job);
    enter_delayed(job, due_after(delay));
  } else {
    enter_ready(job);
  }
  // The attempt counts, so it is stored.
  write_update(job);
}

/// Ends a reservation that does not count as an attempt: the job is ready again.
void Broker::State::give_back(Job& job) {
  leave(job);
  if (job.stored_waits) {
    // It was reserved by id while buried or delayed. Left so, the stored record would bury it again
    // at the next restart, although all have seen it ready.
    job.state = JobState::kReady;
    write_update(job);
  }
  enter_ready(job);
}

/// The job whose reservation ends first among those that `session` holds, or kNil.
std::uint32_t Broker::State::soonest_held(Session& session) {
  if (session.soonest == kNil) {
    for (std::uint32_t i = session.reserved.first; i != kNil; i = jobs_[i].next) {
      if (session.soonest == kNil ||
          jobs_[i].deadline_ms() < jobs_[session.soonest].deadline_ms()) {
        session.soonest = i;
      }
    }
  }
  return session.soonest;
}

void Broker::State::set_body(Job& job, Body body) {
  drop_body(job);
  body_bytes_ += body.size();
  job.body = std::move(body);
}

void Broker::State::drop_body(Job& job) {
  body_bytes_ -= job.body.size();
  job.body = Body();
}

}  // namespace carillon::broker
