// SPDX-License-Identifier: Apache-2.0
#pragma once

// The keys of a limiter: shards, each a spin lock and a table; and how idle keys vanish.
//
// Each call looks at a few keys beside its own, in turn, and frees those that are idle: two groups
// of the table for a key that is new, one group for every 64th call of another. So a table in use
// has as many keys as are not idle, and as many again at most that nobody has come across yet; no
// thread is needed, and no call does more than a handful of them.
//
// What a decision costs is the way to its key: with 100,000 of them the slot is not in the nearer
// caches. So the slot is asked for first, and the clock, which takes as long, is read meanwhile.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/blocks/admission.h"
#include "carillon/blocks/internal/group_table.h"
#include "carillon/blocks/internal/mix_hash.h"
#include "carillon/blocks/key.h"
#include "carillon/timer/internal/spin_lock.h"

namespace carillon::internal {

// Policy:
//   State(Policy, now)                   of a key that is new, or has vanished; moves and does not
//                                        throw
//   Answer                               has granted, table_full, retry_after
//   bool possible(n)                     can n ever be granted?
//   Answer decide(State&, n, now)        now may be before that of the last call
//   bool idle(const State&, now)         is it as one that is new?
template <class Policy, class Key, class Hash, class Equal>
class KeyedLimiter {
  static_assert(std::is_nothrow_move_constructible_v<Key>, "a table moves its keys when it grows");

 public:
  using Answer = typename Policy::Answer;

  KeyedLimiter(Policy policy, const LimiterOptions& options)
      : policy_(std::move(policy)),
        clock_(options.clock),
        shards_(shards_of(options)),
        keys_a_shard_(options.max_keys == 0 ? ~std::size_t{0} : options.max_keys / shards_.size()) {
  }

  template <class Name>
  Answer try_acquire(const Name& key, std::uint64_t n) {
    return try_acquire_at(key, n, [this] { return now(); });
  }
  template <class Name>
  Answer try_acquire(const Name& key, std::uint64_t n, Instant now) {
    return try_acquire_at(key, n, [now] { return now; });
  }

  [[nodiscard]] std::size_t keys() const noexcept {
    std::size_t sum = 0;
    for (const Shard& shard : shards_) {
      const SpinLockHold hold(shard.lock);
      sum += shard.table.size();
    }
    return sum;
  }

  std::size_t sweep() noexcept { return sweep(now()); }
  // A lock is held for some microseconds, whatever the size of the table; and the shards take
  // turns, so who waits for one gets it long before it is needed here again.
  std::size_t sweep(Instant now) noexcept {
    const std::uint64_t part = std::max<std::uint64_t>(1, Table::kWhole / parts());
    std::size_t gone = 0;
    for (std::uint64_t from = 0; from < Table::kWhole; from += part) {
      for (Shard& shard : shards_) {
        const SpinLockHold hold(shard.lock);
        gone += shard.table.sweep(from, std::min(from + part, Table::kWhole), idle_at(now));
      }
    }
    for (bool more = true; more;) {
      more = false;
      for (Shard& shard : shards_) {
        typename Table::Memory unused;
        const SpinLockHold hold(shard.lock);
        gone += shard.table.tend(kGroupsAtOnce, unused, idle_at(now));
        more = more || shard.table.moves();
      }
    }
    return gone;
  }

 private:
  static constexpr std::size_t kMostShards = 4096;
  // With fewer keys in each of many shards, some are full long before the others.
  static constexpr std::size_t kLeastInShard = 1024;
  static constexpr std::size_t kGroupsForNew = 2;
  static constexpr std::uint32_t kCallsForGroup = 64;
  static constexpr std::size_t kGroupsAtOnce = 16;

  struct Slot {
    template <class Name>
    Slot(const Name& name, const Policy& policy, Instant now) : key(name), state(policy, now) {}
    Key key;
    typename Policy::State state;
  };
  struct HashOf {
    std::uint64_t operator()(const Slot& slot) const {
      return mix_hash(Hash{}(static_cast<KeyView<Key>>(slot.key)));
    }
  };
  using Table = GroupTable<Slot, HashOf>;

