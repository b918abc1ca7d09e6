// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Where operations wait for a condition or a deadline, whichever is first: Kafka's purgatory.
///
/// A request wants what is not there yet: ten more records, answers of two replicas, a free seat.
/// It is watched under the keys that can bring it about; who changes something under a key calls
/// check(key), and those waiting there look whether their condition holds now. If nothing brings it
/// about in time, the deadline does. Which of them it was, is told once.
///
///     watch({"a", "b"}, 200ms, enough, answer)           a producer: append(); check("a")
///       |                                                  |
///       condition holds? ── yes ──> answer(kCompleted)     each that waits under "a":
///       link under each key                                  condition holds? ── yes ──> answer
///       condition holds? ── yes ──> answer(kCompleted)       (what has come about meanwhile)
///       timer: 200 ms    ── over ─> answer(kExpired)
///
/// Three things are done by hand wrongly, and are the point of this:
///
///   - *No lost wake-up.* The condition is tried again after it has been linked, and a check that
///     finds it being tried by another thread has that thread try once more.
///   - *Exactly once.* Completion, deadline and cancel race for one word; who wins it answers.
///   - *Nothing is left behind.* Who ends an operation unlinks it from all its keys and cancels its
///     timer, at once: no purge, no list of the dead until their deadline. (Kafka leaves them in
///     the lists of the other keys, and purges when there are a thousand.)

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/base/time.h"
#include "carillon/blocks/internal/linear_table.h"
#include "carillon/blocks/internal/purgatory_operation.h"
#include "carillon/blocks/key.h"
#include "carillon/blocks/outcome.h"
#include "carillon/timer/internal/spin_lock.h"
#include "carillon/timer/timer.h"
#include "carillon/timer/unique_function.h"

namespace carillon {

struct PurgatoryOptions {
  /// Keys are spread over so many shards, each with a lock; rounded up to a power of two.
  unsigned shards = 64;
};

/// A purgatory, whose operations are watched under keys of type `Key`.
///
/// Time:      an operation expires at its deadline or after, never before, as timers of the Timer
///            do. A timeout of kForever needs no timer.
/// Threads:   safe.
/// Lifetime:  the Timer must outlive it. The destructor cancels all operations, and waits for
///            answers that are being given; it must not be called from one, nor beside watch() or
///            check(). An Operation may outlive it.
/// Callbacks: a condition is called by watch() and check(): never by two threads at a time, never
///            beside `done` or after it. It is quick, leaves the purgatory alone, does not throw.
///            `done` is called once: in watch(), check(), cancel(), or on the Timer's executor,
///            with no lock held; if the condition is being tried at that moment, by the thread that
///            does so. It may do anything but destroy the purgatory, or throw. Both are destroyed
///            then.
/// Errors:    watch() may throw std::bad_alloc, and what the copy of a key or the Timer throws. The
///            operation has ended then: `done` was called, or destroyed if nothing was watched yet.
/// Cost:      watch: an allocation, a lock for each key, a timer. check: O(those watched under the
///            key), 16 under one lock. To end: O(its keys). An operation: 152 bytes and 48 a key; a
///            key: 72, as long as it is watched under.
///
/// Example (examples/delayed_fetch.cc):
///     Purgatory<> purgatory(timer);
///     purgatory.watch({"topic-a"}, 200ms, [&] { return log.size() >= wanted; },
///                     [&](Outcome outcome) { answer(outcome); });
///     ...
///     log.append(record);
///     purgatory.check("topic-a");
template <class Key = std::string, class Hash = typename KeyTraits<Key>::Hash,
          class Equal = std::equal_to<>>
class Purgatory {
 public:
  using Condition = UniqueFunction<bool()>;
  using Done = UniqueFunction<void(Outcome)>;

  class Operation;

  explicit Purgatory(Timer& timer, PurgatoryOptions options = {})
      : timer_(timer), shards_(std::bit_ceil(std::clamp(options.shards, 1U, 4096U))) {}
  ~Purgatory();
  Purgatory(const Purgatory&) = delete;
  Purgatory& operator=(const Purgatory&) = delete;

  /// Has `done` called once: when `condition` holds, at once if it does so already; or when
  /// `timeout` is over. Pre: there is a key. Who does not want to cancel drops the Operation.
  Operation watch(std::span<const Key> keys, Span timeout, Condition condition, Done done);
  Operation watch(std::initializer_list<Key> keys, Span timeout, Condition condition, Done done) {
    return watch(std::span<const Key>(keys.begin(), keys.size()), timeout, std::move(condition),
                 std::move(done));
  }

  /// To be called after something has changed that conditions under `key` may have waited for.
  /// Returns how many operations it has completed. When it returns, each that was watched under the
  /// key before has been tried, or is being tried by another thread that saw the change.
  std::size_t check(KeyView<Key> key);

  /// Cancels all operations that are watched under `key`; returns how many.
  std::size_t cancel_for_key(KeyView<Key> key);

  /// Operations that have not ended, or whose `done` has not returned.
  [[nodiscard]] std::size_t watched() const noexcept;
  /// Keys under which something is watched. Takes each shard's lock.
  [[nodiscard]] std::size_t keys() const noexcept;

 private:
  using Waiting = internal::WaitingOperation;
  using Link = internal::WatchLink;
  using Ref = internal::WaitingRef;

  struct KeyNode : internal::TableNode<KeyNode> {
    template <class Name>
    KeyNode(std::uint64_t key_hash, const Name& name) : key(name) {
      this->hash = key_hash;
      ends.prev = ends.next = &ends;
    }
    const Key key;
    // A ring of links, the first to be tried first.
    Link ends;
  };

  struct alignas(64) Shard final : internal::WatchShard {
    mutable internal::SpinLock lock;
    // Goes up with each check.
    std::uint64_t checks CARILLON_GUARDED_BY(lock) = 0;
    internal::LinearTable<KeyNode> table CARILLON_GUARDED_BY(lock);

    void unlink(Link& link) noexcept override;
  };

  static constexpr std::size_t kAtOnce = 16;

  [[nodiscard]] Shard& shard_of(std::uint64_t hash) noexcept {
    return shards_[(hash >> 48) & (shards_.size() - 1)];
  }
  static KeyNode* find(const internal::LinearTable<KeyNode>& table, std::uint64_t hash,
                       KeyView<Key> key) {
    return table.find(hash, [&](const KeyNode& candidate) { return Equal{}(candidate.key, key); });
  }
  // False if it has ended meanwhile.
  bool link(Waiting& operation, std::size_t number, const Key& key);
  template <class Use>
  std::size_t for_each_under(KeyView<Key> key, Use&& use);

  Timer& timer_;
  std::vector<Shard> shards_;
};

/// Names an operation: to cancel it, or to ask whether it has ended. A value that may be dropped;
/// the operation goes on by itself.
///
/// Threads: any; one object, one thread at a time. Lifetime: may outlive the purgatory.
template <class Key, class Hash, class Equal>
class Purgatory<Key, Hash, Equal>::Operation {
 public:
  /// Names none, which has ended.
  Operation() noexcept = default;

  /// Ends it with kCancelled: `done` is called. False if it has ended already.
  bool cancel() noexcept { return ref_ && ref_->end(Outcome::kCancelled); }
  [[nodiscard]] bool ended() const noexcept { return !ref_ || ref_->ended(); }

 private:
  friend class Purgatory;
  explicit Operation(Ref ref) noexcept : ref_(std::move(ref)) {}
  Ref ref_;
};

}  // namespace carillon

#include "carillon/blocks/internal/purgatory_inline.h"
