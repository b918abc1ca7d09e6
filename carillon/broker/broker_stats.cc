// SPDX-License-Identifier: Apache-2.0
// Statistics.

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

template <class Detail>
void Broker::State::reply_detail(const Ticket& ticket, Detail detail, CommitSeq needs) {
  Reply reply;
  reply.answer = Answer::kStats;
  reply.detail = std::make_unique<broker::Detail>(std::move(detail));
  effects_.reply(ticket, std::move(reply), needs);
}

template void Broker::State::reply_detail(const Ticket&, PartitionStats, CommitSeq);
template void Broker::State::reply_detail(const Ticket&, JobStats, CommitSeq);

PartitionStats Broker::State::stats() const {
  PartitionStats stats;
  stats.jobs = counts_;
  stats.jobs.delayed += far_count_;
  stats.timeouts = timeouts_;
  stats.total_jobs = total_jobs_;
  stats.tubes = tubes_.size();
  stats.far_jobs = far_count_;
  stats.body_bytes = body_bytes_;
  stats.put_count = put_count_;
  stats.delete_count = delete_count_;
  stats.fired_count = lateness_.count;
  stats.reserve_count = reserve_count_;
  stats.lateness_us = lateness_us_;
  return stats;
}

JobStats Broker::State::job_stats(const Job& job) const {
  JobStats stats;
  stats.id = job.id;
  stats.tube = tubes_[job.tube].name;
  stats.state = job.state;
  stats.priority = job.priority;
  stats.age_ms = std::max<std::int64_t>(0, now_ms_ - job.created_ms.get());
  stats.delay_ms = job.delay_ms.get();
  stats.ttr_ms = job.ttr_ms.get();
  if (job.state == JobState::kDelayed || job.state == JobState::kReserved) {
    stats.time_left_ms = std::max<std::int64_t>(0, job.deadline_ms() - now_ms_);
  }
  stats.history = jobs_.history(job);
  return stats;
}

JobStats Broker::State::far_job_stats(const JobRecord& record, const Tube& tube) const {
  JobStats stats;
  stats.id = record.id;
  stats.tube = tube.name;
  stats.state = record.state;
  stats.priority = record.priority;
  stats.age_ms = std::max<std::int64_t>(0, now_ms_ - record.created_ms);
  stats.delay_ms = record.delay_ms;
  stats.ttr_ms = record.ttr_ms;
  // Where the calendar stands now, not where it stood when the job was put.
  const auto date = date_of(record.extras);
  const std::int64_t due_ms = date ? due_on_timeline(*date) : record.due_ms;
  stats.time_left_ms = std::max<std::int64_t>(0, due_ms - now_ms_);
  stats.history = record.history;
  return stats;
}

JobView Broker::State::job_view(const Job& job) const {
  JobView info;
  info.stats = job_stats(job);
  info.extras = extras_.shared(job);
  info.body_size = job.body_size;
  info.attempt = info.stats.history.reserves;
  info.created_at_ms = on_calendar(job.created_ms.get());
  if (job.state == JobState::kDelayed) {
    info.due_at_ms = date_of(info.extras).value_or(on_calendar(job.deadline_ms()));
  }
  if (job.state == JobState::kReserved) info.reserved_until_ms = on_calendar(job.deadline_ms());
  return info;
}

JobView Broker::State::far_job_view(const JobRecord& record, const Tube& tube) const {
  JobView info;
  info.stats = far_job_stats(record, tube);
  info.extras = record.extras;
  info.body_size = record.body_size;
  info.attempt = record.history.reserves;
  info.created_at_ms = on_calendar(record.created_ms);
  info.due_at_ms = date_of(record.extras).value_or(on_calendar(record.due_ms));
  return info;
}

void Broker::State::reply_view(const Ticket& ticket, Answer answer, JobView info, Body body,
                               CommitSeq needs) {
  Reply reply;
  reply.answer = answer;
  reply.id = info.stats.id;
  reply.body = std::move(body);
  reply.detail = std::make_unique<Detail>(std::move(info));
  effects_.reply(ticket, std::move(reply), needs);
}

void Broker::State::stats_job(const Command& command, Session& s) {
  if (const Job* job = find_or_near(command.id)) {
    return reply_detail(command.ticket, job_stats(*job), needs_all());
  }
  if (may_be_far(command.id)) return fetch_for(command, s, false);
  reply(command.ticket, Answer::kNotFound, needs_all());
}

void Broker::State::stats_tube(const Command& command) {
  Tube* tube = find_tube(command.tube);
  if (tube == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  TubeStats stats;
  stats.name = tube->name;
  stats.jobs.urgent = tube->urgent_count;
  stats.jobs.ready = tube->ready.size();
  stats.jobs.reserved = tube->reserved_count;
  stats.jobs.delayed = tube->delayed.count + tube->far_count();
  stats.jobs.buried = tube->buried.count;
  stats.total_jobs = tube->total_jobs;
  stats.using_count = tube->using_count;
  stats.watching_count = tube->watching_count;
  stats.waiting_count = tube->waiting_count;
  stats.delete_count = tube->delete_count;
  stats.pause_count = tube->pause_count;
  if (tube->paused) {
    stats.pause_ms = tube->pause_ms;
    stats.pause_left_ms = std::max<std::int64_t>(0, tube->paused_until_ms - now_ms_);
  }
  if (tube->settings) stats.settings = *tube->settings;
  stats.far_jobs = tube->far_count();
  stats.fired_count = tube->fired_count;
  stats.reserve_count = tube->reserve_count;
  stats.oldest_ready_age_ms = tube->ready_ages.oldest_age_ms(now_ms_);
  if (const std::uint32_t soonest = tube->front.soonest(jobs_, tube->delayed); soonest != kNil) {
    stats.next_due_ms = jobs_[soonest].deadline_ms();
  }
  if (tube->far_count() > 0) {
    const std::int64_t far_ms = far_low(*tube->far).due_ms;
    stats.next_due_ms = std::min(stats.next_due_ms.value_or(far_ms), far_ms);
  }
  if (stats.next_due_ms)
    *stats.next_due_ms = std::max<std::int64_t>(0, *stats.next_due_ms - now_ms_);
  if (tube->lateness_us) stats.lateness_us = *tube->lateness_us;
  reply_detail(command.ticket, std::move(stats), needs_all());
}

void Broker::State::list_tubes(const Command& command) {
  TubeNames names;
  names.reserve(tubes_.size());
  for (std::uint32_t i = first_tube_; i != kNil; i = tubes_[i].next) {
    names.push_back(tubes_[i].name);
  }
  reply_detail(command.ticket, std::move(names), needs_all());
}

}  // namespace carillon::broker
