// SPDX-License-Identifier: Apache-2.0
#pragma once

// The operations of Purgatory. Included by purgatory.h.

#include <array>
#include <thread>

#include "carillon/blocks/purgatory.h"

namespace carillon {

template <class Key, class Hash, class Equal>
void Purgatory<Key, Hash, Equal>::Shard::unlink(Link& link) noexcept {
  std::unique_ptr<KeyNode> empty;  // Freed when the lock is released.
  const internal::SpinLockHold hold(lock);
  auto* node = static_cast<KeyNode*>(std::exchange(link.node, nullptr));
  if (node == nullptr) {
    return;
  }
  link.prev->next = link.next;
  link.next->prev = link.prev;
  if (node->ends.next == &node->ends) {
    table.remove(*node);
    empty.reset(node);
  }
}

template <class Key, class Hash, class Equal>
bool Purgatory<Key, Hash, Equal>::link(Waiting& operation, std::size_t number, const Key& key) {
  const std::uint64_t hash = internal::mix_hash(Hash{}(key));
  Shard& shard = shard_of(hash);
  Link& link = operation.link(number);
  const internal::SpinLockHold hold(shard.lock);
  // Before this lock was taken: then who ended it has not seen the link, and will not. After: then
  // it waits for this lock, in unlink().
  if (operation.ended()) {
    return false;
  }
  KeyNode* node = find(shard.table, hash, key);
  if (node == nullptr) {
    node = new KeyNode(hash, key);
    shard.table.insert(*node);
  }
  link.operation = &operation;
  link.node = node;
  link.checked = shard.checks;
  link.prev = node->ends.prev;
  link.next = &node->ends;
  link.prev->next = &link;
  node->ends.prev = &link;
  return true;
}

template <class Key, class Hash, class Equal>
auto Purgatory<Key, Hash, Equal>::watch(std::span<const Key> keys, Span timeout,
                                        Condition condition, Done done) -> Operation {
  CARILLON_CHECK(!keys.empty(), "an operation without a key");
  Ref ref(Waiting::make(keys.size(), std::move(condition), std::move(done)));
  // All of them before the first is linked: from then on another thread may end it.
  try {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ref->link(i).shard = &shard_of(internal::mix_hash(Hash{}(keys[i])));
    }
  } catch (...) {
    ref->drop_ref();  // That of the links.
    throw;
  }
  ref->begin(*ref->link(0).shard);
  if (ref->attempt()) {
    return Operation(std::move(ref));
  }
  try {
    for (std::size_t i = 0; i < keys.size() && link(*ref, i, keys[i]); ++i) {
    }
    // Something may have come about before it was linked, and its check not have met it.
    if (!ref->attempt() && !ref->ended() && timeout != kForever) {
      ref->arm(timer_, timeout);
    }
  } catch (...) {
    ref->end(Outcome::kCancelled);
    throw;
  }
  return Operation(std::move(ref));
}

// Calls `use` with each operation that was linked under the key before, without the lock: some at a
// time are put at the end of the list, marked, and tried. Another thread that does the same at the
// same time has a higher number, and what it has marked is its own.
template <class Key, class Hash, class Equal>
template <class Use>
std::size_t Purgatory<Key, Hash, Equal>::for_each_under(KeyView<Key> key, Use&& use) {
  const std::uint64_t hash = internal::mix_hash(Hash{}(key));
  Shard& shard = shard_of(hash);
  std::size_t ended = 0;
  std::uint64_t number = 0;
  for (;;) {
    std::array<Ref, kAtOnce> taken;
    std::size_t count = 0;
    {
      const internal::SpinLockHold hold(shard.lock);
      KeyNode* node = find(shard.table, hash, key);
      if (node == nullptr) {
        return ended;
      }
      if (number == 0) {
        number = ++shard.checks;
      }
      for (Link* link = node->ends.next;
           count < kAtOnce && link != &node->ends && link->checked < number;
           link = node->ends.next) {
        link->checked = number;
        node->ends.next = link->next;
        link->next->prev = &node->ends;
        link->prev = node->ends.prev;
        link->next = &node->ends;
        link->prev->next = link;
        node->ends.prev = link;
        link->operation->add_ref();
        taken[count++] = Ref(link->operation);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      ended += use(*taken[i]) ? 1 : 0;
    }
    if (count < kAtOnce) {
      return ended;
    }
  }
}

template <class Key, class Hash, class Equal>
std::size_t Purgatory<Key, Hash, Equal>::check(KeyView<Key> key) {
  return for_each_under(key, [](Waiting& operation) { return operation.attempt(); });
}

template <class Key, class Hash, class Equal>
std::size_t Purgatory<Key, Hash, Equal>::cancel_for_key(KeyView<Key> key) {
  return for_each_under(key, [](Waiting& operation) { return operation.end(Outcome::kCancelled); });
}

template <class Key, class Hash, class Equal>
Purgatory<Key, Hash, Equal>::~Purgatory() {
  for (Shard& shard : shards_) {
    for (std::size_t number = 0;;) {
      Ref first;
      {
        const internal::SpinLockHold hold(shard.lock);
        if (shard.table.size() == 0) {
          break;
        }
        const KeyNode* node = nullptr;
        while (number >= shard.table.lists() || (node = shard.table.first_in(number)) == nullptr) {
          number = number + 1 < shard.table.lists() ? number + 1 : 0;
        }
        node->ends.next->operation->add_ref();
        first = Ref(node->ends.next->operation);
      }
      if (!first->end(Outcome::kCancelled)) {
        std::this_thread::yield();  // The Timer is about to unlink it.
      }
    }
  }
  // Answers that the Timer is giving.
  while (watched() != 0) {
    std::this_thread::yield();
  }
}

template <class Key, class Hash, class Equal>
std::size_t Purgatory<Key, Hash, Equal>::watched() const noexcept {
  std::size_t sum = 0;
  for (const Shard& shard : shards_) {
    sum += shard.alive.load(std::memory_order_acquire);
  }
  return sum;
}

template <class Key, class Hash, class Equal>
std::size_t Purgatory<Key, Hash, Equal>::keys() const noexcept {
  std::size_t sum = 0;
  for (const Shard& shard : shards_) {
    const internal::SpinLockHold hold(shard.lock);
    sum += shard.table.size();
  }
  return sum;
}

}  // namespace carillon
