// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/partition_host.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "carillon/base/check.h"

namespace carillon::server {

using broker::Answer;
using broker::Broker;
using broker::Command;
using broker::CommitSeq;
using broker::Reply;
using broker::SessionId;
using broker::Ticket;

namespace {

// So many jobs are read by one call of the store: more come back later, and hold up this thread for
// longer when they do.
constexpr std::size_t kReadTogether = 128;

}  // namespace

/// Stands between posted calls and a host that may be gone by the time they run.
class PartitionHost::Gate {
 public:
  bool open = true;  // Read and written on the host's thread only.
};

/// Feeds what the store reads into the broker and notes the partition's own record.
class PartitionHost::Restorer final : public broker::RecoverySink {
 public:
  explicit Restorer(Broker& broker) : broker_(broker) {}

  void on_partition(const broker::PartitionRecord& record) override {
    partition = record;
    broker_.restore_partition(record);
  }
  void on_tube(const broker::TubeRecord& record) override {
    far_jobs += record.far_count;
    broker_.restore_tube(record);
  }
  void on_schedule(const broker::ScheduleRecord& record) override {
    broker_.restore_schedule(record);
  }
  void on_job(broker::StoredJob job) override {
    ++jobs;
    broker_.restore_job(std::move(job));
  }

  broker::PartitionRecord partition;
  std::uint64_t jobs = 0;
  std::uint64_t far_jobs = 0;

