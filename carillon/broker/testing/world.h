// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A broker in a test: time that a test moves, sessions, and a host that keeps the rules of
/// broker.h. Nothing here sleeps.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/broker/broker.h"
#include "carillon/broker/testing/fake_store.h"

namespace carillon::broker::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The host of a broker and its fake store. By default every batch is durable at the end of the
/// call that filled it, and every read is answered then; `manual` leaves both to the test.
class World : public Effects {
 public:
  struct FetchAsked {
    JobId id = 0;
    /// What the store saw, if it looked at once.
    std::optional<std::optional<StoredJob>> seen;
  };
  struct ScanAsked {
    TubeNumber tube = 0;
    FarCursor from;
    std::int64_t until_ms = 0;
    std::size_t limit = 0;
    std::optional<FarChunk> seen;
    std::uint64_t scan = 0;  ///< Of a list or clear; 0: of a load.
  };
  struct KeyAsked {
    TubeNumber tube = 0;
    std::string key;
    std::optional<std::optional<FarPlace>> seen;
  };

  explicit World(BrokerOptions options = {}, bool manual = false)
      : options_(options), manual_(manual), broker_(std::make_unique<Broker>(options, *this)) {
    store_.recover(*broker_);
    broker_->finish_recovery(now_, {"boot", Span(7)});
    pump();
  }

  Broker& broker() { return *broker_; }
  FakeStore& store() { return store_; }
  [[nodiscard]] WallTime now() const { return now_; }
  [[nodiscard]] std::int64_t now_ms() const { return floor_ms(now_); }

  // Sessions.

