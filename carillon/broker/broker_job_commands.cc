// SPDX-License-Identifier: Apache-2.0
// The commands on one job that beanstalk does not have: get, cancel, change, hand over.

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

namespace {

/// The same but for the date. An instance keeps its period instead.
SharedExtras with_date(const SharedExtras& extras, std::optional<std::int64_t> due_at_ms) {
  if (extras && !extras->schedule.empty()) return extras;
  if ((extras ? extras->due_at_ms : std::nullopt) == due_at_ms) return extras;
  auto changed = extras ? std::make_shared<JobExtras>(*extras) : std::make_shared<JobExtras>();
  changed->due_at_ms = due_at_ms;
  if (changed->empty()) return nullptr;
  return changed;
}

std::optional<std::int64_t> new_date(const Command& command) {
  return command.options ? command.options->due_at_ms : std::nullopt;
}

}  // namespace

void Broker::State::get(const Command& command, Session& s) {
  const Job* job = find_or_near(command.id);
  if (job == nullptr) {
    if (may_be_far(command.id)) return fetch_for(command, s, false);
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  if (command.with_body && !job->body) return fetch_for(command, s, true);
  reply_view(command.ticket, Answer::kFound, job_view(*job), command.with_body ? job->body : Body(),
             needs_all());
}

void Broker::State::cancel(const Command& command, Session& s) {
  Job* job = find_or_near(command.id);
  if (job == nullptr && may_be_far(command.id)) return fetch_for(command, s, false);
  if (job == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  if (job->state == JobState::kReserved) {
    return reply_id(command.ticket, Answer::kConflict, job->id, needs_all());
  }
  erase(*job);
  reply(command.ticket, Answer::kDeleted, needs_all());
}

void Broker::State::change(const Command& command, Session& s) {
  Job* job = find_or_near(command.id);
  if (job == nullptr && may_be_far(command.id)) return fetch_for(command, s, false);
  if (job == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  if (job->state == JobState::kReserved) {
    return reply_id(command.ticket, Answer::kConflict, job->id, needs_all());
  }
  change_near(command, *job);
}

/// When the job of a change is due, and what it counts as its delay: from its put on, as that of a
/// job that was never changed, so that the two together always say when it was due.
Broker::State::NewTime Broker::State::new_time(const Command& command,
                                               std::int64_t created_ms) const {
  NewTime time;
  if (const auto due_at = new_date(command)) {
    time.due_ms = due_on_timeline(*due_at);
    time.has_come = date_has_come(*due_at);
  } else {
    time.due_ms = due_after(std::max(Span::zero(), command.delay));
    time.has_come = command.delay <= Span::zero();
  }
  time.delay_ms = std::max<std::int64_t>(0, (time.has_come ? now_ms_ : time.due_ms) - created_ms);
  return time;
}

void Broker::State::change_near(const Command& command, Job& job) {
  const bool timed = command.sets_delay || new_date(command);
  std::uint64_t bury_order = 0;
  if (timed) {
    const NewTime time = new_time(command, job.created_ms.get());
    leave(job);
    if (command.sets_priority) job.priority = command.priority;
    job.delay_ms.set(time.delay_ms);
    set_extras(job, with_date(extras_.shared(job), new_date(command)));
    if (time.has_come) {
      enter_ready(job);
    } else {
      enter_delayed(job, time.due_ms);
    }
  } else if (command.sets_priority) {
    Tube& tube = tubes_[job.tube];
    count(tube, job, -1);
    if (job.state == JobState::kReady) tube.ready.remove(jobs_, job);
    job.priority = command.priority;
    if (job.state == JobState::kReady) tube.ready.push(jobs_, job);
    count(tube, job, +1);
    if (job.state == JobState::kBuried) {
      // Its place among the buried is not kept in memory: it goes to the end.
      leave(job);
      enter_buried(job);
      bury_order = next_bury_order_++;
    }
  }
  if (timed || command.sets_priority) write_update(job, bury_order);
  reply_id(command.ticket, Answer::kChanged, job.id, needs_all());
}

/// A far job stays far, if it is to be due beyond the horizon: then nothing but its record is
/// written.
void Broker::State::change_far(const Command& command, const StoredJob& stored, Tube& tube) {
  const bool timed = command.sets_delay || new_date(command);
  JobRecord record = stored.record;
  bool far = true;
  if (timed) {
    const NewTime time = new_time(command, record.created_ms);
    far = !time.has_come && time.due_ms - now_ms_ > horizon_ms_;
    record.due_ms = time.due_ms;
    record.delay_ms = time.delay_ms;
    record.extras = with_date(record.extras, new_date(command));
  }
  if (command.sets_priority) record.priority = command.priority;
  // A lookup under way would still find it in its old place.
  const std::string_view key = key_of(record.extras);
  if (!key.empty() && lookups_.contains(TubeKey(tube.number, key))) far = false;
  if (!far) {
    Job& job = settle(tube, stored.record);
    drop_far_if_idle(tube);
    return change_near(command, job);
  }
  if (timed || command.sets_priority) move_far(tube, stored.record.due_ms, std::move(record));
  reply_id(command.ticket, Answer::kChanged, stored.record.id, needs_all());
}

/// The reservation goes on under another session, until the same moment.
void Broker::State::hand_over(const Command& command, Session& s) {
  Job* job = held(command, s);
  const auto found = session_by_id_.find(command.to);
  if (job == nullptr || found == session_by_id_.end()) {
    return reply(command.ticket, Answer::kNotFound, needs_all());
  }
  Session& to = sessions_[found->second];
  const std::int64_t deadline_ms = job->deadline_ms();
  leave(*job);
  enter_reserved(*job, to, deadline_ms);
  if (to.blocked == Blocked::kWaiting) schedule_end_of_wait(to);
  reply_id(command.ticket, Answer::kHandedOver, job->id, needs_job(*job));
}

}  // namespace carillon::broker
