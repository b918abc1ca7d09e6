// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The inside of Broker. Its methods lie in broker_*.cc, by what they are about.
///
/// Three layers, each using only those above it:
///
///     moves      take a job into and out of a state: counts, lists, heap, hook     broker_jobs.cc
///     writes     append to the batch being filled                                  broker_batch.cc
///     commands   decide, move, write, reply                                        the others
///
/// A command that makes jobs ready only notes the tube; settle_waiters(), the last step of every
/// call, gives ready jobs to those who wait. So between two calls no session waits while a job that
/// it could have is ready, and of several jobs that became ready in one call the most urgent goes
/// first.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "carillon/base/random.h"
#include "carillon/broker/broker.h"
#include "carillon/broker/internal/extras_table.h"
#include "carillon/broker/internal/job_table.h"
#include "carillon/broker/internal/scan.h"
#include "carillon/broker/internal/schedule.h"
#include "carillon/broker/internal/session.h"
#include "carillon/broker/internal/slab.h"
#include "carillon/broker/internal/tube.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon::broker {

class Broker::State {
 public:
  State(const BrokerOptions& options, Effects& effects);

  void open_session(SessionId id);
  void close_session(SessionId id, WallTime now);
  void end_waiting(SessionId id, WallTime now);
  Outcome execute(Command command, WallTime now);
  bool advance(WallTime now, std::size_t budget);
  [[nodiscard]] std::optional<WallTime> next_deadline() const;

  [[nodiscard]] bool has_batch() const { return !filling_->empty(); }
  [[nodiscard]] std::size_t batch_mutations() const { return filling_->mutations.size(); }
  [[nodiscard]] std::size_t batch_bytes() const { return filling_->bytes; }
  [[nodiscard]] std::unique_ptr<Batch> take_batch(std::unique_ptr<Batch> recycled);
  void on_durable(CommitSeq seq);

  void on_fetched(JobId id, std::optional<StoredJob> stored, WallTime now);
  void on_fetch_failed(JobId id, WallTime now);
  void on_scanned(TubeNumber number, FarChunk chunk, WallTime now);
  void on_scan_failed(TubeNumber number, WallTime now);
  void on_key_found(TubeNumber number, std::string_view key, std::optional<FarPlace> found,
                    WallTime now);
  void on_find_key_failed(TubeNumber number, std::string_view key, WallTime now);

  void on_far_read(std::uint64_t scan, FarChunk chunk, WallTime now);
  void on_far_read_failed(std::uint64_t scan, WallTime now);
  [[nodiscard]] bool scanning() const;

  void set_calendar(WallTime calendar, WallTime now);
  [[nodiscard]] bool follows_calendar() const;

  void begin_recovery();
  void restore_partition(const PartitionRecord& record);
  void restore_tube(const TubeRecord& record);
  void restore_schedule(const ScheduleRecord& record);
  void restore_job(StoredJob stored);
  void finish_recovery(WallTime now, const TimeAnchor& anchor);
  [[nodiscard]] bool available() const { return available_; }
  void checkpoint(WallTime now);

  [[nodiscard]] PartitionStats stats() const;
  [[nodiscard]] Lateness lateness() const { return lateness_; }
  void check_invariants() const;

 private:
  using Job = internal::Job;
  using Tube = internal::Tube;
  using Session = internal::Session;
  using Watch = internal::Watch;
  using Blocked = internal::Blocked;
  using DueKey = internal::DueKey;
  using FarJobs = internal::FarJobs;
  using FarQuestion = internal::FarQuestion;

