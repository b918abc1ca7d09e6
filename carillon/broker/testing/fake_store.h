// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A store for tests: two maps, one of what was submitted and one of what is durable; and a judge
/// of every mutation.

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/broker.h"
#include "carillon/broker/store.h"

namespace carillon::broker::testing {

/// What a partition's store holds at some point.
struct StoredState {
  struct Entry {
    StoredJob job;
    bool updated = false;
  };
  std::map<JobId, Entry> jobs;
  std::map<TubeNumber, TubeRecord> tubes;
  std::optional<PartitionRecord> partition;
  std::map<std::string, ScheduleRecord> schedules;

  /// Applies `batch`; stops the program if a mutation does not fit what is stored.
  void apply(const Batch& batch) {
    for (const Mutation& mutation : batch.mutations) apply(batch, mutation);
  }

  [[nodiscard]] std::uint64_t far_count(TubeNumber tube) const {
    return static_cast<std::uint64_t>(std::count_if(jobs.begin(), jobs.end(), [&](auto& entry) {
      return entry.second.job.place == Place::kFar && entry.second.job.record.tube == tube;
    }));
  }
  [[nodiscard]] const TubeRecord* tube(const std::string& name) const {
    for (const auto& [number, record] : tubes) {
      if (record.name == name) return &record;
    }
    return nullptr;
  }

 private:
  Entry& entry(const Mutation& mutation) {
    const auto found = jobs.find(mutation.job.id);
    CARILLON_CHECK(found != jobs.end(), "job ", mutation.job.id, " is not stored");
    return found->second;
  }

  void check_key(const JobRecord& record) const {
    const std::string_view key = key_of(record.extras);
    if (key.empty()) return;
    for (const auto& [id, other] : jobs) {
      CARILLON_CHECK(other.job.record.tube != record.tube || key_of(other.job.record.extras) != key,
                     "jobs ", id, " and ", record.id, " both have the key ", key);
    }
  }

