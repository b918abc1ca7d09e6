// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A pool of objects that are named by 32-bit indexes and never move.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace carillon::broker::internal {

/// "No object": what an index is when it names none.
inline constexpr std::uint32_t kNil = 0xffff'ffff;

/// Objects of type T in chunks of 2^kChunkBits.
///
/// Lifetime: the objects belong to the slab; their addresses stay until they are destroyed.
/// Cost:     make and destroy O(1), an allocation a chunk. New objects go to the lowest chunk with
///           room, and a chunk that empties is given back (one is kept), so memory follows the
///           number of objects down as well.
/// Limits:   2^32 - 1 objects.
template <class T, unsigned kChunkBits>
class Slab {
 public:
  static constexpr std::uint32_t kPerChunk = 1U << kChunkBits;
  static_assert(kChunkBits >= 6);

  Slab() = default;
  ~Slab() { clear(); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  template <class... Args>
  std::uint32_t make(Args&&... args) {
    const std::uint32_t index = take();
    ::new (static_cast<void*>(address(index))) T(std::forward<Args>(args)...);
    ++size_;
    return index;
  }
  void destroy(std::uint32_t index) noexcept {
    (*this)[index].~T();
    --size_;
    give_back(index);
  }
  void clear() noexcept {
    for_each([this](std::uint32_t index, T&) { destroy(index); });
  }

  [[nodiscard]] T& operator[](std::uint32_t index) noexcept {
    return *std::launder(reinterpret_cast<T*>(address(index)));
  }
  [[nodiscard]] const T& operator[](std::uint32_t index) const noexcept {
    return *std::launder(reinterpret_cast<const T*>(address(index)));
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Indexes are below this.
  [[nodiscard]] std::uint32_t index_limit() const noexcept {
    return static_cast<std::uint32_t>(chunks_.size()) << kChunkBits;
  }
  [[nodiscard]] bool contains(std::uint32_t index) const noexcept {
    if (index >= index_limit()) return false;
    const Chunk* chunk = chunks_[index >> kChunkBits].get();
    const std::uint32_t place = index & (kPerChunk - 1);
    return chunk != nullptr && ((chunk->live[place / 64] >> (place % 64)) & 1) != 0;
  }

  /// The first index after `index` that has an object; from the beginning again after the last.
  /// kNil if there is none at all.
  [[nodiscard]] std::uint32_t next_after(std::uint32_t index) const noexcept {
    if (size_ == 0) return kNil;
    std::uint32_t next = index + 1;
    for (;;) {
      if (next >= index_limit()) next = 0;
      const Chunk* chunk = chunks_[next >> kChunkBits].get();
      const std::uint32_t place = next & (kPerChunk - 1);
      const std::uint64_t live = chunk == nullptr ? 0 : chunk->live[place / 64] >> (place % 64);
      if (live != 0) return next + static_cast<std::uint32_t>(std::countr_zero(live));
      next += 64 - place % 64;
    }
  }

  /// Calls visit(index, object) for each, in index order; it may destroy the one it is given.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      for (std::uint32_t word = 0; word < kWords; ++word) {
        // The visit may free the chunk.
        std::uint64_t live = chunks_[c] ? chunks_[c]->live[word] : 0;
        for (; live != 0; live &= live - 1) {
          const auto place = word * 64 + static_cast<std::uint32_t>(std::countr_zero(live));
          const auto index = (static_cast<std::uint32_t>(c) << kChunkBits) + place;
          visit(index, (*this)[index]);
        }
      }
    }
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    const_cast<Slab*>(this)->for_each(
        [&visit](std::uint32_t index, const T& object) { visit(index, object); });
  }

 private:
  static constexpr std::uint32_t kWords = kPerChunk / 64;

  struct Chunk {
    // Not touched before use: a chunk costs the pages that its objects lie in.
    alignas(T) std::byte bytes[std::size_t{kPerChunk} * sizeof(T)];
    std::array<std::uint64_t, kWords> live{};
    std::uint32_t used = 0;
    std::uint32_t first_word_with_room = 0;
  };

  [[nodiscard]] std::byte* address(std::uint32_t index) const noexcept {
    return chunks_[index >> kChunkBits]->bytes + std::size_t{index & (kPerChunk - 1)} * sizeof(T);
  }

  std::uint32_t take() {
    while (first_with_room_ < with_room_.size() && with_room_[first_with_room_] == 0) {
      ++first_with_room_;
    }
    if (first_with_room_ == with_room_.size()) add_chunk();
    const auto number = static_cast<std::uint32_t>(
        first_with_room_ * 64 +
        static_cast<std::size_t>(std::countr_zero(with_room_[first_with_room_])));
    Chunk& chunk = *chunks_[number];
    std::uint32_t word = chunk.first_word_with_room;
    while (~chunk.live[word] == 0) ++word;
    chunk.first_word_with_room = word;
    const auto bit = static_cast<std::uint32_t>(std::countr_one(chunk.live[word]));
    chunk.live[word] |= std::uint64_t{1} << bit;
    if (chunk.used == 0) --empty_chunks_;
    if (++chunk.used == kPerChunk) set_room(number, false);
    return (number << kChunkBits) + word * 64 + bit;
  }

  void give_back(std::uint32_t index) noexcept {
    const std::uint32_t number = index >> kChunkBits;
    const std::uint32_t place = index & (kPerChunk - 1);
    Chunk& chunk = *chunks_[number];
    chunk.live[place / 64] &= ~(std::uint64_t{1} << (place % 64));
    chunk.first_word_with_room = std::min(chunk.first_word_with_room, place / 64);
    if (chunk.used == kPerChunk) set_room(number, true);
    if (--chunk.used > 0) return;
    if (empty_chunks_ == 0) {
      ++empty_chunks_;
      return;
    }
    set_room(number, false);
    chunks_[number].reset();
    absent_.push_back(number);
  }

  void add_chunk() {
    std::uint32_t number = 0;
    if (absent_.empty()) {
      number = static_cast<std::uint32_t>(chunks_.size());
      chunks_.emplace_back();
      // give_back() must not fail, so what it needs is there already.
      absent_.reserve(chunks_.capacity());
      if (with_room_.size() * 64 < chunks_.size()) with_room_.push_back(0);
    } else {
      number = absent_.back();
      absent_.pop_back();
    }
    chunks_[number].reset(new Chunk);
    ++empty_chunks_;
    set_room(number, true);
  }

  void set_room(std::uint32_t number, bool room) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (number % 64);
    if (room) {
      with_room_[number / 64] |= bit;
      first_with_room_ = std::min<std::size_t>(first_with_room_, number / 64);
    } else {
      with_room_[number / 64] &= ~bit;
    }
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
  // Numbers of chunks that were given back.
  std::vector<std::uint32_t> absent_;
  // A bit a chunk: it is there and not full.
  std::vector<std::uint64_t> with_room_;
  std::size_t first_with_room_ = 0;
  std::size_t empty_chunks_ = 0;
  std::size_t size_ = 0;
};

}  // namespace carillon::broker::internal
