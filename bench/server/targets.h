// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What carillon is to reach, each with a name, and whether it did.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/server/ledger.h"

namespace carillon::bench {

enum class Bound {
  kAtLeast,  ///< measured >= bound
  kAbove,    ///< measured > bound
  kAtMost,   ///< measured <= bound
  kBelow,    ///< measured < bound
};

/// One target: the ratio of a metric of carillon to that of a rival, or, without a rival, the
/// metric itself, within a bound.
struct Target {
  std::string_view name;
  std::string_view bench;
  std::string_view cell;
  std::string_view metric;
  std::string_view subject;
  std::string_view rival;
  Bound bound;
  double limit;
  /// The limit of --check, where a short run cannot resolve as much; 0 means it is not judged
  /// there.
  double limit_in_check;
};

struct Verdict {
  const Target* target;
  std::optional<double> measured;  ///< Nothing if one of the two was not measured.
  double limit;
  bool met;
};

/// Judges every target whose bench is in `benches`, in the order they are listed.
[[nodiscard]] std::vector<Verdict> judge(const Ledger& ledger, bool check,
                                         const std::vector<std::string_view>& benches);

[[nodiscard]] std::string_view to_string(Bound bound) noexcept;

}  // namespace carillon::bench
