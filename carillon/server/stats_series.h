// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The last minutes of a server, a second each: rates out of counters, and percentiles out of
/// histograms that only grow.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "carillon/broker/histogram.h"

namespace carillon::server {

/// What the partitions have counted since they were opened, together.
struct StatsSample {
  std::int64_t at_ms = 0;  ///< Calendar.
  std::uint64_t puts = 0;
  std::uint64_t fired = 0;
  std::uint64_t deleted = 0;
  broker::Histogram lateness_us;  ///< Of the fired ones.
};

/// One point of the series: what happened between two samples.
struct StatsPoint {
  std::int64_t at_ms = 0;
  double puts_per_s = 0;
  double fired_per_s = 0;
  double deleted_per_s = 0;
  /// Nothing if nothing fired.
  std::optional<double> lateness_p50_ms;
  std::optional<double> lateness_p99_ms;
};

/// The value that `share` of the counted ones (0 to 1) do not exceed, as if values were spread
/// evenly over their bucket: right to a factor of two, and mostly much closer.
/// Pre: there are any.
[[nodiscard]] double interpolated_quantile(const broker::Histogram& histogram, double share);

/// Threads: one object, one thread.
/// Cost:    kPoints points; a sample costs O(1).
class StatsSeries {
 public:
  static constexpr std::size_t kPoints = 300;

  /// Adds the point between the last sample and this one. The first sample makes none, nor does one
  /// that is not later. Counters that went back, as after a partition has recovered, count as
  /// nothing having happened.
  /// `elapsed_s`: by a clock that does not step.
  void add(const StatsSample& sample, double elapsed_s);

  [[nodiscard]] const std::deque<StatsPoint>& points() const noexcept { return points_; }
  /// The next sample makes no point: there was a pause.
  void forget_last() noexcept { last_.reset(); }

 private:
  std::optional<StatsSample> last_;
  std::deque<StatsPoint> points_;
};

}  // namespace carillon::server
