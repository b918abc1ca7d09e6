// SPDX-License-Identifier: Apache-2.0
// Moves: a job into a state and out of it, with everything that follows in memory and nothing that
// is written.

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
  tube.ready.push(jobs_, job);
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

/// Pre: `holder` has reserved `job`.
void Broker::State::restart_ttr(Job& job, Session& holder) {
  wheel_.reschedule(job, tick(due_after(std::chrono::milliseconds(job.ttr_ms.get()))));
  if (holder.soonest == job.index) holder.soonest = kNil;
}

/// Takes `job` out of the state it is in. It must enter one again, or be forgotten.
void Broker::State::leave(Job& job) {
  Tube& tube = tubes_[job.tube];
  count(tube, job, -1);
  switch (job.state) {
    case JobState::kReady: tube.ready.remove(jobs_, job); return;
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
  jobs_.remove(job);
}

/// Ends a reservation that its holder did not end: the job is ready again.
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
