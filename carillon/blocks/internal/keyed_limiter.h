// SPDX-License-Identifier: Apache-2.0
#pragma once

// The keys of a limiter: shards, each a spin lock and a table; and how idle keys vanish.
//
// Each call looks at a few keys beside its own, in turn, and frees those that are idle: three lists
// of the table for a key that is new, one list for every sixteenth call of another. So a table in
// use has as many keys as are not idle, and as many again at most that nobody has come across yet;
// no thread is needed, and no call does more than a handful of them.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/blocks/admission.h"
#include "carillon/blocks/internal/linear_table.h"
#include "carillon/timer/internal/spin_lock.h"

namespace carillon::internal {

// Policy:
//   State(Policy, now)                   of a key that is new, or has vanished
//   Answer                               has granted, table_full, retry_after
//   bool possible(n)                     can n ever be granted?
//   Answer decide(State&, n, now)        now may be before that of the last call
//   bool idle(const State&, now)         is it as one that is new?
template <class Policy, class Key, class Hash, class Equal>
class KeyedLimiter {
 public:
  using Answer = typename Policy::Answer;

  KeyedLimiter(Policy policy, const LimiterOptions& options)
      : policy_(std::move(policy)),
        clock_(options.clock),
        shards_(std::bit_ceil(std::clamp(options.shards, 1U, kMostShards))),
        keys_a_shard_(std::max<std::size_t>(1, options.max_keys / shards_.size())) {}
  ~KeyedLimiter() {
    for (Shard& shard : shards_) {
      shard.table.for_each([](Node& node) { delete &node; });
    }
  }

  [[nodiscard]] Instant now() const noexcept {
    return clock_ != nullptr ? clock_->now() : SteadyClock().now();
  }

  template <class Name>
  Answer try_acquire(const Name& key, std::uint64_t n, Instant now) {
    if (!policy_.possible(n)) [[unlikely]] {
      Answer never;
      never.retry_after = kForever;
      return never;
    }
    const std::uint64_t hash = mix_hash(Hash{}(key));
    Shard& shard = shard_of(hash);
    const SpinLockHold hold(shard.lock);
    Node* node =
        shard.table.find(hash, [&](const Node& candidate) { return Equal{}(candidate.key, key); });
    if (node == nullptr) {
      sweep_some(shard, kListsForNew, now);
      if (shard.table.size() >= keys_a_shard_) {
        Answer full;
        full.table_full = true;
        // Not known when a key will go; this is as good as any.
        full.retry_after = std::chrono::milliseconds(100);
        return full;
      }
      node = new Node(hash, key, policy_, now);
      shard.table.insert(*node);
    } else if (++shard.calls % kCallsForList == 0) {
      sweep_some(shard, 1, now, node);
    }
    return policy_.decide(node->state, n, now);
  }

  [[nodiscard]] std::size_t keys() const noexcept {
    std::size_t sum = 0;
    for (const Shard& shard : shards_) {
      const SpinLockHold hold(shard.lock);
      sum += shard.table.size();
    }
    return sum;
  }

  std::size_t sweep(Instant now) noexcept {
    std::size_t gone = 0;
    for (Shard& shard : shards_) {
      // A lock is held for some microseconds, whatever the table's size. Backwards: see there.
      std::size_t number = ~std::size_t{0};
      while (number > 0) {
        const SpinLockHold hold(shard.lock);
        number = std::min(number, shard.table.lists());
        for (std::size_t i = 0; i < kListsAtOnce && number > 0; ++i) {
          gone += sweep_list(shard, --number, now, nullptr);
        }
      }
    }
    return gone;
  }

 private:
  static constexpr unsigned kMostShards = 4096;
  static constexpr std::size_t kListsForNew = 3;
  static constexpr std::uint32_t kCallsForList = 16;
  static constexpr std::size_t kListsAtOnce = 64;

  struct Node : TableNode<Node> {
    template <class Name>
    Node(std::uint64_t key_hash, const Name& name, const Policy& policy, Instant now)
        : key(name), state(policy, now) {
      this->hash = key_hash;
    }
    const Key key;
    typename Policy::State state;
  };

  // A cache line of its own for each lock.
  struct alignas(64) Shard {
    mutable SpinLock lock;
    std::uint32_t calls CARILLON_GUARDED_BY(lock) = 0;
    // The list to be looked at next.
    std::size_t hand CARILLON_GUARDED_BY(lock) = 0;
    LinearTable<Node> table CARILLON_GUARDED_BY(lock);
  };

  // The table takes the low bits.
  [[nodiscard]] Shard& shard_of(std::uint64_t hash) noexcept {
    return shards_[(hash >> 48) & (shards_.size() - 1)];
  }

  static std::size_t free_idle(LinearTable<Node>& table, std::size_t number, const Policy& policy,
                               Instant now, const Node* but) noexcept {
    std::size_t gone = 0;
    table.for_each_in(number, [&](Node& node) {
      if (&node != but && policy.idle(node.state, now)) {
        table.remove(node);
        delete &node;
        ++gone;
      }
    });
    return gone;
  }
  std::size_t sweep_list(Shard& shard, std::size_t number, Instant now, const Node* but) noexcept
      CARILLON_REQUIRES(shard.lock) {
    return free_idle(shard.table, number, policy_, now, but);
  }
  void sweep_some(Shard& shard, std::size_t lists, Instant now, const Node* but = nullptr) noexcept
      CARILLON_REQUIRES(shard.lock) {
    for (; lists > 0; --lists) {
      shard.hand = shard.hand + 1 < shard.table.lists() ? shard.hand + 1 : 0;
      sweep_list(shard, shard.hand, now, but);
    }
  }

  // Constant after construction, but for what is in the shards.
  const Policy policy_;
  const Clock* const clock_;
  std::vector<Shard> shards_;
  const std::size_t keys_a_shard_;
};

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
