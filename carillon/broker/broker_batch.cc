// SPDX-License-Identifier: Apache-2.0
// Writes: what goes into the batch being filled, and what follows when batches become durable.

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

namespace {

// Ids that one write of the partition's record pays for; as many are lost at most by a kill.
constexpr JobId kIdBlock = 10'000;
// How far the stored time may fall behind while there is something to commit anyway.
constexpr std::int64_t kTimeWrittenEveryMs = 1'000;

}  // namespace

Mutation& Broker::State::append(Mutation::Kind kind, Place place) {
  Mutation& mutation = filling_->mutations.emplace_back();
  mutation.kind = kind;
  mutation.place = place;
  return mutation;
}

void Broker::State::fill_record(JobRecord& record, const Job& job, JobState state) const {
  record.id = job.id;
  record.tube = tubes_[job.tube].number;
  record.state = state;
  record.priority = job.priority;
  record.body_size = job.body_size;
  record.due_ms = state == JobState::kDelayed ? job.deadline_ms() : 0;
  record.ttr_ms = job.ttr_ms.get();
  record.delay_ms = job.delay_ms.get();
  record.created_ms = job.created_ms.get();
  record.history = jobs_.history(job);
  if (job.has_extras) record.extras = extras_.shared(job);
}

void Broker::State::write_put(Job& job, const Body& body) {
  Mutation& mutation = append(Mutation::Kind::kPut, Place::kNear);
  fill_record(mutation.job, job, job.state);
  mutation.body = body;
  filling_->bytes += body.size();
  job.changed_seq = static_cast<std::uint32_t>(filling_->seq);
  job.stored_waits = job.state != JobState::kReady;
  if (options_.store_keeps_bodies) put_bodies_.push_back(job.index);
}

/// Writes the record of a job that is, or is about to be, ready, delayed or buried.
void Broker::State::write_update(Job& job, std::uint64_t bury_order) {
  CARILLON_CHECK(job.state != JobState::kReserved, "job ", job.id, " stored as reserved");
  Mutation& mutation = append(Mutation::Kind::kUpdate, job.place);
  fill_record(mutation.job, job, job.state);
  mutation.job.bury_order = bury_order;
  job.updated = true;
  job.changed_seq = static_cast<std::uint32_t>(filling_->seq);
  job.stored_waits = job.state != JobState::kReady;
}

void Broker::State::write_erase(const Job& job) {
  Mutation& mutation = append(Mutation::Kind::kErase, job.place);
  mutation.updated = job.updated;
  mutation.job.id = job.id;
  mutation.job.tube = tubes_[job.tube].number;
}

/// Notes that the tube's record has changed; a batch carries one record a tube, the last.
void Broker::State::write_tube(Tube& tube) {
  if (tube.record_seq != filling_->seq) {
    tube.record_seq = filling_->seq;
    tube.record_detail = static_cast<std::uint32_t>(filling_->tubes.size());
    filling_->tubes.emplace_back().name = tube.name;
    append(Mutation::Kind::kTube, Place::kNear).detail = tube.record_detail;
  }
  tube.stored = true;
  TubeRecord& record = filling_->tubes[tube.record_detail];
  record.number = tube.number;
  record.far_count = tube.far_count();
  record.far_from_ms = record.far_count == 0 ? 0 : tube.far->low.due_ms;
  record.paused_until_ms = tube.paused ? tube.paused_until_ms : 0;
  record.pause_ms = tube.paused ? tube.pause_ms : 0;
  if (tube.settings) {
    record.settings = *tube.settings;
  } else if (!record.settings.empty()) {
    record.settings = {};
  }
  if (record.far_count > 0) {
    record.far_calendar_ms = tube.far->calendar_ms;
  } else {
    record.far_calendar_ms.reset();
  }
}