  void apply(const Batch& batch, const Mutation& mutation) {
    const JobRecord& record = mutation.job;
    switch (mutation.kind) {
      case Mutation::Kind::kPut: {
        CARILLON_CHECK(!jobs.contains(record.id), "job ", record.id, " is put twice");
        CARILLON_CHECK(tubes.contains(record.tube), "job ", record.id, " is put in no tube");
        CARILLON_CHECK(mutation.body && mutation.body.size() == record.body_size, record.id);
        CARILLON_CHECK(record.state != JobState::kReserved, record.id);
        check_key(record);
        const bool far = mutation.place == Place::kFar;
        CARILLON_CHECK(mutation.place != Place::kSettled, record.id);
        CARILLON_CHECK(
            !far || (record.state == JobState::kDelayed && record.due_ms == mutation.far_due_ms),
            record.id);
        jobs[record.id] = {{record, mutation.place, mutation.body}, false};
        return;
      }
      case Mutation::Kind::kUpdate: {
        Entry& e = entry(mutation);
        CARILLON_CHECK(e.job.place == mutation.place && mutation.place != Place::kFar, record.id);
        CARILLON_CHECK(record.state != JobState::kReserved, record.id);
        CARILLON_CHECK(record.tube == e.job.record.tube &&
                           record.body_size == e.job.record.body_size &&
                           record.created_ms == e.job.record.created_ms &&
                           record.ttr_ms == e.job.record.ttr_ms,
                       "job ", record.id, " is not what it was");
        e.job.record = record;
        e.updated = true;
        return;
      }
      case Mutation::Kind::kMove: {
        Entry& e = entry(mutation);
        CARILLON_CHECK(e.job.place == Place::kFar && mutation.place == Place::kFar, record.id);
        CARILLON_CHECK(
            e.job.record.due_ms == mutation.far_due_ms && e.job.record.tube == record.tube,
            record.id);
        CARILLON_CHECK(record.state == JobState::kDelayed, record.id);
        CARILLON_CHECK(key_of(record.extras) == key_of(e.job.record.extras), record.id);
        e.job.record = record;
        e.updated = true;
        return;
      }
      case Mutation::Kind::kSettle: {
        Entry& e = entry(mutation);
        CARILLON_CHECK(e.job.place == Place::kFar, "job ", record.id, " is settled twice");
        CARILLON_CHECK(
            e.job.record.due_ms == mutation.far_due_ms && e.job.record.tube == record.tube,
            record.id);
        CARILLON_CHECK(key_of(record.extras) == key_of(e.job.record.extras), record.id);
        e.job.record = record;
        e.job.place = Place::kSettled;
        e.updated = true;
        return;
      }
      case Mutation::Kind::kErase: {
        const Entry& e = entry(mutation);
        CARILLON_CHECK(e.job.place == mutation.place, "job ", record.id, " is not there");
        CARILLON_CHECK(record.tube == e.job.record.tube, record.id);
        if (mutation.place == Place::kFar) {
          CARILLON_CHECK(mutation.far_due_ms == e.job.record.due_ms, record.id);
          CARILLON_CHECK(key_of(record.extras) == key_of(e.job.record.extras), "the key of job ",
                         record.id, " would stay behind");
        }
        CARILLON_CHECK(mutation.updated || !e.updated, "the update of job ", record.id,
                       " would stay behind");
        jobs.erase(record.id);
        return;
      }
      case Mutation::Kind::kTube: {
        const TubeRecord& tube_record = batch.tubes.at(mutation.detail);
        CARILLON_CHECK(tube_record.number != 0 && !tube_record.name.empty(), "a tube of no name");
        const auto known = tubes.find(tube_record.number);
        CARILLON_CHECK(known == tubes.end() || known->second.name == tube_record.name,
                       tube_record.name, " has the number of another");
        tubes[tube_record.number] = tube_record;
        return;
      }
      case Mutation::Kind::kEraseTube: {
        const TubeNumber number = batch.tubes.at(mutation.detail).number;
        const bool used = std::any_of(jobs.begin(), jobs.end(), [&](auto& item) {
          return item.second.job.record.tube == number;
        });
        CARILLON_CHECK(!used, "a tube with jobs is erased");
        CARILLON_CHECK(tubes.erase(number) == 1, "tube ", number, " is not stored");
        return;
      }
      case Mutation::Kind::kPartition: partition = batch.partitions.at(mutation.detail); return;
      case Mutation::Kind::kSchedule: {
        const ScheduleRecord& schedule = batch.schedules.at(mutation.detail);
        schedules[schedule.settings.name] = schedule;
        return;
      }
      case Mutation::Kind::kScheduleProgress: {
        const ScheduleRecord& schedule = batch.schedules.at(mutation.detail);
        const auto found = schedules.find(schedule.settings.name);
        CARILLON_CHECK(found != schedules.end(), schedule.settings.name, " is not stored");
        found->second.progress = schedule.progress;
        return;
      }
      case Mutation::Kind::kEraseSchedule:
        CARILLON_CHECK(schedules.erase(batch.schedules.at(mutation.detail).settings.name) == 1,
                       "a schedule that is not stored is erased");
        return;
    }
  }
};

/// Does what Store promises, at the moments that a test chooses.
class FakeStore {
 public:
  FakeStore() = default;
  /// As after a restart.
  explicit FakeStore(const StoredState& state) : submitted_(state), durable_(state) {}

