// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The broker: jobs, tubes and reservations of one partition, as a pure state machine.
///
///     (command, now) ──► Broker ──► Effects (replies, reads)      take_batch() ──► what to persist
///
///      put with delay               release with delay
///     ────────────────► DELAYED ◄───────────────────────┐
///                          │ due, or kick               │
///      put                 ▼            reserve         │        delete
///     ──────────────────► READY ──────────────────► RESERVED ───────────────► gone
///                          ▲  ▲    release, TTR over,   │
///                          │  └──── connection closed ──┤
///                          │ kick                       │ bury
///                        BURIED ◄───────────────────────┘          (delete: from any state)
///
/// Everything that waits, waits in one wheel of 1 ms ticks: delays, reservations (TTR), waiting
/// reserves, pauses, and the loading of far jobs.
///
/// A job due later than the horizon is *far*: it lives in the store only, and its tube loads it in
/// due order ahead of need, three quarters of the horizon before it is due. Commands that name a
/// far job by id read it first (Effects::fetch); kick and peek-delayed load what they need.
///
/// What is written: put, delete, release, bury, kick, pause. What need not be: a delayed job that
/// comes due (its stored due time has passed then), and the end of a reservation, since the stored
/// record of a reserved job says what it was before. Only if that was buried, or delayed until a
/// time to come (it was reserved by id), its becoming ready is written: who has seen it ready shall
/// not find it buried again after a restart. Killed while it is reserved, it is as it was before.
/// The counts of a job's history are stored with the next record that is written anyway; those of a
/// job with limited attempts or a backoff with each end of a reservation.
///
/// Beyond beanstalk (command.h has the commands):
///
///     extras     key, content type, attempts, backoff, date: in a table beside the jobs, kept for
///                those that have any; stored in their records
///     keys       of near jobs in memory; those of far ones are looked up in the store, and all
///                commands that name a key queue behind its lookup (Effects::find_key)
///     dates      Unix time by the calendar. The host tells how the calendar is set (set_calendar);
///                jobs with a date wait in the wheel by where it stands to the timeline now
///     change     delayed, ready and buried jobs get another time or priority in place; a far job
///                stays far if it is still due beyond the horizon, and its body is not written anew
///     list, clear, wheel   walk over all jobs, in steps of advance(), first the far, then the near

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "carillon/base/time.h"
#include "carillon/broker/command.h"
#include "carillon/broker/effects.h"
#include "carillon/broker/reply.h"
#include "carillon/broker/store.h"

namespace carillon::broker {

/// Limits and sizes of one partition.
struct BrokerOptions {
  /// Job ids are first_id, first_id + id_step, ...: partitions of one folder never share an id.
  JobId first_id = 1;
  JobId id_step = 1;
  /// Whether the tube "default" belongs here (it exists as long as the broker does).
  bool owns_default_tube = true;
  /// From the store: whether far jobs and bodies can be left to it.
  bool store_keeps_far_jobs = false;
  bool store_keeps_bodies = false;
  /// A job due later than this from now is far. Longer: more memory, fewer writes a job. Far jobs
  /// are late if the host is held up, or the store takes to read them, for more than 3/4 of it.
  Span horizon = std::chrono::minutes(5);
  /// Far jobs of a tube are read in pieces of this many.
  std::size_t load_chunk = 1'000;
  /// Bodies kept in memory, in bytes, when the store can give them back; else all are kept. Bodies
  /// not durable yet are kept in any case. Beyond it those of delayed jobs leave first.
  std::size_t body_budget_bytes = std::size_t{32} << 20;
  /// When a ready job's body must be read, so are those of the jobs that are ready behind it in its
  /// tube, so many and of so many bytes at most: they are wanted next, and one read of many costs
  /// little more than one of one. 0: only its own.
  std::size_t read_ahead_jobs = 1'024;
  std::size_t read_ahead_bytes = std::size_t{1} << 20;
  /// All bodies read ahead and not wanted yet, of all tubes, beside the budget. While there is no
  /// room, those nobody has wanted for a second leave; without any, each body is read alone.
  std::size_t read_ahead_budget_bytes = std::size_t{4} << 20;
  /// Jobs held in memory; a put beyond it is answered kOutOfMemory. 0: no limit. Far jobs do not
  /// count until they come near, which nothing holds up.
  std::size_t max_jobs_in_memory = 0;
  /// Tubes; a command that would create one more is answered kOutOfMemory.
  std::size_t max_tubes = 100'000;
  /// Schedules, and the bytes of their texts and bodies, which are in memory; a kSetSchedule beyond
  /// is answered kOutOfMemory.
  std::size_t max_schedules = 10'000;
  std::size_t max_schedule_bytes = std::size_t{64} << 20;
  /// The first period after `after_ms` (Unix time, by the calendar) that the spec of a schedule
  /// names; nullopt: none, or it is no spec. Empty: there are no schedules. Pure.
  std::function<std::optional<std::int64_t>(std::string_view spec, std::int64_t after_ms)>
      next_period;
  /// Of the jitter of backoffs.
  std::uint64_t random_seed = 1;
};

/// One partition's jobs, tubes and sessions.
///
/// Time:    `now` is a point on the partition's timeline (carillon/broker/timeline.h) and must not
///          go back. Deadlines round up to the next millisecond: never early, at most one tick
///          late.
/// Threads: one object, one thread. No I/O, no lock, no clock.
/// Errors:  all in replies. Calls out of order (an unknown session) are bugs and stop the program.
/// Cost:    put, delete, touch O(1) amortised; what puts a job into or takes it out of the ready
///          heap O(log ready of the tube); reserve O(tubes watched), and O(jobs held) if it finds
///          none; peek-delayed, and kick for each delayed job, O(delayed of the tube / 1024)
///          amortised. 110 to 115 bytes a delayed job, its body apart (broker_bench, memory).
class Broker {
 public:
  Broker(const BrokerOptions& options, Effects& effects);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Sessions.

