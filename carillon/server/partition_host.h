// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The host of one partition: joins a broker, its store and a timeline, and holds every reply back
/// until what it promises is durable. No sockets and no event loop: those call it, so that the
/// whole of it also runs in one thread under virtual time (tests/sim).
///
///     submit ──► Broker ──► batch being filled ──► Store::commit ──► on_committed
///                   │                                                     │
///                   └─ reply, needs seq ──► outbox (in order of seq) ──────┴──► deliver
///
/// Group commit: a batch is handed to the store at the end of an event-loop turn while fewer than
/// `max_batches_in_flight` are there; until then it fills. So one lone put is committed at once,
/// and under load a batch is whatever arrived while the last ones were being synced.
///
/// A failed commit: the replies that waited for it become errors, the broker drops its memory and
/// is restored from the store, which is tried again every `recover_retry` until it works. Memory
/// never runs ahead of what a client was told. Meanwhile a reserve waits, since nobody knows what
/// is ready: it is granted a job when the store is back, or ends when its own timeout does.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/result.h"
#include "carillon/broker/broker.h"
#include "carillon/broker/timeline.h"
#include "carillon/server/log.h"
#include "carillon/server/log_pace.h"

namespace carillon::server {

struct PartitionHostOptions {
  broker::BrokerOptions broker;
  /// Batches given to the store and not yet durable. 2 keeps the disk busy; more only makes the
  /// batches smaller ...
  std::size_t max_batches_in_flight = 2;
  /// ... unless all of them together have no more mutations than this: then none waits for the
  /// next, since one sync covers all that it finds written. So a few clients that wait for each
  /// reply wait for one sync and what is left of another, not for two.
  std::size_t max_small_in_flight = 32;
  /// Above either, accepts_work() says no and sessions stop reading.
  std::size_t max_batch_mutations = 50'000;
  std::size_t max_batch_bytes = std::size_t{32} << 20;
  /// Due things handled in one turn, so that a herd does not hold up the sessions.
  std::size_t advance_budget = 2'000;
  /// While jobs with a date are pending the calendar is looked at so often, at least: a step of it
  /// is noticed by then.
  Span calendar_interval = std::chrono::seconds(1);
  /// Pause between attempts to bring a failed store back.
  Span recover_retry = std::chrono::seconds(1);
  /// As hold_schedules(), from the start.
  bool holds_schedules = false;
};

/// What a host has seen since it was opened.
struct PartitionHostStats {
  std::uint64_t batches = 0;
  std::uint64_t mutations = 0;
  std::uint64_t commit_failures = 0;
  std::uint64_t recoveries = 0;
  std::uint64_t recovered_jobs = 0;      ///< Jobs read into memory by the last recovery ...
  std::uint64_t recovered_far_jobs = 0;  ///< ... and those that it left in the store.
  broker::Histogram commit_us;           ///< From handing a batch to the store until it is durable.
  broker::Histogram batch_mutations;     ///< Of each batch.
};

/// Threads:  one object, one thread (whichever calls open()); the store's callbacks come in through
///           `post`, from any thread.
/// Lifetime: clock, calendar and what the functions refer to must outlive it. Destroying it waits
///           for the store's callbacks, none of which touches it afterwards.
class PartitionHost final : private broker::Effects {
 public:
  struct Outside {
    /// A reply to a ticket. Called from submit(), turn() and posted calls; must not call back.
    std::function<void(broker::Ticket, broker::Reply)> deliver;
    /// Runs a call later on this partition's thread. Called from any thread.
    std::function<void(std::function<void()>)> post;
    Log log;
    /// Called from turn() when the next commit blocks for the time of a sync: what was delivered
    /// should be sent on before. Must not call back. May be empty.
    std::function<void()> before_blocking;
  };

  PartitionHost(const PartitionHostOptions& options, std::unique_ptr<broker::Store> store,
                const Clock& clock, const Calendar& calendar, std::string boot_id, Outside outside);
  ~PartitionHost() override;

  /// Reads the store and takes up service. Blocking. On an error it may be called again.
  Result<void> open();

  void open_session(broker::SessionId session);
  void close_session(broker::SessionId session);
  void end_waiting(broker::SessionId session);

  /// Executes `command`, or queues it behind a command of its session that is blocked. The replies
  /// of one session come in no promised order: its owner puts them in the order of their slots.
  void submit(broker::Command command);
  /// Whether a command of `session` has not been decided yet (it waits for a job, or for a read),
  /// so that what is submitted now queues behind it. A reply held back for the disk is decided.
  [[nodiscard]] bool blocked(broker::SessionId session) const;

  /// The end of an event-loop turn: handles what is due and commits what was collected. Returns
  /// whether more is due already: call again soon, without waiting.
  bool turn();
  /// When turn() must be called next though nothing arrives; nullopt: never.
  [[nodiscard]] std::optional<Instant> next_wake() const;
  /// Whether sessions should go on reading commands.
  [[nodiscard]] bool accepts_work() const;