  /// Who waits for a fetch, and with which command.
  struct FetchWaiter {
    std::uint32_t session = internal::kNil;
    Command command;
  };
  /// A fetch in flight; at most one a job.
  struct PendingFetch {
    std::vector<FetchWaiter> waiters;
    /// The job is, or since the fetch was asked for has been, in memory: memory knows the truth and
    /// only the body is wanted.
    bool known = false;
  };
  /// A reservation to be re-established after a recovery.
  struct SavedReservation {
    SessionId session = 0;
    JobId job = 0;
    std::int64_t deadline_ms = 0;
    JobHistory history;
    CommitSeq ended_in = 0;  ///< The batch with the delete, release or bury that ended it.
  };
  /// A far job put in the batch being filled, where the store cannot see it yet.
  struct FarPut {
    JobId id = 0;
    std::uint32_t tube = internal::kNil;
    std::int64_t due_ms = 0;
    std::size_t mutation = 0;
    bool far = true;  ///< False once it was made near after all.
  };
  /// A far job moved to another due time in the batch being filled.
  struct FarMove {
    std::uint32_t tube = internal::kNil;
    std::int64_t due_ms = 0;
    std::size_t mutation = 0;
  };
  /// Who waits for a lookup of a key in a tube; at most one lookup each is in flight.
  struct KeyWaiter {
    std::uint32_t session = internal::kNil;
    Command command;
    std::string tube;
  };
  struct KeyLookup {
    std::deque<KeyWaiter> waiters;
    /// The far job that has the key has come near or gone since it was asked for: memory knows.
    bool known = false;
  };
  using TubeKey = std::pair<TubeNumber, std::string>;
  /// A job whose body was asked for ahead of need.
  struct ReadAhead {
    JobId id = 0;
    std::uint32_t job = internal::kNil;
    std::int64_t asked_ms = 0;
  };
  struct PutBodies {
    CommitSeq seq = 0;
    std::vector<std::uint32_t> jobs;
  };

  /// When a job of a change is due.
  struct NewTime {
    std::int64_t due_ms = 0;
    std::int64_t delay_ms = 0;
    bool has_come = false;
  };

  // Time and replies. (broker.cc)
  void enter(WallTime now);
  void settle_waiters();
  [[nodiscard]] std::int64_t due_after(Span span) const;
  [[nodiscard]] Tick tick(std::int64_t ms) const { return static_cast<Tick>(ms < 0 ? 0 : ms); }
  /// What a reply must wait for that shows the effect of batch `seq`.
  [[nodiscard]] CommitSeq needs(CommitSeq seq) const { return seq <= durable_ ? 0 : seq; }
  [[nodiscard]] CommitSeq needs_all() const {
    return needs(filling_->empty() ? filling_->seq - 1 : filling_->seq);
  }
  [[nodiscard]] CommitSeq needs_job(const Job& job) const;
  void reply(const Ticket& ticket, Answer answer, CommitSeq needs);
  /// Why a command cannot be done.
  struct Refusal {
    Answer answer = Answer::kOutOfMemory;
    Shortage shortage = Shortage::kNone;
  };
  void refuse(const Ticket& ticket, Refusal why);
  void refuse(const Ticket& ticket, Shortage shortage) {
    refuse(ticket, Refusal{Answer::kOutOfMemory, shortage});
  }
  void reply_count(const Ticket& ticket, Answer answer, std::uint64_t count, CommitSeq needs);
  void reply_id(const Ticket& ticket, Answer answer, JobId id, CommitSeq needs);
  void reply_job(const Ticket& ticket, Answer answer, JobId id, Body body, CommitSeq needs);
  template <class Detail>
  void reply_detail(const Ticket& ticket, Detail detail, CommitSeq needs);
  void dispatch(Command& command, Session& session);
  void refuse(const Command& command, Session& session);

  // Sessions and tubes. (broker_tubes.cc)
  [[nodiscard]] Session& session(SessionId id);
  [[nodiscard]] Tube* find_tube(std::string_view name);
  [[nodiscard]] Tube* find_or_make_tube(std::string_view name);
  Tube& make_tube(std::string_view name);
  [[nodiscard]] TubeNumber unused_number();
  [[nodiscard]] bool is_default(const Tube& tube) const {
    return options_.owns_default_tube && tube.name == internal::kDefaultTube;
  }
  void remove_if_unused(Tube& tube);
  void forget_tube(Tube& tube);
  void use(const Command& command, Session& session);
  void watch(const Command& command, Session& session);
  void ignore(const Command& command, Session& session);
  void stop_using(Session& session);
  void stop_watching(Session& session, std::size_t position);
  void pause_tube(const Command& command);
  void unpause(Tube& tube);

