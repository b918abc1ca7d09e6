// SPDX-License-Identifier: Apache-2.0
#include "carillon/broker/testing/model.h"

namespace carillon::broker::testing {

void Model::execute(SessionId session, const Command& c, JobId id_of_put) {
  ModelSession& s = sessions_.at(session);
  const std::string tube(c.tube);
  switch (c.verb) {
    case Verb::kPut: {
      ++tube_of(tube).total;
      ModelJob& job = jobs_[id_of_put];
      job.id = id_of_put;
      job.tube = tube;
      job.body = c.body.view();
      job.priority = c.priority;
      job.delay_ms = whole_ms(c.delay);
      job.ttr_ms = whole_ms(c.ttr);
      job.created_ms = now_ms();
      if (c.delay > Span::zero()) {
        job.state = JobState::kDelayed;
        job.deadline_ms = after(c.delay);
      }
      write(job);
      return answer(session, {Answer::kInserted, id_of_put});
    }
    case Verb::kReserve: {
      s.give_up_ms = c.timeout ? after(*c.timeout) : kNever;
      if (c.timeout == Span::zero()) s.give_up_ms = now_ms();
      if (ModelJob* job = best_for(s)) return grant(session, *job);
      if (margin_ms(session) <= now_ms()) return answer(session, {Answer::kDeadlineSoon});
      if (s.give_up_ms <= now_ms()) return answer(session, {Answer::kTimedOut});
      s.waiting_since = ++waits_;
      return;
    }
    case Verb::kUse:
      tube_of(tube);
      s.used = tube;
      return answer(session, {Answer::kUsing});
    case Verb::kWatch:
      tube_of(tube);
      s.watched.insert(tube);
      return answer(session, {Answer::kWatching, 0, s.watched.size()});
    case Verb::kIgnore:
      s.watched.erase(tube);
      return answer(session, {Answer::kWatching, 0, s.watched.size()});
    case Verb::kListTubes: {
      std::map<std::uint64_t, std::string> by_age;
      for (const auto& [name, t] : tubes_) by_age[t.created] = name;
      Expected expected{Answer::kStats};
      for (const auto& [age, name] : by_age) expected.names.push_back(name);
      return answer(session, expected);
    }
    case Verb::kCancelReserve: s.waiting_since = 0; return;
    case Verb::kUnreserve:
      if (ModelJob* job = held(c.id, session)) {
        if (!(job->stored.state == JobState::kBuried ||
              (job->stored.state == JobState::kDelayed && !came_due_.contains(job->id)))) {
          --job->history.reserves;
        }
        give_back(*job);
      }
      return;
    case Verb::kKick:
    case Verb::kPeekReady:
    case Verb::kPeekDelayed:
    case Verb::kPeekBuried:
    case Verb::kPauseTube:
    case Verb::kStatsTube: return execute_on_tube(session, c);
    default: return execute_on_job(session, c);
  }
}

void Model::execute_on_job(SessionId session, const Command& c) {
  ModelJob* job = find(c.id);
  const bool mine = held(c.id, session) != nullptr;
  const Expected not_found{Answer::kNotFound};
  if (!job) return answer(session, not_found);
  switch (c.verb) {
    case Verb::kReserveJob:
      if (job->state == JobState::kReserved) return answer(session, not_found);
      return grant(session, *job);
    case Verb::kDelete:
      if (job->state == JobState::kReserved && !mine) return answer(session, not_found);
      ++tubes_.at(job->tube).deletes;
      jobs_.erase(c.id);
      return answer(session, {Answer::kDeleted});
    case Verb::kRelease:
      if (!mine) return answer(session, not_found);
      job->state = JobState::kReady;
      job->holder = 0;
      ++job->history.releases;
      job->priority = c.priority;
      job->delay_ms = whole_ms(c.delay);
      if (c.delay > Span::zero()) {
        job->state = JobState::kDelayed;
        job->deadline_ms = after(c.delay);
        came_due_.erase(job->id);
      }
      write(*job);
      return answer(session, {Answer::kReleased});
    case Verb::kBury:
      if (!mine) return answer(session, not_found);
      job->state = JobState::kBuried;
      job->holder = 0;
      ++job->history.buries;
      job->priority = c.priority;
      job->bury_order = ++buries_;
      write(*job);
      return answer(session, {Answer::kBuried});
    case Verb::kTouch:
      if (!mine) return answer(session, not_found);
      job->deadline_ms = after(std::chrono::milliseconds(job->ttr_ms));
      return answer(session, {Answer::kTouched});
    case Verb::kKickJob:
      if (job->state != JobState::kBuried && job->state != JobState::kDelayed) {
        return answer(session, not_found);
      }
      job->state = JobState::kReady;
      ++job->history.kicks;
      write(*job);
      return answer(session, {Answer::kJobKicked});
    case Verb::kPeek: return answer(session, {Answer::kFound, job->id, 0, job->body});
    case Verb::kStatsJob: {
      Expected expected{Answer::kStats};
      expected.job = stats(*job);
      return answer(session, expected);
    }
    default: return;
  }
}

void Model::execute_on_tube(SessionId session, const Command& c) {
  const std::string tube(c.tube);
  const bool exists = tubes_.contains(tube);
  const Expected not_found{Answer::kNotFound};
  const auto show = [&](const ModelJob* job) {
    answer(session, job ? Expected{Answer::kFound, job->id, 0, job->body} : not_found);
  };
  switch (c.verb) {
    case Verb::kKick: {
      std::uint64_t kicked = 0;
      const bool buried = first_buried(tube) != nullptr;
      for (; kicked < c.count; ++kicked) {
        ModelJob* job = buried ? first_buried(tube) : first_delayed(tube);
        if (!job) break;
        job->state = JobState::kReady;
        ++job->history.kicks;
        write(*job);
      }
      return answer(session, {Answer::kKicked, 0, kicked});
    }
    case Verb::kPeekReady: return show(first_ready(tube));
    case Verb::kPeekDelayed: return show(first_delayed(tube));
    case Verb::kPeekBuried: return show(first_buried(tube));
    case Verb::kPauseTube: {
      if (!exists) return answer(session, not_found);
      ModelTube& t = tubes_.at(tube);
      ++t.pauses;
      t.pause_ms = whole_ms(c.delay);
      t.paused_until_ms = c.delay > Span::zero() ? after(c.delay) : 0;
      return answer(session, {Answer::kPaused});
    }
    case Verb::kStatsTube: {
      if (!exists) return answer(session, not_found);
      Expected expected{Answer::kStats};
      expected.tube = stats(tube);
      return answer(session, expected);
    }
    default: return;
  }
}

JobStats Model::stats(const ModelJob& job) const {
  JobStats stats;
  stats.id = job.id;
  stats.tube = job.tube;
  stats.state = job.state;
  stats.priority = job.priority;
  stats.age_ms = now_ms() - job.created_ms;
  stats.delay_ms = job.delay_ms;
  stats.ttr_ms = job.ttr_ms;
  if (job.state == JobState::kDelayed || job.state == JobState::kReserved) {
    stats.time_left_ms = std::max<std::int64_t>(0, job.deadline_ms - now_ms());
  }
  stats.history = job.history;
  return stats;
}

TubeStats Model::stats(const std::string& name) const {
  const ModelTube& tube = tubes_.at(name);
  TubeStats stats;
  stats.name = name;
  for (const auto& [id, job] : jobs_) {
    if (job.tube != name) continue;
    switch (job.state) {
      case JobState::kReady:
        ++stats.jobs.ready;
        if (job.priority < 1024) ++stats.jobs.urgent;
        break;
      case JobState::kDelayed: ++stats.jobs.delayed; break;
      case JobState::kBuried: ++stats.jobs.buried; break;
      case JobState::kReserved: ++stats.jobs.reserved; break;
    }
  }
  for (const auto& [id, session] : sessions_) {
    if (session.used == name) ++stats.using_count;
    if (session.watched.contains(name)) {
      ++stats.watching_count;
      if (session.waiting_since != 0) ++stats.waiting_count;
    }
  }
  stats.total_jobs = tube.total;
  stats.delete_count = tube.deletes;
  stats.pause_count = tube.pauses;
  if (tube.paused_until_ms > 0) {
    stats.pause_ms = tube.pause_ms;
    stats.pause_left_ms = std::max<std::int64_t>(0, tube.paused_until_ms - now_ms());
  }
  return stats;
}

}  // namespace carillon::broker::testing
