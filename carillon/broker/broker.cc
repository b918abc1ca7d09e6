// SPDX-License-Identifier: Apache-2.0
#include "carillon/broker/broker.h"

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

namespace {

/// Whether the command names a job, and has a key to do it with.
bool names_by_key(const Command& command) {
  if (!command.options || command.options->key.empty()) return false;
  switch (command.verb) {
    case Verb::kReserveJob:
    case Verb::kDelete:
    case Verb::kRelease:
    case Verb::kBury:
    case Verb::kTouch:
    case Verb::kKickJob:
    case Verb::kPeek:
    case Verb::kStatsJob:
    case Verb::kGet:
    case Verb::kCancel:
    case Verb::kChange:
    case Verb::kHandOver: return true;
    default: return false;
  }
}

}  // namespace

Broker::Broker(const BrokerOptions& options, Effects& effects)
    : state_(std::make_unique<State>(options, effects)) {}
Broker::~Broker() = default;

void Broker::open_session(SessionId session) { state_->open_session(session); }
void Broker::close_session(SessionId session, WallTime now) { state_->close_session(session, now); }
void Broker::end_waiting(SessionId session, WallTime now) { state_->end_waiting(session, now); }
Broker::Outcome Broker::execute(Command command, WallTime now) {
  return state_->execute(std::move(command), now);
}
bool Broker::advance(WallTime now, std::size_t budget) { return state_->advance(now, budget); }
std::optional<WallTime> Broker::next_deadline() const { return state_->next_deadline(); }
bool Broker::has_batch() const { return state_->has_batch(); }
std::size_t Broker::batch_mutations() const { return state_->batch_mutations(); }
std::size_t Broker::batch_bytes() const { return state_->batch_bytes(); }
std::unique_ptr<Batch> Broker::take_batch(std::unique_ptr<Batch> recycled) {
  return state_->take_batch(std::move(recycled));
}
void Broker::on_durable(CommitSeq seq) { state_->on_durable(seq); }
void Broker::on_fetched(JobId id, std::optional<StoredJob> job, WallTime now) {
  state_->on_fetched(id, std::move(job), now);
}
void Broker::on_scanned(TubeNumber tube, FarChunk chunk, WallTime now) {
  state_->on_scanned(tube, std::move(chunk), now);
}
void Broker::on_fetch_failed(JobId id, WallTime now) { state_->on_fetch_failed(id, now); }
void Broker::on_scan_failed(TubeNumber tube, WallTime now) { state_->on_scan_failed(tube, now); }
void Broker::on_key_found(TubeNumber tube, std::string_view key, std::optional<FarPlace> found,
                          WallTime now) {
  state_->on_key_found(tube, key, found, now);
}
void Broker::on_find_key_failed(TubeNumber tube, std::string_view key, WallTime now) {
  state_->on_find_key_failed(tube, key, now);
}
void Broker::on_far_read(std::uint64_t scan, FarChunk chunk, WallTime now) {
  state_->on_far_read(scan, std::move(chunk), now);
}
void Broker::on_far_read_failed(std::uint64_t scan, WallTime now) {
  state_->on_far_read_failed(scan, now);
}
bool Broker::scanning() const { return state_->scanning(); }
void Broker::set_calendar(WallTime calendar, WallTime now) { state_->set_calendar(calendar, now); }
bool Broker::follows_calendar() const { return state_->follows_calendar(); }
void Broker::begin_recovery() { state_->begin_recovery(); }
void Broker::restore_partition(const PartitionRecord& record) { state_->restore_partition(record); }
void Broker::restore_tube(const TubeRecord& record) { state_->restore_tube(record); }
void Broker::restore_schedule(const ScheduleRecord& record) { state_->restore_schedule(record); }
void Broker::restore_job(StoredJob job) { state_->restore_job(std::move(job)); }
void Broker::finish_recovery(WallTime now, const TimeAnchor& anchor) {
  state_->finish_recovery(now, anchor);
}
bool Broker::available() const { return state_->available(); }
void Broker::checkpoint(WallTime now) { state_->checkpoint(now); }
PartitionStats Broker::stats() const { return state_->stats(); }
Broker::Lateness Broker::lateness() const { return state_->lateness(); }
void Broker::check_invariants() const { state_->check_invariants(); }

