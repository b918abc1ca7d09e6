// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/commit_pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::store {

using broker::Batch;

namespace {

std::uint64_t us_between(Instant from, Instant to) {
  return static_cast<std::uint64_t>(std::max<Span::rep>((to - from).count(), 0)) / 1'000;
}

// What a mutation costs beside its body, roughly: keys and record.
constexpr std::size_t kMutationBytes = 64;

std::size_t size_of(const Batch& batch) {
  return batch.bytes + batch.mutations.size() * kMutationBytes;
}

}  // namespace

CommitPipeline::CommitPipeline(PipelineEngine& engine, const Options& options)
    : engine_(engine), options_(options) {
  CARILLON_CHECK(options.threads >= 2, "one thread cannot apply while it syncs");
  for (std::size_t i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this] { work(); });
    const std::string name = "store-" + std::to_string(i);
    pthread_setname_np(threads_.back().native_handle(), name.c_str());
  }
}

CommitPipeline::~CommitPipeline() {
  {
    const MutexLock lock(mutex_);
    CARILLON_CHECK(lanes_.empty(), lanes_.size(), " partitions are still open");
    stopping_ = true;
    work_changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

CommitPipeline::Lane* CommitPipeline::open_lane(std::uint32_t partition) {
  const MutexLock lock(mutex_);
  for (const Lane& lane : lanes_) {
    CARILLON_CHECK(lane.partition_ != partition, "partition ", partition, " is open already");
  }
  return &lanes_.emplace_back(partition);
}

void CommitPipeline::close_lane(Lane* lane) {
  const MutexLock lock(mutex_);
  while (lane->outstanding_ > 0) wait_for_quiet();
  lanes_.remove_if([lane](const Lane& other) { return &other == lane; });
}

void CommitPipeline::commit(Lane& lane, std::unique_ptr<Batch> batch,
                            broker::Store::Committed done) {
  Commit commit{&lane, std::move(batch), std::move(done), clock_.now(), std::nullopt, false};
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    const bool small = is_small(*commit.batch);
    const bool lone = is_lone(*commit.batch);
    ++lane.outstanding_;
    queue_.emplace_back(std::move(commit));
    if (small) run_apply(false);
    if (lone && can_sync()) {
      run_sync();
      return;
    }
    // Nobody is woken for a sync while one runs: that thread goes on with the next.
    wake = idle_threads_ > 0 && has_work();
  }
  if (wake) work_changed_.notify_one();
}

bool CommitPipeline::commit_blocks(const Batch& batch) const {
  const MutexLock lock(mutex_);
  return is_lone(batch);
}

bool CommitPipeline::is_small(const Batch& batch) const {
  return !applying_ && !paused_ && queue_.empty() &&
         batch.mutations.size() <= options_.small_mutations && batch.bytes <= options_.small_bytes;
}

bool CommitPipeline::is_lone(const Batch& batch) const {
  return is_small(batch) && !syncing_ && applied_.empty() &&
         batch.mutations.size() <= options_.lone_mutations &&
         last_sync_mutations_ <= options_.lone_mutations && last_sync_ <= options_.lone_sync;
}

void CommitPipeline::read(Lane& lane, ReadRequest request) {
  submit(lane, Read{&lane, std::move(request)});
}

void CommitPipeline::submit(Lane& lane, Operation operation) {
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    ++lane.outstanding_;
    queue_.push_back(std::move(operation));
    wake = idle_threads_ > 0 && can_apply();
  }
  if (wake) work_changed_.notify_one();
}

bool CommitPipeline::can_sync() const { return !syncing_ && !applied_.empty(); }
bool CommitPipeline::can_apply() const { return !applying_ && !paused_ && !queue_.empty(); }
bool CommitPipeline::can_read() const { return !reading_ && !paused_ && !reads_.empty(); }
bool CommitPipeline::has_work() const { return can_sync() || can_apply() || can_read(); }

void CommitPipeline::work() {
  const MutexLock lock(mutex_);
  for (;;) {
    // Sync first: somebody waits for it, and while it runs the others apply.
    if (can_sync()) {
      run_sync();
    } else if (can_apply()) {
      run_apply(true);
    } else if (can_read()) {
      run_read();
    } else if (stopping_) {
      return;
    } else {
      ++idle_threads_;
      work_changed_.wait(mutex_);
      --idle_threads_;
    }
  }
}

