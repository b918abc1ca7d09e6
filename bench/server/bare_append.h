// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the disk itself takes to make one record durable.

#include <cstdint>
#include <filesystem>

#include "carillon/base/time.h"

namespace carillon::bench {

struct AppendOutcome {
  std::uint64_t appends = 0;
  double seconds = 0;
};

/// Appends records of `record_bytes` to a new `file` for `time`, each with write() and fdatasync().
/// Throws BenchError if the disk refuses.
[[nodiscard]] AppendOutcome append_and_sync(const std::filesystem::path& file,
                                            std::size_t record_bytes, Span time);

}  // namespace carillon::bench
