// SPDX-License-Identifier: Apache-2.0
// The commands that change a job: put, delete, release, bury, touch, kick.

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

namespace {

std::int64_t whole_ms(Span span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

// A reservation of no length would end before it is seen.
std::int64_t ttr_ms_of(Span ttr) {
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(ttr).count());
}

}  // namespace

void Broker::State::put(Command& command) {
  const bool delayed = command.delay > Span::zero();
  const std::int64_t due_ms = delayed ? due_after(command.delay) : 0;
  const bool far = delayed && options_.store_keeps_far_jobs && due_ms - now_ms_ > horizon_ms_;
  if (!far && options_.max_jobs_in_memory > 0 && jobs_.size() >= options_.max_jobs_in_memory) {
    return reply(command.ticket, Answer::kOutOfMemory, 0);
  }
  Tube* tube = find_or_make_tube(command.tube);
  if (tube == nullptr) return reply(command.ticket, Answer::kOutOfMemory, 0);
  if (!command.body) command.body = Body("");
  const JobId id = take_id();
  ++tube->total_jobs;
  ++total_jobs_;
  if (far) {
    JobRecord record;
    record.id = id;
    record.tube = tube->number;
    record.state = JobState::kDelayed;
    record.priority = command.priority;
    record.body_size = command.body.size();
    record.due_ms = due_ms;
    record.ttr_ms = ttr_ms_of(command.ttr);
    record.delay_ms = whole_ms(command.delay);
    record.created_ms = now_ms_;
    put_far(*tube, std::move(record), std::move(command.body));
  } else {
    if (!tube->stored) write_tube(*tube);
    Job& job = jobs_.add(id);
    job.tube = tube->index;
    job.priority = command.priority;
    job.body_size = command.body.size();
    job.created_ms.set(now_ms_);
    job.ttr_ms.set(ttr_ms_of(command.ttr));
    job.delay_ms.set(std::max<std::int64_t>(0, whole_ms(command.delay)));
    if (delayed) {
      enter_delayed(job, due_ms);
    } else {
      enter_ready(job);
    }
    write_put(job, command.body);
    set_body(job, std::move(command.body));
  }
  Reply answer;
  answer.answer = Answer::kInserted;
  answer.id = id;
  effects_.reply(command.ticket, std::move(answer), needs_all());
}

void Broker::State::del(const Command& command, Session& s) {
  Job* job = find_or_near(command.id);
  if (job == nullptr && may_be_far(command.id)) {
    return fetch_for(command.id, Verb::kDelete, command.ticket, s, false);
  }
  if (job == nullptr || (job->state == JobState::kReserved && job->holder != s.index)) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  if (job->state == JobState::kReserved) note_ended(*job, s);
  erase(*job);
  reply(command.ticket, Answer::kDeleted, needs_all());
}

void Broker::State::erase(Job& job) {
  Tube& tube = tubes_[job.tube];
  leave(job);
  ++tube.delete_count;
  write_erase(job);
  if (job.place == Place::kSettled) note_gone(tube, job.id);
  forget_job(job);
  remove_if_unused(tube);
}

/// The job, if this session holds it. (A far job is never held.)
internal::Job* Broker::State::held(JobId id, const Session& s) {
  Job* job = jobs_.find(id);
  return job != nullptr && job->state == JobState::kReserved && job->holder == s.index ? job
                                                                                       : nullptr;
}

/// Remembers, until the batch being filled is durable, that `s` holds `job`: should the batch fail,
/// the client is told so, and must find itself the holder still.
void Broker::State::note_ended(const Job& job, const Session& s) {
  if (needs_job(job) != 0) return;  // The client has not been told yet that it holds the job.
  ended_.push_back({s.id, job.id, job.deadline_ms(), jobs_.history(job), filling_->seq});
}

void Broker::State::release(const Command& command, Session& s) {
  Job* job = held(command.id, s);
  if (job == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  note_ended(*job, s);
  leave(*job);
  ++jobs_.mutable_history(*job).releases;
  job->priority = command.priority;
  job->delay_ms.set(std::max<std::int64_t>(0, whole_ms(command.delay)));
  if (command.delay > Span::zero()) {
    enter_delayed(*job, due_after(command.delay));
  } else {
    enter_ready(*job);
  }
  write_update(*job);
  reply(command.ticket, Answer::kReleased, needs_all());
}

void Broker::State::bury(const Command& command, Session& s) {
  Job* job = held(command.id, s);
  if (job == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  note_ended(*job, s);
  leave(*job);
  ++jobs_.mutable_history(*job).buries;
  job->priority = command.priority;
  enter_buried(*job);
  write_update(*job, next_bury_order_++);
  reply(command.ticket, Answer::kBuried, needs_all());
}

void Broker::State::touch(const Command& command, Session& s) {
  Job* job = held(command.id, s);
  if (job == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  restart_ttr(*job, s);
  reply(command.ticket, Answer::kTouched, needs_job(*job));
}

void Broker::State::kick_one(Job& job) {
  leave(job);
  ++jobs_.mutable_history(job).kicks;
  enter_ready(job);
  write_update(job);
}

void Broker::State::kick(const Command& command, Session& s) {
  Tube* tube = find_tube(command.tube);
  std::uint64_t kicked = 0;
  if (tube != nullptr && tube->buried.count > 0) {
    for (; kicked < command.count && tube->buried.count > 0; ++kicked) {
      kick_one(jobs_[tube->buried.first]);
    }
  } else if (tube != nullptr) {
    FarQuestion question;
    question.session = s.index;
    question.ticket = command.ticket;
    question.verb = Verb::kKick;
    question.count = command.count;
    return ask_far(*tube, question);
  }
  reply_count(command.ticket, Answer::kKicked, kicked, needs_all());
}

void Broker::State::kick_job(const Command& command, Session& s) {
  Job* job = find_or_near(command.id);
  if (job == nullptr && may_be_far(command.id)) {
    return fetch_for(command.id, Verb::kKickJob, command.ticket, s, false);
  }
  if (job == nullptr || (job->state != JobState::kBuried && job->state != JobState::kDelayed)) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  kick_one(*job);
  reply(command.ticket, Answer::kJobKicked, needs_all());
}

/// The client never saw this reservation: another partition served its reserve at the same time.
void Broker::State::unreserve(const Command& command, Session& s) {
  Job* job = held(command.id, s);
  if (job == nullptr) return;
  JobHistory& history = jobs_.mutable_history(*job);
  // A job that is written now keeps the count: a job with an update is known by its history.
  if (history.reserves > 0 && !job->stored_waits) --history.reserves;
  give_back(*job);
}

}  // namespace carillon::broker
