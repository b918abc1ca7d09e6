// SPDX-License-Identifier: Apache-2.0
#pragma once

// The wheel of pooled_wheel.h without the payloads and the sink: nodes, chunks, slots. Numbers
// that name things:
//
//   index     a node of the pool; it and the node's generation make up a handle
//   chunk     2^kChunkBits words of memory: the number of the next chunk of the slot, then entries
//   location  one word: chunk << kChunkBits | offset. Location 0 names nothing.
//
// An entry is an index. It is live if the node says that it is parked at this very location, and
// stale otherwise: the timer has been cancelled, has moved, has expired, is another one by now. So
// nothing need be told to an entry, and no entry can be mistaken for another.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "carillon/base/check.h"
#include "carillon/wheel/hook.h"
#include "carillon/wheel/internal/index_set.h"
#include "carillon/wheel/internal/region.h"
#include "carillon/wheel/internal/slot_set.h"
#include "carillon/wheel/levels.h"
#include "carillon/wheel/snapshot.h"

namespace carillon::internal {

struct PoolNode {
  Tick deadline;
  // Where its entry is; 0 if it is free, kDoomed while clear() is at it.
  std::uint32_t parked;
  // That of its handle, and odd, while it is a timer's. Otherwise even, the number before that of
  // the next one: so no handle names a free node, not even one of another wheel, and one comparison
  // tells.
  std::uint32_t generation;
};
static_assert(sizeof(PoolNode) == 16);

// A chain of chunks. All but the last are full.
struct PoolSlot {
  std::uint32_t head = 0;  // The first chunk; 0: empty.
  std::uint32_t tail = 0;  // The location after the last entry; 0: empty.

  [[nodiscard]] bool empty() const noexcept { return head == 0; }
};

template <class Shape>
class PoolCore {
 public:
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

 protected:
  using Levels = typename Shape::Levels;
  using Node = PoolNode;
  using Slot = PoolSlot;
  static constexpr int kLevels = Levels::kLevels;
  static constexpr auto kRings = static_cast<std::size_t>(kLevels);
  static constexpr int kChunkBits = Shape::kChunkBits;
  static constexpr std::uint32_t kOffsetMask = (std::uint32_t{1} << kChunkBits) - 1;
  // Entries of a chunk.
  static constexpr std::uint32_t kChunkEntries = kOffsetMask;
  // A node that has been used so often is not used again: no handle ever means two timers.
  static constexpr std::uint32_t kLastGeneration = Shape::kLastGeneration;
  static constexpr std::uint32_t kDoomed = ~std::uint32_t{0};
  static constexpr Tick kNone = ~Tick{0};
  static_assert(kLevels <= 64 && kChunkBits >= 1 && kChunkBits <= 10);
  static_assert(kLastGeneration >= 2 && kLastGeneration % 2 == 0,
                "a node that is free has an even generation");

  struct Ring {
    Slot* slots = nullptr;
    SlotSet<Levels::kMaxSlots> occupied;
  };

  PoolCore(Tick now, std::size_t max_size, std::size_t payload_size) noexcept;
  ~PoolCore() = default;

  // For so much there are addresses. Half as many nodes more as there may be timers, for those that
  // are retired: each takes two billion timers.
  static std::size_t most_nodes(std::size_t max_size) noexcept {
    return max_size + max_size / 2 + 1024;
  }
  // A timer needs three words at most: its entry, a stale one, a share of the next of each chunk. A
  // slot may have begun a chunk.
  static std::size_t most_words(std::size_t max_size) noexcept {
    const std::size_t slots = 2 * Levels::kAllSlots;
    return std::min(8 * (max_size + Shape::kFewStale) + 2 * (slots << kChunkBits) + 1024,
                    std::size_t{1} << 32);
  }

  // The arrays are indexed by levels, which are ints.
  template <class T>
  static T& at(std::array<T, kRings>& array, int level) noexcept {
    return array[static_cast<std::size_t>(level)];
  }
  [[nodiscard]] std::uint32_t& word(std::uint32_t location) const noexcept {
    return words_[location];
  }
  [[nodiscard]] std::uint32_t& next_chunk(std::uint32_t chunk) const noexcept {
    return words_[chunk << kChunkBits];
  }
  [[nodiscard]] std::byte* payload_place(std::uint32_t index) const noexcept {
    return payloads_.data() + index * payload_size_;
  }
  static std::uint32_t first_of(std::uint32_t chunk) noexcept { return (chunk << kChunkBits) + 1; }
  static std::uint32_t last_chunk(const Slot& slot) noexcept {
    return (slot.tail - 1) >> kChunkBits;
  }
  // The location after the last entry of `chunk`, one of `slot`.
  static std::uint32_t end_of(std::uint32_t chunk, const Slot& slot) noexcept {
    return chunk == last_chunk(slot) ? slot.tail : (chunk + 1) << kChunkBits;
  }

