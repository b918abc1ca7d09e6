// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the kernel says this process uses.

#include <cstdint>

namespace carillon::server {

/// What cannot be read is 0.
struct ProcessFacts {
  double cpu_s = 0;
  double started_at_s = 0;  ///< Unix time.
  std::uint64_t resident_bytes = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t max_files = 0;
  std::uint64_t threads = 0;
};

/// Reads /proc; some ten microseconds, and one more for each open file.
[[nodiscard]] ProcessFacts read_process_facts();

}  // namespace carillon::server
