// SPDX-License-Identifier: Apache-2.0
// Far jobs: put into the store alone, brought near ahead of need.
//
// Of its far jobs a tube knows how many there are and a point before which there is none (low). It
// loads when that point comes within three quarters of the horizon, all that is due within the
// whole of it; so a load has a lead of 3/4 horizon, and there is at most one each 1/4 horizon.
//
// A scan sees what was submitted before it, and its answer comes later. What it cannot know:
//
//     put far, not submitted yet     far_puts_: those within its limits are made near first
//                                    (their put is changed in the batch), the first of the others
//                                    is remembered in `unseen`
//     put far after it was asked     `unseen`
//     erased, or loaded and erased   erased_from_afar_, until the erase is submitted; `gone`, from
//                                    the beginning of the scan to its answer
//     loaded by a fetch              is in memory

#include <algorithm>
#include <limits>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kAfterAll;
using internal::kNeverMs;
using internal::kNil;

namespace {

// After a scan that failed.
constexpr std::int64_t kScanRetryMs = 200;

}  // namespace

internal::FarJobs& Broker::State::far_of(Tube& tube) {
  if (!tube.far) tube.far = std::make_unique<FarJobs>(tube.index);
  return *tube.far;
}

void Broker::State::put_far(Tube& tube, JobRecord&& record, Body&& body) {
  FarJobs& far = far_of(tube);
  const DueKey key{record.due_ms, record.id};
  ++far.count;
  ++far_count_;
  if (record.extras) note_far_extras(tube, record);
  const bool first = key < far.low;
  if (first) far.low = key;
  note_in_batch(far, key);
  write_tube(tube);
  far_puts_.push_back({record.id, tube.index, record.due_ms, filling_->mutations.size(), true});
  Mutation& mutation = append(Mutation::Kind::kPut, Place::kFar);
  mutation.far_due_ms = record.due_ms;
  mutation.job = std::move(record);
  filling_->bytes += body.size();
  mutation.body = std::move(body);
  if (first) schedule_load(tube);
}

/// Pre: `record` is of a far job, and has extras.
void Broker::State::note_far_extras(Tube& tube, const JobRecord& record) {
  if (record.extras->date()) {
    FarJobs& far = *tube.far;
    const std::int64_t ahead_ms = floor_ms(WallTime(calendar_ahead_));
    far.calendar_ms = std::min(far.calendar_ms.value_or(ahead_ms), ahead_ms);
    far_dates_ = true;
  }
  if (!record.extras->key.empty()) {
    far_keys_.insert_or_assign(TubeKey(tube.number, record.extras->key), record.id);
  }
}

/// A far job lies at `key` from the batch being filled on: no scan before that sees it there.
void Broker::State::note_in_batch(FarJobs& far, const DueKey& key) {
  if (far.scanning) far.unseen = std::min(far.unseen, key);
  if (far.last_put_seq != filling_->seq) {
    far.last_put_seq = filling_->seq;
    far.first_in_batch = kAfterAll;
  }
  far.first_in_batch = std::min(far.first_in_batch, key);
}

void Broker::State::one_less_far(Tube& tube) {
  FarJobs& far = *tube.far;
  CARILLON_CHECK(far.count > 0 && far_count_ > 0, "tube ", tube.name, " has no far job to lose");
  if (--far_count_ == 0) far_dates_ = false;
  if (--far.count == 0) {
    far.low = kAfterAll;
    far.calendar_ms.reset();
    wheel_.cancel(far.load);
  }
  write_tube(tube);
}

void Broker::State::drop_far_if_idle(Tube& tube) {
  if (tube.far && tube.far->count == 0 && !tube.far->scanning && tube.far->questions.empty()) {
    tube.far.reset();
  }
}

