// SPDX-License-Identifier: Apache-2.0
#include "carillon/broker/testing/model.h"

#include <memory>

namespace carillon::broker::testing {

void Model::execute(SessionId session, const Command& c, JobId id_of_put) {
  ModelSession& s = sessions_.at(session);
  const std::string tube(c.tube);
  switch (c.verb) {
    case Verb::kPut: return put(session, c, id_of_put);
    case Verb::kReserve: {
      s.with_view = c.with_view;
      s.ttr = c.ttr;
      s.give_up_ms = c.timeout ? after(*c.timeout) : kNever;
      if (c.timeout == Span::zero()) s.give_up_ms = now_ms();
      if (ModelJob* job = best_for(s, c.tubes_in_turn)) return grant(session, *job);
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
          --tubes_.at(job->tube).reserves;
        }
        give_back(*job);
      }
      return;
    case Verb::kList: return list(session, c);
    case Verb::kSetTube:
      tube_of(tube).settings = c.options->settings;
      return answer(session, {Answer::kTubeSet});
    case Verb::kKick:
    case Verb::kPeekReady:
    case Verb::kPeekDelayed:
    case Verb::kPeekBuried:
    case Verb::kPauseTube:
    case Verb::kClear:
    case Verb::kStatsTube: return execute_on_tube(session, c);
    default: return execute_on_job(session, c);
  }
}

void Model::put(SessionId session, const Command& c, JobId id_of_put) {
  const std::string tube(c.tube);
  const JobExtras extras = c.extras ? *c.extras : JobExtras{};
  std::uint64_t replaced = 0;
  if (ModelJob* other = find_key(tube, extras.key)) {
    const bool spares = c.on_conflict == OnConflict::kRefuse || other->state == JobState::kReserved;
    if (c.on_conflict == OnConflict::kReturn) return answer(session, {Answer::kExists, other->id});
    if (spares) return answer(session, {Answer::kConflict, other->id});
    ++tubes_.at(tube).deletes;
    jobs_.erase(other->id);
    replaced = 1;
  } else if (tubes_.contains(tube)) {
    const std::uint64_t most = tubes_.at(tube).settings.max_jobs;
    if (most > 0 && count_in(tube) >= most) return answer(session, {Answer::kTubeFull});
  }
  ++tube_of(tube).total;
  ModelJob& job = jobs_[id_of_put];
  job.id = id_of_put;
  job.tube = tube;
  job.body = c.body.view();
  job.priority = c.priority;
  job.delay_ms = whole_ms(c.delay);
  job.ttr_ms = whole_ms(c.ttr);
  job.created_ms = now_ms();
  job.extras = extras;
  if (extras.due_at_ms) {
    const bool waits = !has_come(*extras.due_at_ms);
    if (waits) job.state = JobState::kDelayed;
    job.deadline_ms = on_timeline(*extras.due_at_ms);
    job.delay_ms = waits ? std::max<std::int64_t>(1, job.deadline_ms - now_ms()) : 0;
  } else if (c.delay > Span::zero()) {
    job.state = JobState::kDelayed;
    job.deadline_ms = after(c.delay);
  }
  write(job);
  answer(session, {Answer::kInserted, id_of_put, replaced});
}

void Model::change(SessionId session, const Command& c, ModelJob& job) {
  if (job.state == JobState::kReserved) return answer(session, {Answer::kConflict, job.id});
  if (c.sets_priority) job.priority = c.priority;
  const auto due_at = c.options ? c.options->due_at_ms : std::nullopt;
  if (due_at || c.sets_delay) {
    const bool waits = due_at ? !has_come(*due_at) : c.delay > Span::zero();
    delay(job, due_at ? on_timeline(*due_at) : after(c.delay));
    job.extras.due_at_ms = due_at;
    job.delay_ms = std::max<std::int64_t>(0, (waits ? job.deadline_ms : now_ms()) - job.created_ms);
    if (!waits) job.state = JobState::kReady;
  } else if (c.sets_priority && job.state == JobState::kBuried) {
    job.bury_order = ++buries_;
  }
  if (due_at || c.sets_delay || c.sets_priority) {
    // The stored due time is that of a job that has come due; it stays so.
    write(job);
  }
  answer(session, {Answer::kChanged, job.id});
}

void Model::release(SessionId session, const Command& c, ModelJob& job) {
  ++job.history.releases;
  job.priority = c.priority;
  const Span span = c.use_backoff ? std::chrono::milliseconds(backoff_ms(job)) : c.delay;
  job.delay_ms = whole_ms(span);
  if (used_up(job)) {
    bury(job);
    return answer(session, {Answer::kBuried});
  }
  job.state = JobState::kReady;
  job.holder = 0;
  if (span > Span::zero()) delay(job, after(span));
  write(job);
  answer(session, {Answer::kReleased});
}