 private:
  Broker& broker_;
};

PartitionHost::PartitionHost(const PartitionHostOptions& options,
                             std::unique_ptr<broker::Store> store, const Clock& clock,
                             const Calendar& calendar, std::string boot_id, Outside outside)
    : options_(options),
      clock_(clock),
      calendar_(calendar),
      boot_id_(std::move(boot_id)),
      outside_(std::move(outside)),
      holds_schedules_(options.holds_schedules),
      gate_(std::make_shared<Gate>()),
      store_(std::move(store)) {
  broker::BrokerOptions broker_options = options.broker;
  broker_options.store_keeps_far_jobs = store_->keeps_far_jobs();
  broker_options.store_keeps_bodies = store_->keeps_bodies();
  broker::Effects& effects = *this;
  broker_ = std::make_unique<Broker>(broker_options, effects);
}

PartitionHost::~PartitionHost() {
  gate_->open = false;
  store_.reset();
}

Result<void> PartitionHost::open() {
  thread_ = std::this_thread::get_id();
  return recover();
}

WallTime PartitionHost::now() const { return timeline_ ? timeline_->now() : calendar_.now(); }

void PartitionHost::open_session(SessionId session) {
  const bool added = sessions_.try_emplace(session).second;
  CARILLON_CHECK(added, "session ", session, " is open already");
  broker_->open_session(session);
}

void PartitionHost::close_session(SessionId session) {
  const auto erased = sessions_.erase(session);
  CARILLON_CHECK(erased == 1, "session ", session, " is not open");
  broker_->close_session(session, now());
  resume_unblocked();
}

void PartitionHost::end_waiting(SessionId session) {
  broker_->end_waiting(session, now());
  // A reserve that has not been executed yet waits for nothing when it is.
  if (const auto found = sessions_.find(session); found != sessions_.end()) {
    for (QueuedCommand& queued : found->second.backlog) {
      if (queued.command.verb == broker::Verb::kReserve) queued.command.timeout = Span::zero();
    }
  }
  resume_unblocked();
}

void PartitionHost::submit(Command command) {
  const auto found = sessions_.find(command.ticket.session);
  CARILLON_CHECK(found != sessions_.end(), "session ", command.ticket.session, " is not open");
  SessionQueue& queue = found->second;
  // What ends a waiting reserve must overtake it.
  const bool overtakes = command.verb == broker::Verb::kCancelReserve;
  if ((queue.blocked || !queue.backlog.empty()) && !overtakes) {
    QueuedCommand queued{std::move(command), {}};
    queued.tube = queued.command.tube;
    queue.backlog.push_back(std::move(queued));
    return;
  }
  if (overtakes) {
    cancel_reserve(queue, std::move(command));
  } else {
    execute(queue, std::move(command));
  }
  resume_unblocked();
}

/// The reserve is being executed, or queued behind a command that waits for a read of the store, or
/// has been granted a job: then that goes back at once, before the session's next reserve, which
/// would pass over it otherwise.
void PartitionHost::cancel_reserve(SessionQueue& queue, Command command) {
  const SessionId session = command.ticket.session;
  const std::uint64_t slot = command.ticket.slot;
  if (queue.blocked && queue.blocked_slot == slot) {
    broker_->execute(std::move(command), now());
    queue.blocked = false;
    unblocked_.push_back(session);
  } else if (queue.reserve_slot == slot) {
    if (queue.granted == 0) return;
    Command unreserve;
    unreserve.verb = broker::Verb::kUnreserve;
    unreserve.ticket.session = session;
    unreserve.id = std::exchange(queue.granted, 0);
    broker_->execute(std::move(unreserve), now());
  } else {
    std::erase_if(queue.backlog, [slot](const QueuedCommand& queued) {
      return queued.command.ticket.slot == slot;
    });
  }
}

bool PartitionHost::blocked(SessionId session) const {
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second.blocked;
}

void PartitionHost::execute(SessionQueue& queue, Command command) {
  const std::uint64_t slot = command.ticket.slot;
  const broker::Verb verb = command.verb;
  if (verb == broker::Verb::kPut && !store_->accepts_puts()) {
    // In a batch it would be refused with all that is in there, and cost a recovery.
    Reply refusal;
    refusal.answer = Answer::kOutOfMemory;
    refusal.shortage = broker::Shortage::kSpace;
    reply(command.ticket, std::move(refusal), 0);
    return;
  }
  const bool dated = (command.extras && command.extras->due_at_ms) ||
                     (command.options && command.options->due_at_ms) ||
                     verb == broker::Verb::kSetSchedule || verb == broker::Verb::kRunSchedule;
  if (dated) look_at_calendar();
  if (verb == broker::Verb::kReserve) {
    queue.reserve_slot = slot;
    queue.granted = 0;
  }
  if (broker_->execute(std::move(command), now()) == Broker::Outcome::kBlocked) {
    queue.blocked = true;
    queue.blocked_slot = slot;
    queue.blocked_verb = verb;
  }
}

void PartitionHost::resume_unblocked() {
  while (!unblocked_.empty() || !immediate_.empty()) {
    if (!immediate_.empty()) {
      for (auto& call : std::exchange(immediate_, {})) call();
      continue;
    }
    const SessionId session = unblocked_.back();
    unblocked_.pop_back();
    const auto found = sessions_.find(session);
    if (found == sessions_.end()) continue;
    SessionQueue& queue = found->second;
    while (!queue.blocked && !queue.backlog.empty()) {
      QueuedCommand next = std::move(queue.backlog.front());
      queue.backlog.pop_front();
      next.command.tube = next.tube;
      execute(queue, std::move(next.command));
    }
  }
}

void PartitionHost::reply(Ticket ticket, Reply reply, CommitSeq needs) {
  const auto found = sessions_.find(ticket.session);
  if (found == sessions_.end()) return;
  SessionQueue& queue = found->second;
  if (reply.answer == Answer::kStats) add_own_counts(reply);
  if (queue.blocked && queue.blocked_slot == ticket.slot) {
    queue.blocked = false;
    unblocked_.push_back(ticket.session);
  }
  if (queue.reserve_slot == ticket.slot && reply.answer == Answer::kReserved) {
    queue.granted = reply.id;
  }
  if (needs <= durable_) {
    outside_.deliver(ticket, std::move(reply));
    return;
  }
  HeldReply held{needs, ticket, std::move(reply)};
  if (outbox_.empty() || outbox_.back().needs <= needs) {
    outbox_.push_back(std::move(held));
    return;
  }
  const auto after =
      std::upper_bound(outbox_.begin(), outbox_.end(), needs,
                       [](CommitSeq seq, const HeldReply& other) { return seq < other.needs; });
  outbox_.insert(after, std::move(held));
}

bool PartitionHost::turn() {
  if (recover_at_ && clock_.now() >= *recover_at_) {
    if (Result<void> result = recover(); !result) {
      log(LogLevel::kError, "the store is not back yet: " + result.error().message);
      recover_at_ = saturating_add(clock_.now(), options_.recover_retry);
    }
  }
  if (!timeline_) return false;
  look_at_calendar();
  // During a recovery too: nothing but waits can end then, and they are to end in time.
  const bool more = broker_->advance(now(), options_.advance_budget);
  // Before and after the commits: those may block, and what they let through may want more.
  read_wanted();
  do {
    commit_if_room();
    read_wanted();
  } while (!immediate_.empty());
  return more;
}

std::optional<Instant> PartitionHost::next_wake() const {
  if (!timeline_) return recover_at_;
  std::optional<Instant> wake = recover_at_;
  const auto also_at = [&wake](Instant at) { wake = wake ? std::min(*wake, at) : at; };
  if (const auto deadline = broker_->next_deadline()) also_at(timeline_->instant_of(*deadline));
  if (broker_->follows_calendar()) {
    also_at(saturating_add(calendar_seen_at_, options_.calendar_interval));
  }
  return wake;
}

/// Tells the broker where the calendar stands to the timeline: before all that may find a date due.
void PartitionHost::look_at_calendar() {
  // The calendar first: if this thread is held up between the two, the calendar seems to be behind
  // by that, which makes nobody early. To be behind by a millisecond that is looked at again.
  Span ahead = Span::min();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const WallTime calendar = calendar_.now();
    ahead = std::max(ahead, calendar - timeline_->now());
    if (calendar_ahead_ - ahead < std::chrono::milliseconds(1)) break;
  }
  calendar_ahead_ = ahead;
  calendar_seen_at_ = clock_.now();
  const WallTime at = now();
  broker_->set_calendar(saturating_add(at, ahead), at);
}