  /// Puts the exact ids and the time reached into the batch: for a clean stop. Then turn() until
  /// idle().
  void checkpoint();
  /// While held, schedules put no instances: their periods wait as for a full tube.
  void hold_schedules(bool held) noexcept { holds_schedules_ = held; }
  /// Nothing to commit, nothing in flight, no reply held back.
  [[nodiscard]] bool idle() const;
  /// Whether there is room to make puts durable.
  [[nodiscard]] bool has_room_for_puts() const { return store_->accepts_puts(); }
  /// False between a failed commit and the recovery from it.
  [[nodiscard]] bool available() const;

  [[nodiscard]] WallTime now() const;
  [[nodiscard]] const broker::Broker& broker() const { return *broker_; }
  [[nodiscard]] const PartitionHostStats& stats() const noexcept { return stats_; }

 private:
  struct QueuedCommand {
    broker::Command command;
    std::string tube;
  };
  struct SessionQueue {
    bool blocked = false;
    std::uint64_t blocked_slot = 0;
    broker::Verb blocked_verb{};
    // The last reserve that was executed, and the job it was granted, if it was.
    std::uint64_t reserve_slot = 0;
    broker::JobId granted = 0;
    std::deque<QueuedCommand> backlog;
  };
  struct HeldReply {
    broker::CommitSeq needs = 0;
    broker::Ticket ticket;
    broker::Reply reply;
  };
  class Gate;
  class Restorer;

  // Effects.
  void reply(broker::Ticket ticket, broker::Reply reply, broker::CommitSeq needs) override;
  void fetch(const broker::WantedJob& wanted) override;
  void scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                std::size_t limit) override;
  void read_far(std::uint64_t scan, broker::TubeNumber tube, broker::FarCursor from,
                std::int64_t until_ms, std::size_t limit) override;
  void find_key(broker::TubeNumber tube, const std::string& key) override;
  broker::Shortage shortage_for_puts() override;
  void on_used_up(broker::JobId id, const std::string& tube, std::uint32_t attempts) override;

  void execute(SessionQueue& queue, broker::Command command);
  void cancel_reserve(SessionQueue& queue, broker::Command command);
  void resume_unblocked();
  void read_wanted();
  void on_read(const std::vector<broker::WantedJob>& wanted,
               std::vector<Result<std::optional<broker::StoredJob>>> answers);
  void commit_if_room();
  [[nodiscard]] bool has_room() const;
  void scan_store(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                  std::size_t limit, std::function<void(broker::FarChunk)> done,
                  std::function<void()> failed);
  void look_at_calendar();
  void add_own_counts(broker::Reply& reply) const;
  void on_committed(std::uint64_t generation, broker::CommitSeq seq, const Result<void>& result);
  void release_durable();
  void fail(const Error& error);
  Result<void> recover();
  void run_here_or_post(std::function<void()> call);
  void log(LogLevel level, std::string_view message) const;

  const PartitionHostOptions options_;
  const Clock& clock_;
  const Calendar& calendar_;
  const std::string boot_id_;
  const Outside outside_;

  std::unique_ptr<broker::Timeline> timeline_;
  std::unique_ptr<broker::Broker> broker_;
  std::unordered_map<broker::SessionId, SessionQueue> sessions_;
  std::vector<broker::SessionId> unblocked_;
  // Asked for since the last turn, to be read together.
  std::vector<broker::WantedJob> wanted_;

  // Invariant: outbox_ is in ascending order of `needs`, all of them above durable_.
  std::deque<HeldReply> outbox_;
  struct InFlight {
    broker::CommitSeq seq = 0;
    std::size_t mutations = 0;
    Instant submitted{};
  };
  std::deque<InFlight> in_flight_;
  std::size_t mutations_in_flight_ = 0;
  broker::CommitSeq durable_ = 0;
  // Counts recoveries: answers of the store that were asked for in an earlier one are void.
  std::uint64_t generation_ = 0;
  std::optional<Instant> recover_at_;
  bool holds_schedules_ = false;
  // The calendar less the timeline, as the broker was told last, and when it was looked at.
  Span calendar_ahead_{};
  Instant calendar_seen_at_{};

  // Set while this thread is inside a call into the store, whose callback may then come at once.
  bool inside_store_call_ = false;
  std::thread::id thread_;
  std::vector<std::function<void()>> immediate_;

  PartitionHostStats stats_;
  LogPace used_up_{std::chrono::seconds(10)};
  // Before the store, so that it dies after it: the store's callbacks go through it.
  std::shared_ptr<Gate> gate_;
  std::unique_ptr<broker::Store> store_;
};

}  // namespace carillon::server