// Whoever takes a role sees to it that another thread takes what is left.
void CommitPipeline::wake_another() {
  if (idle_threads_ > 0 && has_work()) work_changed_.notify_one();
}

void CommitPipeline::run_apply(bool may_wait) {
  applying_ = true;
  take_apply_group();
  wake_another();
  mutex_.unlock();
  const Result<bool> written = write_apply_group(may_wait);
  mutex_.lock();

  if (written && !*written) {
    // Back to the front, for a thread that may wait.
    while (!apply_group_.empty()) {
      queue_.emplace_front(std::move(apply_group_.back()));
      apply_group_.pop_back();
    }
    applying_ = false;
    announce_quiet();
    return;
  }
  if (!written) fail(written.error());
  for (Commit& commit : apply_group_) {
    // A sync may have failed meanwhile: then what was written is void too.
    if (!commit.error && failure_) commit.error = failure_;
    if (commit.error) commit.lane->failed_ = true;
    commit.lane->refused_ = false;
    applied_.push_back(std::move(commit));
  }
  apply_group_.clear();
  for (Read& read : apply_reads_) reads_.push_back(std::move(read));
  apply_reads_.clear();
  applying_ = false;
  announce_quiet();
}

void CommitPipeline::take_apply_group() {
  std::size_t bytes = 0;
  while (!queue_.empty() && bytes < options_.max_group_bytes &&
         apply_reads_.size() < options_.max_group_reads) {
    if (auto* read = std::get_if<Read>(&queue_.front())) {
      apply_reads_.push_back(std::move(*read));
    } else {
      Commit& commit = std::get<Commit>(queue_.front());
      bytes += size_of(*commit.batch);
      if (failure_) {
        commit.error = failure_;
      } else if (commit.lane->failed_) {
        commit.error = Error{ErrorCode::kUnavailable, "an earlier commit failed; recover first"};
      }
      apply_group_.push_back(std::move(commit));
    }
    queue_.pop_front();
  }
}

Result<bool> CommitPipeline::write_apply_group(bool may_wait) {
  to_apply_.clear();
  for (Commit& commit : apply_group_) {
    if (commit.error) continue;
    if (commit.lane->refused_) {
      commit.error = Error{ErrorCode::kUnavailable, "an earlier commit was refused; recover first"};
      continue;
    }
    commit.error = engine_.refuse(*commit.batch);
    if (commit.error) {
      commit.refused = true;
      commit.lane->refused_ = true;
      continue;
    }
    to_apply_.push_back({commit.lane->partition_, commit.batch.get()});
  }
  if (to_apply_.empty()) return true;
  return engine_.apply(to_apply_, may_wait);
}

void CommitPipeline::run_sync() {
  syncing_ = true;
  std::swap(sync_group_, applied_);
  std::size_t written = 0;
  for (Commit& commit : sync_group_) {
    if (!commit.error && failure_) {
      commit.error = failure_;
      commit.lane->failed_ = true;
    }
    if (!commit.error) ++written;
  }
  wake_another();
  mutex_.unlock();

  const Instant begin = clock_.now();
  Result<void> synced;
  if (written > 0) synced = engine_.sync();
  const Instant end = clock_.now();
  if (!synced) {
    // Before the callbacks: what they submit must fail as well.
    const MutexLock lock(mutex_);
    fail(synced.error());
    for (Commit& commit : sync_group_) commit.lane->failed_ = true;
  }
  acknowledge(synced);
  if (written > 0 && synced) engine_.on_acknowledged();

  mutex_.lock();
  if (written > 0) {
    last_sync_ = end - begin;
    last_sync_mutations_ = 0;
    ++stats_.syncs;
    stats_.sync_us.add(us_between(begin, end));
  }
  for (const Commit& commit : sync_group_) {
    --commit.lane->outstanding_;
    if (commit.error) {
      ++stats_.failed_commits;
      if (commit.refused) ++stats_.refused_commits;
    } else {
      ++stats_.commits;
      stats_.mutations += commit.batch->mutations.size();
      last_sync_mutations_ += commit.batch->mutations.size();
      stats_.commit_us.add(us_between(commit.submitted, end));
    }
  }
  // The batches are freed outside the lock, and when the role is free already.
  std::vector<Commit> finished = std::exchange(sync_group_, {});
  syncing_ = false;
  announce_quiet();
  wake_another();
  mutex_.unlock();
  finished.clear();
  mutex_.lock();
}

