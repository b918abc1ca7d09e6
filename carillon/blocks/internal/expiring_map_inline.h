// SPDX-License-Identifier: Apache-2.0
#pragma once

// The operations of ExpiringMap. Included by expiring_map.h.

#include "carillon/blocks/expiring_map.h"

namespace carillon {

template <class Key, class Value, class Hash, class Equal>
ExpiringMap<Key, Value, Hash, Equal>::ExpiringMap(Timer* timer, Options options)
    : options_([&] {
        options.resolution = std::clamp(options.resolution, Span(1), Span(std::chrono::hours(1)));
        options.budget = std::max<std::size_t>(options.budget, 1);
        return std::move(options);
      }()),
      timer_(timer),
      clock_(options_.clock != nullptr ? options_.clock : &steady_),
      start_(now()),
      shards_(shards_of(options_)),
      most_in_shard_(options_.max_size == 0 ? ~std::size_t{0}
                                            : options_.max_size / shards_.size()) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const internal::SpinLockHold hold(shards_[i].lock);
    shards_[i].random = Random(static_cast<std::uint64_t>(start_.time_since_epoch().count()) + i);
  }
  if (timer_ != nullptr) {
    ticker_ = std::make_unique<internal::Ticker>(*timer_, [this] { return work(); });
  }
}

template <class Key, class Value, class Hash, class Equal>
void ExpiringMap<Key, Value, Hash, Equal>::place(CoarseWheel& wheel, Node& node) const noexcept {
  if (node.deadline == Instant::max()) {
    if (node.scheduled()) {
      wheel.cancel(node);
    }
    return;
  }
  const Tick deadline = tick_after(node.deadline);
  if (node.scheduled() && node.WheelHook::deadline() <= deadline) {
    return;  // It comes up before, and is looked at then.
  }
  // From the wheel's own time, which may be behind the clock: it rounds from there.
  const Tick at = internal::early_deadline(wheel.now(), std::max(deadline, wheel.now() + 1));
  if (node.scheduled()) {
    wheel.reschedule(node, at);
  } else {
    wheel.schedule(node, at);
  }
}

template <class Key, class Value, class Hash, class Equal>
bool ExpiringMap<Key, Value, Hash, Equal>::put(KeyView<Key> key, Value value, Span ttl) {
  if (ttl <= Span::zero()) {
    return !erase(key);
  }
  const std::uint64_t hash = internal::mix_hash(Hash{}(key));
  // Made before the lock is taken, and destroyed after it is released, whichever is not needed.
  auto fresh = std::make_unique<Node>(hash, key, std::move(value));
  Shard& shard = shard_of(hash);
  const Instant now = this->now();
  Removed removed(*this);
  bool is_new = true;
  Instant due;
  {
    const internal::SpinLockHold hold(shard.lock);
    if (ticker_ == nullptr || !ticker_->will_run()) {
      expire_some(shard, now, kPerPut, removed);
    }
    Node* node = find(shard.table, hash, key);
    if (node != nullptr && node->deadline <= now) {
      // Expired, and not removed yet: that is another entry.
      shard.wheel.cancel(*node);
      shard.table.remove(*node);
      removed.add(*node, Removal::kExpired);
      node = nullptr;
    }
    if (node != nullptr) {
      std::swap(node->value, fresh->value);
      is_new = false;
    } else {
      node = fresh.release();
      shard.table.insert(*node);
    }
    node->used = !is_new;
    node->ttl = ttl;
    node->deadline = saturating_add(now, jitter(ttl, options_.spread, shard.random));
    if (shard.wheel.empty()) {
      shard.wheel.advance(tick_at(now), [](WheelHook&) {});
    }
    place(shard.wheel, *node);
    due = node->deadline;
    if (shard.table.size() > most_in_shard_) {
      expire_some(shard, now, kPerPut, removed);
      if (shard.table.size() > most_in_shard_) {
        evict(shard, *node, removed);
      }
    }
  }
  // The wheel gives it out a sixteenth earlier: that may wait for the exact time.
  if (ticker_ != nullptr && due != Instant::max()) {
    ticker_->wake_within(now, std::max(due - now, options_.resolution));
  }
  return is_new;
}

template <class Key, class Value, class Hash, class Equal>
template <class Visit>
bool ExpiringMap<Key, Value, Hash, Equal>::use(KeyView<Key> key, bool touch, Visit&& visit) {
  const std::uint64_t hash = internal::mix_hash(Hash{}(key));
  Shard& shard = shard_of(hash);
  const Instant now = this->now();
  const internal::SpinLockHold hold(shard.lock);
  Node* node = find(shard.table, hash, key);
  if (node == nullptr || node->deadline <= now) {
    return false;
  }
  node->used = true;
  if (touch) {
    // Never to an earlier time than the wheel has it for, so the wheel need not be told.
    node->deadline = std::max(
        node->deadline, saturating_add(now, jitter(node->ttl, options_.spread, shard.random)));
  }
  visit(node->value);
  return true;
}

