// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/stats_series.h"

#include <algorithm>
#include <cmath>

namespace carillon::server {
namespace {

std::uint64_t grown(std::uint64_t before, std::uint64_t now) noexcept {
  return now > before ? now - before : 0;
}

broker::Histogram grown(const broker::Histogram& before, const broker::Histogram& now) noexcept {
  broker::Histogram result;
  for (std::size_t i = 0; i < broker::Histogram::kBuckets; ++i) {
    result.counts[i] = grown(before.counts[i], now.counts[i]);
    result.count += result.counts[i];
  }
  result.sum = grown(before.sum, now.sum);
  return result;
}

}  // namespace

double interpolated_quantile(const broker::Histogram& histogram, double share) {
  using broker::Histogram;
  const double wanted = share * static_cast<double>(histogram.count);
  double seen = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    if (histogram.counts[i] == 0) continue;
    last = i;
    const auto here = static_cast<double>(histogram.counts[i]);
    if (seen + here >= wanted) {
      // The last bucket has no end; it is taken for as long as the others.
      const double low = i == 0 ? 0 : std::ldexp(1.0, static_cast<int>(i) - 1);
      const double high = i == 0 ? 0 : std::ldexp(1.0, static_cast<int>(i));
      return low + (high - low) * std::max(0.0, wanted - seen) / here;
    }
    seen += here;
  }
  return std::ldexp(1.0, static_cast<int>(last));
}

void StatsSeries::add(const StatsSample& sample, double elapsed_s) {
  if (last_ && elapsed_s > 0) {
    const auto rate = [elapsed_s](std::uint64_t before, std::uint64_t now) {
      return static_cast<double>(grown(before, now)) / elapsed_s;
    };
    StatsPoint point;
    point.at_ms = sample.at_ms;
    point.puts_per_s = rate(last_->puts, sample.puts);
    point.fired_per_s = rate(last_->fired, sample.fired);
    point.deleted_per_s = rate(last_->deleted, sample.deleted);
    const broker::Histogram lateness = grown(last_->lateness_us, sample.lateness_us);
    if (lateness.count > 0) {
      point.lateness_p50_ms = interpolated_quantile(lateness, 0.5) / 1000;
      point.lateness_p99_ms = interpolated_quantile(lateness, 0.99) / 1000;
    }
    points_.push_back(point);
    if (points_.size() > kPoints) points_.pop_front();
  }
  last_ = sample;
}

}  // namespace carillon::server
