// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The jobs in memory: what one costs is what a delayed job costs, so it is packed.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "carillon/base/check.h"
#include "carillon/broker/body.h"
#include "carillon/broker/internal/slab.h"
#include "carillon/broker/job.h"
#include "carillon/broker/store.h"
#include "carillon/wheel/hook.h"

namespace carillon::broker::internal {

/// Whose deadline a hook is.
enum class HookKind : std::uint8_t {
  kJob,       ///< Delayed: due. Reserved: the end of the reservation.
  kSession,   ///< A waiting reserve: its timeout, or the margin of a held reservation.
  kPause,     ///< The end of a tube's pause.
  kLoad,      ///< A tube's far jobs come near.
  kSchedule,  ///< A schedule's next period.
};

/// A place in the broker's wheel that knows what waits in it.
struct BrokerHook : WheelHook {
  BrokerHook(HookKind hook_kind, std::uint32_t owner)
      : kind(static_cast<std::uint32_t>(hook_kind)), index(owner) {}
  std::uint32_t kind : 3;
  std::uint32_t index : 29;  ///< Of the job, session or tube in its slab.
};

/// A count of milliseconds from 0 to 2^48 - 1 (the year 10889) in six bytes.
class Millis48 {
 public:
  [[nodiscard]] std::int64_t get() const noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, parts_, sizeof parts_);
    return static_cast<std::int64_t>(value);
  }
  void set(std::int64_t ms) noexcept {
    const auto value = static_cast<std::uint64_t>(ms < 0 ? 0 : ms);
    std::memcpy(parts_, &value, sizeof parts_);
  }

 private:
  std::uint16_t parts_[3] = {0, 0, 0};  // Low part first: carillon runs on little-endian machines.
};

/// A job in memory. Its hook is scheduled while it is delayed or reserved.
struct Job : BrokerHook {
  explicit Job(std::uint32_t own_index) : BrokerHook(HookKind::kJob, own_index) {}

  std::uint32_t tube = kNil;
  JobId id = 0;
  Body body;  ///< Null: in the store only.
  std::uint32_t priority = 0;
  /// Ready: `prev` is the position in the tube's heap. Delayed, buried: neighbours in the tube's
  /// list. Reserved: neighbours in the session's list.
  std::uint32_t prev = kNil;
  std::uint32_t next = kNil;     ///< Ready: since when (ReadyAges).
  std::uint32_t holder = kNil;   ///< Reserved: the session.
  std::uint32_t history = kNil;  ///< In the table's slab of histories; kNil while all are zero.
  std::uint32_t body_size = 0;
  std::uint32_t changed_seq = 0;  ///< Low half of the number of the last batch with this job in it.
  Millis48 created_ms;
  Millis48 ttr_ms;
  Millis48 delay_ms;
  JobState state : 2 = JobState::kReady;
  Place place : 2 = Place::kNear;
  bool updated : 1 = false;  ///< A kUpdate was written.
  /// The stored record says buried, or delayed until a time to come: if the job becomes ready by
  /// another way than its deadline, that must be written.
  bool stored_waits : 1 = false;
  bool has_extras : 1 = false;  ///< In the ExtrasTable.
  /// Ready, and its body is in memory, or on the way, for being wanted soon (read_ahead_jobs).
  bool read_ahead : 1 = false;
  /// When it is granted it is time to read more of its tube ahead.
  bool read_more : 1 = false;

  [[nodiscard]] std::int64_t deadline_ms() const noexcept {
    return static_cast<std::int64_t>(deadline());
  }
};
static_assert(sizeof(void*) != 8 || sizeof(Job) == 104);

/// A list of jobs through prev and next; each job is in one at most.
struct JobList {
  std::uint32_t first = kNil;
  std::uint32_t last = kNil;
  std::uint32_t count = 0;
};