  // Moves. (broker_jobs.cc)
  void count(Tube& tube, const Job& job, int change);
  void enter_ready(Job& job);
  void enter_delayed(Job& job, std::int64_t due_ms);
  void enter_buried(Job& job);
  void enter_reserved(Job& job, Session& session, std::int64_t deadline_ms);
  void set_extras(Job& job, SharedExtras extras);
  void forget_date(Job& job);
  [[nodiscard]] static std::int64_t wanted_ttr_ms(const Command& command);
  [[nodiscard]] std::int64_t end_of_reservation(const Job& job, std::int64_t ttr_ms) const;
  void restart_ttr(Job& job, Session& holder, std::int64_t ttr_ms);
  void leave(Job& job);
  void forget_job(Job& job);
  void give_back(Job& job);
  void end_attempt(Job& job);
  [[nodiscard]] bool used_up(const Job& job) const;
  void bury_used_up(Job& job);
  [[nodiscard]] Span backoff_of(const Job& job);
  [[nodiscard]] std::uint32_t soonest_held(Session& session);
  void set_body(Job& job, Body body);
  void drop_body(Job& job);

  // Writes. (broker_batch.cc)
  Mutation& append(Mutation::Kind kind, Place place);
  void fill_record(JobRecord& record, const Job& job, JobState state) const;
  void write_put(Job& job, const Body& body);
  void write_update(Job& job, std::uint64_t bury_order = 0);
  void write_erase(const Job& job);
  void write_tube(Tube& tube);
  void write_partition();
  void reserve_ids();
  JobId take_id();
  void keep_bodies_within_budget(CommitSeq durable);

  // Commands. (broker_commands.cc)
  void put(Command& command, Session& session);
  void insert(Command& command, std::uint64_t replaced);
  JobId insert_job(Command& command, Tube& tube);
  [[nodiscard]] bool is_put_far(const Command& command) const;
  [[nodiscard]] std::optional<Refusal> refusal(const Command& command, const Tube* tube) const;
  void del(const Command& command, Session& session);
  void erase(Job& job);
  void release(const Command& command, Session& session);
  void bury(const Command& command, Session& session);
  void touch(const Command& command, Session& session);
  void kick(const Command& command, Session& session);
  void kick_one(Job& job);
  void kick_job(const Command& command, Session& session);
  void unreserve(const Command& command, Session& session);
  [[nodiscard]] Job* held(const Command& command, const Session& session);
  void note_ended(const Job& job, const Session& session);

  // Reserving. (broker_reserve.cc)
  void reserve(const Command& command, Session& session);
  void try_reserve(Session& session);
  void reserve_job(const Command& command, Session& session);
  [[nodiscard]] Job* best_ready(const Session& session);
  void grant(Job& job, Session& session);
  void reply_reserved(const Job& job, const Session& session);
  void wait(Session& session);
  void schedule_end_of_wait(Session& session);
  void end_wait(Session& session);
  void cancel_reserve(Session& session);
  void cancel_blocked(Session& session);
  void serve_waiting();
  void note_ready(Tube& tube);
  [[nodiscard]] std::int64_t margin_begins_ms(Session& session);
  void time_is_up(Session& session);

  // Time. (broker_time.cc)
  bool turn_wheel(std::size_t budget);
  void on_expired(internal::BrokerHook& hook);
  void on_due(Job& job);
  void on_ttr_over(Job& job);
  void note_fired(Tube& tube, std::int64_t due_ms);

  // The calendar. (broker_calendar.cc)
  [[nodiscard]] WallTime calendar() const { return saturating_add(now_, calendar_ahead_); }
  [[nodiscard]] std::int64_t on_calendar(std::int64_t timeline_ms) const;
  [[nodiscard]] bool date_has_come(std::int64_t due_at_ms) const;
  [[nodiscard]] std::int64_t due_on_timeline(std::int64_t due_at_ms) const;
  [[nodiscard]] std::int64_t far_shift_ms(const FarJobs& far) const;
  [[nodiscard]] DueKey far_low(const FarJobs& far) const;
  void follow_calendar();