Broker::State::State(const BrokerOptions& options, Effects& effects)
    : options_(options),
      effects_(effects),
      horizon_ms_(std::max<std::int64_t>(
          1, std::chrono::duration_cast<std::chrono::milliseconds>(options.horizon).count())),
      random_(options.random_seed),
      next_id_(options.first_id) {
  CARILLON_CHECK(options.first_id > 0 && options.id_step > 0, "ids start above 0 and ascend");
  CARILLON_CHECK(options.load_chunk > 0, "far jobs cannot be loaded in pieces of none");
  filling_ = std::make_unique<Batch>();
  filling_->seq = 1;
  if (options.owns_default_tube) make_tube(internal::kDefaultTube);
}

void Broker::State::enter(WallTime now) {
  now_ = std::max(now_, now);
  now_ms_ = floor_ms(now_);
}

/// The last step of every call; see the top of state.h.
void Broker::State::settle_waiters() {
  if (!tubes_to_serve_.empty()) serve_waiting();
  for (std::size_t i = 0; i < sessions_to_retry_.size(); ++i) {
    const auto found = session_by_id_.find(sessions_to_retry_[i]);
    if (found != session_by_id_.end()) try_reserve(sessions_[found->second]);
  }
  sessions_to_retry_.clear();
  // Last: who was waiting for a job that became ready at this very moment has it now.
  for (const SessionId id : sessions_timed_out_) {
    const auto found = session_by_id_.find(id);
    if (found != session_by_id_.end()) time_is_up(sessions_[found->second]);
  }
  sessions_timed_out_.clear();
}

/// The millisecond at which `span` from now has certainly passed.
std::int64_t Broker::State::due_after(Span span) const {
  return ceil_ms(saturating_add(now_, span));
}

CommitSeq Broker::State::needs_job(const Job& job) const {
  // The low half tells the batch among the last 2^32; an older one is taken for one of those, which
  // at worst holds the reply back until the present batch is durable.
  const auto behind = static_cast<std::uint32_t>(filling_->seq) - job.changed_seq;
  const CommitSeq seq = filling_->seq > behind ? filling_->seq - behind : 0;
  return std::min(needs(seq), needs_all());
}

void Broker::State::reply(const Ticket& ticket, Answer answer, CommitSeq needs) {
  Reply reply;
  reply.answer = answer;
  effects_.reply(ticket, std::move(reply), needs);
}

void Broker::State::refuse(const Ticket& ticket, Refusal why) {
  Reply reply;
  reply.answer = why.answer;
  reply.shortage = why.shortage;
  effects_.reply(ticket, std::move(reply), 0);
}

void Broker::State::reply_count(const Ticket& ticket, Answer answer, std::uint64_t count,
                                CommitSeq needs) {
  Reply reply;
  reply.answer = answer;
  reply.count = count;
  effects_.reply(ticket, std::move(reply), needs);
}

void Broker::State::reply_id(const Ticket& ticket, Answer answer, JobId id, CommitSeq needs) {
  Reply reply;
  reply.answer = answer;
  reply.id = id;
  effects_.reply(ticket, std::move(reply), needs);
}

void Broker::State::reply_job(const Ticket& ticket, Answer answer, JobId id, Body body,
                              CommitSeq needs) {
  Reply reply;
  reply.answer = answer;
  reply.id = id;
  reply.body = std::move(body);
  effects_.reply(ticket, std::move(reply), needs);
}

Broker::Outcome Broker::State::execute(Command command, WallTime now) {
  enter(now);
  Session& s = session(command.ticket.session);
  const bool silent = command.verb == Verb::kCancelReserve || command.verb == Verb::kUnreserve;
  CARILLON_CHECK(silent || s.blocked == Blocked::kNo, "session ", s.id,
                 " was given a command while one is blocked");
  if (available_) {
    dispatch(command, s);
  } else {
    refuse(command, s);
  }
  settle_waiters();
  return silent || s.blocked == Blocked::kNo ? Outcome::kDone : Outcome::kBlocked;
}

