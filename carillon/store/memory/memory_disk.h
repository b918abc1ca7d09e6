// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a MemoryStore writes to: a disk that outlives the store, so that a test can end a "process"
/// at any moment and look at what the next one finds.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "carillon/broker/store.h"

namespace carillon::store {

/// The stored state of one partition: what a sequence of batches amounts to.
///
/// Errors: a mutation that makes no sense (a put of an id that exists, a settle under the wrong due
///         time, an erase that names the wrong place or forgets that there was an update ...) is a
///         bug of the caller and stops the program: this is the judge of brokers.
class MemoryState {
 public:
  struct Entry {
    broker::JobRecord record;
    broker::Body body;
    broker::Place place = broker::Place::kNear;
    bool updated = false;
  };
  using FarKey = std::pair<std::int64_t, broker::JobId>;

  void apply(const broker::Batch& batch);

  [[nodiscard]] const std::map<broker::JobId, Entry>& jobs() const noexcept { return jobs_; }
  [[nodiscard]] const std::map<std::string, broker::ScheduleRecord>& schedules() const noexcept {
    return schedules_;
  }
  /// Far jobs by tube, in order of (due, id).
  [[nodiscard]] broker::FarChunk scan_far(broker::TubeNumber tube, broker::FarCursor from,
                                          std::int64_t until_ms, std::size_t limit) const;
  [[nodiscard]] std::optional<broker::FarPlace> find_key(broker::TubeNumber tube,
                                                         const std::string& key) const;
  [[nodiscard]] std::optional<broker::StoredJob> find(broker::JobId id) const;
  void read_into(broker::RecoverySink& sink) const;

 private:
  void set_schedule(broker::Mutation::Kind kind, const broker::ScheduleRecord& record);
  void put(const broker::Mutation& mutation);
  void update(const broker::Mutation& mutation);
  void settle(const broker::Mutation& mutation);
  void move(const broker::Mutation& mutation);
  Entry& leave_far(const broker::Mutation& mutation, const char* what);
  void add_key(const broker::JobRecord& job);
  void erase(const broker::Mutation& mutation);

  // Invariant: far_ holds exactly the jobs of jobs_ at kFar, under the due time they were put with.
  std::map<broker::JobId, Entry> jobs_;
  std::map<broker::TubeNumber, std::map<FarKey, broker::JobId>> far_;
  // The far jobs that have a key.
  std::map<std::pair<broker::TubeNumber, std::string>, broker::JobId> keys_;
  std::map<broker::TubeNumber, broker::TubeRecord> tubes_;
  std::optional<broker::PartitionRecord> partition_;
  std::map<std::string, broker::ScheduleRecord> schedules_;
};

/// One partition's disk: what is durable, and the batches written to it but not yet synced.
///
/// Threads:  one thread.
/// Lifetime: shared by the stores that are opened on it one after the other.
class MemoryDisk {
 public:
  /// Of `unsynced` batches that a crash finds, how many survive; the answer is clamped.
  using Survivors = std::function<std::size_t(std::size_t unsynced)>;

  /// The process or the machine dies: the unsynced batches are lost, but for the first few that
  /// `survivors` says (default: none), which become durable. Called by a store when it is opened
  /// and by MemoryStore::recover() after a failure.
  void crash();
  void set_survivors(Survivors survivors) { survivors_ = std::move(survivors); }

  [[nodiscard]] const MemoryState& durable() const noexcept { return durable_; }
  [[nodiscard]] std::size_t unsynced() const noexcept { return unsynced_.size(); }

 private:
  friend class MemoryStore;

  void write(std::shared_ptr<const broker::Batch> batch);
  // Makes the oldest unsynced batch durable.
  void sync_one();

  MemoryState durable_;
  // What a reader sees: durable_ and then unsynced_.
  MemoryState visible_;
  std::deque<std::shared_ptr<const broker::Batch>> unsynced_;
  Survivors survivors_;
};

}  // namespace carillon::store