  // Commands beyond beanstalk's on one job. (broker_job_commands.cc)
  void get(const Command& command, Session& session);
  void cancel(const Command& command, Session& session);
  void change(const Command& command, Session& session);
  void change_far(const Command& command, const StoredJob& stored, Tube& tube);
  void change_near(const Command& command, Job& job);
  [[nodiscard]] NewTime new_time(const Command& command, std::int64_t created_ms) const;
  void hand_over(const Command& command, Session& session);
  [[nodiscard]] JobView job_view(const Job& job) const;
  [[nodiscard]] JobView far_job_view(const JobRecord& record, const Tube& tube) const;
  void reply_view(const Ticket& ticket, Answer answer, JobView info, Body body, CommitSeq needs);
  void set_tube(const Command& command);

  // Lists, clears, the wheel. (broker_scan.cc)
  void begin_scan(const Command& command, Session& session);
  [[nodiscard]] bool waits(const internal::Scan& scan) const;
  bool turn_scans();
  [[nodiscard]] bool step(internal::Scan& scan, std::uint32_t& places);
  [[nodiscard]] bool read_far_of(internal::Scan& scan);
  static void next_far_tube(internal::Scan& scan);
  [[nodiscard]] std::int64_t far_until_ms(const ListQuery& list, const FarJobs& far) const;
  void visit_far(internal::Scan& scan, const StoredJob& stored, Tube& tube);
  [[nodiscard]] bool walk_container(internal::Scan& scan);
  [[nodiscard]] bool take_from_run(internal::Scan& scan);
  [[nodiscard]] bool end_walk(internal::Scan& scan);
  void show_in_lists(const internal::Job& job);
  void visit(internal::Scan& scan, Job& job);
  void begin_wheel(internal::Scan& scan) const;
  void visit_for_wheel(WheelView& wheel, const Job& job) const;
  [[nodiscard]] std::size_t position_of(std::uint64_t scan) const;
  void end_scan(std::size_t position);
  [[nodiscard]] JobPage make_page(internal::Scan& scan);
  void drop_scan(std::size_t position);

  // Schedules. (broker_schedules.cc)
  [[nodiscard]] std::optional<std::int64_t> next_period(const internal::Schedule& schedule,
                                                        std::int64_t after_ms) const;
  [[nodiscard]] internal::Schedule* find_schedule(std::string_view name);
  [[nodiscard]] static ScheduleView schedule_view(const internal::Schedule& schedule);
  void set_schedule(const Command& command);
  void get_schedule(const Command& command);
  void list_schedules(const Command& command);
  void delete_schedule(const Command& command);
  void run_schedule(const Command& command);
  [[nodiscard]] bool last_lives(const internal::Schedule& schedule);
  [[nodiscard]] std::optional<Refusal> put_instance(internal::Schedule& schedule,
                                                    std::int64_t period_ms);
  void attend(internal::Schedule& schedule);
  [[nodiscard]] std::int64_t last_period(internal::Schedule& schedule, std::int64_t now_ms);
  [[nodiscard]] bool meet(internal::Schedule& schedule, std::int64_t period_ms);
  void arm(internal::Schedule& schedule);
  void follow_schedules();
  void note_ended_instance(const Job& job);
  void write_schedule(const internal::Schedule& schedule, Mutation::Kind kind);
  void drop_schedules();
  void check_schedules() const;

  // Keys. (broker_keys.cc)
  [[nodiscard]] bool find_by_key(Command& command, Session& session);
  void put_with_key(Command& command, Session& session);
  [[nodiscard]] Job* near_by_key(Tube& tube, std::string_view key);
  [[nodiscard]] bool must_look_up(const Tube& tube, std::string_view key) const;
  void put_on_near(Command& command, Job& job);
  void put_on_far(Command& command, Tube& tube, const FarPlace& place);
  void look_up(Tube& tube, std::string_view key, Command&& command, Session& session);
  void note_key_known(const Tube& tube, const SharedExtras& extras);
  void drop_key_waiter(const Session& session);