/// All jobs in memory, by id and by index.
///
/// Cost: 104 bytes a job, 5.7 to 11.4 for finding it by id, and 20 more once anything but put has
///       happened to it. find, add, remove: O(1).
class JobTable {
 public:
  JobTable() : ids_(0, IdHash{&jobs_}, IdEqual{&jobs_}) {}
  ~JobTable() { ids_.clear(); }
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  [[nodiscard]] Job& operator[](std::uint32_t index) noexcept { return jobs_[index]; }
  [[nodiscard]] const Job& operator[](std::uint32_t index) const noexcept { return jobs_[index]; }
  [[nodiscard]] Job* find(JobId id) noexcept {
    const auto found = ids_.find(id);
    return found == ids_.end() ? nullptr : &jobs_[found->value];
  }
  [[nodiscard]] std::size_t size() const noexcept { return jobs_.size(); }
  [[nodiscard]] bool contains_index(std::uint32_t index) const noexcept {
    return jobs_.contains(index);
  }
  /// Indexes are below this.
  [[nodiscard]] std::uint32_t index_limit() const noexcept { return jobs_.index_limit(); }
  /// For a walk through all jobs, round and round; see Slab::next_after.
  [[nodiscard]] std::uint32_t next_after(std::uint32_t index) const noexcept {
    return jobs_.next_after(index);
  }

  /// Pre: there is none with this id.
  Job& add(JobId id) {
    const std::uint32_t index = jobs_.make(kNil);
    Job& job = jobs_[index];
    job.index = index;
    job.id = id;
    const bool added = ids_.insert(Index{index}).second;
    CARILLON_CHECK(added, "job ", id, " is there already");
    return job;
  }
  /// Pre: in no list or heap.
  void remove(Job& job) {
    ids_.erase(job.id);
    if (job.history != kNil) histories_.destroy(job.history);
    jobs_.destroy(job.index);
    // absl never shrinks by itself; without this the table remembers the largest backlog for ever.
    if (ids_.capacity() > kShrinkAbove && ids_.size() < ids_.capacity() / 16) ids_.rehash(0);
  }

  [[nodiscard]] JobHistory history(const Job& job) const noexcept {
    return job.history == kNil ? JobHistory{} : histories_[job.history];
  }
  /// To be changed.
  [[nodiscard]] JobHistory& mutable_history(Job& job) {
    if (job.history == kNil) job.history = histories_.make();
    return histories_[job.history];
  }

  void push_back(JobList& list, Job& job) noexcept {
    job.prev = list.last;
    job.next = kNil;
    (list.last == kNil ? list.first : jobs_[list.last].next) = job.index;
    list.last = job.index;
    ++list.count;
  }
  void unlink(JobList& list, Job& job) noexcept {
    (job.prev == kNil ? list.first : jobs_[job.prev].next) = job.next;
    (job.next == kNil ? list.last : jobs_[job.next].prev) = job.prev;
    job.prev = job.next = kNil;
    --list.count;
  }

  template <class Visit>
  void for_each(Visit&& visit) {
    jobs_.for_each([&visit](std::uint32_t, Job& job) { visit(job); });
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    jobs_.for_each([&visit](std::uint32_t, const Job& job) { visit(job); });
  }

 private:
  using Jobs = Slab<Job, 11>;
  static constexpr std::size_t kShrinkAbove = 1 << 16;

  // Four bytes in the set, the id itself is read in the job.
  struct Index {
    std::uint32_t value;
  };
  struct IdHash {
    using is_transparent = void;
    const Jobs* jobs;
    std::size_t operator()(JobId id) const { return absl::Hash<JobId>{}(id); }
    std::size_t operator()(Index index) const { return (*this)((*jobs)[index.value].id); }
  };
  struct IdEqual {
    using is_transparent = void;
    const Jobs* jobs;
    bool operator()(Index a, Index b) const { return a.value == b.value; }
    bool operator()(Index a, JobId id) const { return (*jobs)[a.value].id == id; }
    bool operator()(JobId id, Index a) const { return (*jobs)[a.value].id == id; }
  };

  Jobs jobs_;
  Slab<JobHistory, 11> histories_;
  absl::flat_hash_set<Index, IdHash, IdEqual> ids_;
};

}  // namespace carillon::broker::internal
