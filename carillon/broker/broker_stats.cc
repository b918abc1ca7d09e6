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
  using Details = decltype(reply.detail)::element_type;
  reply.detail = std::make_unique<Details>(std::move(detail));
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
  stats.time_left_ms = std::max<std::int64_t>(0, record.due_ms - now_ms_);
  stats.history = record.history;
  return stats;
}

void Broker::State::stats_job(const Command& command, Session& s) {
  if (const Job* job = find_or_near(command.id)) {
    return reply_detail(command.ticket, job_stats(*job), needs_all());
  }
  if (may_be_far(command.id)) {
    return fetch_for(command.id, Verb::kStatsJob, command.ticket, s, false);
  }
  reply(command.ticket, Answer::kNotFound, needs_all());
}

void Broker::State::stats_tube(const Command& command) {
  const Tube* tube = find_tube(command.tube);
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
