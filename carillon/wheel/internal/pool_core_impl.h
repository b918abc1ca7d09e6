// SPDX-License-Identifier: Apache-2.0
#pragma once

// The out-of-line half of pool_core.h. The turning of the wheel (load_due, enter, find_earliest,
// sort_ahead, join_back) is that of hierarchical_wheel_impl.h, with chains of chunks for lists.

#include <algorithm>
#include <new>
#include <utility>

#include "carillon/wheel/internal/pool_core.h"

namespace carillon::internal {

template <class Shape>
PoolCore<Shape>::PoolCore(Tick now, std::size_t max_size, std::size_t payload_size) noexcept
    : now_(now),
      max_size_(max_size),
      nodes_(most_nodes(max_size)),
      free_(most_nodes(max_size)),
      words_(most_words(max_size)),
      payloads_(most_nodes(max_size) * payload_size),
      payload_size_(payload_size) {
  Slot* next = slots_.data();
  for (int level = 0; level < kLevels; ++level) {
    at(current_, level).slots = next;
    next += Levels::slots(level);
    at(ahead_, level).slots = next;
    next += Levels::slots(level);
  }
  ahead_number_.fill(kNone);
}

// ------------------------------------------------------------------------------ nodes and chunks

template <class Shape>
void PoolCore<Shape>::reserve_nodes(std::size_t count) {
  const std::size_t most = most_nodes(max_size_);
  if (count > most) {
    throw std::bad_alloc();
  }
  nodes_.reserve(count);
  count = std::min(nodes_.capacity(), most);
  free_.reserve(count);
  payloads_.grow(count * payload_size_);
  node_capacity_ = std::max(node_capacity_, count);
}

// The first one that has never been used.
template <class Shape>
std::uint32_t PoolCore<Shape>::fresh_index() {
  if (used_ == node_capacity_) {
    reserve_nodes(std::size_t{used_} + 1);
  }
  nodes_[used_] = Node{0, 0, 0};
  return used_;
}

template <class Shape>
void PoolCore<Shape>::reserve_chunks(std::size_t count) {
  CARILLON_CHECK(count < (std::size_t{1} << (32 - kChunkBits)) - 1, "out of locations");
  // New words are zero: whoever looks ahead at one that was never written finds an index there.
  words_.reserve((count + 1) << kChunkBits);
  chunk_capacity_ = static_cast<std::uint32_t>(
      std::min(words_.capacity() >> kChunkBits, (std::size_t{1} << (32 - kChunkBits)) - 1));
}

// Puts another chunk at the end of the current slot of the node's deadline; or, if that has been
// sorted ahead, to where it is now, perhaps without a new chunk.
template <class Shape>
void PoolCore<Shape>::place_in_new_chunk(std::uint32_t index, Node& node, int level, Slot* slot) {
  if (slot->empty()) {
    const Tick deadline = node.deadline;
    if (level > 0 && at(ahead_number_, level) == Levels::number(level, deadline)) [[unlikely]] {
      Ring* ring = nullptr;
      do {
        --level;
        ring = &at(ahead_, level);
      } while (level > 0 && at(ahead_number_, level) == Levels::number(level, deadline));
      const int slot_index = Levels::index(level, Levels::number(level, deadline));
      slot = &ring->slots[slot_index];
      ring->occupied.set(slot_index);
    } else {
      mark(level, Levels::number(level, deadline));
    }
  }
  const std::uint32_t location = (slot->tail & kOffsetMask) == 0 ? extend(*slot) : slot->tail;
  word(location) = index;
  node.parked = location;
  slot->tail = location + 1;
  ++entries_;
}

template <class Shape>
void PoolCore<Shape>::move_entry(std::uint32_t index, Node& node, Tick deadline) {
  if (free_chunk_ == 0) {
    reserve_chunks(fresh_chunk_);
  }
  deadline = clamped(deadline);
  earliest_exact_ &= node.deadline != earliest_;
  node.deadline = deadline;
  if (place(index, node)) {
    sweep_if_due();
  }
  if (deadline < earliest_) {
    earliest_ = deadline;
    earliest_exact_ = true;
  } else {
    earliest_exact_ |= deadline == earliest_;
  }
}

// Takes all out of `slot`.
template <class Shape>
PoolSlot PoolCore<Shape>::detach(Slot& slot) noexcept {
  if (sweep_inside_ && &slot == &slots_[sweep_slot_]) {
    sweep_inside_ = false;
  }
  return std::exchange(slot, Slot{});
}

// Moves all of `other` behind what is in `slot`.
template <class Shape>
void PoolCore<Shape>::append_all(Slot& slot, Slot& other) noexcept {
  const Slot more = detach(other);
  if (more.empty()) {
    return;
  }
  if (slot.empty()) {
    slot = more;
    return;
  }
  // What is unused in the last chunk becomes stale entries: whatever was written there, no node is
  // parked there.
  const std::uint32_t last = last_chunk(slot);
  entries_ += first_of(last) + kChunkEntries - slot.tail;
  next_chunk(last) = more.head;
  slot.tail = more.tail;
}

// Gives all timers of `slot` another place, and drops what is stale.
template <class Shape>
void PoolCore<Shape>::place_all(Slot& slot) noexcept {
  const Slot list = detach(slot);
  if (list.empty()) {
    return;
  }
  // So many entries before one is met, its node is asked for: one by one, since asking for many at
  // once and then waiting for them leaves the memory idle in between.
  constexpr std::uint32_t kAhead = 32;
  std::uint32_t ahead = first_of(list.head);
  const auto prefetch_one = [&] {
    if (ahead == list.tail) {
      return;
    }
    if ((ahead & kOffsetMask) == 0) {
      const std::uint32_t chunk = next_chunk((ahead - 1) >> kChunkBits);
      ahead = first_of(chunk);
      __builtin_prefetch(&next_chunk(next_chunk(chunk)));
    }
    __builtin_prefetch(&nodes_[word(ahead)], 1);
    ++ahead;
  };
  for (std::uint32_t i = 0; i < kAhead; ++i) {
    prefetch_one();
  }
  for (std::uint32_t chunk = list.head;;) {
    const std::uint32_t end = end_of(chunk, list);
    for (std::uint32_t location = first_of(chunk); location != end; ++location) {
      prefetch_one();
      const std::uint32_t index = word(location);
      Node& node = nodes_[index];
      if (node.parked == location) {
        place(index, node);
      }
    }
    entries_ -= end - first_of(chunk);
    const std::uint32_t next = next_chunk(chunk);
    free_chunk(chunk);
    if (chunk == last_chunk(list)) {
      return;
    }
    chunk = next;
  }
}

template <class Shape>
void PoolCore<Shape>::reset() noexcept {
  while (occupied_levels_ != 0) {
    const int level = std::countr_zero(occupied_levels_);
    const int slot = at(current_, level).occupied.first();
    at(current_, level).slots[slot] = Slot{};
    unmark(level, slot);
  }
  for (Ring& ring : ahead_) {
    while (!ring.occupied.empty()) {
      const int slot = ring.occupied.first();
      ring.slots[slot] = Slot{};
      ring.occupied.clear(slot);
    }
  }
  ahead_number_.fill(kNone);
  next_start_ = kLastTick;
  due_ = Slot{};
  entries_ = 0;
  free_chunk_ = 0;
  fresh_chunk_ = 1;
  sweep_inside_ = false;
}

// ------------------------------------------------------------------------------ turning

// Moves what is due next, and not after `target`, to due_, and now_ to its tick. If there is
// nothing, moves now_ to `target` and returns false. Pre: due_ is empty.
template <class Shape>
bool PoolCore<Shape>::load_due(Tick target) noexcept {
  while (occupied_levels_ != 0) {
    const int level = std::countr_zero(occupied_levels_);
    Ring& ring = at(current_, level);
    const int slot = ring.occupied.first();
    const Tick number = Levels::child(level, present_parent(level), slot);
    const Tick start = Levels::start(level, number);
    next_start_ = start;
    if (start > target) {
      now_ = target;
      return false;
    }
    unmark(level, slot);
    if (level > 0) {
      enter(level, number, target);
    } else if (!ring.slots[slot].empty()) {
      now_ = start;
      due_ = detach(ring.slots[slot]);
      due_at_ = first_of(due_.head);
      prefetch_nodes<true>(due_.head, due_);
      look_ahead<true>(due_.head, due_);
      if (!ring.occupied.empty()) {
        // What is due after this has the time that this takes to come near.
        if (const Slot& next = ring.slots[ring.occupied.first()]; !next.empty()) {
          prefetch_nodes<true>(next.head, next);
          look_ahead<true>(next.head, next);
        }
      }
      if (has_due()) {
        earliest_ = start;
        earliest_exact_ = true;
        return true;
      }
    }
  }
  now_ = target;
  next_start_ = kLastTick;
  return false;
}

// Time enters slot `number` of `level`, the first occupied one: brings its timers to finer levels.
// All finer rings are empty now, and their bits clear.
template <class Shape>
void PoolCore<Shape>::enter(int level, Tick number, Tick target) noexcept {
  const Tick start = Levels::start(level, number);
  if (at(ahead_number_, level) == number) {
    now_ = start;
    at(ahead_number_, level) = kNone;
    std::swap(at(current_, level - 1), at(ahead_, level - 1));
    if (!at(current_, level - 1).occupied.empty()) {
      occupied_levels_ |= std::uint64_t{1} << (level - 1);
    }
    return;
  }
  Slot& slot = at(current_, level).slots[Levels::index(level, number)];
  if (slot.empty()) {
    return;
  }
  // Nothing is due between `start` and the least deadline, so time may as well be there: a lone
  // timer goes to the level it is to end on, in one step. (If all have been moved beyond this
  // slot, others may be due before them.)
  Tick least = start;
  if (const Search found = search_if_short(slot);
      found.exhausted && found.least && Levels::number(level, *found.least) == number) {
    least = std::max(least, *found.least);
  }
  now_ = std::min(least, target);
  place_all(slot);
}

// The least deadline of the live entries, if there are few.
template <class Shape>
typename PoolCore<Shape>::Search PoolCore<Shape>::search_if_short(const Slot& slot) const noexcept {
  Search result;
  int live = 0;
  std::uint32_t location = first_of(slot.head);
  for (int count = 0; count < 2 * Levels::kShortList + 1; ++count) {
    if (location == slot.tail) {
      result.exhausted = true;
      return result;
    }
    if ((location & kOffsetMask) == 0) {
      location = first_of(next_chunk((location - 1) >> kChunkBits));
    }
    const Node& node = nodes_[word(location)];
    if (node.parked == location) {
      if (++live > Levels::kShortList) {
        return result;
      }
      result.least = std::min(result.least.value_or(kLastTick), node.deadline);
    }
    ++location;
  }
  return result;
}

// The exact next deadline, given that there is one.
template <class Shape>
Tick PoolCore<Shape>::find_earliest() noexcept {
  std::optional<Tick> found;
  if (has_due()) {
    found = now_;
  }
  while (!found) {
    // The first slot of the finest occupied level; if it has been sorted ahead, the first slot of
    // that ring, and so on down.
    int level = std::countr_zero(occupied_levels_);
    Ring* ring = &at(current_, level);
    bool is_ahead = false;
    int slot = ring->occupied.first();
    Tick number = Levels::child(level, present_parent(level), slot);
    while (level > 0 && at(ahead_number_, level) == number) {
      Ring& finer = at(ahead_, level - 1);
      if (finer.occupied.empty()) {
        at(ahead_number_, level) = kNone;
        break;
      }
      --level;
      ring = &finer;
      is_ahead = true;
      slot = ring->occupied.first();
      number = Levels::child(level, number, slot);
    }
    if (!ring->slots[slot].empty()) {
      found = search(ring->slots[slot], level, number);
    } else if (is_ahead) {
      ring->occupied.clear(slot);
    } else {
      unmark(level, slot);
    }
  }
  earliest_ = *found;
  earliest_exact_ = true;
  return *found;
}

// The least deadline in `slot`, the first non-empty one: slot `number` of `level`. Or nothing, but
// then what was in the way has been moved, and a new search comes nearer.
template <class Shape>
std::optional<Tick> PoolCore<Shape>::search(Slot& slot, int level, Tick number) noexcept {
  if (level == 0) {
    return search_finest(slot, number);
  }
  const Search found = search_if_short(slot);
  if (!found.exhausted) {
    if (at(ahead_number_, level) != kNone && scanned_ < size_) {
      return scan(slot, level, number);
    }
    sort_ahead(slot, level, number);
    return std::nullopt;
  }
  if (!found.least || Levels::number(level, *found.least) != number) {
    // All have been moved, and others may be due before them.
    place_all(slot);
    return std::nullopt;
  }
  return found.least;
}

// The same for a long chain: see hierarchical_wheel_impl.h.
template <class Shape>
std::optional<Tick> PoolCore<Shape>::scan(Slot& slot, int level, Tick number) noexcept {
  std::optional<Tick> least;
  for (std::uint32_t chunk = slot.head;; chunk = next_chunk(chunk)) {
    const std::uint32_t end = end_of(chunk, slot);
    for (std::uint32_t location = first_of(chunk); location != end; ++location) {
      const std::uint32_t index = word(location);
      Node& node = nodes_[index];
      if (node.parked != location) {
        continue;
      }
      if (Levels::number(level, node.deadline) == number) {
        least = std::min(least.value_or(kLastTick), node.deadline);
      } else {
        place(index, node);  // It has been moved to a later time.
      }
    }
    scanned_ += end - first_of(chunk);
    if (chunk == last_chunk(slot)) {
      break;
    }
  }
  if (!least) {
    place_all(slot);  // Only stale entries are left.
  }
  return least;
}

// Drops chunks in which nothing is due at `number`, so that no search meets them again.
template <class Shape>
std::optional<Tick> PoolCore<Shape>::search_finest(Slot& slot, Tick number) noexcept {
  Slot list = detach(slot);
  for (;;) {
    const std::uint32_t chunk = list.head;
    const std::uint32_t end = end_of(chunk, list);
    for (std::uint32_t location = first_of(chunk); location != end; ++location) {
      const std::uint32_t index = word(location);
      Node& node = nodes_[index];
      if (node.parked == location) {
        if (node.deadline == number) {
          slot = list;
          return number;
        }
        place(index, node);
      }
    }
    entries_ -= end - first_of(chunk);
    list.head = next_chunk(chunk);
    const bool last = chunk == last_chunk(list);
    free_chunk(chunk);
    if (last) {
      return std::nullopt;
    }
  }
}

// Sorts the timers of slot `number` of `level`, which are in `slot`, into the ring ahead of the
// level below.
template <class Shape>
void PoolCore<Shape>::sort_ahead(Slot& slot, int level, Tick number) noexcept {
  if (at(ahead_number_, level) != kNone) {
    join_back(level);
  }
  at(ahead_number_, level) = number;
  scanned_ = 0;
  place_all(slot);
}

// Undoes sort_ahead() of a slot of `level`: joins the chains of the ring below in it again. Equal
// deadlines were in one chain of the ring, so they keep their order.
template <class Shape>
void PoolCore<Shape>::join_back(int level) noexcept {
  const Tick number = at(ahead_number_, level);
  if (level > 1 && at(ahead_number_, level - 1) != kNone &&
      Levels::parent(level - 1, at(ahead_number_, level - 1)) == number) {
    join_back(level - 1);
  }
  const Ring& ring = Levels::parent(level, number) == present_parent(level) ? at(current_, level)
                                                                            : at(ahead_, level);
  Slot& slot = ring.slots[Levels::index(level, number)];
  Ring& finer = at(ahead_, level - 1);
  while (!finer.occupied.empty()) {
    const int first = finer.occupied.first();
    append_all(slot, finer.slots[first]);
    finer.occupied.clear(first);
  }
  at(ahead_number_, level) = kNone;
}

// ------------------------------------------------------------------------------ compaction

// A step of the sweep over all slots, round and round while it is due. It runs when a slot takes
// another chunk, that is, at most once for each new entry, and at most for kChunkEntries of them.
// Eight chunks a step: the sweep is round before a quarter of the entries have been added to those
// that made it due.
template <class Shape>
void PoolCore<Shape>::sweep() noexcept {
  constexpr int kChunks = 8;
  constexpr int kEmptySlots = 256;
  for (int chunks = 0, empty_slots = 0; chunks < kChunks && empty_slots < kEmptySlots;) {
    Slot& slot = slots_[sweep_slot_];
    if (slot.empty()) {
      sweep_inside_ = false;
      sweep_slot_ = (sweep_slot_ + 1) % static_cast<std::uint32_t>(slots_.size());
      ++empty_slots;
      continue;
    }
    if (!sweep_inside_) {
      sweep_inside_ = true;
      sweep_read_ = slot.head;
      sweep_write_ = 0;
      prefetch_nodes<false>(slot.head, slot);
    }
    sweep_chunk(slot);
    ++chunks;
  }
}

// Moves the live entries of the chunk sweep_read_ to sweep_write_.
template <class Shape>
void PoolCore<Shape>::sweep_chunk(Slot& slot) noexcept {
  const std::uint32_t chunk = sweep_read_;
  const bool last = chunk == last_chunk(slot);
  const std::uint32_t end = end_of(chunk, slot);
  const std::uint32_t count = end - first_of(chunk);
  look_ahead<false>(chunk, slot);
  std::array<std::uint32_t, kChunkEntries> live{};
  std::uint32_t live_count = 0;
  for (std::uint32_t location = first_of(chunk); location != end; ++location) {
    const std::uint32_t index = word(location);
    if (nodes_[index].parked == location) {
      live[live_count++] = index;
    }
  }
  std::uint32_t done = 0;
  const auto write = [&] {
    word(sweep_write_) = live[done];
    nodes_[live[done]].parked = sweep_write_;
    ++sweep_write_;
    ++done;
  };
  // The chunk before, while it has room.
  while (done < live_count && (sweep_write_ & kOffsetMask) != 0) {
    write();
  }
  const std::uint32_t before = sweep_write_ == 0 ? 0 : (sweep_write_ - 1) >> kChunkBits;
  sweep_read_ = next_chunk(chunk);
  if (done < live_count) {
    // It is full, or there is none: the rest stays in this one.
    sweep_write_ = first_of(chunk);
    while (done < live_count) {
      write();
    }
    if (last) {
      entries_ -= end - sweep_write_;
      slot.tail = sweep_write_;
    }
  } else {
    entries_ -= count;
    if (before == 0) {
      slot.head = sweep_read_;
    } else {
      next_chunk(before) = sweep_read_;
    }
    if (last && before == 0) {
      slot = Slot{};
    } else if (last) {
      entries_ -= first_of(before) + kChunkEntries - sweep_write_;
      slot.tail = sweep_write_;
    }
    free_chunk(chunk);
  }
  if (last) {
    sweep_inside_ = false;
    sweep_slot_ = (sweep_slot_ + 1) % static_cast<std::uint32_t>(slots_.size());
  }
}

// ------------------------------------------------------------------------------ looking

template <class Shape>
WheelSnapshot PoolCore<Shape>::make_snapshot() const {
  WheelSnapshot result;
  result.now = now_;
  result.size = size_;
  for (int level = 0; level < kLevels; ++level) {
    WheelSnapshot::Level& l = result.levels.emplace_back();
    l.granularity = Levels::start(level, 1);
    l.hand = Levels::index(level, Levels::number(level, now_));
    l.counts.resize(static_cast<std::size_t>(Levels::slots(level)));
  }
  // By deadline and not by entry: a slot that was sorted ahead is still that slot, and a timer that
  // was moved is where it will be.
  for (std::uint32_t index = 0; index < used_; ++index) {
    const Node& node = nodes_[index];
    if (node.parked == 0 || node.parked == kDoomed) {
      continue;
    }
    const int level = Levels::level_of(now_, node.deadline);
    const int slot = Levels::index(level, Levels::number(level, node.deadline));
    ++result.levels[static_cast<std::size_t>(level)].counts[static_cast<std::size_t>(slot)];
  }
  for (std::uint32_t location = due_at_; !due_.empty() && location != due_.tail; ++location) {
    if ((location & kOffsetMask) == 0) {
      location = first_of(next_chunk((location - 1) >> kChunkBits));
    }
    const Node& node = nodes_[word(location)];
    result.due += node.parked == location && node.deadline == now_ ? 1 : 0;
  }
  result.levels[0].counts[static_cast<std::size_t>(result.levels[0].hand)] -= result.due;
  return result;
}

}  // namespace carillon::internal
