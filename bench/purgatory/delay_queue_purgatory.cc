// SPDX-License-Identifier: Apache-2.0
#include "bench/purgatory/delay_queue_purgatory.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "carillon/base/clock.h"

namespace carillon::bench {

bool DelayQueuePurgatory::Operation::attempt() {
  const std::lock_guard lock(mutex_);
  return !ended() && condition_() && end(false);
}

bool DelayQueuePurgatory::Operation::end(bool expired) {
  const std::lock_guard lock(mutex_);
  if (ended_.exchange(true, std::memory_order_acq_rel)) return false;
  done_(expired);
  condition_.reset();
  done_.reset();
  dead_->fetch_add(1, std::memory_order_relaxed);
  return true;
}

DelayQueuePurgatory::DelayQueuePurgatory(std::size_t purge_interval)
    : purge_interval_(purge_interval), thread_([this] { run(); }) {}

DelayQueuePurgatory::~DelayQueuePurgatory() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  earlier_.notify_one();
  thread_.join();
}

auto DelayQueuePurgatory::watch(std::span<const Key> keys, Instant deadline, Condition condition,
                                Done done) -> Ref {
  auto operation = std::make_shared<Operation>(deadline, std::move(condition), std::move(done));
  operation->dead_ = &dead_;
  if (operation->attempt()) return operation;
  for (const Key key : keys) {
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    shard.watched[key].push_back(operation);
  }
  if (operation->attempt()) return operation;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = heap_.empty() || deadline < heap_.front()->deadline_;
    heap_.push_back(operation);
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }
  if (first) earlier_.notify_one();
  return operation;
}

std::size_t DelayQueuePurgatory::check(Key key) {
  std::vector<Ref> waiting;
  {
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.watched.find(key);
    if (found == shard.watched.end()) return 0;
    std::erase_if(found->second, [](const Ref& operation) { return operation->ended(); });
    waiting = found->second;
  }
  std::size_t completed = 0;
  for (const Ref& operation : waiting) completed += operation->attempt() ? 1U : 0U;
  return completed;
}

void DelayQueuePurgatory::run() {
  constexpr Span kLongestWait = std::chrono::milliseconds(10);  // then it looks for the dead
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (dead_.load(std::memory_order_relaxed) >= purge_interval_) {
      dead_ = 0;
      std::erase_if(heap_, [](const Ref& operation) { return operation->ended(); });
      std::make_heap(heap_.begin(), heap_.end(), Later());
      lock.unlock();
      purge();
      lock.lock();
    }
    const Instant now = SteadyClock().now();
    if (heap_.empty() || heap_.front()->deadline_ > now) {
      const Span wait = heap_.empty() ? kLongestWait : heap_.front()->deadline_ - now;
      earlier_.wait_for(lock, std::min(wait, kLongestWait));
      continue;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    const Ref operation = std::move(heap_.back());
    heap_.pop_back();
    lock.unlock();
    operation->end(true);
    lock.lock();
  }
}

void DelayQueuePurgatory::purge() {
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (auto at = shard.watched.begin(); at != shard.watched.end();) {
      std::erase_if(at->second, [](const Ref& operation) { return operation->ended(); });
      at = at->second.empty() ? shard.watched.erase(at) : std::next(at);
    }
  }
}

}  // namespace carillon::bench
