// SPDX-License-Identifier: Apache-2.0
// Recovery: memory is dropped and read anew from the store; sessions outlive it.
//
// What a session held before a failed commit it holds afterwards, if its client knows that it does:
//
//     reserved, and the reply was sent or could be          saved
//     reserved, but the reply still waited for the batch    dropped: that client gets an error
//     reserved, but the body was still being read           dropped: that client's reserve waits on
//     delete, release or bury, in a batch that failed       saved: that client gets an error
//
// Of several claims to a job at most one is of the first or the third kind, since a job changes
// hands only through a batch, and whoever got it by a batch that failed was not told.

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

void Broker::State::begin_recovery() {
  // Again, if the store could not be read at first: what was saved stays so.
  if (available_) {
    save_reservations();
    save_attempts();
  }
  available_ = false;
  drop_everything();
}

void Broker::State::save_reservations() {
  jobs_.for_each([this](Job& job) {
    if (job.state != JobState::kReserved || needs_job(job) != 0) return;
    const Session& holder = sessions_[job.holder];
    if (holder.blocked == Blocked::kBody && holder.blocked_id == job.id) return;
    saved_.push_back({holder.id, job.id, job.deadline_ms(), jobs_.history(job), 0});
  });
  for (SavedReservation& ended : ended_) saved_.push_back(ended);
  ended_.clear();
}

/// An attempt of a job has a number, by which its holder is known: none is given out twice.
void Broker::State::save_attempts() {
  jobs_.for_each([this](const Job& job) {
    if (const std::uint32_t reserves = jobs_.history(job).reserves; reserves > 0) {
      saved_attempts_.emplace(job.id, reserves);
    }
  });
}

void Broker::State::drop_everything() {
  // Commands that wait for a read get an error; a reserve that had a job, but not its body, waits
  // on.
  sessions_.for_each([this](std::uint32_t, Session& s) {
    const bool waits = s.blocked == Blocked::kBody && s.blocked_verb == Verb::kReserve;
    const bool failed = s.blocked != Blocked::kNo && s.blocked != Blocked::kWaiting && !waits;
    s.reserved = {};
    s.soonest = kNil;
    if (failed || waits) s.blocked = Blocked::kNo;
    if (failed) reply(s.ticket, Answer::kInternalError, 0);
    if (waits) wait(s);
  });
  drop_schedules();
  fetches_.clear();
  lookups_.clear();
  scans_.clear();
  list_runs_.clear();

  ahead_.clear();
  ahead_jobs_ = ahead_bytes_ = 0;
  jobs_.for_each([this](Job& job) {
    wheel_.cancel(job);
    job.prev = job.next = kNil;
    forget_job(job);
  });
  for (std::uint32_t i = first_tube_; i != kNil;) {
    Tube& tube = tubes_[i];
    i = tube.next;
    wheel_.cancel(tube.pause);
    if (tube.far) wheel_.cancel(tube.far->load);
    tube.far.reset();
    tube.ready.clear();
    tube.ready_ages.clear();
    tube.settings.reset();
    tube.pins = 0;
    tube.delayed = {};
    tube.front.forget();
    tube.buried = {};
    tube.reserved_count = tube.urgent_count = 0;
    tube.paused = false;
    tube.stored = false;
    tube.to_be_served = false;
    if (tube.using_count + tube.watching_count == 0 && !is_default(tube)) forget_tube(tube);
  }
  tubes_to_serve_.clear();
  sessions_to_retry_.clear();
  restored_buried_.clear();
  counts_ = {};
  far_count_ = 0;
  put_bodies_.clear();
  put_bodies_in_flight_.clear();
  far_puts_.clear();
  erased_from_afar_.clear();
  far_moves_.clear();
  far_keys_.clear();
  gone_keys_.clear();
  far_dates_ = false;

  // What was being filled is never committed; its number is not used again, since replies that
  // waited for it have failed.
  if (!filling_->empty()) {
    filling_->clear();
    ++filling_->seq;
  }
  durable_ = filling_->seq - 1;
}

void Broker::State::restore_partition(const PartitionRecord& record) {
  CARILLON_CHECK(!available_, "restore outside a recovery");
  // Once in service we know better than the record, which is ahead by a block.
  if (ids_reserved_until_ == 0) pass_ids_below(record.next_id);
  next_tube_number_ = std::max(next_tube_number_, record.next_tube);
  next_bury_order_ = std::max(next_bury_order_, record.next_bury_order);
  enter(WallTime(saturating_span<std::chrono::milliseconds>(record.latest_ms)));
  // A wheel at rest is moved for nothing; one far behind would sort every job that is restored once
  // a level. There is nothing in it but waiting sessions.
  turn_wheel(kUnlimited);
}

void Broker::State::pass_ids_below(JobId limit) {
  if (limit <= next_id_) return;
  const JobId steps = (limit - options_.first_id + options_.id_step - 1) / options_.id_step;
  next_id_ = options_.first_id + steps * options_.id_step;
}

