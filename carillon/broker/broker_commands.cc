// SPDX-License-Identifier: Apache-2.0
// The commands that change a job: put, delete, release, bury, touch, kick.

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

namespace {

std::int64_t whole_ms(Span span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

// A reservation of no length would end before it is seen.
std::int64_t ttr_ms_of(Span ttr) {
  return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(ttr).count());
}

}  // namespace

void Broker::State::put(Command& command, Session& s) {
  if (command.extras) {
    if (command.extras->empty()) command.extras.reset();
    if (!key_of(command.extras).empty()) return put_with_key(command, s);
  }
  // A look at the tube costs, and insert() looks at it anyway.
  if (options_.max_jobs_in_memory > 0 || tubes_.size() >= options_.max_tubes) {
    const auto refused = refusal(command, find_tube(command.tube));
    if (refused) return refuse(command.ticket, *refused);
  }
  insert(command, 0);
}

/// Whether the job of a put is due beyond the horizon.
bool Broker::State::is_put_far(const Command& command) const {
  if (!options_.store_keeps_far_jobs) return false;
  if (const auto date = date_of(command.extras)) {
    return due_on_timeline(*date) - now_ms_ > horizon_ms_;
  }
  return command.delay > Span::zero() && due_after(command.delay) - now_ms_ > horizon_ms_;
}

/// Why a put into `tube` (null: it does not exist yet) cannot be done, if so.
std::optional<Broker::State::Refusal> Broker::State::refusal(const Command& command,
                                                             const Tube* tube) const {
  if (options_.max_jobs_in_memory > 0 && jobs_.size() >= options_.max_jobs_in_memory &&
      !is_put_far(command)) {
    return Refusal{Answer::kOutOfMemory, Shortage::kJobs};
  }
  if (tube == nullptr) {
    if (tubes_.size() >= options_.max_tubes) return Refusal{Answer::kOutOfMemory, Shortage::kTubes};
  } else if (tube->settings && tube->settings->max_jobs > 0 &&
             tube->job_count() >= tube->settings->max_jobs) {
    return Refusal{Answer::kTubeFull, Shortage::kNone};
  }
  return std::nullopt;
}

/// Pre: there is no refusal() but for the tube's own limit, and no other job has its key.
void Broker::State::insert(Command& command, std::uint64_t replaced) {
  Tube* tube = find_or_make_tube(command.tube);
  if (tube->settings && replaced == 0) {
    const auto refused = refusal(command, tube);
    if (refused) return refuse(command.ticket, *refused);
  }
  Reply answer;
  answer.answer = Answer::kInserted;
  answer.id = insert_job(command, *tube);
  answer.count = replaced;
  effects_.reply(command.ticket, std::move(answer), needs_all());
}

JobId Broker::State::insert_job(Command& command, Tube& tube) {
  bool delayed = command.delay > Span::zero();
  std::int64_t due_ms = 0;
  if (const auto date = date_of(command.extras)) {
    due_ms = due_on_timeline(*date);
    delayed = !date_has_come(*date);
    command.delay = saturating_span<std::chrono::milliseconds>(
        delayed ? std::max<std::int64_t>(1, due_ms - now_ms_) : 0);
  } else if (delayed) {
    due_ms = due_after(command.delay);
  }
  const bool far = delayed && options_.store_keeps_far_jobs && due_ms - now_ms_ > horizon_ms_;
  if (!command.body) command.body = Body("");
  const JobId id = take_id();
  ++tube.total_jobs;
  ++total_jobs_;
  ++put_count_;
  if (far) {
    JobRecord record;
    record.id = id;
    record.tube = tube.number;
    record.state = JobState::kDelayed;
    record.priority = command.priority;
    record.body_size = command.body.size();
    record.due_ms = due_ms;
    record.ttr_ms = ttr_ms_of(command.ttr);
    record.delay_ms = whole_ms(command.delay);
    record.created_ms = now_ms_;
    record.extras = std::move(command.extras);
    put_far(tube, std::move(record), std::move(command.body));
  } else {
    if (!tube.stored) write_tube(tube);
    Job& job = jobs_.add(id);
    job.tube = tube.index;
    job.priority = command.priority;
    job.body_size = command.body.size();
    job.created_ms.set(now_ms_);
    job.ttr_ms.set(ttr_ms_of(command.ttr));
    job.delay_ms.set(std::max<std::int64_t>(0, whole_ms(command.delay)));
    if (command.extras) set_extras(job, std::move(command.extras));
    if (delayed) {
      enter_delayed(job, due_ms);
    } else {
      enter_ready(job);
    }
    write_put(job, command.body);
    set_body(job, std::move(command.body));
  }
  return id;
}

