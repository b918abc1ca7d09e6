// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/dashboard_json.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace carillon::server {
namespace {

using protocol::http::JsonWriter;

/// A microsecond, or a tenth of a job a second, is all that anybody can see.
double rounded(double value) { return std::round(value * 1000) / 1000; }

void write_optional(std::string_view name, const std::optional<double>& value, JsonWriter& out) {
  out.key(name);
  if (value) {
    out.real(rounded(*value));
  } else {
    out.null();
  }
}

void write_server(const DashboardStats& stats, JsonWriter& out) {
  const HttpContext::ServerFacts facts = stats.context.describe();
  out.key("server");
  out.begin_object();
  out.field("version", facts.version);
  out.field("uptime_ms", facts.uptime_ms);
  out.field("draining", stats.context.draining);
  out.field("held", facts.held);
  out.field("partitions", stats.context.partitions.count());
  out.field("connections", facts.connections);
  out.field("http_connections", facts.http_connections);
  out.field("memory_bytes", facts.memory_bytes);
  out.field("store", facts.store);
  if (!facts.data.empty()) out.field("data", facts.data);
  out.end_object();
}

void write_counts(const broker::JobCounts& jobs, JsonWriter& out) {
  out.field("ready", jobs.ready);
  out.field("urgent", jobs.urgent);
  out.field("reserved", jobs.reserved);
  out.field("delayed", jobs.delayed);
  out.field("buried", jobs.buried);
}

void write_rates(const StatsSeries& series, JsonWriter& out) {
  const StatsPoint point = series.points().empty() ? StatsPoint{} : series.points().back();
  out.key("rates");
  out.begin_object();
  out.field("puts", rounded(point.puts_per_s));
  out.field("fired", rounded(point.fired_per_s));
  out.field("deleted", rounded(point.deleted_per_s));
  out.end_object();
  out.key("lateness_ms");
  if (!point.lateness_p99_ms) return out.null();
  out.begin_object();
  write_optional("p50", point.lateness_p50_ms, out);
  write_optional("p99", point.lateness_p99_ms, out);
  out.end_object();
}

void write_tube(const broker::TubeStats& tube, JsonWriter& out) {
  out.begin_object();
  out.field("name", tube.name);
  out.key("jobs");
  out.begin_object();
  write_counts(tube.jobs, out);
  out.field("far", tube.far_jobs);
  out.end_object();
  out.field("oldest_ready_age_ms", tube.oldest_ready_age_ms);
  if (tube.next_due_ms) out.field("next_due_in_ms", *tube.next_due_ms);
  out.field("waiting", tube.waiting_count);
  out.field("pause_left_ms", tube.pause_left_ms);
  out.end_object();
}

}  // namespace

void add_to(broker::PartitionStats& sum, const broker::PartitionStats& part) {
  sum.jobs.urgent += part.jobs.urgent;
  sum.jobs.ready += part.jobs.ready;
  sum.jobs.reserved += part.jobs.reserved;
  sum.jobs.delayed += part.jobs.delayed;
  sum.jobs.buried += part.jobs.buried;
  sum.timeouts += part.timeouts;
  sum.total_jobs += part.total_jobs;
  sum.tubes += part.tubes;
  sum.far_jobs += part.far_jobs;
  sum.body_bytes += part.body_bytes;
  sum.put_count += part.put_count;
  sum.delete_count += part.delete_count;
  sum.fired_count += part.fired_count;
  sum.reserve_count += part.reserve_count;
  sum.lateness_us.add(part.lateness_us);
  sum.commit_us.add(part.commit_us);
  sum.batch_mutations.add(part.batch_mutations);
}

