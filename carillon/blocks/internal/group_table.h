// SPDX-License-Identifier: Apache-2.0
#pragma once

// A hash table whose entries lie in it, without a pointer to follow: groups of seven slots, and for
// each group one word that says what is in the slots, and how many entries found it full and went
// on to the next (as in Facebook's F14).
//
//     word     t t t - t - -  n       a tag of each slot: seven bits of the hash, 0 if it is empty
//     slots    S S S . S . .          n: entries that passed by; a search goes on if there are any
//
// A look-up reads the word, which is likely to be in the cache, and then the one slot that has the
// tag. Nothing is ever left of what was erased, so it is not built anew for that.
//
// It never stops to rehash, either. When it is full (or nearly empty), there is a new array beside
// the old one, and tend() moves a few groups at a time; a search looks into both. The home of an
// entry is its place in the order of hashes, so an old group goes to one place of the new array,
// and both are walked from the beginning to the end.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/blocks/internal/pages.h"

namespace carillon::internal {

// HashOf()(slot) is the hash of what lies in a slot, well mixed: the table takes its lower 48 bits.
//
// Threads: as a container. Addresses of slots hold until the next insert(), tend() or sweep().
template <class Slot, class HashOf>
class GroupTable {
  static_assert(std::is_nothrow_move_constructible_v<Slot> && alignof(Slot) <= 64 &&
                sizeof(Slot) % alignof(std::uint64_t) == 0);

 public:
  static constexpr unsigned kSlots = 7;
  static constexpr std::size_t kFewestGroups = 2;
  // What a sweep is told: parts of the whole.
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 32;

  // The memory of an array that is not needed any more: some megabytes, to be given back when the
  // lock is not held.
  using Memory = Pages;

  GroupTable() noexcept = default;
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;
  ~GroupTable() {
    destroy_all(array_);
    destroy_all(old_);
  }

  [[nodiscard]] std::size_t size() const noexcept { return array_.size + old_.size; }
  [[nodiscard]] std::size_t groups() const noexcept { return array_.groups; }
  // Whether there are two arrays, so that tend() has something to move.
  [[nodiscard]] bool moves() const noexcept { return old_.groups != 0; }

  // The slot that find() is likely to look at first; null if there is none. To be prefetched by the
  // caller: g++ takes a function that does only that for one that does nothing.
  [[nodiscard]] const Slot* likely(std::uint64_t hash) const noexcept {
    if (array_.groups == 0) {
      return nullptr;
    }
    const std::size_t home = array_.home_of(hash);
    const std::uint64_t found = matches(array_.words[home], tag_of(hash));
    return found != 0 ? array_.slot(home, first_of(found)) : nullptr;
  }

  // The entry of that hash for which equal(slot), or null.
  template <class Equal>
  [[nodiscard]] Slot* find(std::uint64_t hash, Equal&& equal) const {
    Slot* slot = find_in(array_, hash, equal);
    return slot == nullptr && old_.groups != 0 ? find_in(old_, hash, equal) : slot;
  }

  // make(address) constructs the entry. Does not look for an equal one. Throws what make() throws,
  // and std::bad_alloc; nothing is changed then.
  //
  // Pre: tend() of two groups or more since the last one.
  template <class Make>
  Slot& insert(std::uint64_t hash, Make&& make) {
    if (array_.size >= most_in(array_.groups)) {
      // tend() has seen to it: an array is emptied long before the next is full.
      CARILLON_CHECK(old_.groups == 0, "a table of ", array_.groups, " groups is full while ",
                     old_.size, " wait in the one before");
      begin_to_move(array_.groups + std::max(array_.groups / 2, kFewestGroups));
    }
    return place(array_, hash, make);
  }

  // A part of the upkeep: looks at the next `groups` groups, erases what is over(slot), and moves
  // the rest if there are two arrays. Returns how many were erased. over() must not throw.
  template <class Over>
  std::size_t tend(std::size_t groups, Memory& unused, Over&& over) noexcept {
    std::size_t erased = 0;
    if (old_.groups != 0) {
      erased = move(groups, unused, over);
    } else {
      for (; groups > 0 && array_.groups != 0; --groups) {
        hand_ = array_.after(hand_);
        erased += erase_in(array_, hand_, over);
      }
    }
    if (old_.groups == 0 && is_too_large()) {
      shrink();
    }
    return erased;
  }