  // Reads. (broker_reads.cc)
  void peek(const Command& command, Session& session);
  void peek_ready(const Command& command, Session& session);
  void peek_delayed(const Command& command, Session& session);
  void peek_buried(const Command& command, Session& session);
  void show(Job& job, const Ticket& ticket, Session& session);
  [[nodiscard]] bool may_be_far(JobId id) const;
  void fetch_for(const Command& command, Session& session, bool known);
  void resume(const FetchWaiter& waiter, JobId id, const std::optional<StoredJob>& stored);
  void resume_in_memory(const FetchWaiter& waiter, Job& job);
  void resume_far(const FetchWaiter& waiter, const StoredJob& stored);
  void fail_fetch(JobId id);
  [[nodiscard]] WantedJob wanted(JobId id);
  void drop_fetch_waiter(const Session& session);

  // Reading ahead. (broker_read_ahead.cc)
  void read_ahead(Tube& tube, bool goes_on);
  void end_read_ahead(Job& job);
  [[nodiscard]] bool make_room_ahead(std::uint32_t bytes);
  void check_read_ahead() const;

  // Far jobs. (broker_far.cc)
  void put_far(Tube& tube, JobRecord&& record, Body&& body);
  FarJobs& far_of(Tube& tube);
  void one_less_far(Tube& tube);
  void drop_far_if_idle(Tube& tube);
  Job& add_from_record(Tube& tube, const JobRecord& record, Place place);
  Job& settle(Tube& tube, const JobRecord& record);
  void enter_settled(Job& job, JobRecord& stored);
  void note_known(const Tube& tube, const JobRecord& record);
  void note_in_batch(FarJobs& far, const DueKey& key);
  void note_far_extras(Tube& tube, const JobRecord& record);
  void erase_far(Tube& tube, const JobRecord& record, bool moved);
  void note_gone(Tube& tube, JobId id);
  [[nodiscard]] Job* find_or_near(JobId id);
  Job& make_near(FarPut& put);
  void move_far(Tube& tube, std::int64_t from_ms, JobRecord&& record);
  [[nodiscard]] Job* settle_moved(JobId id);
  Job& settle_moved(JobId id, Tube& tube);
  void make_soonest_near(Tube& tube, std::int64_t until_ms, std::size_t limit);
  void find_first_in_batch(Tube& tube);
  [[nodiscard]] std::int64_t load_at_ms(const FarJobs& far) const;
  void schedule_load(Tube& tube);
  void load(Tube& tube);
  void go_on_loading(Tube& tube);
  void scan(Tube& tube, std::int64_t until_ms, std::size_t limit);
  void ask_far(Tube& tube, FarQuestion question);
  [[nodiscard]] bool answer_far(Tube& tube, FarQuestion& question);
  [[nodiscard]] bool show_soonest(Tube& tube, const FarQuestion& question);
  [[nodiscard]] bool kick_delayed(Tube& tube, FarQuestion& question);

  // Statistics. (broker_stats.cc)
  [[nodiscard]] JobStats job_stats(const Job& job) const;
  [[nodiscard]] JobStats far_job_stats(const JobRecord& record, const Tube& tube) const;
  void stats_job(const Command& command, Session& session);
  void stats_tube(const Command& command);
  void list_tubes(const Command& command);

  // Recovery. (broker_recovery.cc)
  void save_reservations();
  void save_attempts();
  void drop_everything();
  void pass_ids_below(JobId limit);
  void reestablish(const SavedReservation& saved);

  // Invariants. (broker_check.cc)
  void check_jobs() const;
  void check_extras() const;
  void check_tube(const Tube& tube) const;
  void check_session(const Session& session) const;

  const BrokerOptions options_;
  Effects& effects_;
  const std::int64_t horizon_ms_;
  Random random_;

  // The last time any call was made.
  WallTime now_{};
  std::int64_t now_ms_ = 0;
  bool available_ = false;

  // Before whatever has hooks in it, so that it dies after them.
  HierarchicalWheel wheel_;

  // How far the calendar is ahead of the timeline: now, by what is shown, and when near jobs were
  // last brought into line with it.
  Span calendar_ahead_{};
  Span shown_ahead_{};
  Span followed_ahead_{};

