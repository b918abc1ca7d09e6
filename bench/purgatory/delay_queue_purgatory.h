// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A purgatory on a delay queue, as Kafka's was before it had wheels: a heap of deadlines under a
/// mutex, lists of what is watched under each key, and a thread that expires, and purges both of
/// what has ended once there are a thousand of those. A peer.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "carillon/base/time.h"
#include "carillon/timer/unique_function.h"

namespace carillon::bench {

/// Operations that complete or expire, whichever is first, exactly once.
///
/// Threads: safe. `done` is called with no lock held but that of its operation.
class DelayQueuePurgatory {
 public:
  using Key = std::uint64_t;
  using Condition = UniqueFunction<bool()>;
  /// Called with true if it expired.
  using Done = UniqueFunction<void(bool)>;

  class Operation {
   public:
    Operation(Instant deadline, Condition condition, Done done)
        : deadline_(deadline), condition_(std::move(condition)), done_(std::move(done)) {}

    /// Ends it as completed, if the condition holds.
    bool attempt();
    /// Ends it whatever the condition says. False if it has ended already.
    bool end(bool expired);
    [[nodiscard]] bool ended() const { return ended_.load(std::memory_order_acquire); }

   private:
    friend class DelayQueuePurgatory;
    const Instant deadline_;
    std::recursive_mutex mutex_;
    std::atomic<bool> ended_ = false;
    Condition condition_;
    Done done_;
    std::atomic<std::size_t>* dead_ = nullptr;
  };
  using Ref = std::shared_ptr<Operation>;

  explicit DelayQueuePurgatory(std::size_t purge_interval = 1'000);
  /// What waits is dropped.
  ~DelayQueuePurgatory();
  DelayQueuePurgatory(const DelayQueuePurgatory&) = delete;
  DelayQueuePurgatory& operator=(const DelayQueuePurgatory&) = delete;

  Ref watch(std::span<const Key> keys, Instant deadline, Condition condition, Done done);
  /// Tries what is watched under a key; returns how many that completed.
  std::size_t check(Key key);

 private:
  static constexpr std::size_t kShards = 512;

  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<Key, std::vector<Ref>> watched;
  };
  struct Later {
    bool operator()(const Ref& a, const Ref& b) const { return a->deadline_ > b->deadline_; }
  };

  Shard& shard_of(Key key) { return shards_[key * 0x9e3779b97f4a7c15U >> 55]; }
  void run();
  void purge();

  const std::size_t purge_interval_;
  std::array<Shard, kShards> shards_;
  // Ended, and still in the lists or the heap.
  std::atomic<std::size_t> dead_ = 0;
  std::mutex mutex_;
  std::condition_variable earlier_;
  bool closing_ = false;
  std::vector<Ref> heap_;
  std::thread thread_;
};

}  // namespace carillon::bench