void Model::list(SessionId session, const Command& c) {
  const std::string tube(c.tube);
  const ListQuery& query = c.options->list;
  if (!tube.empty() && !tubes_.contains(tube)) return answer(session, {Answer::kNotFound});
  const bool delayed = query.state == JobState::kDelayed;
  std::map<std::pair<std::int64_t, JobId>, const ModelJob*> found;
  for (const auto& [id, job] : jobs_) {
    if (job.state != query.state || (!tube.empty() && job.tube != tube)) continue;
    if (!job.extras.key.starts_with(query.key_prefix)) continue;
    const std::pair key{delayed ? deadline(job) : 0, id};
    if (key <= std::pair{delayed ? query.after.due_ms : 0, query.after.id}) continue;
    const std::int64_t due_at = info(job).due_at_ms.value_or(0);
    if (delayed && (due_at < query.due_from_ms || due_at >= query.due_until_ms)) continue;
    found.emplace(key, &job);
  }
  Expected expected{Answer::kListed};
  expected.page.emplace();
  for (const auto& [key, job] : found) {
    if (expected.page->jobs.size() == query.limit) {
      const JobStats& last = expected.page->jobs.back().stats;
      expected.page->next = ListCursor{delayed ? deadline(jobs_.at(last.id)) : 0, last.id};
      break;
    }
    expected.page->jobs.push_back(info(*job));
  }
  answer(session, expected);
}

JobView Model::info(const ModelJob& job) const {
  JobView info;
  info.stats = stats(job);
  if (!job.extras.empty()) info.extras = std::make_shared<const JobExtras>(job.extras);
  info.body_size = static_cast<std::uint32_t>(job.body.size());
  info.attempt = job.history.reserves;
  const auto on_calendar = [this](std::int64_t ms) {
    return floor_ms(WallTime(std::chrono::milliseconds(ms)) + calendar_ahead_);
  };
  info.created_at_ms = on_calendar(job.created_ms);
  if (dated(job)) {
    info.due_at_ms = job.extras.due_at_ms;
  } else if (job.state == JobState::kDelayed) {
    info.due_at_ms = on_calendar(job.deadline_ms);
  }
  if (job.state == JobState::kReserved) info.reserved_until_ms = on_calendar(job.deadline_ms);
  return info;
}

void Model::execute_on_job(SessionId session, const Command& c) {
  ModelJob* job =
      c.id == 0 && c.options ? find_key(std::string(c.tube), c.options->key) : find(c.id);
  const Expected not_found{Answer::kNotFound};
  if (!job) return answer(session, not_found);
  const bool holds = held(job->id, session) != nullptr;
  const bool mine = holds && (c.attempt == 0 || c.attempt == job->history.reserves);
  switch (c.verb) {
    case Verb::kGet: {
      Expected expected{Answer::kFound, job->id, 0, c.with_body ? job->body : std::string()};
      expected.info = info(*job);
      return answer(session, expected);
    }
    case Verb::kCancel:
      if (job->state == JobState::kReserved) return answer(session, {Answer::kConflict, job->id});
      ++tubes_.at(job->tube).deletes;
      jobs_.erase(job->id);
      return answer(session, {Answer::kDeleted});
    case Verb::kChange: return change(session, c, *job);
    case Verb::kHandOver:
      if (!mine || !sessions_.contains(c.to)) return answer(session, not_found);
      job->holder = c.to;
      return answer(session, {Answer::kHandedOver, job->id});
    case Verb::kReserveJob:
      if (job->state == JobState::kReserved) return answer(session, not_found);
      sessions_.at(session).with_view = c.with_view;
      sessions_.at(session).ttr = c.ttr;
      return grant(session, *job);
    case Verb::kDelete:
      if ((job->state == JobState::kReserved || c.attempt != 0) && !mine) {
        return answer(session, not_found);
      }
      ++tubes_.at(job->tube).deletes;
      jobs_.erase(job->id);
      return answer(session, {Answer::kDeleted});
    case Verb::kRelease:
      if (!mine) return answer(session, not_found);
      return release(session, c, *job);
    case Verb::kBury:
      if (!mine) return answer(session, not_found);
      job->priority = c.priority;
      bury(*job);
      return answer(session, {Answer::kBuried});
    case Verb::kTouch:
      if (!mine) return answer(session, not_found);
      job->deadline_ms =
          after(c.ttr > Span::zero() ? c.ttr : std::chrono::milliseconds(job->ttr_ms));
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
    case Verb::kClear: {
      if (!exists) return answer(session, not_found);
      std::uint64_t cleared = 0;
      std::erase_if(jobs_, [&](const auto& item) {
        const ModelJob& job = item.second;
        const bool gone = job.tube == tube && job.state != JobState::kReserved &&
                          (c.states & bit_of(job.state)) != 0;
        if (gone) ++cleared;
        return gone;
      });
      tubes_.at(tube).deletes += cleared;
      return answer(session, {Answer::kCleared, 0, cleared});
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
    stats.time_left_ms = std::max<std::int64_t>(0, deadline(job) - now_ms());
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
  stats.reserve_count = tube.reserves;
  stats.settings = tube.settings;
  if (tube.paused_until_ms > 0) {
    stats.pause_ms = tube.pause_ms;
    stats.pause_left_ms = std::max<std::int64_t>(0, tube.paused_until_ms - now_ms());
  }
  return stats;
}

}  // namespace carillon::broker::testing
