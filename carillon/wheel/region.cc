// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "carillon/wheel/internal/region.h"

namespace carillon::internal {

namespace {

constexpr std::size_t kPage = std::size_t{1} << 12;
constexpr std::size_t kHugePage = std::size_t{1} << 21;
// What can never be more is taken from the heap at once: four system calls cost more than that.
constexpr std::size_t kSmall = std::size_t{1} << 16;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Region::~Region() {
  if (addresses_ != nullptr) {
    munmap(addresses_, addresses_bytes_);
  } else {
    std::free(data_);
  }
}

void Region::take_all_from_heap() {
  const std::size_t bytes = round_up(limit_, kPage);
  void* const memory = std::aligned_alloc(kPage, bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  std::memset(memory, 0, bytes);
  data_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
}

void Region::set_addresses_aside() {
  const std::size_t bytes = round_up(limit_, kHugePage) + kHugePage;
  void* const addresses =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) {
    throw std::bad_alloc();
  }
  addresses_ = static_cast<std::byte*>(addresses);
  addresses_bytes_ = bytes;
  // From a multiple of the huge page on, or the first one could never be one.
  const auto number = reinterpret_cast<std::uintptr_t>(addresses_);
  data_ = addresses_ + (round_up(number, kHugePage) - number);
}

void Region::grow(std::size_t bytes) {
  if (bytes <= bytes_) {
    return;
  }
  if (bytes > limit_) {
    throw std::bad_alloc();
  }
  if (limit_ <= kSmall) {
    take_all_from_heap();
    return;
  }
  if (addresses_ == nullptr) {
    set_addresses_aside();
  }
  std::size_t wanted = std::max(bytes, bytes_ + bytes_ / 8);
  wanted = std::min(wanted, round_up(limit_, kHugePage));
  wanted = round_up(wanted, wanted < kHugePage ? kStep : kHugePage);
  if (mprotect(data_ + bytes_, wanted - bytes_, PROT_READ | PROT_WRITE) != 0) {
    throw std::bad_alloc();
  }
#ifdef MADV_HUGEPAGE
  // A small wheel is not to take two megabytes for it. Only a hint: it may fail.
  if (wanted > kHugePage) {
    madvise(data_, wanted, MADV_HUGEPAGE);
  }
#endif
  bytes_ = wanted;
}

}  // namespace carillon::internal
