// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that grows without moving: elements numbered from 0, in segments of 2^Bits elements. The
// address of an element is one load of the table away, and growing copies the table only.

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <vector>

namespace carillon::internal {

inline constexpr std::size_t kCacheLine = 64;

// Elements of `size` bytes whose type the owner knows; he constructs and destroys them.
template <int Bits>
class RawSegments {
  static constexpr std::uint32_t kMask = (std::uint32_t{1} << Bits) - 1;

 public:
  // Elements in a segment.
  static constexpr std::size_t kSegment = std::size_t{1} << Bits;

  RawSegments(std::size_t size, std::size_t alignment) noexcept
      : size_(size), alignment_(alignment < kCacheLine ? kCacheLine : alignment) {}
  RawSegments(const RawSegments&) = delete;
  RawSegments& operator=(const RawSegments&) = delete;
  ~RawSegments() {
    for (std::byte* segment : table_) {
      ::operator delete(segment, std::align_val_t{alignment_});
    }
  }

  [[nodiscard]] std::byte* at(std::uint32_t number) const noexcept {
    return table_[number >> Bits] + (number & kMask) * size_;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return table_.size() << Bits; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return capacity() * size_ + table_.capacity() * sizeof(std::byte*);
  }

  // Makes room for elements 0 to `count` - 1. May throw std::bad_alloc; then there is as much room
  // as there was, or more.
  void reserve(std::size_t count) {
    while (size_ != 0 && capacity() < count) {
      table_.push_back(nullptr);
      try {
        table_.back() =
            static_cast<std::byte*>(::operator new(size_ << Bits, std::align_val_t{alignment_}));
      } catch (...) {
        table_.pop_back();
        throw;
      }
    }
  }

 private:
  std::size_t size_;
  std::size_t alignment_;
  std::vector<std::byte*> table_;
};

// Elements of type T, which need no construction: they are assigned before they are read.
template <class T, int Bits>
class Segments {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  [[nodiscard]] T& operator[](std::uint32_t number) const noexcept {
    return *reinterpret_cast<T*>(raw_.at(number));
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return raw_.capacity(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return raw_.bytes(); }
  void reserve(std::size_t count) { raw_.reserve(count); }

 private:
  RawSegments<Bits> raw_{sizeof(T), alignof(T)};
};

}  // namespace carillon::internal