  // The node that the handle names, or null if its timer is no more. What is found is a timer's.
  [[nodiscard]] Node* find(std::uint32_t index, std::uint32_t generation) const noexcept {
    if (index >= used_) [[unlikely]] {
      return nullptr;
    }
    Node& node = nodes_[index];
    return node.generation == generation ? &node : nullptr;
  }

  [[nodiscard]] std::size_t stale() const noexcept { return entries_ - size_; }

  // What makes up a handle.
  struct Name {
    std::uint32_t index;
    std::uint32_t generation;
  };
  // A new timer. Pre: size_ < max_size_. May throw std::bad_alloc, then nothing has changed.
  Name insert(Tick deadline);
  // Its timer is no more. `index` may be given out again from now on.
  void release(std::uint32_t index, Node& node) noexcept;
  // Changes the deadline: by a store if it is not earlier, otherwise by a new entry. May throw
  // std::bad_alloc, then nothing has changed.
  void move(std::uint32_t index, Node& node, Tick deadline) {
    // What is due already must leave due_, or it would stay due for the next tick.
    if (deadline < node.deadline || node.deadline <= now_) [[unlikely]] {
      move_entry(index, node, deadline);
      return;
    }
    if (node.deadline == earliest_) [[unlikely]] {
      earliest_exact_ = false;
    }
    node.deadline = deadline;
  }
  void move_entry(std::uint32_t index, Node& node, Tick deadline);

  // The present slot of level + 1.
  [[nodiscard]] Tick present_parent(int level) const noexcept {
    return Levels::parent(level, Levels::number(level, now_));
  }
  void mark(int level, Tick number) noexcept;
  void unmark(int level, int slot) noexcept;

  [[nodiscard]] Tick clamped(Tick deadline) const noexcept {
    const Tick next = now_ + (now_ != kLastTick ? 1 : 0);
    return deadline < next ? next : deadline;
  }
  // The index for the next timer, which is taken by take_index().
  std::uint32_t next_index() { return size_ + out_of_use_ < used_ ? free_.first() : fresh_index(); }
  void take_index(std::uint32_t index) noexcept {
    if (index == used_) {
      ++used_;
    } else {
      free_.take(index);
    }
  }
  std::uint32_t fresh_index();
  // It has no timer any more.
  void put_back(std::uint32_t index, const Node& node) noexcept {
    if (node.generation != kLastGeneration) [[likely]] {
      free_.put(index);
    } else {
      ++out_of_use_;
    }
  }
  void reserve_nodes(std::size_t count);
  void reserve_chunks(std::size_t count);
  // Gives the node's timer an entry at its place; returns whether that took a new chunk.
  bool place(std::uint32_t index, Node& node);
  void place_in_new_chunk(std::uint32_t index, Node& node, int level, Slot* slot);
  std::uint32_t extend(Slot& slot);
  std::uint32_t take_chunk();
  void free_chunk(std::uint32_t chunk) noexcept {
    next_chunk(chunk) = free_chunk_;
    free_chunk_ = chunk;
  }
  Slot detach(Slot& slot) noexcept;
  void append_all(Slot& slot, Slot& other) noexcept;
  void place_all(Slot& slot) noexcept;

  template <bool kPayloads>
  void prefetch_nodes(std::uint32_t chunk, const Slot& slot) const noexcept;
  template <bool kPayloads>
  void look_ahead(std::uint32_t chunk, const Slot& slot) const noexcept;

  // Is there a timer to expire at now_? Its entry is at due_at_.
  bool has_due() noexcept;
  void step_due() noexcept;
  std::uint32_t take_due() noexcept;
  bool load_due(Tick target) noexcept;
  void enter(int level, Tick number, Tick target) noexcept;

  struct Search {
    bool exhausted = false;     // All entries have been looked at,
    std::optional<Tick> least;  // and of the live ones this is the least deadline.
  };
  [[nodiscard]] Search search_if_short(const Slot& slot) const noexcept;
  Tick find_earliest() noexcept;
  std::optional<Tick> search(Slot& slot, int level, Tick number) noexcept;
  std::optional<Tick> search_finest(Slot& slot, Tick number) noexcept;
  std::optional<Tick> scan(Slot& slot, int level, Tick number) noexcept;
  void sort_ahead(Slot& slot, int level, Tick number) noexcept;
  void join_back(int level) noexcept;

  // Compaction.
  void sweep_if_due() noexcept {
    if (stale() > size_ - size_ / 4 + Shape::kFewStale) [[unlikely]] {
      sweep();
    }
  }
  void sweep() noexcept;
  void sweep_chunk(Slot& slot) noexcept;
  // No timer is left: forgets all entries.
  void reset() noexcept;