void add_to(broker::WheelView& sum, const broker::WheelView& part) {
  if (sum.levels.empty()) sum.now_ms = part.now_ms;
  for (std::size_t i = 0; i < part.levels.size(); ++i) {
    if (i == sum.levels.size()) {
      sum.levels.push_back(part.levels[i]);
      continue;
    }
    std::vector<std::uint64_t>& counts = sum.levels[i].counts;
    const std::vector<std::uint64_t>& more = part.levels[i].counts;
    counts.resize(std::max(counts.size(), more.size()));
    std::transform(more.begin(), more.end(), counts.begin(), counts.begin(), std::plus<>());
  }
  for (std::size_t i = 0; i < sum.delayed.size(); ++i) sum.delayed[i] += part.delayed[i];
  sum.far += part.far;
}

void write_wheel(const broker::WheelView& wheel, JsonWriter& out) {
  std::uint64_t size = 0;
  std::size_t used = 0;
  for (std::size_t i = 0; i < wheel.levels.size(); ++i) {
    const std::vector<std::uint64_t>& counts = wheel.levels[i].counts;
    const std::uint64_t here = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    size += here;
    if (here > 0) used = i + 1;
  }
  out.begin_object();
  out.field("now_ms", wheel.now_ms);
  out.field("size", size);
  out.key("levels");
  out.begin_array();
  const std::size_t shown = std::min(std::max(used, kLeastLevels), wheel.levels.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const broker::WheelView::Level& level = wheel.levels[i];
    out.begin_object();
    out.field("granularity_ms", level.slot_ms);
    out.field("hand", level.hand);
    out.key("counts");
    out.begin_array();
    for (const std::uint64_t count : level.counts) out.number(count);
    out.end_array();
    out.end_object();
  }
  out.end_array();
  out.end_object();
}

void write_due(const broker::WheelView& wheel, JsonWriter& out) {
  out.begin_array();
  for (std::size_t i = 0; i < wheel.delayed.size(); ++i) {
    out.begin_object();
    out.key("until_ms");
    if (i < broker::WheelView::kBoundsMs.size()) {
      out.number(broker::WheelView::kBoundsMs[i]);
    } else {
      out.null();
    }
    out.field("count", wheel.delayed[i]);
    out.end_object();
  }
  out.end_array();
}

void write_dashboard_stats(const DashboardStats& stats, JsonWriter& out) {
  out.begin_object();
  out.field("at_ms", stats.at_ms);
  write_server(stats, out);
  out.key("jobs");
  out.begin_object();
  write_counts(stats.counters.jobs, out);
  out.field("far", stats.counters.far_jobs);
  out.end_object();
  out.key("totals");
  out.begin_object();
  out.field("puts", stats.counters.put_count);
  out.field("fired", stats.counters.fired_count);
  out.field("reserves", stats.counters.reserve_count);
  out.field("timeouts", stats.counters.timeouts);
  out.field("deleted", stats.counters.delete_count);
  out.end_object();
  write_rates(stats.series, out);
  out.field("oldest_ready_age_ms", stats.totals.oldest_ready_age_ms);
  out.field("waiting", stats.totals.waiting);
  out.field("body_bytes", stats.counters.body_bytes);
  out.key("due_in");
  write_due(stats.wheel, out);
  out.key("wheel");
  write_wheel(stats.wheel, out);
  out.key("tubes");
  out.begin_object();
  out.field("count", stats.totals.count);
  out.key("shown");
  out.begin_array();
  for (const broker::TubeStats* tube : stats.shown) write_tube(*tube, out);
  out.end_array();
  out.end_object();
  out.end_object();
}

void write_dashboard_history(const StatsSeries& series, JsonWriter& out) {
  out.begin_object();
  out.field("columns", "at_ms,puts,fired,deleted,lateness_p50_ms,lateness_p99_ms");
  out.key("points");
  out.begin_array();
  for (const StatsPoint& point : series.points()) {
    out.begin_array();
    out.number(point.at_ms);
    for (const double rate : {point.puts_per_s, point.fired_per_s, point.deleted_per_s}) {
      out.real(rounded(rate));
    }
    for (const std::optional<double>& late : {point.lateness_p50_ms, point.lateness_p99_ms}) {
      if (late) {
        out.real(rounded(*late));
      } else {
        out.null();
      }
    }
    out.end_array();
  }
  out.end_array();
  out.end_object();
}

}  // namespace carillon::server
