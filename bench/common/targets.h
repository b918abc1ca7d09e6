// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What carillon is to reach, each with a name, and whether it did.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"

namespace carillon::bench {

enum class Bound {
  kAtLeast,  ///< measured >= bound
  kAbove,    ///< measured > bound
  kAtMost,   ///< measured <= bound
  kBelow,    ///< measured < bound
};

/// One target: the ratio of a metric of carillon to that of a rival, or, without a rival, the
/// metric itself, within a bound. `subject` and `rival` may be several names, "a|b": the lowest of
/// them in each repetition.
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
  /// If any, the subject's own median is printed beside the ratio, in this unit.
  std::string_view unit = {};
  /// Where the rival is measured, if not where the subject is.
  std::string_view rival_bench = {};
  std::string_view rival_cell = {};
  std::string_view rival_metric = {};
  /// If any: it is met, too, if the subject's own median is at most this, whatever the ratio.
  double or_value = 0;
};

struct Verdict {
  const Target* target;
  std::optional<double> measured;  ///< Nothing if one of the two was not measured.
  std::optional<double> value;     ///< The median of the subject's metric.
  double limit;
  bool met;
  bool met_by_value;  ///< Not by the ratio: by or_value.
};

/// Judges each of `targets` whose bench is in `benches`, in the order they are listed.
[[nodiscard]] std::vector<Verdict> judge(const Ledger& ledger, std::span<const Target> targets,
                                         bool check, const std::vector<std::string_view>& benches);

[[nodiscard]] std::string_view to_string(Bound bound) noexcept;

}  // namespace carillon::bench
