// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The two-stage commit of a store that several partitions share: who writes, who syncs, who reads,
/// and in which order the callbacks run. Knows nothing of RocksDB.
///
///              ┌───────── apply ────────┐      ┌── sync ──┐
///     queue ──►│ all queued commits in  │─────►│ one sync │──► callbacks, in order
///              │ one write, not synced  │─┐    └──────────┘
///              └────────────────────────┘ └──► read ──► callbacks
///
/// Each role is held by at most one thread at a time, any thread takes any role that has work, and
/// a thread that has applied goes on to sync if nobody is syncing. So a lone commit costs two
/// thread hand-overs (submitter to worker, worker to whoever waits for the callback), and under
/// load the next group is applied while the last is synced.
///
/// One sync covers everything applied before it began. A read is done once everything submitted
/// before it has been applied; it never waits for a sync. Why this and not a thread a stage:
/// docs/decisions/0013-two-stage-commit.md.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/mutex.h"
#include "carillon/base/result.h"
#include "carillon/broker/store.h"
#include "carillon/store/rocksdb/rocks_stats.h"

namespace carillon::store {

/// A read that has been asked for.
struct FetchRequest {
  std::vector<broker::WantedJob> wanted;
  broker::Store::Fetched done;
};
struct ScanRequest {
  broker::TubeNumber tube = 0;
  broker::FarCursor from;
  std::int64_t until_ms = 0;
  std::size_t limit = 0;
  broker::Store::Scanned done;
};
struct KeyRequest {
  broker::TubeNumber tube = 0;
  std::string key;
  broker::Store::KeyFound done;
};
/// Make room: what has been erased is still on the disk. Takes a read's turn, is not answered.
struct ReclaimRequest {};
using ReadRequest = std::variant<FetchRequest, ScanRequest, KeyRequest, ReclaimRequest>;

/// What the pipeline drives.
///
/// Threads: each method is called by one thread at a time, but different methods at once, except
///          while CommitPipeline::recover reopens: then none.
class PipelineEngine {
 public:
  struct PartitionBatch {
    std::uint32_t partition = 0;
    const broker::Batch* batch = nullptr;
  };
  struct PartitionRead {
    std::uint32_t partition = 0;
    const ReadRequest* request = nullptr;
  };

  virtual ~PipelineEngine() = default;

  /// A reason not to take `batch` that leaves the engine healthy (too little space).
  virtual std::optional<Error> refuse(const broker::Batch& batch) = 0;
  /// Writes all of `group`, in order, all or nothing, without making it durable. False: it would
  /// have had to wait (for memory to be flushed), must not (`may_wait`), and has written nothing.
  virtual Result<bool> apply(std::span<const PartitionBatch> group, bool may_wait) = 0;
  /// Makes everything applied before the call durable.
  virtual Result<void> sync() = 0;
  /// The commits covered by the last sync() have been called back.
  virtual void on_acknowledged() = 0;
  /// Answers every read of `group`, in order. Works, or answers with an error, after a failure too.
  virtual void read(std::span<const PartitionRead> group) = 0;
};

/// Threads:   commit, recover and close of one lane from one thread, read from any; lanes are
///            independent.
/// Lifetime:  the engine outlives it; every lane is closed before it is destroyed.
/// Callbacks: on the pipeline's threads, never while a lock is held; those of a lane's commits in
///            order, those of its reads in order. They must not block and not call recover or
///            close.
/// Errors:    a failed apply or sync fails everything not yet synced, of all lanes, and everything
///            submitted later until recover() has reopened the engine; a lane that had a commit
///            failed or refused fails its own until its own recover().
class CommitPipeline {
 public:
  struct Options {
    /// A group of commits is not made larger once it has this many bytes of bodies and records ...
    std::size_t max_group_bytes = std::size_t{4} << 20;
    /// ... and a group of reads once it has this many.
    std::size_t max_group_reads = 64;
    std::size_t threads = 3;
    /// A commit of at most so many mutations and bytes is small: if nobody else applies, its caller
    /// does, which takes less than to wake a thread. 0: the threads do everything.
    std::size_t small_mutations = 8;
    std::size_t small_bytes = std::size_t{64} << 10;
    /// A small commit is lone if nothing else is under way, it and what the last sync covered have
    /// at most so many mutations (0: none is), and that took no longer than this: then its caller
    /// syncs too. With more, others wait for the caller meanwhile.
    std::size_t lone_mutations = 2;
    Span lone_sync = std::chrono::milliseconds(1);
  };

  /// One partition's part in the pipeline.
  class Lane {
   public:
    explicit Lane(std::uint32_t partition) : partition_(partition) {}

   private:
    friend class CommitPipeline;
    const std::uint32_t partition_;
    // Guarded by the pipeline's mutex_. A failed lane fails its commits until recover().
    bool failed_ = false;
    std::size_t outstanding_ = 0;
    // Owned by the apply role, within one group.
    bool refused_ = false;
    // Owned by the sync role, within one sync.
    std::size_t last_success_ = 0;
  };

  CommitPipeline(PipelineEngine& engine, const Options& options);
  ~CommitPipeline();
  CommitPipeline(const CommitPipeline&) = delete;
  CommitPipeline& operator=(const CommitPipeline&) = delete;

