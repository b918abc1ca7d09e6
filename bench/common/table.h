// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The results for people: at most 80 columns.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "bench/common/targets.h"

namespace carillon::bench {

/// One metric.
struct Column {
  std::string_view header;
  std::string_view metric;
  int decimals;
  bool spread = false;  ///< Followed by the deviation in per cent of the median.
  bool ratio = false;   ///< And by how many times that of Layout::base it is.
};

/// The table of one bench.
struct Layout {
  std::string_view bench;
  std::string_view title;
  std::vector<Column> columns;
  std::string_view base = {};  ///< The peer that ratios are to, in the same cell.
};

/// One table for each layout whose bench was run: medians, and the spread where there were
/// repetitions.
[[nodiscard]] std::string format_tables(const Ledger& ledger, std::span<const Layout> layouts);

/// 123456.7 -> "123,457".
[[nodiscard]] std::string grouped(double value, int decimals);

/// The ratios and whether they are met, one line a target.
[[nodiscard]] std::string format_verdicts(const std::vector<Verdict>& verdicts);

}  // namespace carillon::bench
