// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A store under the simulation's thumb: it applies, syncs, fails, and forgets on command.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <variant>

#include "carillon/base/random.h"
#include "carillon/broker/store.h"

namespace carillon::sim {

/// What is on the simulated disk; outlives the processes that use it.
class SimDisk {
 public:
  struct Job {
    broker::StoredJob job;
    std::int64_t far_due_ms = 0;
    bool updated = false;

    [[nodiscard]] broker::StoredJob as_found() const;
  };
  struct State {
    std::optional<broker::PartitionRecord> partition;
    std::map<broker::TubeNumber, broker::TubeRecord> tubes;
    std::map<std::string, broker::ScheduleRecord> schedules;
    std::map<broker::JobId, Job> jobs;

    /// Stops the program when the mutation does not fit the state: a bug of the broker.
    void apply(const broker::Batch& batch);
    [[nodiscard]] Job& far_job(const broker::Mutation& mutation);
  };

  /// Loses what was applied and not synced, except a random prefix of it (the kernel may have
  /// written it out by itself). That prefix is durable from now on.
  void lose_unsynced(Random& random);

  State applied;
  State durable;
  std::deque<std::unique_ptr<broker::Batch>> unsynced;  ///< In `applied`, not in `durable`.
};

/// Ways for a store to break its promise, with which a test proves that the simulation notices.
enum class Lie {
  kNone,
  kAckUnsynced,   ///< Says that a batch is durable before it is.
  kForgetUpdate,  ///< Recovers jobs as they were put.
  kKeepErased,    ///< Does not erase near jobs.
};

/// Callbacks are called inside step(), on the one thread there is.
class SimStore final : public broker::Store {
 public:
  /// Fault injection, shared with the world.
  struct Faults {
    bool failing = false;  ///< Commits fail, and recover() too.
    Lie lie = Lie::kNone;
  };

  SimStore(SimDisk& disk, Random& random, const Faults& faults, bool keeps_far)
      : disk_(disk), random_(random), faults_(faults), keeps_far_(keeps_far) {}

  /// Does one thing if there is one to do: applies or reads the next in the queue, or syncs.
  bool step();

  [[nodiscard]] bool keeps_far_jobs() const noexcept override { return keeps_far_; }
  [[nodiscard]] bool keeps_bodies() const noexcept override { return keeps_far_; }
  Result<void> recover(broker::RecoverySink& sink) override;
  void commit(std::unique_ptr<broker::Batch> batch, Committed done) override;
  void fetch(std::vector<broker::WantedJob> wanted, Fetched done) override;
  void scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                std::size_t limit, Scanned done) override;
  void find_key(broker::TubeNumber tube, std::string key, KeyFound done) override;

 private:
  struct Commit {
    std::unique_ptr<broker::Batch> batch;
    Committed done;
  };
  struct Fetch {
    std::vector<broker::WantedJob> wanted;
    Fetched done;
  };
  struct Scan {
    broker::TubeNumber tube;
    broker::FarCursor from;
    std::int64_t until_ms;
    std::size_t limit;
    Scanned done;
  };

  struct FindKey {
    broker::TubeNumber tube;
    std::string key;
    KeyFound done;
  };

  void apply(Commit commit);
  void read(const Fetch& fetch);
  void read(const Scan& scan);
  void read(const FindKey& find);
  void sync();
  void fail(broker::CommitSeq seq, const Committed& done);

  SimDisk& disk_;
  Random& random_;
  const Faults& faults_;
  const bool keeps_far_;
  bool failed_ = false;
  std::deque<std::variant<Commit, Fetch, Scan, FindKey>> queue_;
  std::deque<Committed> waiting_;  ///< For the batches in disk_.unsynced, in order.
};

}  // namespace carillon::sim
