// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_store.h"

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::sim {

using broker::Mutation;
using broker::Place;
using Kind = broker::Mutation::Kind;

broker::StoredJob SimDisk::Job::as_found() const {
  broker::StoredJob found = job;
  found.updated = updated;
  return found;
}

/// The far job that the mutation names, rightly.
SimDisk::Job& SimDisk::State::far_job(const Mutation& m) {
  const auto found = jobs.find(m.job.id);
  CARILLON_CHECK(found != jobs.end(), "job ", m.job.id, " is not there");
  Job& stored = found->second;
  CARILLON_CHECK(stored.job.place == Place::kFar, "job ", m.job.id, " is not far");
  CARILLON_CHECK(stored.far_due_ms == m.far_due_ms && stored.job.record.tube == m.job.tube);
  CARILLON_CHECK(broker::key_of(stored.job.record.extras) == broker::key_of(m.job.extras), "job ",
                 m.job.id, " leaves its key behind");
  return stored;
}

void SimDisk::State::apply(const broker::Batch& batch) {
  for (const Mutation& m : batch.mutations) {
    switch (m.kind) {
      case Kind::kPut: {
        CARILLON_CHECK(m.place == Place::kNear || m.place == Place::kFar);
        CARILLON_CHECK(m.job.state != broker::JobState::kReserved);
        CARILLON_CHECK(m.job.body_size == m.body.size() && bool(m.body));
        for (const auto& [id, other] : jobs) {
          const std::string_view key = broker::key_of(m.job.extras);
          CARILLON_CHECK(key.empty() || other.job.record.tube != m.job.tube ||
                             broker::key_of(other.job.record.extras) != key,
                         "jobs ", id, " and ", m.job.id, " both have the key ", key);
        }
        const bool added =
            jobs.try_emplace(m.job.id, Job{{m.job, m.place, m.body}, m.job.due_ms}).second;
        CARILLON_CHECK(added, "job ", m.job.id, " is put twice");
        CARILLON_CHECK(tubes.contains(m.job.tube), "job ", m.job.id, " in unknown tube ",
                       m.job.tube);
        break;
      }
      case Kind::kUpdate: {
        Job& stored = jobs.at(m.job.id);
        CARILLON_CHECK(stored.job.place == m.place && m.place != Place::kFar);
        CARILLON_CHECK(stored.job.record.tube == m.job.tube);
        stored.job.record = m.job;
        stored.updated = true;
        break;
      }
      case Kind::kMove: {
        Job& stored = far_job(m);
        CARILLON_CHECK(m.place == Place::kFar);
        stored.far_due_ms = m.job.due_ms;
        stored.job.record = m.job;
        stored.updated = true;
        break;
      }
      case Kind::kSettle: {
        Job& stored = far_job(m);
        stored.updated = true;
        stored.job.place = Place::kSettled;
        stored.job.record = m.job;
        break;
      }
      case Kind::kErase: {
        const auto found = jobs.find(m.job.id);
        CARILLON_CHECK(found != jobs.end(), "job ", m.job.id, " is erased and is not there");
        CARILLON_CHECK(found->second.job.place == m.place);
        if (m.place == Place::kFar) (void)far_job(m);
        CARILLON_CHECK(m.updated || !found->second.updated, "job ", m.job.id,
                       " leaves an update behind");
        jobs.erase(found);
        break;
      }
      case Kind::kTube: {
        const broker::TubeRecord& tube = batch.tubes.at(m.detail);
        tubes[tube.number] = tube;
        break;
      }
      case Kind::kEraseTube:
        CARILLON_CHECK(tubes.erase(batch.tubes.at(m.detail).number) == 1);
        break;
      case Kind::kPartition: partition = batch.partitions.at(m.detail); break;
      case Kind::kSchedule: {
        const broker::ScheduleRecord& schedule = batch.schedules.at(m.detail);
        schedules[schedule.settings.name] = schedule;
        break;
      }
      case Kind::kScheduleProgress: {
        const broker::ScheduleRecord& schedule = batch.schedules.at(m.detail);
        schedules.at(schedule.settings.name).progress = schedule.progress;
        break;
      }
      case Kind::kEraseSchedule:
        CARILLON_CHECK(schedules.erase(batch.schedules.at(m.detail).settings.name) == 1);
        break;
    }
  }
}

void SimDisk::lose_unsynced(Random& random) {
  std::size_t kept = random.below(unsynced.size() + 1);
  for (; kept > 0; --kept) {
    durable.apply(*unsynced.front());
    unsynced.pop_front();
  }
  unsynced.clear();
  applied = durable;
}

bool SimStore::step() {
  const bool can_sync = !waiting_.empty();
  if (!queue_.empty() && (!can_sync || random_.one_in(2))) {
    auto next = std::move(queue_.front());
    queue_.pop_front();
    if (auto* commit = std::get_if<Commit>(&next)) {
      apply(std::move(*commit));
    } else if (auto* fetch = std::get_if<Fetch>(&next)) {
      read(*fetch);
    } else if (auto* find = std::get_if<FindKey>(&next)) {
      read(*find);
    } else {
      read(std::get<Scan>(next));
    }
    return true;
  }
  if (!can_sync) return false;
  sync();
  return true;
}

void SimStore::fail(broker::CommitSeq seq, const Committed& done) {
  failed_ = true;
  done(seq, Error{ErrorCode::kNoSpace, "simulated: no space"});
}

void SimStore::apply(Commit commit) {
  if (failed_ || faults_.failing) {
    fail(commit.batch->seq, commit.done);
    return;
  }
  if (faults_.lie == Lie::kKeepErased) {
    std::erase_if(commit.batch->mutations, [](const Mutation& m) {
      return m.kind == Kind::kErase && m.place == Place::kNear;
    });
  }
  if (faults_.lie == Lie::kForgetUpdate) {
    std::erase_if(commit.batch->mutations,
                  [](const Mutation& m) { return m.kind == Kind::kUpdate; });
  }
  disk_.applied.apply(*commit.batch);
  const broker::CommitSeq seq = commit.batch->seq;
  disk_.unsynced.push_back(std::move(commit.batch));
  if (faults_.lie == Lie::kAckUnsynced) {
    commit.done(seq, {});
    commit.done = [](broker::CommitSeq, const Result<void>&) {};
  }
  waiting_.push_back(std::move(commit.done));
}

void SimStore::sync() {
  if (failed_ || faults_.failing) {
    // A failed sync: which of the writes reached the disk is anybody's guess (lose_unsynced).
    failed_ = true;
    std::deque<Committed> told = std::exchange(waiting_, {});
    for (std::size_t i = 0; i < told.size(); ++i) fail(disk_.unsynced[i]->seq, told[i]);
    return;
  }
  // One completion for several batches, as a store may.
  Committed last;
  broker::CommitSeq seq = 0;
  for (std::size_t n = 1 + random_.below(waiting_.size()); n > 0; --n) {
    disk_.durable.apply(*disk_.unsynced.front());
    seq = disk_.unsynced.front()->seq;
    disk_.unsynced.pop_front();
    last = std::move(waiting_.front());
    waiting_.pop_front();
  }
  last(seq, {});
}

Result<void> SimStore::recover(broker::RecoverySink& sink) {
  if (faults_.failing) return Error{ErrorCode::kNoSpace, "simulated: still no space"};
  if (failed_ || !waiting_.empty() || !queue_.empty()) {
    disk_.lose_unsynced(random_);
    waiting_.clear();
    queue_.clear();
    failed_ = false;
  }
  const SimDisk::State& state = disk_.durable;
  if (state.partition) sink.on_partition(*state.partition);
  for (const auto& [number, tube] : state.tubes) sink.on_tube(tube);
  for (const auto& [name, schedule] : state.schedules) sink.on_schedule(schedule);
  for (const auto& [id, stored] : state.jobs) {
    if (stored.job.place == Place::kFar) continue;
    broker::StoredJob job = stored.as_found();
    if (job.place == Place::kSettled || random_.one_in(2)) job.body = {};
    if (!keeps_far_) job.body = stored.job.body;
    sink.on_job(std::move(job));
  }
  return {};
}

void SimStore::commit(std::unique_ptr<broker::Batch> batch, Committed done) {
  queue_.push_back(Commit{std::move(batch), std::move(done)});
}

void SimStore::fetch(std::vector<broker::WantedJob> wanted, Fetched done) {
  queue_.push_back(Fetch{std::move(wanted), std::move(done)});
}

void SimStore::scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                        std::size_t limit, Scanned done) {
  queue_.push_back(Scan{tube, from, until_ms, limit, std::move(done)});
}