bool PartitionHost::accepts_work() const {
  return broker_->batch_mutations() < options_.max_batch_mutations &&
         broker_->batch_bytes() < options_.max_batch_bytes;
}

void PartitionHost::checkpoint() {
  if (broker_->available()) broker_->checkpoint(now());
}

bool PartitionHost::idle() const {
  return in_flight_.empty() && outbox_.empty() && (!broker_->available() || !broker_->has_batch());
}

bool PartitionHost::available() const { return broker_->available(); }

void PartitionHost::run_here_or_post(std::function<void()> call) {
  if (std::this_thread::get_id() == thread_ && inside_store_call_) {
    immediate_.push_back(std::move(call));
    return;
  }
  outside_.post([gate = gate_, call = std::move(call)] {
    if (gate->open) call();
  });
}

bool PartitionHost::has_room() const {
  return in_flight_.size() < options_.max_batches_in_flight ||
         mutations_in_flight_ + broker_->batch_mutations() <= options_.max_small_in_flight;
}

void PartitionHost::commit_if_room() {
  for (;;) {
    // First, since commands that were waiting may add to the batch.
    resume_unblocked();
    if (!broker_->available() || !broker_->has_batch() || !has_room()) return;
    std::unique_ptr<broker::Batch> batch = broker_->take_batch();
    in_flight_.push_back({batch->seq, batch->mutations.size(), clock_.now()});
    stats_.batch_mutations.add(batch->mutations.size());
    mutations_in_flight_ += batch->mutations.size();
    ++stats_.batches;
    stats_.mutations += batch->mutations.size();
    if (outside_.before_blocking && store_->commit_blocks(*batch)) outside_.before_blocking();
    inside_store_call_ = true;
    store_->commit(std::move(batch),
                   [this, generation = generation_](CommitSeq seq, Result<void> result) {
                     run_here_or_post([this, generation, seq, result = std::move(result)] {
                       on_committed(generation, seq, result);
                     });
                   });
    inside_store_call_ = false;
  }
}

