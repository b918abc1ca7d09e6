// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What is said of how late things were, and its picture.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"

namespace carillon::bench {

/// Adds p50_ms, p99_ms, p999_ms, max_ms, and `early`, the number of those below 0; and the curve of
/// quantiles, dense where the tail is. `sorted`: ns, ascending, not empty.
void add_lateness(Measurement& measurement, const std::vector<std::int64_t>& sorted);

struct LatenessPicture {
  std::string_view title;
  std::string_view bench;
  std::string_view cell;
  std::string_view what;  ///< "jobs"
  double least_ms;        ///< Where the axis begins; a curve below is drawn along it.
};

/// Draws the curves of all peers of a cell, in colours by `colour_of(peer)`; nothing if there is no
/// peer.
void draw_lateness(const Ledger& ledger, const LatenessPicture& picture,
                   std::string_view (*colour_of)(std::string_view peer),
                   const std::filesystem::path& file);

}  // namespace carillon::bench
