// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "carillon/blocks/internal/pages.h"

namespace carillon::internal {
namespace {

// glibc looks for pieces of less than that without putting any together.
constexpr std::size_t kFewestMapped = 1024;
constexpr std::size_t kLine = 64;

}  // namespace

void PagesDeleter::operator()(std::byte* memory) const noexcept {
  if (bytes < kFewestMapped) {
    std::free(memory);
  } else {
    munmap(memory, bytes);
  }
}

Pages make_pages(std::size_t bytes) noexcept {
  void* memory = nullptr;
  if (bytes < kFewestMapped) {
    const std::size_t lines = (bytes + kLine - 1) / kLine * kLine;
    memory = std::aligned_alloc(kLine, lines);
    if (memory != nullptr) {
      std::memset(memory, 0, lines);
    }
  } else {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = memory != MAP_FAILED ? memory : nullptr;
  }
  return {static_cast<std::byte*>(memory), PagesDeleter{bytes}};
}

}  // namespace carillon::internal