void PartitionHost::on_committed(std::uint64_t generation, CommitSeq seq,
                                 const Result<void>& result) {
  if (generation != generation_) return;
  if (!result) {
    fail(result.error());
    return;
  }
  CARILLON_CHECK(in_flight_.empty() || seq <= in_flight_.back().seq, "batch ", seq,
                 " was not in flight");
  const Instant now_is = clock_.now();
  while (!in_flight_.empty() && in_flight_.front().seq <= seq) {
    const Span took = now_is - in_flight_.front().submitted;
    stats_.commit_us.add(static_cast<std::uint64_t>(std::max<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::microseconds>(took).count())));
    mutations_in_flight_ -= in_flight_.front().mutations;
    in_flight_.pop_front();
  }
  durable_ = std::max(durable_, seq);
  broker_->on_durable(durable_);
  release_durable();
  commit_if_room();
}

void PartitionHost::release_durable() {
  while (!outbox_.empty() && outbox_.front().needs <= durable_) {
    HeldReply held = std::move(outbox_.front());
    outbox_.pop_front();
    if (sessions_.contains(held.ticket.session)) {
      outside_.deliver(held.ticket, std::move(held.reply));
    }
  }
}

void PartitionHost::fail(const Error& error) {
  log(LogLevel::kError, "commit failed, going back to what is durable: " + error.message);
  ++stats_.commit_failures;
  ++generation_;
  in_flight_.clear();
  mutations_in_flight_ = 0;
  wanted_.clear();
  std::deque<HeldReply> broken = std::exchange(outbox_, {});
  broker_->begin_recovery();
  for (HeldReply& held : broken) {
    if (!sessions_.contains(held.ticket.session)) continue;
    Reply refusal;
    refusal.answer =
        held.reply.answer == Answer::kInserted ? Answer::kOutOfMemory : Answer::kInternalError;
    refusal.shortage = broker::Shortage::kStore;
    outside_.deliver(held.ticket, std::move(refusal));
  }
  resume_unblocked();
  recover_at_ = clock_.now();
}

Result<void> PartitionHost::recover() {
  broker_->begin_recovery();
  Restorer restorer(*broker_);
  if (Result<void> read = store_->recover(restorer); !read) return read;
  if (!timeline_) {
    timeline_ = std::make_unique<broker::Timeline>(
        clock_, calendar_.now(), boot_id_, restorer.partition.anchor,
        WallTime(saturating_span<std::chrono::milliseconds>(restorer.partition.latest_ms)));
  }
  look_at_calendar();
  broker_->finish_recovery(timeline_->now(), timeline_->anchor());
  recover_at_.reset();
  ++stats_.recoveries;
  stats_.recovered_jobs = restorer.jobs;
  stats_.recovered_far_jobs = restorer.far_jobs;
  if (stats_.recoveries > 1) log(LogLevel::kInfo, "the store is back");
  resume_unblocked();
  return {};
}

void PartitionHost::fetch(const broker::WantedJob& wanted) { wanted_.push_back(wanted); }

/// Asks the store for what the broker wanted since this was last called.
void PartitionHost::read_wanted() {
  for (std::size_t from = 0; from < wanted_.size(); from += kReadTogether) {
    const auto begin = wanted_.begin() + static_cast<std::ptrdiff_t>(from);
    const std::size_t count = std::min(kReadTogether, wanted_.size() - from);
    std::vector<broker::WantedJob> some(begin, begin + static_cast<std::ptrdiff_t>(count));
    inside_store_call_ = true;
    store_->fetch(some, [this, some, generation = generation_](
                            std::vector<Result<std::optional<broker::StoredJob>>> answers) {
      run_here_or_post([this, some, generation,
                        shared = std::make_shared<decltype(answers)>(std::move(answers))] {
        if (generation == generation_) on_read(some, std::move(*shared));
      });
    });
    inside_store_call_ = false;
  }
  wanted_.clear();
}