  void open_session(SessionId session);
  /// Its reservations go back to ready, its waiting reserve ends, its tubes lose a user. Replies
  /// still owed to it are not sent by the broker any more.
  void close_session(SessionId session, WallTime now);
  /// The client has closed its sending side: a waiting reserve ends with kTimedOut now.
  void end_waiting(SessionId session, WallTime now);

  // Commands.

  /// kDone: the reply has been given to Effects. kBlocked: it comes later (a waiting reserve, a job
  /// that must be read first); the host submits nothing more of this session until then.
  enum class Outcome { kDone, kBlocked };
  Outcome execute(Command command, WallTime now);

  // Time.

  /// Handles at most `budget` things due at `now`, and goes on with lists, clears and wheels for a
  /// step; returns whether more remain.
  bool advance(WallTime now, std::size_t budget);
  /// When advance() next has something to do; nullopt: never, unless something happens first.
  [[nodiscard]] std::optional<WallTime> next_deadline() const;

  // Durability. The broker fills one batch; whoever changed or saw something unsettled gets its
  // reply only when that batch is durable.

  /// Whether the batch being filled has anything in it.
  [[nodiscard]] bool has_batch() const;
  /// Mutations and body bytes in the batch being filled, for the host's limits.
  [[nodiscard]] std::size_t batch_mutations() const;
  [[nodiscard]] std::size_t batch_bytes() const;
  /// Hands over the batch being filled and starts the next. Pre: has_batch(). `recycled`, if given,
  /// is a batch whose memory may be reused. The host submits it at once: what the broker asks to
  /// read from then on must see it.
  [[nodiscard]] std::unique_ptr<Batch> take_batch(std::unique_ptr<Batch> recycled = nullptr);
  /// Every batch up to `seq` is durable.
  void on_durable(CommitSeq seq);

  // Reads: one answer to each Effects::fetch and Effects::scan_far, in any order, never from inside
  // the effect.

  void on_fetched(JobId id, std::optional<StoredJob> job, WallTime now);
  void on_scanned(TubeNumber tube, FarChunk chunk, WallTime now);
  /// The read could not be done: who waits for it gets kInternalError.
  void on_fetch_failed(JobId id, WallTime now);
  void on_scan_failed(TubeNumber tube, WallTime now);

  /// One answer to each Effects::read_far.
  void on_far_read(std::uint64_t scan, FarChunk chunk, WallTime now);
  void on_far_read_failed(std::uint64_t scan, WallTime now);
  /// Whether a list, clear or wheel can be gone on with by advance().
  [[nodiscard]] bool scanning() const;

  /// One answer to each Effects::find_key.
  void on_key_found(TubeNumber tube, std::string_view key, std::optional<FarPlace> found,
                    WallTime now);
  void on_find_key_failed(TubeNumber tube, std::string_view key, WallTime now);

  // The calendar, which jobs with a date follow (JobExtras::due_at_ms).

  /// The calendar reads `calendar` at `now`. To be called whenever that may have changed, at the
  /// latest before the next advance(), and before finish_recovery(). O(near jobs with a date), if
  /// it has stepped. Until the first call the calendar is the timeline.
  void set_calendar(WallTime calendar, WallTime now);
  /// Whether a step of the calendar would change anything.
  [[nodiscard]] bool follows_calendar() const;

  // Recovery, at start and after a failed commit.
  //
  // begin_recovery: drops every job and tube but keeps the sessions, what they use and watch, their
  // waiting reserves, and which jobs they had reserved (also those whose delete, release or bury
  // was not durable yet). Until finish_recovery, commands that need the store are answered
  // kInternalError (kOutOfMemory for a put), and reserves wait. Commands that wait for a read get
  // kInternalError now; reads asked for before are void, and their answers must not be handed in.
  // The batch being filled is dropped with the replies that wait for it, and its number is not used
  // again. May be called again while a recovery is under way, to begin it anew.
  // The restore calls may be made from Store::recover's sink. A broker is constructed in recovery:
  // restore (or nothing, for an empty store) and finish_recovery come first.
  void begin_recovery();
  void restore_partition(const PartitionRecord& record);
  void restore_tube(const TubeRecord& record);
  void restore_schedule(const ScheduleRecord& record);
  void restore_job(StoredJob job);
  /// Returns to service; reservations of sessions still open are re-established, overdue jobs are
  /// due at the next advance(). `anchor` is what the host's timeline stands on; it is stored with
  /// the partition's record.
  void finish_recovery(WallTime now, const TimeAnchor& anchor);
  [[nodiscard]] bool available() const;

  /// A batch for a clean shutdown: the exact next id and the time reached.
  void checkpoint(WallTime now);

  // Observation.

  [[nodiscard]] PartitionStats stats() const;
  /// Jobs that became ready by their deadline since the start, and the sum and the maximum of their
  /// lateness.
  struct Lateness {
    std::uint64_t count = 0;
    std::int64_t total_us = 0;
    std::int64_t max_us = 0;
  };
  [[nodiscard]] Lateness lateness() const;
  /// Checks every invariant of the state machine and stops the program if one is broken; O(all).
  void check_invariants() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace carillon::broker