  // Erases what is over() from the part [from, to) of kWhole. Who does so for the whole in order,
  // part by part, and then calls tend() while something moves(), has met each entry, whatever is
  // done in between: who moves one looks at it. Returns how many were erased.
  template <class Over>
  std::size_t sweep(std::uint64_t from, std::uint64_t to, Over&& over) noexcept {
    std::size_t erased = 0;
    const std::size_t end = part_of(array_.groups, to);
    for (std::size_t group = part_of(array_.groups, from); group < end; ++group) {
      erased += erase_in(array_, group, over);
    }
    return erased;
  }

 private:
  static constexpr std::uint64_t kOnes = 0x01010101010101U;
  static constexpr std::uint64_t kHighs = 0x80808080808080U;
  static constexpr unsigned kPassedShift = 56;
  static constexpr std::uint64_t kPassed = std::uint64_t{1} << kPassedShift;
  // More than that are not counted: it stays, and costs a look.
  static constexpr std::uint64_t kMostPassed = 255;

  struct Array {
    std::uint64_t* words = nullptr;
    Slot* slots = nullptr;
    std::size_t groups = 0;
    std::size_t size = 0;

    [[nodiscard]] std::size_t home_of(std::uint64_t hash) const noexcept {
      return part_of(groups, hash >> 16 & (kWhole - 1));
    }
    [[nodiscard]] std::size_t after(std::size_t group) const noexcept {
      return group + 1 < groups ? group + 1 : 0;
    }
    [[nodiscard]] Slot* slot(std::size_t group, unsigned number) const noexcept {
      return slots + group * kSlots + number;
    }
  };

  [[nodiscard]] static std::size_t part_of(std::size_t groups, std::uint64_t part) noexcept {
    return static_cast<std::size_t>(groups * part >> 32);
  }
  // Five and a half of seven: more, and too many pass by.
  [[nodiscard]] static std::size_t most_in(std::size_t groups) noexcept { return groups * 11 / 2; }
  [[nodiscard]] bool is_too_large() const noexcept {
    return array_.size < array_.groups && array_.groups > kFewestGroups;
  }

  [[nodiscard]] static std::uint64_t tag_of(std::uint64_t hash) noexcept {
    return (hash & 0x7fU) | 0x80U;
  }
  // A bit for each slot that may have the tag; slots that are empty never have.
  [[nodiscard]] static std::uint64_t matches(std::uint64_t word, std::uint64_t tag) noexcept {
    const std::uint64_t difference = word ^ (kOnes * tag);
    return (difference - kOnes) & ~difference & kHighs;
  }
  [[nodiscard]] static std::uint64_t full(std::uint64_t word) noexcept { return word & kHighs; }
  [[nodiscard]] static std::uint64_t empty(std::uint64_t word) noexcept { return ~word & kHighs; }
  [[nodiscard]] static unsigned first_of(std::uint64_t bits) noexcept {
    return static_cast<unsigned>(std::countr_zero(bits)) / 8;
  }

  template <class Equal>
  static Slot* find_in(const Array& array, std::uint64_t hash, Equal& equal) {
    if (array.groups == 0) {
      return nullptr;
    }
    const std::uint64_t tag = tag_of(hash);
    std::size_t group = array.home_of(hash);
    for (std::size_t looked = 0; looked < array.groups; ++looked) {
      const std::uint64_t word = array.words[group];
      for (std::uint64_t found = matches(word, tag); found != 0; found &= found - 1) {
        Slot* slot = array.slot(group, first_of(found));
        if (equal(std::as_const(*slot))) {
          return slot;
        }
      }
      if (word < kPassed) {
        break;
      }
      group = array.after(group);
    }
    return nullptr;
  }