  /// A session that uses and watches "default", as the protocol's new connections do.
  SessionId connect() {
    const SessionId id = connect_bare();
    use(id, "default");
    watch(id, "default");
    return id;
  }
  SessionId connect_bare() {
    broker_->open_session(++last_session_);
    return last_session_;
  }
  void close(SessionId session) {
    broker_->close_session(session, now_);
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      it = it->first.first == session ? waiting_.erase(it) : std::next(it);
    }
    pump();
  }
  void end_waiting(SessionId session) {
    broker_->end_waiting(session, now_);
    pump();
  }

  // Commands. Each returns its reply, or nothing if it has none yet (see answer()).

  std::optional<Reply> run(SessionId session, Command command) {
    command.ticket = {session, ++last_slot_};
    last_ticket_[session] = command.ticket;
    const Ticket ticket = command.ticket;
    const bool silent = command.verb == Verb::kUnreserve || command.verb == Verb::kCancelReserve;
    outcome_ = broker_->execute(std::move(command), now_);
    CARILLON_CHECK(silent || outcome_ == Broker::Outcome::kBlocked || given_.contains(ticket.slot),
                   "a command is done without a reply");
    CARILLON_CHECK(outcome_ == Broker::Outcome::kDone || !given_.contains(ticket.slot),
                   "a command that has its reply is blocked");
    pump();
    return answer(session);
  }
  /// The reply to the session's last command, once it has come.
  std::optional<Reply> answer(SessionId session) {
    const auto found = delivered_.find(last_ticket_[session].slot);
    if (found == delivered_.end()) return std::nullopt;
    Reply reply = std::move(found->second);
    delivered_.erase(found);
    return reply;
  }
  [[nodiscard]] bool answered(SessionId session) {
    return delivered_.contains(last_ticket_[session].slot);
  }
  [[nodiscard]] Broker::Outcome outcome() const { return outcome_; }
  /// What the broker said that the reply to the session's last command must wait for.
  [[nodiscard]] CommitSeq needs(SessionId session) { return given_.at(last_ticket_[session].slot); }

  std::optional<Reply> put(SessionId session, std::string_view tube, std::string_view body,
                           Span delay = {}, std::uint32_t priority = 0, Span ttr = seconds(60)) {
    Command command;
    command.verb = Verb::kPut;
    command.tube = tube;
    command.body = Body(body);
    command.delay = delay;
    command.priority = priority;
    command.ttr = ttr;
    return run(session, std::move(command));
  }
  /// A put that is expected to succeed at once.
  JobId put_id(SessionId session, std::string_view body, Span delay = {},
               std::uint32_t priority = 0, Span ttr = seconds(60),
               std::string_view tube = "default") {
    const auto reply = put(session, tube, body, delay, priority, ttr);
    CARILLON_CHECK(reply && reply->answer == Answer::kInserted, "a put failed");
    return reply->id;
  }
  std::optional<Reply> reserve(SessionId session, std::optional<Span> timeout = std::nullopt) {
    Command command;
    command.verb = Verb::kReserve;
    command.timeout = timeout;
    return run(session, std::move(command));
  }
  std::optional<Reply> poll(SessionId session) { return reserve(session, Span::zero()); }
  std::optional<Reply> by_id(SessionId session, Verb verb, JobId id, std::uint32_t priority = 0,
                             Span delay = {}) {
    Command command;
    command.verb = verb;
    command.id = id;
    command.priority = priority;
    command.delay = delay;
    return run(session, std::move(command));
  }
  std::optional<Reply> by_tube(SessionId session, Verb verb, std::string_view tube,
                               std::uint64_t count = 0, Span delay = {}) {
    Command command;
    command.verb = verb;
    command.tube = tube;
    command.count = count;
    command.delay = delay;
    return run(session, std::move(command));
  }
  std::optional<Reply> del(SessionId session, JobId id) {
    return by_id(session, Verb::kDelete, id);
  }
  std::optional<Reply> release(SessionId session, JobId id, std::uint32_t priority = 0,
                               Span delay = {}) {
    return by_id(session, Verb::kRelease, id, priority, delay);
  }
  std::optional<Reply> use(SessionId session, std::string_view tube) {
    return by_tube(session, Verb::kUse, tube);
  }
  std::optional<Reply> watch(SessionId session, std::string_view tube) {
    return by_tube(session, Verb::kWatch, tube);
  }
  std::optional<Reply> ignore(SessionId session, std::string_view tube) {
    return by_tube(session, Verb::kIgnore, tube);
  }
  std::optional<Reply> pause(SessionId session, std::string_view tube, Span delay) {
    return by_tube(session, Verb::kPauseTube, tube, 0, delay);
  }
  std::optional<Reply> kick(SessionId session, std::uint64_t count,
                            std::string_view tube = "default") {
    return by_tube(session, Verb::kKick, tube, count);
  }

  // Statistics, as a session of their own; they commit if they must.

  JobStats stats_job(JobId id) { return detail<JobStats>(by_id(observer(), Verb::kStatsJob, id)); }
  TubeStats stats_tube(std::string_view tube) {
    return detail<TubeStats>(by_tube(observer(), Verb::kStatsTube, tube));
  }
  PartitionStats stats() { return detail<PartitionStats>(run(observer(), Command{})); }
  TubeNames tubes() { return detail<TubeNames>(by_tube(observer(), Verb::kListTubes, "")); }
  bool exists(JobId id) { return by_id(observer(), Verb::kPeek, id)->answer == Answer::kFound; }

  // Time.

  /// Moves time by `span`, stopping at each deadline on the way as a host that sleeps does.
  void pass(Span span) { pass_until(now_ + span); }
  void pass_until(WallTime end) {
    for (;;) {
      const auto next = broker_->next_deadline();
      if (!next || *next > end) break;
      now_ = std::max(now_, *next);
      advance();
    }
    now_ = end;
    advance();
  }
  /// Moves time by `span` at once, as a host that was held up; then everything due is handled.
  void jump(Span span) {
    now_ += span;
    advance();
  }
  void advance(std::size_t budget = 1'000) {
    while (broker_->advance(now_, budget)) pump();
    pump();
  }

  /// The calendar is set, forwards or back; time goes on as before.
  void step_calendar(Span span) {
    calendar_ahead_ += span;
    tell_calendar();
    pump();
  }
  [[nodiscard]] WallTime calendar() const { return now_ + calendar_ahead_; }
  [[nodiscard]] std::int64_t calendar_ms() const { return floor_ms(calendar()); }

  // Durability, in manual mode.

  /// Submits the batch being filled, if there is anything in it.
  void submit() {
    if (broker_->available() && broker_->has_batch()) {
      store_.submit(broker_->take_batch(std::move(recycled_)));
    }
  }
  /// The oldest batch in flight becomes durable.
  void make_durable() {
    durable_ = store_.make_durable();
    broker_->on_durable(durable_);
    deliver_durable();
  }
  void commit() {
    submit();
    while (store_.anything_in_flight()) make_durable();
  }
  std::optional<Answer> peek_answer(SessionId session) {
    const auto found = delivered_.find(last_ticket_[session].slot);
    return found == delivered_.end() ? std::nullopt : std::optional(found->second.answer);
  }

  /// The commits in flight fail, though the first `written` batches are there; the host begins the
  /// recovery. finish_recovery() ends it.
  void fail_commits(std::size_t written = 0) {
    store_.fail(written);
    forget_reads();
    broker_->begin_recovery();
    for (auto& [key, held] : std::exchange(waiting_, {})) {
      Reply refusal;
      refusal.answer =
          held.reply.answer == Answer::kInserted ? Answer::kOutOfMemory : Answer::kInternalError;
      delivered_[key.second] = std::move(refusal);
    }
  }
  /// A fetch or scan that was asked for fails.
  void fail_fetch(std::size_t which = 0) {
    const JobId id = fetches.at(which).id;
    fetches.erase(fetches.begin() + static_cast<std::ptrdiff_t>(which));
    broker_->on_fetch_failed(id, now_);
    pump();
  }
  void fail_scan(std::size_t which = 0) {
    const ScanAsked asked = scans.at(which);
    scans.erase(scans.begin() + static_cast<std::ptrdiff_t>(which));
    if (asked.scan != 0) {
      broker_->on_far_read_failed(asked.scan, now_);
    } else {
      broker_->on_scan_failed(asked.tube, now_);
    }
    pump();
  }
  void finish_recovery(bool with_bodies = true) {
    store_.recover(*broker_, with_bodies);
    tell_calendar();
    broker_->finish_recovery(now_, {"boot", Span(7)});
    pump();
  }

  /// The process is killed and started again `later`: sessions are gone, as is what was not
  /// durable, but for the first `written` batches in flight.
  void restart(Span later = {}, bool with_bodies = true, std::size_t written = 0) {
    store_.fail(written);
    forget_reads();
    waiting_.clear();
    delivered_.clear();
    observer_ = 0;
    durable_ = 0;
    now_ += later;
    broker_ = std::make_unique<Broker>(options_, *this);
    FakeStore fresh = std::move(store_);
    store_ = FakeStore(fresh.durable());
    store_.recover(*broker_, with_bodies);
    tell_calendar();
    broker_->finish_recovery(now_, {"boot", Span(7)});
    pump();
  }

  // Reads, in manual mode.

  void answer_fetch(std::size_t which = 0) {
    FetchAsked asked = std::move(fetches.at(which));
    fetches.erase(fetches.begin() + static_cast<std::ptrdiff_t>(which));
    broker_->on_fetched(asked.id, asked.seen ? *asked.seen : store_.fetch(asked.id), now_);
  }
  void answer_scan(std::size_t which = 0) {
    ScanAsked asked = std::move(scans.at(which));
    scans.erase(scans.begin() + static_cast<std::ptrdiff_t>(which));
    if (!asked.seen) {
      asked.seen = store_.scan_far(asked.tube, asked.from, asked.until_ms, asked.limit);
    }
    if (asked.scan != 0) {
      broker_->on_far_read(asked.scan, std::move(*asked.seen), now_);
    } else {
      broker_->on_scanned(asked.tube, std::move(*asked.seen), now_);
    }
  }

  void answer_key(std::size_t which = 0) {
    KeyAsked asked = std::move(keys.at(which));
    keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(which));
    if (!asked.seen) asked.seen = store_.find_key(asked.tube, asked.key);
    broker_->on_key_found(asked.tube, asked.key, *asked.seen, now_);
  }
  void fail_key(std::size_t which = 0) {
    const KeyAsked asked = keys.at(which);
    keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(which));
    broker_->on_find_key_failed(asked.tube, asked.key, now_);
    pump();
  }

  std::deque<FetchAsked> fetches;
  std::deque<ScanAsked> scans;
  std::deque<KeyAsked> keys;
  /// Whether a read sees the store as it is when asked, or as it is when answered.
  bool reads_look_at_once = false;
  std::size_t fetch_count = 0;
  std::size_t scan_count = 0;
  std::size_t key_count = 0;

 private:
  struct Held {
    Reply reply;
    CommitSeq needs = 0;
  };

  void reply(Ticket ticket, Reply reply, CommitSeq needs) override {
    CARILLON_CHECK(!given_.contains(ticket.slot), "slot ", ticket.slot, " is answered twice");
    given_[ticket.slot] = needs;
    if (needs <= durable_) {
      delivered_[ticket.slot] = std::move(reply);
    } else {
      waiting_[{ticket.session, ticket.slot}] = {std::move(reply), needs};
    }
  }
  void fetch(const WantedJob& wanted) override {
    ++fetch_count;
    fetches.push_back({wanted.id, std::nullopt});
    if (reads_look_at_once) fetches.back().seen = store_.fetch(wanted.id);
  }
  void scan_far(TubeNumber tube, FarCursor from, std::int64_t until_ms,
                std::size_t limit) override {
    ++scan_count;
    ask_scan({tube, from, until_ms, limit, std::nullopt, 0});
  }
  void read_far(std::uint64_t scan, TubeNumber tube, FarCursor from, std::int64_t until_ms,
                std::size_t limit) override {
    ask_scan({tube, from, until_ms, limit, std::nullopt, scan});
  }
  void ask_scan(ScanAsked asked) {
    if (reads_look_at_once) {
      asked.seen = store_.scan_far(asked.tube, asked.from, asked.until_ms, asked.limit);
    }
    scans.push_back(std::move(asked));
  }

  void find_key(TubeNumber tube, const std::string& key) override {
    ++key_count;
    keys.push_back({tube, key, std::nullopt});
    if (reads_look_at_once) keys.back().seen = store_.find_key(tube, key);
  }
  void tell_calendar() { broker_->set_calendar(calendar(), now_); }
  void forget_reads() {
    fetches.clear();
    scans.clear();
    keys.clear();
  }

  void deliver_durable() {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->second.needs <= durable_) {
        delivered_[it->first.second] = std::move(it->second.reply);
        it = waiting_.erase(it);
      } else {
        ++it;
      }
    }
  }
  void pump() {
    broker_->check_invariants();
    if (manual_) return;
    for (;;) {
      commit();
      if (!fetches.empty()) {
        answer_fetch();
      } else if (!scans.empty()) {
        answer_scan();
      } else if (!keys.empty()) {
        answer_key();
      } else if (broker_->scanning()) {
        broker_->advance(now_, 1);
      } else if (!broker_->available() || !broker_->has_batch()) {
        break;
      }
    }
    broker_->check_invariants();
  }
  template <class Detail>
  Detail detail(std::optional<Reply> reply) {
    if (!reply) {
      commit();
      reply = answer(observer_);
    }
    CARILLON_CHECK(reply && reply->answer == Answer::kStats, "statistics were refused");
    return std::get<Detail>(*reply->detail);
  }
  SessionId observer() {
    if (observer_ == 0) observer_ = connect_bare();
    return observer_;
  }

  BrokerOptions options_;
  const bool manual_;
  // 2026-01-01T00:00:00Z, so that times look as they will.
  WallTime now_{seconds(1'767'225'600)};
  Span calendar_ahead_{};
  FakeStore store_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<Batch> recycled_;
  SessionId last_session_ = 0;
  SessionId observer_ = 0;
  std::uint64_t last_slot_ = 0;
  CommitSeq durable_ = 0;
  Broker::Outcome outcome_ = Broker::Outcome::kDone;
  std::map<SessionId, Ticket> last_ticket_;
  std::map<std::uint64_t, CommitSeq> given_;
  std::map<std::uint64_t, Reply> delivered_;
  std::map<std::pair<SessionId, std::uint64_t>, Held> waiting_;
};

}  // namespace carillon::broker::testing