void Broker::State::del(const Command& command, Session& s) {
  if (command.attempt != 0 && held(command, s) == nullptr) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  Job* job = find_or_near(command.id);
  if (job == nullptr && may_be_far(command.id)) return fetch_for(command, s, false);
  if (job == nullptr || (job->state == JobState::kReserved && job->holder != s.index)) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  if (job->state == JobState::kReserved) note_ended(*job, s);
  erase(*job);
  reply(command.ticket, Answer::kDeleted, needs_all());
}

void Broker::State::erase(Job& job) {
  Tube& tube = tubes_[job.tube];
  if (job.has_extras) note_ended_instance(job);
  leave(job);
  ++tube.delete_count;
  ++delete_count_;
  write_erase(job);
  if (job.place == Place::kSettled) note_gone(tube, job.id);
  forget_job(job);
  remove_if_unused(tube);
}

/// The job, if this session holds it, by the reservation that the command means. (A far job is
/// never held.)
internal::Job* Broker::State::held(const Command& command, const Session& s) {
  Job* job = jobs_.find(command.id);
  if (job == nullptr || job->state != JobState::kReserved || job->holder != s.index) return nullptr;
  if (command.attempt != 0 && jobs_.history(*job).reserves != command.attempt) return nullptr;
  return job;
}

/// Remembers, until the batch being filled is durable, that `s` holds `job`: should the batch fail,
/// the client is told so, and must find itself the holder still.
void Broker::State::note_ended(const Job& job, const Session& s) {
  if (needs_job(job) != 0) return;  // The client has not been told yet that it holds the job.
  ended_.push_back({s.id, job.id, job.deadline_ms(), jobs_.history(job), filling_->seq});
}

void Broker::State::release(const Command& command, Session& s) {
  Job* job = held(command, s);
  if (job == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  note_ended(*job, s);
  leave(*job);
  JobHistory& history = jobs_.mutable_history(*job);
  ++history.releases;
  job->priority = command.priority;
  const Span delay = command.use_backoff ? backoff_of(*job) : std::max(Span::zero(), command.delay);
  job->delay_ms.set(whole_ms(delay));
  if (job->has_extras && used_up(*job)) {
    bury_used_up(*job);
    return reply(command.ticket, Answer::kBuried, needs_all());
  }
  if (delay > Span::zero()) {
    if (job->has_extras) forget_date(*job);
    enter_delayed(*job, due_after(delay));
  } else {
    enter_ready(*job);
  }
  write_update(*job);
  reply(command.ticket, Answer::kReleased, needs_all());
}

void Broker::State::bury(const Command& command, Session& s) {
  Job* job = held(command, s);
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
  Job* job = held(command, s);
  if (job == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  restart_ttr(*job, s, wanted_ttr_ms(command));
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
  if (job == nullptr && may_be_far(command.id)) return fetch_for(command, s, false);
  if (job == nullptr || (job->state != JobState::kBuried && job->state != JobState::kDelayed)) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  kick_one(*job);
  reply(command.ticket, Answer::kJobKicked, needs_all());
}

/// The client never saw this reservation: another partition served its reserve at the same time.
void Broker::State::unreserve(const Command& command, Session& s) {
  Job* job = held(command, s);
  if (job == nullptr) return;
  JobHistory& history = jobs_.mutable_history(*job);
  // A job that is written now keeps the count: a job with an update is known by its history.
  if (history.reserves > 0 && !job->stored_waits) {
    --history.reserves;
    --tubes_[job->tube].reserve_count;
    --reserve_count_;
  }
  give_back(*job);
}

}  // namespace carillon::broker
