// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory for tables, which is had and given back while a lock is held: from the system, not from
// the heap. Who gives the heap a large piece, or asks it for one, may have to wait while it puts
// together what others have freed: 15 ms after a million entries (glibc's malloc_consolidate). To
// map or unmap half a megabyte takes some microseconds.

#include <cstddef>
#include <memory>

namespace carillon::internal {

struct PagesDeleter {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const noexcept;
};
using Pages = std::unique_ptr<std::byte, PagesDeleter>;

// So many bytes, zero, aligned to a cache line; null if they cannot be had. A page at least, or
// less than 1,024 bytes, which are the heap's.
[[nodiscard]] Pages make_pages(std::size_t bytes) noexcept;

}  // namespace carillon::internal
