// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A map whose entries expire: sessions, caches, tokens that have been seen.
///
/// By hand this is a map with a sweeper thread, which holds the lock for as long as it takes to
/// walk the map, or a heap of deadlines beside it, which every touch must repair. Here:
///
///   - *What has expired is never seen.* get() compares the deadline, to the nanosecond, whether or
///     not anybody has removed the entry yet.
///   - *A touch is a store.* The entry lies in a timing wheel where it was; when its place comes
///     up, the deadline is looked at, and it is put where that says.
///   - *Nobody waits for a herd.* If a million entries expire at one instant, they are taken out 16
///     at a time under the lock of one shard, and a few thousand a millisecond; values are
///     destroyed and callbacks run outside the locks (internal/early_wheel.h says how the wheel
///     does it). The table grows by one list at a time and never stops to rehash. To have them not
///     expire at one instant in the first place, there is `spread`.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/random.h"
#include "carillon/base/time.h"
#include "carillon/blocks/internal/early_wheel.h"
#include "carillon/blocks/internal/linear_table.h"
#include "carillon/blocks/internal/ticker.h"
#include "carillon/blocks/key.h"
#include "carillon/blocks/spread.h"
#include "carillon/timer/internal/spin_lock.h"
#include "carillon/timer/timer.h"

namespace carillon {

/// Why an entry has left an ExpiringMap by itself.
enum class Removal : std::uint8_t {
  kExpired,
  /// The map was full.
  kEvicted,
};

template <class Key, class Value>
struct ExpiringMapOptions {
  /// How long an entry lives, unless put() says otherwise.
  Span ttl = kForever;
  /// A get() lets the entry live for another TTL. Otherwise only touch() does.
  bool touch_on_get = false;
  /// Lengthens each life by a random part of it, up to this fraction: entries that were put
  /// together do not expire together. 0.1 is a good value for a cache.
  double spread = 0;
  /// The most entries; one more has another evicted. 0: no limit. Divided among the shards, so with
  /// more than one of them a map may evict when it is not quite full.
  std::size_t max_size = 0;
  /// Called for each entry that leaves by itself, once; not for what is erased or replaced. With no
  /// lock held, on the thread that noticed: one of the Timer's executor, or one that called the
  /// map. May use the map; must not destroy it, nor throw.
  std::function<void(const Key&, Value&, Removal)> on_removed = {};
  /// How long after its time an entry may be removed (it is not seen any more from its time on). It
  /// is a tick of the wheel. From a nanosecond to an hour; what is outside is brought inside.
  Span resolution = std::chrono::milliseconds(10);
  /// The Timer removes at most so many entries a tick of its own, then lets others run.
  std::size_t budget = 4096;
  /// Rounded up to a power of two; fewer if max_size is small.
  unsigned shards = 16;
  /// Without a Timer: the clock. Null: the steady clock. Must outlive the map.
  const Clock* clock = nullptr;
};

/// A thread-safe map from Key to Value, of which each entry has a time to live.
///
/// Time:      an entry is seen until its deadline, exclusive, on the clock (the Timer's). It is
///            removed, and on_removed called, at most `resolution` and a tick of the Timer later if
///            there is a Timer and no herd. Without a Timer, or with one that is stopped or was
///            full when there were no entries: by put(), up to four a call, and by expire().
/// Threads:   safe. An operation holds the lock of one shard for the time of a look-up and a move
///            of a value.
/// Lifetime:  owns the entries. The Timer must outlive it. The destructor waits for callbacks that
///            the Timer runs, and must not be called from one; it calls none itself.
/// Callbacks: see on_removed, and with().
/// Errors:    put() may throw std::bad_alloc, and what the key's constructor throws; nothing is
///            changed then. What the Timer throws when it is to remove the first entry passes
///            through; that is in the map then. A value must move without throwing.
/// Cost:      O(1), bounded: get, touch, erase do a look-up; put, besides, one allocation, and
///            removes at most four others. 88 bytes an entry, and the key, value and what the
///            allocator adds; 30 KiB a shard; two timers of the Timer while entries may expire.
///
/// Example (examples/session_cache.cc):
///     ExpiringMap<std::string, Session> sessions(timer, {.ttl = 30min, .touch_on_get = true});
///     sessions.put(cookie, session);
///     ...
///     if (auto session = sessions.get(cookie)) { ... }
template <class Key, class Value, class Hash = typename KeyTraits<Key>::Hash,
          class Equal = std::equal_to<>>
class ExpiringMap {
 public:
  static_assert(std::is_nothrow_move_constructible_v<Value> &&
                std::is_nothrow_move_assignable_v<Value>);
  using Options = ExpiringMapOptions<Key, Value>;

  /// Entries are removed by `timer`, which is asleep when none is due.
  ExpiringMap(Timer& timer, Options options) : ExpiringMap(&timer, std::move(options)) {}
  /// Entries are removed by put() and expire().
  explicit ExpiringMap(Options options) : ExpiringMap(nullptr, std::move(options)) {}
  ~ExpiringMap() {
    ticker_.reset();
    clear();
  }
  ExpiringMap(const ExpiringMap&) = delete;
  ExpiringMap& operator=(const ExpiringMap&) = delete;

  /// Puts an entry, or replaces the value and the life of the one there is. True: there was none.
  bool put(KeyView<Key> key, Value value) { return put(key, std::move(value), options_.ttl); }
  /// The same with a TTL of its own, which later touches use too. With zero or less, the key has no
  /// entry afterwards.
  bool put(KeyView<Key> key, Value value, Span ttl);

