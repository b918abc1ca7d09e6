// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that grows in place: a range of addresses is set aside for the largest size there may be,
// and memory is had for its beginning as it is needed. So an element is one addition away from the
// base, nothing is ever copied or moved, and growing takes no longer when there is more.

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace carillon::internal {

class Region {
 public:
  // Bytes come in multiples of this at first, later an eighth of what there is.
  static constexpr std::size_t kStep = std::size_t{1} << 16;

  // For at most `limit` bytes; none to begin with, and no addresses either.
  explicit Region(std::size_t limit) noexcept : limit_(limit) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  // Aligned to a page; null if there are no bytes.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  // Has at least `bytes` bytes, and for the sake of the next time a few more. New ones are zero.
  // Throws std::bad_alloc if they cannot be had, or are more than the limit.
  void grow(std::size_t bytes);

 private:
  void take_all_from_heap();
  void set_addresses_aside();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t limit_;
  std::byte* addresses_ = nullptr;
  std::size_t addresses_bytes_ = 0;
};

// Elements of type T, numbered from 0.
template <class T>
class RegionOf {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit RegionOf(std::size_t limit) noexcept : region_(limit * sizeof(T)) {}

  [[nodiscard]] T& operator[](std::size_t number) const noexcept {
    return reinterpret_cast<T*>(region_.data())[number];
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return region_.bytes() / sizeof(T); }
  [[nodiscard]] std::size_t bytes() const noexcept { return region_.bytes(); }
  void reserve(std::size_t count) {
    if (count > capacity()) {
      region_.grow(count * sizeof(T));
    }
  }

 private:
  Region region_;
};

}  // namespace carillon::internal