void Broker::State::restore_tube(const TubeRecord& record) {
  CARILLON_CHECK(!available_, "restore outside a recovery");
  Tube* known = find_tube(record.name);
  Tube& tube = known != nullptr ? *known : make_tube(record.name);
  CARILLON_CHECK(!tube.stored, "tube ", record.name, " is stored twice");
  if (tube.number != record.number) {
    // Another tube that has no record yet may have the number.
    const auto owner = tube_by_number_.find(record.number);
    if (owner != tube_by_number_.end()) {
      Tube& other = tubes_[owner->second];
      CARILLON_CHECK(!other.stored, "tubes ", record.name, " and ", other.name, " are both number ",
                     record.number);
      other.number = unused_number();
      owner->second = tube.index;
      tube_by_number_[other.number] = other.index;
    } else {
      tube_by_number_.emplace(record.number, tube.index);
    }
    tube_by_number_.erase(tube.number);
    tube.number = record.number;
  }
  // Numbers ascend in the order of creation, so that a restart does not change the order of a list.
  if (next_tube_number_ != 0) next_tube_number_ = std::max(next_tube_number_, record.number + 1);
  tube.stored = true;
  tube.paused = record.paused_until_ms > 0;
  tube.paused_until_ms = record.paused_until_ms;
  tube.pause_ms = record.pause_ms;
  if (!record.settings.empty()) tube.settings = std::make_unique<TubeSettings>(record.settings);
  if (record.far_count > 0) {
    CARILLON_CHECK(options_.store_keeps_far_jobs, "tube ", record.name,
                   " has far jobs in a store that keeps none");
    FarJobs& far = far_of(tube);
    far.count = record.far_count;
    far.low = {record.far_from_ms, 0};
    far.calendar_ms = record.far_calendar_ms;
    far_dates_ |= far.calendar_ms.has_value();
    far_count_ += record.far_count;
  }
}

void Broker::State::restore_job(StoredJob stored) {
  CARILLON_CHECK(!available_, "restore outside a recovery");
  const JobRecord& record = stored.record;
  const auto tube = tube_by_number_.find(record.tube);
  CARILLON_CHECK(tube != tube_by_number_.end() && tubes_[tube->second].stored, "job ", record.id,
                 " is in tube number ", record.tube, ", which is not stored");
  Job& job = add_from_record(tubes_[tube->second], record, stored.place);
  job.updated = stored.place == Place::kSettled || stored.updated;
  if (const auto attempts = saved_attempts_.find(record.id); attempts != saved_attempts_.end()) {
    JobHistory& history = jobs_.mutable_history(job);
    history.reserves = std::max(history.reserves, attempts->second);
  }
  job.stored_waits = record.state != JobState::kReady;
  if (!options_.store_keeps_bodies ||
      body_bytes_ + stored.body.size() <= options_.body_budget_bytes) {
    set_body(job, std::move(stored.body));
  }
  pass_ids_below(record.id + 1);
  switch (record.state) {
    case JobState::kReady: enter_ready(job); return;
    case JobState::kDelayed:
      // Of a date finish_recovery() knows whether it has come.
      if (date_of(record.extras) || record.due_ms > static_cast<std::int64_t>(wheel_.now())) {
        enter_delayed(job, record.due_ms);
      } else {
        // Due before the process ended, as far as is known: it was ready.
        job.stored_waits = false;
        enter_ready(job);
      }
      return;
    case JobState::kBuried:
      next_bury_order_ = std::max(next_bury_order_, record.bury_order + 1);
      restored_buried_.emplace_back(record.bury_order, std::uint32_t{job.index});
      return;
    case JobState::kReserved: CARILLON_CHECK(false, "job ", record.id, " was stored as reserved");
  }
}

void Broker::State::finish_recovery(WallTime now, const TimeAnchor& anchor) {
  CARILLON_CHECK(!available_, "finish without a recovery");
  enter(now);
  anchor_ = anchor;
  std::sort(restored_buried_.begin(), restored_buried_.end());
  for (const auto& [order, index] : restored_buried_) enter_buried(jobs_[index]);
  restored_buried_.clear();
  saved_attempts_.clear();
  available_ = true;
  follow_calendar();
  // Ids for what comes; and the anchor, before anything is stored by its time.
  reserve_ids();
  for (const SavedReservation& saved : std::exchange(saved_, {})) reestablish(saved);
  sessions_.for_each([this](std::uint32_t, Session& s) {
    if (s.blocked == Blocked::kWaiting) schedule_end_of_wait(s);
  });
  for (std::uint32_t i = first_tube_; i != kNil;) {
    Tube& tube = tubes_[i];
    i = tube.next;
    if (tube.paused && tube.paused_until_ms <= now_ms_) unpause(tube);
    if (tube.paused) wheel_.schedule(tube.pause, tick(tube.paused_until_ms));
    if (tube.far) schedule_load(tube);
    note_ready(tube);
    remove_if_unused(tube);
  }
  settle_waiters();
}

void Broker::State::reestablish(const SavedReservation& saved) {
  const auto holder = session_by_id_.find(saved.session);
  Job* job = jobs_.find(saved.job);
  if (holder == session_by_id_.end() || job == nullptr || job->state == JobState::kReserved) return;
  leave(*job);
  JobHistory& history = jobs_.mutable_history(*job);
  history.reserves = std::max(history.reserves, saved.history.reserves);
  history.timeouts = std::max(history.timeouts, saved.history.timeouts);
  enter_reserved(*job, sessions_[holder->second], saved.deadline_ms);
}

}  // namespace carillon::broker