  // Cache lines of its own for each.
  struct alignas(64) Shard {
    mutable SpinLock lock;
    std::uint32_t calls CARILLON_GUARDED_BY(lock) = 0;
    Table table CARILLON_GUARDED_BY(lock);
  };

  [[nodiscard]] static std::size_t shards_of(const LimiterOptions& options) noexcept {
    const std::size_t wanted =
        std::bit_ceil(std::clamp<std::size_t>(options.shards, 1, kMostShards));
    return options.max_keys == 0 ? wanted
                                 : std::min(wanted, std::bit_floor(std::max<std::size_t>(
                                                        1, options.max_keys / kLeastInShard)));
  }
  [[nodiscard]] Instant now() const noexcept {
    return clock_ != nullptr ? clock_->now() : SteadyClock().now();
  }
  // The table takes the bits below.
  [[nodiscard]] Shard& shard_of(std::uint64_t hash) noexcept {
    return shards_[(hash >> 48) & (shards_.size() - 1)];
  }
  [[nodiscard]] auto idle_at(Instant now) const noexcept {
    return [this, now](const Slot& slot) { return policy_.idle(slot.state, now); };
  }
  // So many that none has more than kGroupsAtOnce groups.
  [[nodiscard]] std::uint64_t parts() const noexcept {
    std::size_t most = 0;
    for (const Shard& shard : shards_) {
      const SpinLockHold hold(shard.lock);
      most = std::max(most, shard.table.groups());
    }
    return most / kGroupsAtOnce + 1;
  }

  template <class Name, class Now>
  Answer try_acquire_at(const Name& key, std::uint64_t n, Now&& read) {
    if (!policy_.possible(n)) [[unlikely]] {
      Answer never;
      never.retry_after = kForever;
      return never;
    }
    const std::uint64_t hash = mix_hash(Hash{}(key));
    Shard& shard = shard_of(hash);
    typename Table::Memory unused;
    const SpinLockHold hold(shard.lock);
    Table& table = shard.table;
    if (const Slot* likely = table.likely(hash); likely != nullptr) {
      __builtin_prefetch(likely, 1);
      __builtin_prefetch(&likely->state, 1);
    }
    const Instant now = read();
    if (++shard.calls % kCallsForGroup == 0) [[unlikely]] {
      table.tend(1, unused, idle_at(now));
    }
    Slot* slot = table.find(hash, [&](const Slot& other) { return Equal{}(other.key, key); });
    if (slot == nullptr) {
      table.tend(kGroupsForNew, unused, idle_at(now));
      if (table.size() >= keys_a_shard_) {
        Answer full;
        full.table_full = true;
        // Not known when a key will go; this is as good as any.
        full.retry_after = std::chrono::milliseconds(100);
        return full;
      }
      slot = &table.insert(hash, [&](void* address) { new (address) Slot(key, policy_, now); });
    }
    return policy_.decide(slot->state, n, now);
  }

  // Constant after construction, but for what is in the shards.
  const Policy policy_;
  const Clock* const clock_;
  std::vector<Shard> shards_;
  const std::size_t keys_a_shard_;
};

// How long to wait at `now` for `then`: kForever for what is beyond the clock.
[[nodiscard]] constexpr Span wait_from(Instant now, Instant then) noexcept {
  return then == Instant::max() ? kForever : saturating_between(now, then);
}

// An amount that runs down (or fills up) at a rate, in units that make both a permit and a
// nanosecond whole numbers: nothing is ever rounded, so a rate holds to the permit over any time.
struct ExactRate {
  ExactRate(Rate rate, std::uint64_t most_permits);

  // Units for a permit, and units that a nanosecond brings.
  std::int64_t permit;
  std::int64_t nano;
  // most_permits * permit.
  std::int64_t most;

  // What `span` brings, but no more than `missing`.
  [[nodiscard]] std::int64_t brought(Span span, std::int64_t missing) const noexcept {
    return span >= until(missing) ? missing : std::max<Span::rep>(span.count(), 0) * nano;
  }
  // How long `units` take, rounded up.
  [[nodiscard]] Span until(std::int64_t units) const noexcept {
    return Span(units / nano + (units % nano != 0 ? 1 : 0));
  }
};

}  // namespace carillon::internal