void CommitPipeline::acknowledge(const Result<void>& synced) {
  for (std::size_t i = 0; i < sync_group_.size(); ++i) {
    Commit& commit = sync_group_[i];
    if (!commit.error && !synced) commit.error = synced.error();
    if (!commit.error) commit.lane->last_success_ = i;
  }
  for (std::size_t i = 0; i < sync_group_.size(); ++i) {
    Commit& commit = sync_group_[i];
    if (commit.error) {
      commit.done(commit.batch->seq, *commit.error);
    } else if (commit.lane->last_success_ == i) {
      commit.done(commit.batch->seq, {});
    }
    // What it captured goes before the lane may be closed.
    commit.done = nullptr;
  }
}

void CommitPipeline::run_read() {
  reading_ = true;
  while (!reads_.empty() && read_group_.size() < options_.max_group_reads) {
    read_group_.push_back(std::move(reads_.front()));
    reads_.pop_front();
  }
  wake_another();
  mutex_.unlock();
  to_read_.clear();
  for (const Read& read : read_group_) to_read_.push_back({read.lane->partition_, &read.request});
  engine_.read(to_read_);
  for (Read& read : read_group_) read.request = FetchRequest();
  mutex_.lock();
  for (const Read& read : read_group_) --read.lane->outstanding_;
  stats_.reads += read_group_.size();
  read_group_.clear();
  reading_ = false;
  announce_quiet();
}

void CommitPipeline::fail(const Error& error) {
  if (!failure_) failure_ = error;
  stats_.last_error = error.message;
}

Result<void> CommitPipeline::recover(Lane& lane, const std::function<Result<void>()>& reopen,
                                     const std::function<Result<void>()>& load) {
  const MutexLock lock(mutex_);
  while (lane.outstanding_ > 0 || paused_) wait_for_quiet();
  if (failure_) {
    if (Result<void> reopened = reopen_engine(reopen); !reopened) {
      stats_.last_error = reopened.error().message;
      return reopened;
    }
  }
  ++engine_users_;
  mutex_.unlock();
  Result<void> loaded = load();
  mutex_.lock();
  --engine_users_;
  announce_quiet();
  lane.failed_ = !loaded;
  if (!loaded) stats_.last_error = loaded.error().message;
  return loaded;
}

Result<void> CommitPipeline::reopen_engine(const std::function<Result<void>()>& reopen) {
  paused_ = true;
  // What was applied before the failure is void; its callbacks must have said so before the failure
  // is forgotten. What is queued stays there.
  while (applying_ || syncing_ || reading_ || !applied_.empty() || engine_users_ > 0) {
    wait_for_quiet();
  }
  mutex_.unlock();
  Result<void> reopened = reopen();
  mutex_.lock();
  if (reopened) {
    failure_.reset();
    ++stats_.reopenings;
  }
  paused_ = false;
  work_changed_.notify_all();
  announce_quiet();
  return reopened;
}

void CommitPipeline::with_engine(const std::function<void()>& use) {
  {
    const MutexLock lock(mutex_);
    while (paused_) wait_for_quiet();
    ++engine_users_;
  }
  use();
  const MutexLock lock(mutex_);
  --engine_users_;
  announce_quiet();
}

RocksStats CommitPipeline::stats() const {
  const MutexLock lock(mutex_);
  RocksStats stats = stats_;
  stats.failed = failure_.has_value();
  return stats;
}

void CommitPipeline::wait_for_quiet() {
  ++quiet_waiters_;
  quiet_changed_.wait(mutex_);
  --quiet_waiters_;
}

void CommitPipeline::announce_quiet() {
  if (quiet_waiters_ > 0) quiet_changed_.notify_all();
}

}  // namespace carillon::store
