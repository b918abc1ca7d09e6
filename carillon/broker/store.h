// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The port behind which the stores live: what a partition asks of whatever keeps its jobs.
///
/// A job is stored in one of two places, and the place is part of every mutation that names it:
///
///     near   it is in the partition's memory too; read back as a whole at recovery
///     far    it is in the store only, found by (tube, due, id) or by id; costs no memory
///
///     put near ───────────────► near ──► erase near
///     put far ──► far ─ settle ─► near (settled) ──► erase settled
///                  └──────────────────────────────► erase far
///
/// A far job may have a key (JobRecord::extras), by which it is found as well while it is far: its
/// tube has no other with that key. Mutations that make it far or end that (put far, move, settle,
/// erase far) carry the key. A batch may give a key to another job after it has erased the first.
///
/// A settled job came from afar: its body stays where put far left it, only its record is written
/// anew, so that moving a job near never copies its body.
///
/// The port says nothing of files, keys or logs: a journal in front of a sorted store, a table, or
/// a map satisfy it alike. Every read is ordered after every commit submitted before it (a reader
/// sees what was submitted, durable or not), which is what lets the partition forget what it
/// submitted.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/broker/body.h"
#include "carillon/broker/job.h"
#include "carillon/broker/schedule.h"

namespace carillon::broker {

/// Where a stored job lies.
enum class Place : std::uint8_t {
  kNear = 0,     ///< Put near.
  kFar = 1,      ///< Put far and not loaded yet.
  kSettled = 2,  ///< Put far, loaded since.
};

/// One change of the stored state.
struct Mutation {
  enum class Kind : std::uint8_t {
    kPut,        ///< `job` with `body`, at `place` kNear or kFar.
    kUpdate,     ///< The record of a job at kNear or kSettled is now `job`; its body is unchanged.
    kSettle,     ///< A far job, found under (job.tube, `far_due_ms`, job.id), is now settled, with
                 ///< record `job`.
    kMove,       ///< A far job, found as for kSettle, stays far and has record `job` from now on:
                 ///< it is found under its new due time. Its body is unchanged.
    kErase,      ///< Job `job.id` at `place` is gone; for kFar also by (job.tube, far_due_ms).
    kTube,       ///< `tube` is now as given (created or changed).
    kEraseTube,  ///< `tube.number` is gone.
    kPartition,  ///< The partition's own record is now `partition`.
    kSchedule,   ///< The schedule of that name is as given (created or changed).
    kScheduleProgress,  ///< The schedule of that name, which is stored, has this progress.
    kEraseSchedule,     ///< The schedule of that name is gone.
  };
  Kind kind = Kind::kPut;
  Place place = Place::kNear;
  /// kErase: whether a kUpdate was ever written for a near job, or a kMove for a far one (a settled
  /// one always has one of those); lets a store that keeps updates apart skip a delete.
  bool updated = false;
  std::int64_t far_due_ms = 0;
  JobRecord job;
  Body body;
  /// Index into Batch::tubes, partitions or schedules, for the kinds that need one.
  std::uint32_t detail = 0;
};

/// Mutations that become durable together or not at all, in order.
struct Batch {
  CommitSeq seq = 0;
  std::vector<Mutation> mutations;
  std::vector<TubeRecord> tubes;
  std::vector<PartitionRecord> partitions;
  std::vector<ScheduleRecord> schedules;
  std::size_t bytes = 0;  ///< Body bytes, for limits.

