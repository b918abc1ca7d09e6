// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The JSON of the dashboard's events and of GET /api/v1/wheel.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "carillon/broker/reply.h"
#include "carillon/protocol/http/json_writer.h"
#include "carillon/server/http_context.h"
#include "carillon/server/stats_series.h"

namespace carillon::server {

/// Adds what one partition says to what the others said.
void add_to(broker::PartitionStats& sum, const broker::PartitionStats& part);
/// The same for wheels, slot by slot. Their hands may be a tick apart; the first one's stays.
void add_to(broker::WheelView& sum, const broker::WheelView& part);

/// Sums over all tubes.
struct TubeTotals {
  std::size_t count = 0;
  std::uint64_t waiting = 0;
  std::int64_t oldest_ready_age_ms = 0;
};

struct DashboardStats {
  std::int64_t at_ms = 0;  ///< Calendar.
  const HttpContext& context;
  const broker::PartitionStats& counters;
  const broker::WheelView& wheel;
  const StatsSeries& series;
  const TubeTotals& totals;
  const std::vector<const broker::TubeStats*>& shown;
};

void write_dashboard_stats(const DashboardStats& stats, protocol::http::JsonWriter& out);
void write_dashboard_history(const StatsSeries& series, protocol::http::JsonWriter& out);
/// {"now_ms", "levels": [{"granularity_ms", "hand", "counts": [..]}, ..], "size"}: the levels up to
/// the coarsest that has anything on it, and at least kLeastLevels.
void write_wheel(const broker::WheelView& wheel, protocol::http::JsonWriter& out);
/// [{"until_ms", "count"}, ..]: delayed jobs by when they are due, near ones.
void write_due(const broker::WheelView& wheel, protocol::http::JsonWriter& out);

inline constexpr std::size_t kLeastLevels = 3;

}  // namespace carillon::server