  [[nodiscard]] Lane* open_lane(std::uint32_t partition);
  /// Waits until every callback of the lane has run.
  void close_lane(Lane* lane);

  void commit(Lane& lane, std::unique_ptr<broker::Batch> batch, broker::Store::Committed done);
  /// Whether commit(batch) would do all the work itself now, the sync included.
  [[nodiscard]] bool commit_blocks(const broker::Batch& batch) const CARILLON_EXCLUDES(mutex_);
  void read(Lane& lane, ReadRequest request);

  /// Waits until the lane's callbacks have run; if the engine has failed, stops everything and
  /// calls `reopen`; then calls `load`. If both succeed the lane is in service again.
  Result<void> recover(Lane& lane, const std::function<Result<void>()>& reopen,
                       const std::function<Result<void>()>& load);
  /// Runs `use` while the engine is certainly not being reopened.
  void with_engine(const std::function<void()>& use);

  /// The counters that a pipeline knows.
  [[nodiscard]] RocksStats stats() const;

 private:
  struct Commit {
    Lane* lane = nullptr;
    std::unique_ptr<broker::Batch> batch;
    broker::Store::Committed done;
    Instant submitted;
    std::optional<Error> error;
    bool refused = false;
  };
  struct Read {
    Lane* lane = nullptr;
    ReadRequest request;
  };
  using Operation = std::variant<Commit, Read>;

  void work() CARILLON_EXCLUDES(mutex_);
  [[nodiscard]] bool can_sync() const CARILLON_REQUIRES(mutex_);
  [[nodiscard]] bool can_apply() const CARILLON_REQUIRES(mutex_);
  [[nodiscard]] bool can_read() const CARILLON_REQUIRES(mutex_);
  [[nodiscard]] bool has_work() const CARILLON_REQUIRES(mutex_);
  // Called with the role taken; these let go of the mutex in between.
  void run_sync() CARILLON_REQUIRES(mutex_);
  void run_apply(bool may_wait) CARILLON_REQUIRES(mutex_);
  void run_read() CARILLON_REQUIRES(mutex_);
  void take_apply_group() CARILLON_REQUIRES(mutex_);
  Result<bool> write_apply_group(bool may_wait) CARILLON_EXCLUDES(mutex_);
  void acknowledge(const Result<void>& synced) CARILLON_EXCLUDES(mutex_);
  void wake_another() CARILLON_REQUIRES(mutex_);
  void fail(const Error& error) CARILLON_REQUIRES(mutex_);
  Result<void> reopen_engine(const std::function<Result<void>()>& reopen) CARILLON_REQUIRES(mutex_);
  void submit(Lane& lane, Operation operation) CARILLON_EXCLUDES(mutex_);
  [[nodiscard]] bool is_small(const broker::Batch& batch) const CARILLON_REQUIRES(mutex_);
  [[nodiscard]] bool is_lone(const broker::Batch& batch) const CARILLON_REQUIRES(mutex_);
  void wait_for_quiet() CARILLON_REQUIRES(mutex_);
  void announce_quiet() CARILLON_REQUIRES(mutex_);

  PipelineEngine& engine_;
  const Options options_;
  const SteadyClock clock_;

  mutable Mutex mutex_;
  CondVar work_changed_;
  // For those who wait for a lane, a role or the engine: recover, close_lane.
  CondVar quiet_changed_;
  std::size_t quiet_waiters_ CARILLON_GUARDED_BY(mutex_) = 0;
  std::size_t idle_threads_ CARILLON_GUARDED_BY(mutex_) = 0;
  bool stopping_ CARILLON_GUARDED_BY(mutex_) = false;
  Span last_sync_ CARILLON_GUARDED_BY(mutex_) = Span(0);
  std::size_t last_sync_mutations_ CARILLON_GUARDED_BY(mutex_) = 0;

  bool applying_ CARILLON_GUARDED_BY(mutex_) = false;
  bool syncing_ CARILLON_GUARDED_BY(mutex_) = false;
  bool reading_ CARILLON_GUARDED_BY(mutex_) = false;
  // While the engine is being reopened; roles other than sync are not given out.
  bool paused_ CARILLON_GUARDED_BY(mutex_) = false;
  std::size_t engine_users_ CARILLON_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ CARILLON_GUARDED_BY(mutex_);

  std::deque<Operation> queue_ CARILLON_GUARDED_BY(mutex_);
  // Applied, or failed before that: in the order in which their callbacks are due.
  std::vector<Commit> applied_ CARILLON_GUARDED_BY(mutex_);
  std::deque<Read> reads_ CARILLON_GUARDED_BY(mutex_);
  std::list<Lane> lanes_ CARILLON_GUARDED_BY(mutex_);
  RocksStats stats_ CARILLON_GUARDED_BY(mutex_);

  // Each owned by whoever holds the role.
  std::vector<Commit> apply_group_;
  std::vector<Read> apply_reads_;
  std::vector<PipelineEngine::PartitionBatch> to_apply_;
  std::vector<Commit> sync_group_;
  std::vector<Read> read_group_;
  std::vector<PipelineEngine::PartitionRead> to_read_;

  std::vector<std::thread> threads_;
};

}  // namespace carillon::store