  [[nodiscard]] bool empty() const noexcept { return mutations.empty(); }
  void clear() {
    mutations.clear();
    tubes.clear();
    partitions.clear();
    schedules.clear();
    bytes = 0;
  }
};

struct StoredJob {
  JobRecord record;
  Place place = Place::kNear;
  Body body;  ///< Null where the call says that bodies are not read.
  /// Near: a kUpdate was written; far: a kMove. (Mutation::updated)
  bool updated = false;
};

/// A job to be read.
struct WantedJob {
  JobId id = 0;
  /// kNear or kSettled: the caller has its record, and it lies there. Then only the body is read,
  /// and of the record found nothing counts but id and body_size.
  std::optional<Place> known_at;
};

/// Where a far job is found.
struct FarPlace {
  JobId id = 0;
  std::int64_t due_ms = 0;
  bool moved = false;  ///< By a kMove.
};

/// A position in the far jobs of a tube: everything before (due_ms, id) has been consumed.
struct FarCursor {
  std::int64_t due_ms = 0;
  JobId id = 0;
};

struct FarChunk {
  std::vector<StoredJob> jobs;  ///< In order of (due, id), without bodies.
  bool more = false;            ///< Jobs due up to the limit remain after these.
  /// When !more: due time of the first job after the limit, if there is one.
  std::optional<std::int64_t> next_due_ms;
};

/// Receives what a partition's store holds, at recovery. Order: the partition, the tubes, then the
/// near and settled jobs in id order. Bodies of settled jobs are not read; those of near ones may
/// be.
class RecoverySink {
 public:
  virtual ~RecoverySink() = default;
  virtual void on_partition(const PartitionRecord& record) = 0;
  virtual void on_tube(const TubeRecord& record) = 0;
  virtual void on_job(StoredJob job) = 0;
  /// Before the jobs, in no order.
  virtual void on_schedule(const ScheduleRecord& /*record*/) {}
};

/// One partition's store.
///
/// Threads:  one thread calls; the callbacks run on a thread of the store's choosing, or inside the
///           call: the caller hands them to its own loop. None runs after the destructor returned.
/// Errors:   a failed commit fails every commit submitted after it as well, until recover() has
///           succeeded. Nothing of a failed batch is promised either way: the next recover() says
///           what is there.
/// Limits:   the caller bounds what it has in flight; the store queues it.
class Store {
 public:
  using Committed = std::function<void(CommitSeq seq, Result<void> result)>;
  using Fetched = std::function<void(std::vector<Result<std::optional<StoredJob>>>)>;
  using Scanned = std::function<void(Result<FarChunk>)>;
  using KeyFound = std::function<void(Result<std::optional<FarPlace>>)>;

  virtual ~Store() = default;

  /// Whether a job put far costs no memory here. If not, the broker puts every job near.
  [[nodiscard]] virtual bool keeps_far_jobs() const noexcept = 0;
  /// Whether bodies can be read back, so that memory need not hold them.
  [[nodiscard]] virtual bool keeps_bodies() const noexcept = 0;
  /// Whether a commit with puts would be taken now. False when space runs low: the host then
  /// refuses puts before they reach the broker, because a refused commit costs a recovery;
  /// everything else still works. From any thread, cheap.
  [[nodiscard]] virtual bool accepts_puts() const noexcept { return true; }

  /// Reads the whole near state into `sink`, blocking. After a failed commit it first brings the
  /// store back to what is certainly durable (reopening it if need be). Fails if that cannot be
  /// done now (a full disk): call again later.
  virtual Result<void> recover(RecoverySink& sink) = 0;

  /// Makes `batch` durable and then says so. Batches become durable in the order submitted, and
  /// `done` may be called once for several: `seq` covers every batch up to it.
  virtual void commit(std::unique_ptr<Batch> batch, Committed done) = 0;

  /// Whether commit(batch) would now be durable before it returns, and take as long as that does:
  /// whatever can be answered without it should be sent first. From the thread that commits.
  [[nodiscard]] virtual bool commit_blocks(const Batch& /*batch*/) const { return false; }

  /// Reads jobs wherever they lie, with their bodies. The answers are in the order of `wanted`.
  virtual void fetch(std::vector<WantedJob> wanted, Fetched done) = 0;

  /// Reads far jobs of `tube` from `from` (exclusive of what is before it) with due <= `until_ms`,
  /// at most `limit` of them.
  virtual void scan_far(TubeNumber tube, FarCursor from, std::int64_t until_ms, std::size_t limit,
                        Scanned done) = 0;

  /// Finds the far job of `tube` that has `key`.
  virtual void find_key(TubeNumber tube, std::string key, KeyFound done) = 0;
};

}  // namespace carillon::broker