/// A job of the store in memory, in no state yet.
internal::Job& Broker::State::add_from_record(Tube& tube, const JobRecord& record, Place place) {
  Job& job = jobs_.add(record.id);
  job.tube = tube.index;
  job.priority = record.priority;
  job.body_size = record.body_size;
  job.created_ms.set(record.created_ms);
  job.ttr_ms.set(record.ttr_ms);
  job.delay_ms.set(record.delay_ms);
  if (record.history != JobHistory{}) jobs_.mutable_history(job) = record.history;
  job.place = place;
  job.changed_seq = static_cast<std::uint32_t>(durable_);
  if (record.extras) set_extras(job, record.extras);
  return job;
}

/// Brings a far job near.
internal::Job& Broker::State::settle(Tube& tube, const JobRecord& record) {
  one_less_far(tube);
  Job& job = add_from_record(tube, record, Place::kSettled);
  note_known(tube, record);
  Mutation& mutation = append(Mutation::Kind::kSettle, Place::kSettled);
  mutation.far_due_ms = record.due_ms;
  mutation.job = record;
  enter_settled(job, mutation.job);
  show_in_lists(job);
  return job;
}

/// A far job has come near or is gone: answers that have not seen that must not be believed.
void Broker::State::note_known(const Tube& tube, const JobRecord& record) {
  const auto fetch = fetches_.find(record.id);
  if (fetch != fetches_.end()) fetch->second.known = true;
  note_key_known(tube, record.extras);
}

/// The state of a job that comes from afar, by `stored`, its record in the batch being filled.
void Broker::State::enter_settled(Job& job, JobRecord& stored) {
  job.updated = true;
  job.changed_seq = static_cast<std::uint32_t>(filling_->seq);
  bool due = stored.due_ms <= now_ms_;
  if (const auto date = date_of(stored.extras)) {
    due = date_has_come(*date);
    stored.due_ms = due_on_timeline(*date);
  }
  if (!due) {
    enter_delayed(job, stored.due_ms);
    job.stored_waits = true;
  } else {
    note_fired(tubes_[job.tube], stored.due_ms);
    enter_ready(job);
  }
}

void Broker::State::erase_far(Tube& tube, const JobRecord& record, bool moved) {
  Mutation& mutation = append(Mutation::Kind::kErase, Place::kFar);
  mutation.far_due_ms = record.due_ms;
  mutation.updated = moved;
  mutation.job.id = record.id;
  mutation.job.tube = tube.number;
  mutation.job.extras = record.extras;
  ++tube.delete_count;
  ++delete_count_;
  note_known(tube, record);
  note_gone(tube, record.id);
  one_less_far(tube);
  drop_far_if_idle(tube);
  remove_if_unused(tube);
}

/// A job that came from afar is gone: reads that have not seen that must not bring it back.
void Broker::State::note_gone(Tube& tube, JobId id) {
  erased_from_afar_.emplace(id, tube.index);
  if (tube.far && tube.far->scanning) tube.far->gone.insert(id);
  for (const auto& scan : scans_) scan->gone.insert(id);
}

/// The job in memory; one that was put or moved far in this very batch is made near first.
internal::Job* Broker::State::find_or_near(JobId id) {
  if (Job* job = jobs_.find(id)) return job;
  if (!far_moves_.empty()) {
    if (Job* job = settle_moved(id)) return job;
  }
  const auto put = std::lower_bound(far_puts_.begin(), far_puts_.end(), id,
                                    [](const FarPut& p, JobId wanted) { return p.id < wanted; });
  if (put == far_puts_.end() || put->id != id || !put->far) return nullptr;
  Job& job = make_near(*put);
  Tube& tube = tubes_[job.tube];
  find_first_in_batch(tube);
  drop_far_if_idle(tube);
  return &job;
}

/// Moves a far job from its place at `from_ms` to that of its new record, within the far jobs.
void Broker::State::move_far(Tube& tube, std::int64_t from_ms, JobRecord&& record) {
  FarJobs& far = *tube.far;
  const DueKey key{record.due_ms, record.id};
  if (key < far.low) far.low = key;
  // Who has not seen it leave the old place must not take it from there.
  if (far.scanning) far.gone.insert(record.id);
  for (const auto& scan : scans_) scan->gone.insert(record.id);
  note_in_batch(far, key);
  if (record.extras) note_far_extras(tube, record);
  write_tube(tube);
  far_moves_[record.id] = {tube.index, record.due_ms, filling_->mutations.size()};
  Mutation& mutation = append(Mutation::Kind::kMove, Place::kFar);
  mutation.far_due_ms = from_ms;
  mutation.job = std::move(record);
  schedule_load(tube);
}

