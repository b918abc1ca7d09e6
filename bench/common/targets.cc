// SPDX-License-Identifier: Apache-2.0
#include "bench/common/targets.h"

#include <algorithm>

namespace carillon::bench {
namespace {

bool within(double measured, Bound bound, double limit) {
  switch (bound) {
    case Bound::kAtLeast: return measured >= limit;
    case Bound::kAbove: return measured > limit;
    case Bound::kAtMost: return measured <= limit;
    case Bound::kBelow: return measured < limit;
  }
  return false;
}

std::string_view or_else(std::string_view name, std::string_view usual) {
  return name.empty() ? usual : name;
}

std::optional<double> measured_value(const Ledger& ledger, const Target& target) {
  const Series subject = ledger.lowest(target.bench, target.cell, target.subject, target.metric);
  if (target.rival.empty()) {
    if (subject.empty()) return std::nullopt;
    const Summary summary = summarize(values_of(subject));
    // A count of what must never happen is not excused by a good median.
    return target.limit == 0 ? summary.max : summary.median;
  }
  return median_ratio(subject, ledger.lowest(or_else(target.rival_bench, target.bench),
                                             or_else(target.rival_cell, target.cell), target.rival,
                                             or_else(target.rival_metric, target.metric)));
}

}  // namespace

std::vector<Verdict> judge(const Ledger& ledger, std::span<const Target> targets, bool check,
                           const std::vector<std::string_view>& benches) {
  std::vector<Verdict> verdicts;
  for (const Target& target : targets) {
    if (std::find(benches.begin(), benches.end(), target.bench) == benches.end()) continue;
    if (check && target.limit_in_check == 0 && target.limit != 0) continue;
    Verdict verdict{&target,      measured_value(ledger, target),
                    std::nullopt, check ? target.limit_in_check : target.limit,
                    false,        false};
    const Series series = ledger.lowest(target.bench, target.cell, target.subject, target.metric);
    if (!series.empty()) verdict.value = summarize(values_of(series)).median;
    verdict.met = verdict.measured && within(*verdict.measured, target.bound, verdict.limit);
    verdict.met_by_value =
        !verdict.met && target.or_value > 0 && verdict.value && *verdict.value <= target.or_value;
    verdict.met = verdict.met || verdict.met_by_value;
    verdicts.push_back(verdict);
  }
  return verdicts;
}

std::string_view to_string(Bound bound) noexcept {
  switch (bound) {
    case Bound::kAtLeast: return ">=";
    case Bound::kAbove: return ">";
    case Bound::kAtMost: return "<=";
    case Bound::kBelow: return "<";
  }
  return "?";
}

}  // namespace carillon::bench