  [[nodiscard]] WheelSnapshot make_snapshot() const;
  [[nodiscard]] std::size_t heap_bytes() const noexcept {
    return nodes_.bytes() + free_.bytes() + words_.bytes() + payloads_.bytes();
  }

  // Invariants, for a timer with deadline d whose entry is not in due_; l = level_of(now_, d):
  // (1) d is after now_ (or both are kLastTick). The entry lies in current_[l], in the slot of d;
  //     unless that slot has been sorted ahead: ahead_number_[l] is its number, and the entry lies
  //     in ahead_[l - 1], or again, if its slot there has been sorted ahead, in ahead_[l - 2] ...
  //     After move() to a later time it lies where an earlier d would.
  // (2) the bit of each non-empty slot is set, and that of each slot that has been sorted ahead,
  //     which is empty; bit l of occupied_levels_ is set iff current_[l].occupied is not empty.
  // (3) no bit of current_[l] is set for a slot before the hand's, nor above level 0 for the
  //     hand's own, stale bits included: so the first bit is the next slot.
  // (4) no bit of current_ is set for a slot that begins before next_start_, which is now_ while
  //     due_ is not empty.
  // (5) live entries in due_ have the deadline now_, or a later one by move().
  // (6) node.parked == x, x a location, iff the entry at x is live: its timer is the node's.
  // (7) entries_ counts the words between head and tail of all slots and due_, live or stale.
  Tick now_;
  Tick next_start_ = kLastTick;
  std::uint64_t occupied_levels_ = 0;
  std::array<Ring, kRings> current_;
  std::array<Ring, kRings> ahead_;
  // The slot of level l whose entries are in ahead_[l - 1], or kNone.
  std::array<Tick, kRings> ahead_number_;
  // Entries looked at by scan() since the last sort_ahead().
  std::size_t scanned_ = 0;
  // What is due at now_; what lies before due_at_ has been dealt with.
  Slot due_;
  std::uint32_t due_at_ = 0;

  std::size_t size_ = 0;
  std::size_t max_size_;
  std::size_t entries_ = 0;
  // No timer is due before `earliest_`; while `earliest_exact_`, one is due then.
  Tick earliest_ = kLastTick;
  bool earliest_exact_ = false;

  // Nodes [0, used_) have been used. Those that are not a timer's are in free_, but for
  // out_of_use_ ones: retired, or doomed, of which there are doomed_.
  std::uint32_t used_ = 0;
  std::uint32_t out_of_use_ = 0;
  std::uint32_t doomed_ = 0;
  // There is memory for so many, their bits in free_ and their payloads.
  std::size_t node_capacity_ = 0;
  // Chunks [1, chunk_capacity_) have memory; those from fresh_chunk_ on have not been used since
  // reset(), the free ones are a list.
  std::uint32_t fresh_chunk_ = 1;
  std::uint32_t chunk_capacity_ = 0;
  std::uint32_t free_chunk_ = 0;

  // The sweep: the slot it is at. While inside, chunks of that slot before sweep_read_ are dense
  // up to sweep_write_, the location after the last entry kept; sweep_read_ follows its chunk.
  std::uint32_t sweep_slot_ = 0;
  bool sweep_inside_ = false;
  std::uint32_t sweep_read_ = 0;
  std::uint32_t sweep_write_ = 0;