template <class Key, class Value, class Hash, class Equal>
std::optional<Value> ExpiringMap<Key, Value, Hash, Equal>::take(KeyView<Key> key) {
  const std::uint64_t hash = internal::mix_hash(Hash{}(key));
  Shard& shard = shard_of(hash);
  const Instant now = this->now();
  std::unique_ptr<Node> taken;
  {
    const internal::SpinLockHold hold(shard.lock);
    Node* node = find(shard.table, hash, key);
    if (node == nullptr || node->deadline <= now) {
      return std::nullopt;
    }
    if (node->scheduled()) {
      shard.wheel.cancel(*node);
    }
    shard.table.remove(*node);
    taken.reset(node);
  }
  return std::move(taken->value);
}

template <class Key, class Value, class Hash, class Equal>
AdvanceResult ExpiringMap<Key, Value, Hash, Equal>::expire_some(internal::LinearTable<Node>& table,
                                                                CoarseWheel& wheel, Instant now,
                                                                std::size_t most,
                                                                Removed& removed) {
  return wheel.advance(
      tick_at(now),
      [&](WheelHook& hook) {
        Node& node = static_cast<Node&>(hook);
        if (node.deadline > now) {
          place(wheel, node);
        } else {
          table.remove(node);
          removed.add(node, Removal::kExpired);
        }
      },
      most);
}

// Second chance: the hand goes round, takes the mark of use from those that have one, and evicts
// the first that has none. It looks at sixteen entries at most, then takes what it has: so one that
// is in use may be evicted when nearly all are.
template <class Key, class Value, class Hash, class Equal>
void ExpiringMap<Key, Value, Hash, Equal>::evict(Shard& shard, const Node& but, Removed& removed) {
  constexpr int kLooks = 16;
  Node* victim = nullptr;
  int looks = 0;
  const std::size_t lists = shard.table.lists();
  for (std::size_t i = 0; i < 2 * lists && looks < kLooks; ++i) {
    shard.hand = shard.hand + 1 < lists ? shard.hand + 1 : 0;
    bool found = false;
    shard.table.for_each_in(shard.hand, [&](Node& node) {
      if (&node == &but || found) {
        return;
      }
      ++looks;
      found = !node.used;
      node.used = false;
      victim = &node;
    });
    if (found) {
      break;
    }
  }
  if (victim != nullptr) {
    if (victim->scheduled()) {
      shard.wheel.cancel(*victim);
    }
    shard.table.remove(*victim);
    removed.add(*victim, Removal::kEvicted);
  }
}

template <class Key, class Value, class Hash, class Equal>
std::size_t ExpiringMap<Key, Value, Hash, Equal>::expire(std::size_t most) {
  std::size_t gone = 0;
  const Instant now = this->now();
  for (std::size_t i = 0; i < shards_.size() && gone < most; ++i) {
    Shard& shard = shards_[cursor_.fetch_add(1, std::memory_order_relaxed) % shards_.size()];
    for (bool more = true; more && gone < most;) {
      Removed removed(*this);
      {
        const internal::SpinLockHold hold(shard.lock);
        more = expire_some(shard, now, std::min(kAtOnce, most - gone), removed).more;
      }
      gone += removed.count;
    }
  }
  return gone;
}

template <class Key, class Value, class Hash, class Equal>
std::optional<Span> ExpiringMap<Key, Value, Hash, Equal>::work() {
  const Instant now = this->now();
  std::size_t left = options_.budget;
  Tick next = kLastTick;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    // The one with which a budget ended is the first the next time.
    Shard& shard = shards_[cursor_.load(std::memory_order_relaxed) % shards_.size()];
    for (;;) {
      AdvanceResult result;
      Removed removed(*this);
      {
        const internal::SpinLockHold hold(shard.lock);
        result = expire_some(shard, now, std::min(kAtOnce, left), removed);
        if (!result.more) {
          next = std::min(next, shard.wheel.next_deadline().value_or(kLastTick));
        }
      }
      left -= result.expired;  // Also those that are only moved are work.
      if (left == 0) {
        return Span::zero();
      }
      if (!result.more) {
        break;
      }
    }
    cursor_.fetch_add(1, std::memory_order_relaxed);
  }
  if (next == kLastTick) {
    return std::nullopt;
  }
  // Not at once even if something is due in the next instant: that is what the resolution is for.
  // `next` is no later than the tick of an Instant, so it does not overflow.
  const Span until_next = start_ + static_cast<Span::rep>(next) * options_.resolution - now;
  return std::max(until_next, options_.resolution);
}

template <class Key, class Value, class Hash, class Equal>
auto ExpiringMap<Key, Value, Hash, Equal>::unlink_all(internal::LinearTable<Node>& table) noexcept
    -> Node* {
  Node* first = nullptr;
  table.for_each([&](Node& node) {
    table.remove(node);
    node.table_next = first;
    first = &node;
  });
  return first;
}

template <class Key, class Value, class Hash, class Equal>
void ExpiringMap<Key, Value, Hash, Equal>::clear() noexcept {
  for (Shard& shard : shards_) {
    Node* first = nullptr;
    {
      const internal::SpinLockHold hold(shard.lock);
      shard.wheel.clear();
      first = unlink_all(shard.table);
    }
    while (first != nullptr) {
      delete std::exchange(first, first->table_next);
    }
  }
}

template <class Key, class Value, class Hash, class Equal>
std::size_t ExpiringMap<Key, Value, Hash, Equal>::size() const noexcept {
  std::size_t sum = 0;
  for (const Shard& shard : shards_) {
    const internal::SpinLockHold hold(shard.lock);
    sum += shard.table.size();
  }
  return sum;
}

}  // namespace carillon