/// If `id` was moved in this batch, makes it near. Else null.
internal::Job* Broker::State::settle_moved(JobId id) {
  const auto found = far_moves_.find(id);
  if (found == far_moves_.end()) return nullptr;
  Tube& tube = tubes_[found->second.tube];
  Job& job = settle_moved(id, tube);
  find_first_in_batch(tube);
  drop_far_if_idle(tube);
  return &job;
}

/// Pre: `id`, of `tube`, was moved in this batch. Its move becomes a settling.
internal::Job& Broker::State::settle_moved(JobId id, Tube& tube) {
  const auto found = far_moves_.find(id);
  const std::size_t index = found->second.mutation;
  far_moves_.erase(found);
  one_less_far(tube);
  // Not before: the batch may have grown.
  Mutation& mutation = filling_->mutations[index];
  mutation.kind = Mutation::Kind::kSettle;
  mutation.place = Place::kSettled;
  note_known(tube, mutation.job);
  Job& job = add_from_record(tube, mutation.job, Place::kSettled);
  enter_settled(job, mutation.job);
  return job;
}

/// Changes the put itself, which nobody has seen yet.
internal::Job& Broker::State::make_near(FarPut& put) {
  Tube& tube = tubes_[put.tube];
  put.far = false;
  one_less_far(tube);
  Mutation& mutation = filling_->mutations[put.mutation];
  mutation.place = Place::kNear;
  mutation.far_due_ms = 0;
  Job& job = add_from_record(tube, mutation.job, Place::kNear);
  job.changed_seq = static_cast<std::uint32_t>(filling_->seq);
  job.stored_waits = true;
  set_body(job, mutation.body);
  if (options_.store_keeps_bodies) put_bodies_.push_back(job.index);
  enter_delayed(job, mutation.job.due_ms);
  return job;
}

/// Of the jobs put far in this batch, makes the soonest due up to `until_ms` near; and whichever of
/// those moved in it.
void Broker::State::make_soonest_near(Tube& tube, std::int64_t until_ms, std::size_t limit) {
  const FarJobs& far = *tube.far;
  if (far.last_put_seq != filling_->seq || far.first_in_batch.due_ms > until_ms) return;
  std::vector<JobId> moved;
  for (const auto& [id, move] : far_moves_) {
    if (move.tube == tube.index && move.due_ms <= until_ms) moved.push_back(id);
  }
  std::sort(moved.begin(), moved.end());
  for (const JobId id : moved) settle_moved(id, tube);
  std::vector<std::size_t> due;
  for (std::size_t i = 0; i < far_puts_.size(); ++i) {
    const FarPut& put = far_puts_[i];
    if (put.far && put.tube == tube.index && put.due_ms <= until_ms) due.push_back(i);
  }
  const std::size_t count = std::min(limit, due.size());
  std::partial_sort(due.begin(), due.begin() + static_cast<std::ptrdiff_t>(count), due.end(),
                    [this](std::size_t a, std::size_t b) {
                      return DueKey{far_puts_[a].due_ms, far_puts_[a].id} <
                             DueKey{far_puts_[b].due_ms, far_puts_[b].id};
                    });
  for (std::size_t i = 0; i < count; ++i) make_near(far_puts_[due[i]]);
  find_first_in_batch(tube);
}

void Broker::State::find_first_in_batch(Tube& tube) {
  FarJobs& far = *tube.far;
  far.first_in_batch = kAfterAll;
  for (const auto& [id, move] : far_moves_) {
    if (move.tube == tube.index) {
      far.first_in_batch = std::min(far.first_in_batch, DueKey{move.due_ms, id});
    }
  }
  for (const FarPut& put : far_puts_) {
    if (put.far && put.tube == tube.index) {
      far.first_in_batch = std::min(far.first_in_batch, DueKey{put.due_ms, put.id});
    }
  }
}