  // Pre: there is an empty slot.
  template <class Make>
  static Slot& place(Array& array, std::uint64_t hash, Make&& make) {
    const std::size_t home = array.home_of(hash);
    std::size_t group = home;
    while (empty(array.words[group]) == 0) {
      group = array.after(group);
    }
    const unsigned number = first_of(empty(array.words[group]));
    Slot* slot = array.slot(group, number);
    make(static_cast<void*>(slot));
    array.words[group] |= tag_of(hash) << (8 * number);
    ++array.size;
    for (std::size_t passed = home; passed != group; passed = array.after(passed)) {
      if (array.words[passed] >> kPassedShift != kMostPassed) {
        array.words[passed] += kPassed;
      }
    }
    return *slot;
  }

  // The tag is gone; the entry is not destroyed yet.
  static void take_out(Array& array, std::size_t group, unsigned number,
                       std::uint64_t hash) noexcept {
    array.words[group] &= ~(std::uint64_t{0xff} << (8 * number));
    --array.size;
    for (std::size_t passed = array.home_of(hash); passed != group; passed = array.after(passed)) {
      if (array.words[passed] >> kPassedShift != kMostPassed) {
        array.words[passed] -= kPassed;
      }
    }
  }

  template <class Over>
  static std::size_t erase_in(Array& array, std::size_t group, Over& over) noexcept {
    std::size_t erased = 0;
    for (std::uint64_t bits = full(array.words[group]); bits != 0; bits &= bits - 1) {
      Slot* slot = array.slot(group, first_of(bits));
      if (over(std::as_const(*slot))) {
        take_out(array, group, first_of(bits), HashOf()(std::as_const(*slot)));
        slot->~Slot();
        ++erased;
      }
    }
    return erased;
  }

  // Pre: there is one array only.
  void begin_to_move(std::size_t groups) {
    // Zeroed by the system, page by page as they are used: nobody waits for it.
    const std::size_t slots_bytes = groups * kSlots * sizeof(Slot);
    Memory memory = make_pages(slots_bytes + groups * sizeof(std::uint64_t));
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
    old_ = array_;
    old_memory_ = std::move(memory_);
    memory_ = std::move(memory);
    array_ = {reinterpret_cast<std::uint64_t*>(memory_.get() + slots_bytes),
              reinterpret_cast<Slot*>(memory_.get()), groups, 0};
    hand_ = 0;
  }
  void shrink() noexcept {
    try {
      // With room for what will be inserted until all have been moved.
      const std::size_t most = array_.size + array_.groups / 2 + 1;
      begin_to_move(std::max(most * 2 / 11 + 1, kFewestGroups));
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
      // It stays as large as it is.
    }
  }

  template <class Over>
  std::size_t move(std::size_t groups, Memory& unused, Over& over) noexcept {
    std::size_t erased = 0;
    for (; groups > 0 && hand_ < old_.groups; --groups, ++hand_) {
      for (std::uint64_t bits = full(old_.words[hand_]); bits != 0; bits &= bits - 1) {
        Slot* slot = old_.slot(hand_, first_of(bits));
        const std::uint64_t hash = HashOf()(std::as_const(*slot));
        take_out(old_, hand_, first_of(bits), hash);
        if (over(std::as_const(*slot))) {
          ++erased;
        } else {
          place(array_, hash, [&](void* address) { new (address) Slot(std::move(*slot)); });
        }
        slot->~Slot();
      }
    }
    if (hand_ >= old_.groups) {
      old_ = {};
      unused = std::move(old_memory_);
      hand_ = 0;
    }
    return erased;
  }

  static void destroy_all(Array& array) noexcept {
    auto all = [](const Slot&) { return true; };
    for (std::size_t group = 0; group < array.groups; ++group) {
      erase_in(array, group, all);
    }
  }

  // Without groups before the first insert.
  Array array_;
  // The next group to be looked at: of old_, if that has groups.
  std::size_t hand_ = 0;
  Array old_;
  Memory memory_;
  Memory old_memory_;
};

}  // namespace carillon::internal