void SimStore::find_key(broker::TubeNumber tube, std::string key, KeyFound done) {
  queue_.push_back(FindKey{tube, std::move(key), std::move(done)});
}

void SimStore::read(const FindKey& find) {
  if (failed_) {
    find.done(Error{ErrorCode::kIo, "simulated: read error"});
    return;
  }
  std::optional<broker::FarPlace> found;
  for (const auto& [id, stored] : disk_.applied.jobs) {
    const broker::StoredJob& job = stored.job;
    if (job.place == Place::kFar && job.record.tube == find.tube &&
        broker::key_of(job.record.extras) == find.key) {
      found = broker::FarPlace{id, stored.far_due_ms, stored.updated};
    }
  }
  find.done(found);
}

void SimStore::read(const Fetch& fetch) {
  std::vector<Result<std::optional<broker::StoredJob>>> answers;
  for (const broker::WantedJob& wanted : fetch.wanted) {
    const auto found = disk_.applied.jobs.find(wanted.id);
    if (failed_) {
      answers.emplace_back(Error{ErrorCode::kIo, "simulated: read error"});
    } else if (found == disk_.applied.jobs.end()) {
      answers.emplace_back(std::nullopt);
    } else {
      answers.emplace_back(found->second.as_found());
    }
  }
  fetch.done(std::move(answers));
}

void SimStore::read(const Scan& scan) {
  if (failed_) {
    scan.done(Error{ErrorCode::kIo, "simulated: read error"});
    return;
  }
  std::vector<const SimDisk::Job*> far;
  for (const auto& [id, stored] : disk_.applied.jobs) {
    if (stored.job.place != Place::kFar || stored.job.record.tube != scan.tube) continue;
    if (std::pair(stored.far_due_ms, id) < std::pair(scan.from.due_ms, scan.from.id)) continue;
    far.push_back(&stored);
  }
  std::sort(far.begin(), far.end(), [](const SimDisk::Job* a, const SimDisk::Job* b) {
    return std::pair(a->far_due_ms, a->job.record.id) < std::pair(b->far_due_ms, b->job.record.id);
  });
  broker::FarChunk chunk;
  for (const SimDisk::Job* stored : far) {
    if (stored->far_due_ms > scan.until_ms) {
      chunk.next_due_ms = stored->far_due_ms;
      break;
    }
    if (chunk.jobs.size() == scan.limit) {
      chunk.more = true;
      break;
    }
    chunk.jobs.push_back(stored->as_found());
    chunk.jobs.back().body = {};
  }
  scan.done(std::move(chunk));
}

}  // namespace carillon::sim