  void submit(std::unique_ptr<Batch> batch) {
    CARILLON_CHECK(batch->seq > last_submitted_, "batches out of order");
    last_submitted_ = batch->seq;
    submitted_.apply(*batch);
    check_counts();
    in_flight_.push_back(std::move(batch));
  }
  [[nodiscard]] bool anything_in_flight() const { return !in_flight_.empty(); }
  /// The oldest batch in flight becomes durable.
  CommitSeq make_durable() {
    durable_.apply(*in_flight_.front());
    const CommitSeq seq = in_flight_.front()->seq;
    in_flight_.pop_front();
    return seq;
  }
  /// What was in flight fails, but for the first `written` batches: those are there all the same.
  void fail(std::size_t written = 0) {
    for (; written > 0 && !in_flight_.empty(); --written) make_durable();
    in_flight_.clear();
    submitted_ = durable_;
  }

  [[nodiscard]] std::optional<StoredJob> fetch(JobId id) const {
    const auto found = submitted_.jobs.find(id);
    if (found == submitted_.jobs.end()) return std::nullopt;
    return as_found(found->second);
  }
  [[nodiscard]] std::optional<FarPlace> find_key(TubeNumber tube, const std::string& key) const {
    for (const auto& [id, entry] : submitted_.jobs) {
      const StoredJob& job = entry.job;
      if (job.place == Place::kFar && job.record.tube == tube && key_of(job.record.extras) == key) {
        return FarPlace{id, job.record.due_ms, entry.updated};
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] FarChunk scan_far(TubeNumber tube, FarCursor from, std::int64_t until_ms,
                                  std::size_t limit) const {
    std::map<std::pair<std::int64_t, JobId>, const StoredState::Entry*> far;
    for (const auto& [id, entry] : submitted_.jobs) {
      if (entry.job.place == Place::kFar && entry.job.record.tube == tube) {
        const std::pair key{entry.job.record.due_ms, id};
        if (key >= std::pair{from.due_ms, from.id}) far.emplace(key, &entry);
      }
    }
    FarChunk chunk;
    for (const auto& [key, entry] : far) {
      if (key.first > until_ms) {
        chunk.next_due_ms = key.first;
        break;
      }
      if (chunk.jobs.size() == limit) {
        chunk.more = true;
        break;
      }
      chunk.jobs.push_back(as_found(*entry));
      chunk.jobs.back().body = Body();
    }
    return chunk;
  }

  /// As Store::recover, and the calls of its host around it.
  void recover(Broker& broker, bool with_bodies = true) const {
    CARILLON_CHECK(in_flight_.empty(), "recovery with batches in flight");
    broker.begin_recovery();
    if (durable_.partition) broker.restore_partition(*durable_.partition);
    for (const auto& [number, record] : durable_.tubes) broker.restore_tube(record);
    for (const auto& [name, record] : durable_.schedules) broker.restore_schedule(record);
    for (const auto& [id, entry] : durable_.jobs) {
      if (entry.job.place == Place::kFar) continue;
      StoredJob job = as_found(entry);
      if (!with_bodies || job.place == Place::kSettled) job.body = Body();
      broker.restore_job(std::move(job));
    }
  }

  [[nodiscard]] const StoredState& durable() const { return durable_; }
  [[nodiscard]] const StoredState& submitted() const { return submitted_; }

 private:
  static StoredJob as_found(const StoredState::Entry& entry) {
    StoredJob job = entry.job;
    job.updated = entry.updated;
    return job;
  }

  void check_counts() const {
    for (const auto& [number, record] : submitted_.tubes) {
      CARILLON_CHECK(record.far_count == submitted_.far_count(number), "tube ", record.name,
                     " says it has ", record.far_count, " far jobs, not ",
                     submitted_.far_count(number));
    }
    for (const auto& [id, entry] : submitted_.jobs) {
      if (entry.job.place != Place::kFar) continue;
      CARILLON_CHECK(
          submitted_.tubes.at(entry.job.record.tube).far_from_ms <= entry.job.record.due_ms,
          "far job ", id, " lies before the point from which its tube is scanned");
    }
  }

  StoredState submitted_;
  StoredState durable_;
  std::deque<std::unique_ptr<Batch>> in_flight_;
  CommitSeq last_submitted_ = 0;
};

}  // namespace carillon::broker::testing