void Broker::State::dispatch(Command& command, Session& s) {
  if (command.id == 0 && names_by_key(command) && !find_by_key(command, s)) return;
  switch (command.verb) {
    case Verb::kPut: return put(command, s);
    case Verb::kReserve: return reserve(command, s);
    case Verb::kReserveJob: return reserve_job(command, s);
    case Verb::kDelete: return del(command, s);
    case Verb::kRelease: return release(command, s);
    case Verb::kBury: return bury(command, s);
    case Verb::kTouch: return touch(command, s);
    case Verb::kKick: return kick(command, s);
    case Verb::kKickJob: return kick_job(command, s);
    case Verb::kPeek: return peek(command, s);
    case Verb::kPeekReady: return peek_ready(command, s);
    case Verb::kPeekDelayed: return peek_delayed(command, s);
    case Verb::kPeekBuried: return peek_buried(command, s);
    case Verb::kUse: return use(command, s);
    case Verb::kWatch: return watch(command, s);
    case Verb::kIgnore: return ignore(command, s);
    case Verb::kPauseTube: return pause_tube(command);
    case Verb::kStatsJob: return stats_job(command, s);
    case Verb::kStatsTube: return stats_tube(command);
    case Verb::kStats: return reply_detail(command.ticket, stats(), needs_all());
    case Verb::kListTubes: return list_tubes(command);
    case Verb::kCancelReserve: return cancel_reserve(s);
    case Verb::kUnreserve: return unreserve(command, s);
    case Verb::kGet: return get(command, s);
    case Verb::kCancel: return cancel(command, s);
    case Verb::kChange: return change(command, s);
    case Verb::kHandOver: return hand_over(command, s);
    case Verb::kSetTube: return set_tube(command);
    case Verb::kSetSchedule: return set_schedule(command);
    case Verb::kGetSchedule: return get_schedule(command);
    case Verb::kListSchedules: return list_schedules(command);
    case Verb::kDeleteSchedule: return delete_schedule(command);
    case Verb::kRunSchedule: return run_schedule(command);
    case Verb::kList:
    case Verb::kClear:
    case Verb::kWheel: return begin_scan(command, s);
  }
}

/// Executes what needs no store, during a recovery.
void Broker::State::refuse(const Command& command, Session& s) {
  switch (command.verb) {
    case Verb::kPut: return refuse(command.ticket, Shortage::kStore);
    case Verb::kReserve: return reserve(command, s);
    case Verb::kUse: return use(command, s);
    case Verb::kWatch: return watch(command, s);
    case Verb::kIgnore: return ignore(command, s);
    case Verb::kCancelReserve: return cancel_reserve(s);
    case Verb::kUnreserve:
      std::erase_if(saved_, [&](const SavedReservation& saved) {
        return saved.session == s.id && saved.job == command.id;
      });
      return;
    case Verb::kReserveJob:
    case Verb::kDelete:
    case Verb::kRelease:
    case Verb::kBury:
    case Verb::kTouch:
    case Verb::kKick:
    case Verb::kKickJob:
    case Verb::kPeek:
    case Verb::kPeekReady:
    case Verb::kPeekDelayed:
    case Verb::kPeekBuried:
    case Verb::kPauseTube:
    case Verb::kStatsJob:
    case Verb::kStatsTube:
    case Verb::kStats:
    case Verb::kGet:
    case Verb::kCancel:
    case Verb::kChange:
    case Verb::kHandOver:
    case Verb::kList:
    case Verb::kClear:
    case Verb::kSetTube:
    case Verb::kSetSchedule:
    case Verb::kGetSchedule:
    case Verb::kListSchedules:
    case Verb::kDeleteSchedule:
    case Verb::kRunSchedule:
    case Verb::kWheel:
    case Verb::kListTubes: return reply(command.ticket, Answer::kInternalError, 0);
  }
}

}  // namespace carillon::broker