  RegionOf<Node> nodes_;
  IndexSet free_;
  RegionOf<std::uint32_t> words_;
  Region payloads_;
  std::size_t payload_size_;
  std::array<Slot, 2 * Levels::kAllSlots> slots_;
};

// The hot paths; the rest is in pool_core_impl.h.

template <class Shape>
inline void PoolCore<Shape>::mark(int level, Tick number) noexcept {
  at(current_, level).occupied.set(Levels::index(level, number));
  occupied_levels_ |= std::uint64_t{1} << level;
  next_start_ = std::min(next_start_, Levels::start(level, number));
}

template <class Shape>
inline void PoolCore<Shape>::unmark(int level, int slot) noexcept {
  at(current_, level).occupied.clear(slot);
  if (at(current_, level).occupied.empty()) {
    occupied_levels_ &= ~(std::uint64_t{1} << level);
  }
}

template <class Shape>
inline typename PoolCore<Shape>::Name PoolCore<Shape>::insert(Tick deadline) {
  deadline = clamped(deadline);
  const std::uint32_t index = next_index();
  Node& node = nodes_[index];
  node.deadline = deadline;
  const bool extended = place(index, node);
  const std::uint32_t generation = ++node.generation;
  take_index(index);
  if (size_++ == 0 || deadline < earliest_) {
    earliest_ = deadline;
    earliest_exact_ = true;
  } else {
    earliest_exact_ |= deadline == earliest_;
  }
  if (extended) {
    sweep_if_due();
  }
  return {index, generation};
}

template <class Shape>
inline void PoolCore<Shape>::release(std::uint32_t index, Node& node) noexcept {
  if (node.deadline == earliest_) [[unlikely]] {
    earliest_exact_ = false;
  }
  node.parked = 0;
  ++node.generation;
  put_back(index, node);
  if (--size_ == 0 && entries_ > Shape::kFewStale) [[unlikely]] {
    reset();
  }
}

template <class Shape>
inline bool PoolCore<Shape>::place(std::uint32_t index, Node& node) {
  const Tick deadline = node.deadline;
  const int level = Levels::level_of(now_, deadline);
  const Tick number = Levels::number(level, deadline);
  Slot& slot = at(current_, level).slots[Levels::index(level, number)];
  const std::uint32_t location = slot.tail;
  // A slot whose last chunk is full; or an empty one, and only those may have been sorted ahead.
  if ((location & kOffsetMask) == 0) [[unlikely]] {
    place_in_new_chunk(index, node, level, &slot);
    return true;
  }
  word(location) = index;
  node.parked = location;
  slot.tail = location + 1;
  ++entries_;
  return false;
}

template <class Shape>
inline std::uint32_t PoolCore<Shape>::take_chunk() {
  if (free_chunk_ != 0) {
    const std::uint32_t chunk = free_chunk_;
    free_chunk_ = next_chunk(chunk);
    __builtin_prefetch(&next_chunk(free_chunk_), 1);
    return chunk;
  }
  if (fresh_chunk_ >= chunk_capacity_) [[unlikely]] {
    reserve_chunks(fresh_chunk_);
  }
  __builtin_prefetch(&next_chunk(fresh_chunk_ + 4), 1);
  return fresh_chunk_++;
}

// Puts another chunk at the end; returns the location of its first entry.
template <class Shape>
inline std::uint32_t PoolCore<Shape>::extend(Slot& slot) {
  const std::uint32_t chunk = take_chunk();
  if (slot.empty()) {
    slot.head = chunk;
  } else {
    next_chunk(last_chunk(slot)) = chunk;
  }
  slot.tail = first_of(chunk);
  return slot.tail;
}

// `kPayloads`: the payloads too.
template <class Shape>
template <bool kPayloads>
inline void PoolCore<Shape>::prefetch_nodes(std::uint32_t chunk, const Slot& slot) const noexcept {
  const std::uint32_t end = end_of(chunk, slot);
  for (std::uint32_t location = first_of(chunk); location != end; ++location) {
    const std::uint32_t index = word(location);
    __builtin_prefetch(&nodes_[index], 1);
    if constexpr (kPayloads) {
      if (payload_size_ != 0) {
        __builtin_prefetch(payload_place(index), 1);
      }
    }
  }
}

// The reader enters `chunk`: prefetches the nodes of the chunk after it, and the one after that.
template <class Shape>
template <bool kPayloads>
inline void PoolCore<Shape>::look_ahead(std::uint32_t chunk, const Slot& slot) const noexcept {
  if (chunk == last_chunk(slot)) {
    return;
  }
  const std::uint32_t next = next_chunk(chunk);
  if (next != last_chunk(slot)) {
    __builtin_prefetch(&next_chunk(next_chunk(next)));
  }
  prefetch_nodes<kPayloads>(next, slot);
}

// The entry at due_at_ has been dealt with.
template <class Shape>
inline void PoolCore<Shape>::step_due() noexcept {
  ++due_at_;
  const std::uint32_t chunk = (due_at_ - 1) >> kChunkBits;
  if (due_at_ == due_.tail) {
    entries_ -= due_at_ - first_of(chunk);
    free_chunk(chunk);
    due_ = Slot{};
  } else if ((due_at_ & kOffsetMask) == 0) {
    entries_ -= kChunkEntries;
    due_.head = next_chunk(chunk);
    due_at_ = first_of(due_.head);
    free_chunk(chunk);
    look_ahead<true>(due_.head, due_);
  }
}

template <class Shape>
inline bool PoolCore<Shape>::has_due() noexcept {
  while (!due_.empty()) {
    const std::uint32_t index = word(due_at_);
    Node& node = nodes_[index];
    if (node.parked == due_at_) [[likely]] {
      if (node.deadline <= now_) [[likely]] {
        return true;
      }
      place(index, node);
    }
    step_due();
  }
  return false;
}

// Takes the entry that has_due() found; the timer is still to be released.
template <class Shape>
inline std::uint32_t PoolCore<Shape>::take_due() noexcept {
  const std::uint32_t index = word(due_at_);
  step_due();
  return index;
}

}  // namespace carillon::internal