std::int64_t Broker::State::load_at_ms(const FarJobs& far) const {
  return far_low(far).due_ms - std::max<std::int64_t>(1, horizon_ms_ / 4 * 3);
}

void Broker::State::schedule_load(Tube& tube) {
  FarJobs& far = *tube.far;
  if (far.scanning) return;
  if (far.count == 0) {
    wheel_.cancel(far.load);
    return;
  }
  wheel_.reschedule(far.load, tick(load_at_ms(far)));
}

/// The next far jobs have come within the lead.
void Broker::State::load(Tube& tube) {
  tube.far->load_until_ms = now_ms_ + horizon_ms_ + far_shift_ms(*tube.far);
  go_on_loading(tube);
  drop_far_if_idle(tube);
}

/// Answers who waits for far jobs of this tube, then loads what is due within the horizon; until a
/// scan is in flight, or nothing is left to do.
void Broker::State::go_on_loading(Tube& tube) {
  FarJobs& far = *tube.far;
  while (!far.scanning) {
    if (!far.questions.empty()) {
      if (!answer_far(tube, far.questions.front())) return;
      far.questions.pop_front();
    } else if (far.count > 0 && far.low.due_ms <= far.load_until_ms) {
      scan(tube, far.load_until_ms, options_.load_chunk);
    } else {
      return schedule_load(tube);
    }
  }
}

void Broker::State::scan(Tube& tube, std::int64_t until_ms, std::size_t limit) {
  FarJobs& far = *tube.far;
  make_soonest_near(tube, until_ms, limit);
  if (far.count == 0) return;
  far.scanning = true;
  far.unseen = far.last_put_seq == filling_->seq ? far.first_in_batch : kAfterAll;
  far.gone.clear();
  for (const auto& [id, owner] : erased_from_afar_) {
    if (owner == tube.index) far.gone.insert(id);
  }
  for (const auto& [id, move] : far_moves_) {
    if (move.tube == tube.index) far.gone.insert(id);
  }
  wheel_.cancel(far.load);
  effects_.scan_far(tube.number, {far.low.due_ms, far.low.id}, until_ms, limit);
}

void Broker::State::on_scanned(TubeNumber number, FarChunk chunk, WallTime now) {
  enter(now);
  const auto found = tube_by_number_.find(number);
  // Its last far job was deleted meanwhile, and so the tube went.
  if (found == tube_by_number_.end()) return;
  Tube& tube = tubes_[found->second];
  CARILLON_CHECK(tube.far && tube.far->scanning, "tube ", tube.name, " was not scanned");
  FarJobs& far = *tube.far;
  far.scanning = false;
  const std::size_t before = jobs_.size();
  for (const StoredJob& stored : chunk.jobs) {
    const JobId id = stored.record.id;
    if (jobs_.find(id) == nullptr && !far.gone.contains(id)) settle(tube, stored.record);
  }
  if (!far.questions.empty()) {
    std::uint64_t& missing = far.questions.front().missing;
    missing -= std::min<std::uint64_t>(missing, jobs_.size() - before);
  }
  DueKey next = kAfterAll;
  if (chunk.more) {
    CARILLON_CHECK(!chunk.jobs.empty(), "a scan of tube ", tube.name, " does not get on");
    next = {chunk.jobs.back().record.due_ms, chunk.jobs.back().record.id + 1};
  } else if (chunk.next_due_ms) {
    next = {*chunk.next_due_ms, 0};
  }
  const DueKey low = std::min(next, std::exchange(far.unseen, kAfterAll));
  far.gone.clear();
  if (far.count > 0 && low == kAfterAll) {
    // The store has seen all that was put, and has none: the count was wrong.
    far_count_ -= std::exchange(far.count, 0);
  }
  far.low = far.count == 0 ? kAfterAll : low;
  write_tube(tube);
  go_on_loading(tube);
  drop_far_if_idle(tube);
  remove_if_unused(tube);
  settle_waiters();
}