void PartitionHost::on_read(const std::vector<broker::WantedJob>& wanted,
                            std::vector<Result<std::optional<broker::StoredJob>>> answers) {
  look_at_calendar();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (answers[i]) {
      broker_->on_fetched(wanted[i].id, std::move(*answers[i]), now());
    } else {
      log(LogLevel::kError, "reading a job failed: " + answers[i].error().message);
      broker_->on_fetch_failed(wanted[i].id, now());
    }
  }
  resume_unblocked();
}

void PartitionHost::scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                             std::size_t limit) {
  scan_store(
      tube, from, until_ms, limit,
      [this, tube](broker::FarChunk chunk) { broker_->on_scanned(tube, std::move(chunk), now()); },
      [this, tube] { broker_->on_scan_failed(tube, now()); });
}

void PartitionHost::read_far(std::uint64_t scan, broker::TubeNumber tube, broker::FarCursor from,
                             std::int64_t until_ms, std::size_t limit) {
  scan_store(
      tube, from, until_ms, limit,
      [this, scan](broker::FarChunk chunk) { broker_->on_far_read(scan, std::move(chunk), now()); },
      [this, scan] { broker_->on_far_read_failed(scan, now()); });
}

void PartitionHost::scan_store(broker::TubeNumber tube, broker::FarCursor from,
                               std::int64_t until_ms, std::size_t limit,
                               std::function<void(broker::FarChunk)> done,
                               std::function<void()> failed) {
  inside_store_call_ = true;
  store_->scan_far(tube, from, until_ms, limit,
                   [this, generation = generation_, done = std::move(done),
                    failed = std::move(failed)](Result<broker::FarChunk> result) {
                     auto shared = std::make_shared<Result<broker::FarChunk>>(std::move(result));
                     run_here_or_post([this, generation, shared, done, failed] {
                       if (generation != generation_) return;
                       look_at_calendar();
                       if (*shared) {
                         done(std::move(**shared));
                       } else {
                         log(LogLevel::kError,
                             "reading far jobs failed: " + shared->error().message);
                         failed();
                       }
                       resume_unblocked();
                     });
                   });
  inside_store_call_ = false;
}

void PartitionHost::find_key(broker::TubeNumber tube, const std::string& key) {
  inside_store_call_ = true;
  store_->find_key(
      tube, key,
      [this, tube, key,
       generation = generation_](const Result<std::optional<broker::FarPlace>>& result) {
        run_here_or_post([this, tube, key, generation, result] {
          if (generation != generation_) return;
          look_at_calendar();
          if (result) {
            broker_->on_key_found(tube, key, *result, now());
          } else {
            log(LogLevel::kError, "looking up a key failed: " + result.error().message);
            broker_->on_find_key_failed(tube, key, now());
          }
          resume_unblocked();
        });
      });
  inside_store_call_ = false;
}

broker::Shortage PartitionHost::shortage_for_puts() {
  if (holds_schedules_) return broker::Shortage::kHeld;
  return store_->accepts_puts() ? broker::Shortage::kNone : broker::Shortage::kSpace;
}

void PartitionHost::on_used_up(broker::JobId id, const std::string& tube, std::uint32_t attempts) {
  const std::optional<std::uint64_t> count = used_up_.note(clock_.now());
  if (!count) return;
  outside_.log(LogLevel::kWarning, "attempts_used_up",
               "buried since their attempts are used up: " + std::to_string(*count) +
                   (*count == 1 ? " job" : " jobs") + ", the last of them " + std::to_string(id) +
                   " of tube " + tube + " after " + std::to_string(attempts),
               {{"jobs", *count}, {"id", id}, {"tube", tube}, {"attempts", attempts}});
}

/// What the host counts belongs to the partition's statistics.
void PartitionHost::add_own_counts(Reply& reply) const {
  if (!reply.detail) return;
  if (auto* stats = std::get_if<broker::PartitionStats>(reply.detail.get())) {
    stats->commit_us = stats_.commit_us;
    stats->batch_mutations = stats_.batch_mutations;
  }
}

void PartitionHost::log(LogLevel level, std::string_view message) const {
  outside_.log(level, message);
}

}  // namespace carillon::server
