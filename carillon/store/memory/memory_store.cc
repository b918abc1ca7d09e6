// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/memory/memory_store.h"

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::store {

using broker::Batch;
using broker::CommitSeq;
using broker::JobId;

MemoryStore::MemoryStore() : MemoryStore(std::make_shared<MemoryDisk>()) {}

MemoryStore::MemoryStore(std::shared_ptr<MemoryDisk> disk, Completion completion)
    : disk_(std::move(disk)), completion_(completion) {
  disk_->crash();
}

Result<void> MemoryStore::recover(broker::RecoverySink& sink) {
  if (recover_error_) return *recover_error_;
  if (failure_) {
    // What was submitted before the failure and is still pending has been overtaken by it.
    complete_commits(commits_.size());
    while (complete_read()) {
    }
    failure_.reset();
    disk_->crash();
  }
  disk_->visible_.read_into(sink);
  return {};
}

void MemoryStore::commit(std::unique_ptr<Batch> batch, Committed done) {
  ++commits_submitted_;
  PendingCommit pending{batch->seq, failure_, std::move(done)};
  if (strike(commit_fault_)) {
    failure_ = std::move(commit_fault_->error);
    commit_fault_.reset();
    pending.error = failure_;
    // It reached the disk as far as it may survive there.
    disk_->write(std::move(batch));
  } else if (!failure_) {
    disk_->write(std::move(batch));
  }
  commits_.push_back(std::move(pending));
  if (completion_ == Completion::kInline) complete_commits(commits_.size());
}

void MemoryStore::fetch(std::vector<broker::WantedJob> wanted, Fetched done) {
  add_read({std::nullopt, PendingFetch{std::move(wanted), std::move(done)}});
}

void MemoryStore::scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                           std::size_t limit, Scanned done) {
  add_read({std::nullopt, PendingScan{tube, from, until_ms, limit, std::move(done)}});
}

void MemoryStore::find_key(broker::TubeNumber tube, std::string key, KeyFound done) {
  add_read({std::nullopt, PendingKey{tube, std::move(key), std::move(done)}});
}

void MemoryStore::add_read(PendingRead read) {
  if (strike(read_fault_)) {
    read.error = std::move(read_fault_->error);
    read_fault_.reset();
  }
  reads_.push_back(std::move(read));
  if (completion_ == Completion::kInline) complete_read();
}

std::size_t MemoryStore::complete_commits(std::size_t count) {
  count = std::min(count, commits_.size());
  if (count > 0 && sync_error_) {
    if (!failure_) failure_ = sync_error_;
    for (PendingCommit& pending : commits_) {
      if (!pending.error) pending.error = sync_error_;
    }
    sync_error_.reset();
    count = commits_.size();
  }
  // One callback tells of every success in a row.
  CommitSeq synced = 0;
  Committed tell_synced;
  const auto tell = [&synced, &tell_synced] {
    if (tell_synced) std::exchange(tell_synced, nullptr)(synced, {});
  };
  for (std::size_t i = 0; i < count && !commits_.empty(); ++i) {
    PendingCommit pending = std::move(commits_.front());
    commits_.pop_front();
    if (pending.error) {
      tell();
      pending.done(pending.seq, std::move(*pending.error));
    } else {
      disk_->sync_one();
      synced = pending.seq;
      tell_synced = std::move(pending.done);
    }
  }
  tell();
  return count;
}

bool MemoryStore::complete_read() {
  if (reads_.empty()) return false;
  PendingRead read = std::move(reads_.front());
  reads_.pop_front();
  const MemoryState& state = disk_->visible_;
  if (auto* fetch = std::get_if<PendingFetch>(&read.what)) {
    std::vector<Result<std::optional<broker::StoredJob>>> answers;
    for (const broker::WantedJob& wanted : fetch->wanted) {
      if (read.error) {
        answers.emplace_back(*read.error);
      } else {
        answers.emplace_back(state.find(wanted.id));
      }
    }
    fetch->done(std::move(answers));
  } else if (auto* scan = std::get_if<PendingScan>(&read.what)) {
    if (read.error) {
      scan->done(std::move(*read.error));
    } else {
      scan->done(state.scan_far(scan->tube, scan->from, scan->until_ms, scan->limit));
    }
  } else if (auto* key = std::get_if<PendingKey>(&read.what)) {
    if (read.error) {
      key->done(std::move(*read.error));
    } else {
      key->done(state.find_key(key->tube, key->key));
    }
  }
  return true;
}

void MemoryStore::complete_all() {
  while (!commits_.empty() || !reads_.empty()) {
    complete_commits(commits_.size());
    while (complete_read()) {
    }
  }
}

void MemoryStore::fail_commit(std::uint64_t nth, Error error) {
  CARILLON_CHECK(nth > 0, "the first commit from now is number 1");
  commit_fault_ = Fault{nth, std::move(error)};
}

void MemoryStore::fail_read(std::uint64_t nth, Error error) {
  CARILLON_CHECK(nth > 0, "the first read from now is number 1");
  read_fault_ = Fault{nth, std::move(error)};
}

bool MemoryStore::strike(std::optional<Fault>& fault) { return fault && --fault->countdown == 0; }

}  // namespace carillon::store