void Broker::State::on_scan_failed(TubeNumber number, WallTime now) {
  enter(now);
  const auto found = tube_by_number_.find(number);
  if (found == tube_by_number_.end()) return;
  Tube& tube = tubes_[found->second];
  CARILLON_CHECK(tube.far && tube.far->scanning, "tube ", tube.name, " was not scanned");
  FarJobs& far = *tube.far;
  far.scanning = false;
  far.unseen = kAfterAll;
  far.gone.clear();
  for (const FarQuestion& question : std::exchange(far.questions, {})) {
    sessions_[question.session].blocked = Blocked::kNo;
    reply(question.ticket, Answer::kInternalError, 0);
  }
  schedule_load(tube);
  const auto retry = tick(now_ms_ + kScanRetryMs);
  if (far.load.scheduled() && far.load.deadline() < retry) wheel_.reschedule(far.load, retry);
  drop_far_if_idle(tube);
  remove_if_unused(tube);
  settle_waiters();
}

/// Answers `question` at once if memory can, else queues it.
void Broker::State::ask_far(Tube& tube, FarQuestion question) {
  const bool first = !tube.far || tube.far->questions.empty();
  if (first && answer_far(tube, question)) {
    drop_far_if_idle(tube);
    return;
  }
  Session& s = sessions_[question.session];
  s.blocked = Blocked::kFar;
  s.ticket = question.ticket;
  s.blocked_tube = tube.index;
  tube.far->questions.push_back(question);
}

/// Answers a peek-delayed, or a kick of delayed jobs, if enough is near; else asks for more.
bool Broker::State::answer_far(Tube& tube, FarQuestion& question) {
  return question.verb == Verb::kKick ? kick_delayed(tube, question) : show_soonest(tube, question);
}

bool Broker::State::show_soonest(Tube& tube, const FarQuestion& question) {
  Session& s = sessions_[question.session];
  for (;;) {
    const std::uint32_t near = tube.front.soonest(jobs_, tube.delayed);
    const bool any_far = tube.far_count() > 0;
    if (near == kNil && !any_far) {
      s.blocked = Blocked::kNo;
      reply(question.ticket, Answer::kNotFound, needs_all());
      return true;
    }
    if (near != kNil && (!any_far || internal::due_key(jobs_[near]) < far_low(*tube.far))) {
      s.blocked = Blocked::kNo;
      show(jobs_[near], question.ticket, s);
      return true;
    }
    if (!tube.far->scanning) {
      const std::int64_t until_ms =
          near == kNil ? kNeverMs : jobs_[near].deadline_ms() + far_shift_ms(*tube.far);
      scan(tube, until_ms, 1);
    }
    if (tube.far->scanning) return false;
  }
}

/// Soonest first over near and far jobs, and all in one step, however many must be loaded before.
bool Broker::State::kick_delayed(Tube& tube, FarQuestion& question) {
  while (tube.far_count() > 0) {
    FarJobs& far = *tube.far;
    if (question.missing == 0) {
      const std::uint64_t near =
          tube.front.count_before(jobs_, tube.delayed, far_low(far), question.count);
      if (near == question.count) break;
      question.missing = question.count - near;
    }
    if (far.scanning) return false;
    const std::size_t before = jobs_.size();
    const auto limit = std::min<std::uint64_t>(question.missing, options_.load_chunk);
    scan(tube, kNeverMs, static_cast<std::size_t>(limit));
    question.missing -= std::min<std::uint64_t>(question.missing, jobs_.size() - before);
    if (far.scanning) return false;
  }
  std::uint64_t kicked = 0;
  for (; kicked < question.count; ++kicked) {
    const std::uint32_t soonest = tube.front.soonest(jobs_, tube.delayed);
    if (soonest == kNil) break;
    kick_one(jobs_[soonest]);
  }
  tube.front.shorten();
  sessions_[question.session].blocked = Blocked::kNo;
  reply_count(question.ticket, Answer::kKicked, kicked, needs_all());
  return true;
}

}  // namespace carillon::broker