void Broker::State::write_partition() {
  if (partition_record_seq_ != filling_->seq) {
    partition_record_seq_ = filling_->seq;
    filling_->partitions.emplace_back();
    append(Mutation::Kind::kPartition, Place::kNear).detail = 0;
  }
  PartitionRecord& record = filling_->partitions.front();
  record.next_id = ids_reserved_until_;
  record.next_tube = next_tube_number_;
  record.next_bury_order = next_bury_order_;
  record.latest_ms = now_ms_;
  record.anchor = anchor_;
  latest_written_ms_ = now_ms_;
}

void Broker::State::reserve_ids() {
  ids_reserved_until_ = next_id_ + kIdBlock * options_.id_step;
  write_partition();
}

JobId Broker::State::take_id() {
  if (next_id_ >= ids_reserved_until_) reserve_ids();
  const JobId id = next_id_;
  next_id_ += options_.id_step;
  return id;
}

std::unique_ptr<Batch> Broker::State::take_batch(std::unique_ptr<Batch> recycled) {
  CARILLON_CHECK(has_batch(), "there is no batch to take");
  if (now_ms_ - latest_written_ms_ >= kTimeWrittenEveryMs) write_partition();
  if (!recycled) recycled = std::make_unique<Batch>();
  recycled->clear();
  recycled->seq = filling_->seq + 1;
  if (!put_bodies_.empty()) {
    put_bodies_in_flight_.push_back({filling_->seq, std::exchange(put_bodies_, {})});
  }
  far_puts_.clear();
  erased_from_afar_.clear();
  far_moves_.clear();
  far_keys_.clear();
  gone_keys_.clear();
  return std::exchange(filling_, std::move(recycled));
}

void Broker::State::checkpoint(WallTime now) {
  CARILLON_CHECK(available_, "checkpoint during a recovery");
  enter(now);
  ids_reserved_until_ = next_id_;
  write_partition();
}

void Broker::State::on_durable(CommitSeq seq) {
  CARILLON_CHECK(seq < filling_->seq, "batch ", seq, " has not been taken");
  if (seq <= durable_) return;
  durable_ = seq;
  while (!ended_.empty() && ended_.front().ended_in <= seq) ended_.pop_front();
  keep_bodies_within_budget(seq);
}

/// Lets go of bodies that the store can give back, if there are too many. First those just made
/// durable of jobs that are delayed, as the last to be wanted; then delayed ones met on a walk
/// through the jobs, a few steps for each job put; then those just made durable at all, which queue
/// behind the older.
void Broker::State::keep_bodies_within_budget(CommitSeq durable) {
  std::vector<std::uint32_t> fresh;
  const auto over = [this] { return body_bytes_ > options_.body_budget_bytes; };
  const auto try_drop = [this](std::uint32_t index, bool only_delayed) {
    // The place may have another job by now; what holds of any job holds of that one.
    if (!jobs_.contains_index(index)) return;
    Job& job = jobs_[index];
    if (!job.body || job.read_ahead || needs_job(job) > durable_) return;
    if (!only_delayed || job.state == JobState::kDelayed) drop_body(job);
  };
  while (!put_bodies_in_flight_.empty() && put_bodies_in_flight_.front().seq <= durable) {
    PutBodies& put = put_bodies_in_flight_.front();
    if (over() && fresh.empty()) {
      fresh = std::move(put.jobs);
    } else if (over()) {
      fresh.insert(fresh.end(), put.jobs.begin(), put.jobs.end());
    }
    put_bodies_in_flight_.pop_front();
  }
  constexpr std::size_t kStepsPerJob = 8;
  for (std::size_t i = 0; i < fresh.size() && over(); ++i) try_drop(fresh[i], true);
  const std::size_t steps = std::min(kStepsPerJob * fresh.size(), jobs_.size());
  for (std::size_t i = 0; i < steps && over(); ++i) {
    body_sweep_ = jobs_.next_after(body_sweep_);
    try_drop(body_sweep_, true);
  }
  for (std::size_t i = 0; i < fresh.size() && over(); ++i) try_drop(fresh[i], false);
}

}  // namespace carillon::broker