  internal::Schedules schedules_;
  std::size_t schedule_bytes_ = 0;

  internal::JobTable jobs_;
  internal::ExtrasTable extras_;
  internal::Slab<Tube, 6> tubes_;
  internal::Slab<Session, 6> sessions_;
  internal::Slab<Watch, 6> watches_;
  absl::flat_hash_map<std::string_view, std::uint32_t> tube_by_name_;  // Views into Tube::name.
  absl::flat_hash_map<TubeNumber, std::uint32_t> tube_by_number_;
  absl::flat_hash_map<SessionId, std::uint32_t> session_by_id_;
  std::uint32_t first_tube_ = internal::kNil;
  std::uint32_t last_tube_ = internal::kNil;

  // Near jobs by state; far ones are counted apart.
  JobCounts counts_;
  std::uint64_t far_count_ = 0;
  std::uint64_t total_jobs_ = 0;
  std::uint64_t timeouts_ = 0;
  std::uint64_t body_bytes_ = 0;
  Lateness lateness_;
  std::uint64_t put_count_ = 0;
  std::uint64_t delete_count_ = 0;
  std::uint64_t reserve_count_ = 0;
  std::uint64_t grants_ = 0;
  Histogram lateness_us_;

  JobId next_id_;
  JobId ids_reserved_until_ = 0;  // Ids below this may be given out without a PartitionRecord.
  TubeNumber next_tube_number_ = 1;
  std::uint64_t next_bury_order_ = 1;
  TimeAnchor anchor_;
  std::int64_t latest_written_ms_ = 0;

  std::unique_ptr<Batch> filling_;
  CommitSeq durable_ = 0;
  // Where this batch's PartitionRecord is, if it has one.
  CommitSeq partition_record_seq_ = 0;
  // Far jobs put in this batch, by ascending id, and far or settled ones erased in it.
  std::vector<FarPut> far_puts_;
  absl::flat_hash_map<JobId, std::uint32_t> erased_from_afar_;
  // Far jobs moved in this batch; and by key those put or moved in it.
  absl::flat_hash_map<JobId, FarMove> far_moves_;
  absl::flat_hash_map<TubeKey, JobId> far_keys_;
  // Keys of jobs that came near or were erased from afar in this batch: the store need not be asked
  // who has them, and would still name those.
  absl::flat_hash_set<TubeKey> gone_keys_;
  // Whether there may be a far job with a date.
  bool far_dates_ = false;
  // Jobs put, batch by batch, whose bodies may leave memory once they are durable.
  std::vector<std::uint32_t> put_bodies_;
  std::deque<PutBodies> put_bodies_in_flight_;
  std::uint32_t body_sweep_ = internal::kNil;

  absl::flat_hash_map<JobId, PendingFetch> fetches_;
  // In the order asked for; with some that have left since. (Job::read_ahead)
  std::deque<ReadAhead> ahead_;
  std::size_t ahead_jobs_ = 0;
  std::size_t ahead_bytes_ = 0;
  std::vector<std::uint32_t> ahead_scratch_;
  std::vector<std::uint32_t> ahead_seen_;
  absl::flat_hash_map<TubeKey, KeyLookup> lookups_;
  // In the order in which they take turns.
  std::deque<std::unique_ptr<internal::Scan>> scans_;
  internal::ListRuns list_runs_;
  std::uint64_t last_scan_ = 0;

  // Work left for settle_waiters().
  std::vector<std::uint32_t> tubes_to_serve_;
  std::vector<SessionId> sessions_to_retry_;
  std::vector<SessionId> sessions_timed_out_;

  // Reservations that ended in batches that are not durable yet, oldest first; and, during a
  // recovery, all that are to be re-established.
  std::deque<SavedReservation> ended_;
  std::vector<SavedReservation> saved_;
  // During a recovery: how often jobs had been reserved, stored or not.
  absl::flat_hash_map<JobId, std::uint32_t> saved_attempts_;
  // Buried jobs seen by restore_job, to be sorted.
  std::vector<std::pair<std::uint64_t, std::uint32_t>> restored_buried_;
};

}  // namespace carillon::broker