  /// A copy of the value; nothing if there is no entry, or it has expired.
  [[nodiscard]] std::optional<Value> get(KeyView<Key> key) {
    std::optional<Value> copy;
    use(key, options_.touch_on_get, [&](Value& value) { copy = value; });
    return copy;
  }
  /// Calls `visit(Value&)` with the lock of the shard held, so it must be short and leave the map
  /// alone. False, and not called, if there is no entry or it has expired.
  template <class Visit>
  bool with(KeyView<Key> key, Visit&& visit) {
    return use(key, options_.touch_on_get, visit);
  }
  /// Lets the entry live for its TTL from now. False if there is none, or it has expired.
  bool touch(KeyView<Key> key) {
    return use(key, true, [](Value&) {});
  }
  /// Removes the entry and returns its value; nothing where get() would be nothing.
  std::optional<Value> take(KeyView<Key> key);
  bool erase(KeyView<Key> key) { return take(key).has_value(); }

  /// Removes at most `most` entries that have expired, and says how many. For maps without a Timer.
  std::size_t expire(std::size_t most);
  /// Removes all entries; on_removed is not called.
  void clear() noexcept;

  /// Entries, with those that have expired and are not removed yet.
  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] Instant now() const noexcept {
    return timer_ != nullptr ? timer_->now() : clock_->now();
  }

 private:
  struct Node : internal::TableNode<Node>, WheelHook {
    Node(std::uint64_t key_hash, KeyView<Key> its_key, Value&& its_value)
        : key(its_key), value(std::move(its_value)) {
      this->hash = key_hash;
    }
    const Key key;
    Value value;
    Instant deadline;
    Span ttl{};
    Removal removal = Removal::kExpired;
    // Since the hand last came by.
    bool used = false;
  };

  // Those that have been taken out, linked by table_next: to be dealt with outside the lock.
  struct Removed {
    explicit Removed(ExpiringMap& map) noexcept : owner(&map) {}
    Removed(const Removed&) = delete;
    ~Removed() {
      while (first != nullptr) {
        Node* node = std::exchange(first, first->table_next);
        if (owner->options_.on_removed) {
          owner->options_.on_removed(node->key, node->value, node->removal);
        }
        delete node;
      }
    }
    void add(Node& node, Removal removal) noexcept {
      node.removal = removal;
      node.table_next = nullptr;
      *last = &node;
      last = &node.table_next;
      ++count;
    }
    ExpiringMap* owner;
    Node* first = nullptr;
    Node** last = &first;
    std::size_t count = 0;
  };

  struct alignas(64) Shard {
    mutable internal::SpinLock lock;
    internal::LinearTable<Node> table CARILLON_GUARDED_BY(lock);
    CoarseWheel wheel CARILLON_GUARDED_BY(lock);
    std::size_t hand CARILLON_GUARDED_BY(lock) = 0;
    Random random CARILLON_GUARDED_BY(lock){0};
  };

  ExpiringMap(Timer* timer, Options options);

  static constexpr std::size_t kPerPut = 4;
  static constexpr std::size_t kAtOnce = 16;
  static constexpr std::size_t kLeastInShard = 64;

  [[nodiscard]] static std::size_t shards_of(const Options& options) noexcept {
    const std::size_t wanted = std::clamp(options.shards, 1U, 1024U);
    return options.max_size == 0
               ? std::bit_ceil(wanted)
               : std::min(std::bit_ceil(wanted), std::bit_floor(std::max<std::size_t>(
                                                     1, options.max_size / kLeastInShard)));
  }
  [[nodiscard]] Shard& shard_of(std::uint64_t hash) noexcept {
    return shards_[(hash >> 48) & (shards_.size() - 1)];
  }
  [[nodiscard]] static Node* find(const internal::LinearTable<Node>& table, std::uint64_t hash,
                                  KeyView<Key> key) {
    return table.find(hash, [&](const Node& candidate) { return Equal{}(candidate.key, key); });
  }
  [[nodiscard]] Tick tick_at(Instant now) const noexcept {
    return static_cast<Tick>((now - start_) / options_.resolution);
  }
  [[nodiscard]] Tick tick_after(Instant deadline) const noexcept {
    return static_cast<Tick>((deadline - start_ - Span(1)) / options_.resolution) + 1;
  }

  template <class Visit>
  bool use(KeyView<Key> key, bool touch, Visit&& visit);
  // Places the node in the wheel, unless it comes up there in time.
  void place(CoarseWheel& wheel, Node& node) const noexcept;
  AdvanceResult expire_some(Shard& shard, Instant now, std::size_t most, Removed& removed)
      CARILLON_REQUIRES(shard.lock) {
    return expire_some(shard.table, shard.wheel, now, most, removed);
  }
  AdvanceResult expire_some(internal::LinearTable<Node>& table, CoarseWheel& wheel, Instant now,
                            std::size_t most, Removed& removed);
  static Node* unlink_all(internal::LinearTable<Node>& table) noexcept;
  void evict(Shard& shard, const Node& but, Removed& removed) CARILLON_REQUIRES(shard.lock);
  // What the Timer does: removes up to the budget; in how long again?
  std::optional<Span> work();

  // Constant after construction, but for what is in the shards.
  const Options options_;
  Timer* const timer_;
  const SteadyClock steady_;
  const Clock* const clock_;
  const Instant start_;
  std::vector<Shard> shards_;
  const std::size_t most_in_shard_;
  // The shard to begin with; of whoever expires.
  std::atomic<std::size_t> cursor_{0};
  std::unique_ptr<internal::Ticker> ticker_;
};

}  // namespace carillon

#include "carillon/blocks/internal/expiring_map_inline.h"
