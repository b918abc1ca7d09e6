// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/metrics/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

using enum MetricKind;

constexpr MetricTraits kCatalogue[] = {
    {"carillon_build_info", kGauge, "version", "1, with the version of the server as a label"},
    {"carillon_jobs", kGauge, "state",
     "Jobs by state: ready, reserved, delayed (far ones included), buried"},
    {"carillon_jobs_urgent", kGauge, "", "Ready jobs with a priority below 1024"},
    {"carillon_jobs_far", kGauge, "", "Delayed jobs that are beyond the horizon, on disk only"},
    {"carillon_jobs_put_total", kCounter, "", "Jobs put"},
    {"carillon_jobs_deleted_total", kCounter, "", "Jobs deleted"},
    {"carillon_jobs_fired_total", kCounter, "", "Delayed jobs that became ready by their time"},
    {"carillon_job_reservations_total", kCounter, "", "Reservations begun"},
    {"carillon_job_timeouts_total", kCounter, "", "Reservations that ran out of their time to run"},
    {"carillon_job_lateness_seconds", kHistogram, "",
     "From the time a delayed job was due until it was ready"},
    {"carillon_commit_duration_seconds", kHistogram, "",
     "From handing a batch to the store until it was durable"},
    {"carillon_commit_batch_jobs", kHistogram, "", "Changes of jobs in one commit"},
    {"carillon_commit_failures_total", kCounter, "", "Commits that the store refused"},
    {"carillon_store_recoveries_total", kCounter, "",
     "Times that a partition was read again from its store, the start included"},
    {"carillon_store_available", kGauge, "", "1 if every partition is in service, else 0"},
    {"carillon_store_accepts_puts", kGauge, "",
     "0 if puts are refused since the disk has less free than min-free-space, else 1"},
    {"carillon_store_free_bytes", kGauge, "",
     "Free on the disk of the data folder; not shown with --memory"},
    {"carillon_draining", kGauge, "", "1 if puts are refused, else 0"},
    {"carillon_held", kGauge, "", "1 if webhooks and schedules are held (hold), else 0"},
    {"carillon_tubes", kGauge, "", "Tubes"},
    {"carillon_body_bytes", kGauge, "", "Bodies of jobs held in memory"},
    {"carillon_connections", kGauge, "protocol", "Open connections: beanstalk, http"},
    {"carillon_connections_refused_total", kCounter, "",
     "Connections of beanstalk's clients refused since there were too many"},
    {"carillon_logins_failed_total", kCounter, "protocol",
     "Tokens shown that nobody knows: beanstalk, http"},
    {"carillon_login_timeouts_total", kCounter, "",
     "Beanstalk's clients closed since they did not log in within login-timeout"},
    {"carillon_http_requests_total", kCounter, "", "HTTP requests received"},
    {"carillon_http_waiting_reserves", kGauge, "", "HTTP reserves that wait for a job"},
    {"carillon_tube_jobs", kGauge, "tube,state", "Jobs of a tube by state"},
    {"carillon_tube_oldest_ready_seconds", kGauge, "tube",
     "For how long a job has been ready, at most; 0 if none is"},
    {"carillon_tube_waiting_workers", kGauge, "tube", "Workers that wait for a job"},
    {"carillon_tube_paused", kGauge, "tube", "1 if the tube is paused, else 0"},
    {"carillon_tube_jobs_put_total", kCounter, "tube", "Jobs put into a tube"},
    {"carillon_tube_jobs_deleted_total", kCounter, "tube", "Jobs of a tube deleted"},
    {"carillon_tube_jobs_fired_total", kCounter, "tube",
     "Delayed jobs of a tube that became ready by their time"},
    {"carillon_tube_job_reservations_total", kCounter, "tube", "Reservations of a tube begun"},
    {"carillon_webhooks", kGauge, "", "Tubes with a webhook"},
    {"carillon_webhooks_paused", kGauge, "",
     "Tubes whose webhook is paused, since its endpoint failed or asked for it"},
    {"carillon_webhook_posts_in_flight", kGauge, "", "Posts that have no outcome yet"},
    {"carillon_webhook_posts_total", kCounter, "outcome",
     "Posts by outcome: 2xx to 5xx, refused, unresolved, unreachable, tls, timed_out, closed, "
     "garbage"},
    {"carillon_webhook_jobs_delivered_total", kCounter, "", "Jobs that an endpoint took"},
    {"carillon_webhook_jobs_buried_total", kCounter, "", "Jobs buried after their last attempt"},
    {"carillon_webhook_post_duration_seconds", kHistogram, "",
     "From the beginning of a post until its outcome"},
    {"carillon_webhook_tube_failures", kGauge, "tube",
     "Failures of the endpoint of a tube in a row"},
    {"carillon_webhook_tube_paused_seconds", kGauge, "tube",
     "For how long its webhook makes no attempt; 0 if it is not paused"},
    {"process_cpu_seconds_total", kCounter, "", "Processor time used"},
    {"process_start_time_seconds", kGauge, "", "When the process was started, in Unix time"},
    {"process_resident_memory_bytes", kGauge, "", "Memory in use"},
    {"process_virtual_memory_bytes", kGauge, "", "Addresses in use"},
    {"process_open_fds", kGauge, "", "Open file descriptors"},
    {"process_max_fds", kGauge, "", "The limit of them"},
    {"process_threads", kGauge, "", "Threads"},
};

/// Of the powers of two that microseconds are counted by, those that are shown: 255 us to 134 s.
constexpr std::size_t kFirstTimeBucket = 8;
constexpr std::size_t kLastTimeBucket = 27;
constexpr std::size_t kLastSizeBucket = 16;
constexpr double kMicrosPerSecond = 1e6;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The families of one sample, in the order of the catalogue.
class Families {
 public:
  Families() {
    for (const MetricTraits& traits : kCatalogue) {
      index_.emplace(traits.name, families_.size());
      MetricFamily& family = families_.emplace_back();
      family.name = traits.name;
      family.help = traits.help;
      family.type = traits.kind == kCounter ? prometheus::MetricType::Counter
                    : traits.kind == kGauge ? prometheus::MetricType::Gauge
                                            : prometheus::MetricType::Histogram;
    }
  }

  using Labels = std::vector<ClientMetric::Label>;

  void set(std::string_view name, double value, Labels labels = {}) {
    ClientMetric& metric = add(name, std::move(labels));
    metric.counter.value = value;
    metric.gauge.value = value;
  }
  void set(std::string_view name, std::uint64_t value, Labels labels = {}) {
    set(name, static_cast<double>(value), std::move(labels));
  }
  /// Counts of integers by powers of two; `unit`: how many of them are one of the metric's.
  void set(std::string_view name, const broker::Histogram& histogram, std::size_t first,
           std::size_t last, double unit) {
    ClientMetric& metric = add(name, {});
    metric.histogram.sample_sum = static_cast<double>(histogram.sum) / unit;
    std::uint64_t cumulative = 0;
    for (std::size_t bucket = 0; bucket < broker::Histogram::kBuckets; ++bucket) {
      cumulative += histogram.counts[bucket];
      if (bucket < first || bucket > last) continue;
      const auto bound = static_cast<double>(broker::Histogram::upper_bound(bucket));
      metric.histogram.bucket.push_back({cumulative, bound / unit});
    }
    // What was counted, not what the counts say the number was: the two must agree.
    metric.histogram.sample_count = cumulative;
    metric.histogram.bucket.push_back({cumulative, kInfinity});
  }
  void set_durations(std::string_view name, const WebhookTotals& totals) {
    ClientMetric& metric = add(name, {});
    metric.histogram.sample_sum = totals.seconds;
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < totals.durations.size(); ++i) {
      cumulative += totals.durations[i];
      const double bound = i < WebhookTotals::kBoundsMs.size()
                               ? static_cast<double>(WebhookTotals::kBoundsMs[i]) / 1e3
                               : kInfinity;
      metric.histogram.bucket.push_back({cumulative, bound});
    }
    metric.histogram.sample_count = cumulative;
  }

  [[nodiscard]] std::string text() {
    // A family without a sample is not shown.
    std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families_);
    return out.str();
  }

 private:
  ClientMetric& add(std::string_view name, Labels labels) {
    const auto found = index_.find(name);
    CARILLON_CHECK(found != index_.end(), "no metric ", name);
    ClientMetric& metric = families_[found->second].metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<MetricFamily> families_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

void set_states(Families& out, std::string_view name, const broker::JobCounts& jobs,
                const Families::Labels& labels) {
  const std::pair<const char*, std::uint64_t> states[] = {{"ready", jobs.ready},
                                                          {"reserved", jobs.reserved},
                                                          {"delayed", jobs.delayed},
                                                          {"buried", jobs.buried}};
  for (const auto& [state, count] : states) {
    Families::Labels with_state = labels;
    with_state.push_back({"state", state});
    out.set(name, count, std::move(with_state));
  }
}

void set_partitions(Families& out, const MetricsSample& sample) {
  const broker::PartitionStats& all = sample.partitions;
  set_states(out, "carillon_jobs", all.jobs, {});
  out.set("carillon_jobs_urgent", all.jobs.urgent);
  out.set("carillon_jobs_far", all.far_jobs);
  out.set("carillon_jobs_put_total", all.put_count);
  out.set("carillon_jobs_deleted_total", all.delete_count);
  out.set("carillon_jobs_fired_total", all.fired_count);
  out.set("carillon_job_reservations_total", all.reserve_count);
  out.set("carillon_job_timeouts_total", all.timeouts);
  out.set("carillon_job_lateness_seconds", all.lateness_us, kFirstTimeBucket, kLastTimeBucket,
          kMicrosPerSecond);
  out.set("carillon_commit_duration_seconds", all.commit_us, kFirstTimeBucket, kLastTimeBucket,
          kMicrosPerSecond);
  out.set("carillon_commit_batch_jobs", all.batch_mutations, 1, kLastSizeBucket, 1);
  out.set("carillon_commit_failures_total", sample.commit_failures);
  out.set("carillon_store_recoveries_total", sample.recoveries);
  out.set("carillon_store_available", std::uint64_t{sample.store_available});
  out.set("carillon_store_accepts_puts", std::uint64_t{sample.accepts_puts});
  if (sample.free_bytes) out.set("carillon_store_free_bytes", *sample.free_bytes);
  out.set("carillon_draining", std::uint64_t{sample.draining});
  out.set("carillon_held", std::uint64_t{sample.held});
  out.set("carillon_tubes", all.tubes);
  out.set("carillon_body_bytes", all.body_bytes);
}

void set_tubes(Families& out, const MetricsSample& sample) {
  broker::JobCounts other = sample.partitions.jobs;
  const auto take = [](std::uint64_t& from, std::uint64_t count) {
    from -= std::min(from, count);  // A tube was asked later than its partition.
  };
  for (const broker::TubeStats& tube : sample.tubes) {
    const Families::Labels labels{{"tube", tube.name}};
    set_states(out, "carillon_tube_jobs", tube.jobs, labels);
    take(other.ready, tube.jobs.ready);
    take(other.reserved, tube.jobs.reserved);
    take(other.delayed, tube.jobs.delayed);
    take(other.buried, tube.jobs.buried);
    out.set("carillon_tube_oldest_ready_seconds",
            static_cast<double>(tube.oldest_ready_age_ms) / 1e3, labels);
    out.set("carillon_tube_waiting_workers", tube.waiting_count, labels);
    out.set("carillon_tube_paused", std::uint64_t{tube.pause_left_ms > 0}, labels);
    out.set("carillon_tube_jobs_put_total", tube.total_jobs, labels);
    out.set("carillon_tube_jobs_deleted_total", tube.delete_count, labels);
    out.set("carillon_tube_jobs_fired_total", tube.fired_count, labels);
    out.set("carillon_tube_job_reservations_total", tube.reserve_count, labels);
  }
  if (sample.partitions.tubes > sample.tubes.size()) {
    set_states(out, "carillon_tube_jobs", other, {{"tube", std::string(kOtherTubes)}});
  }
}

void set_webhooks(Families& out, const MetricsSample& sample) {
  const WebhookTotals& totals = sample.webhooks;
  out.set("carillon_webhooks", std::uint64_t{totals.hooks});
  out.set("carillon_webhooks_paused", std::uint64_t{totals.paused});
  out.set("carillon_webhook_posts_in_flight", std::uint64_t{totals.in_flight});
  constexpr std::array<const char*, 6> kClasses{"", "", "2xx", "3xx", "4xx", "5xx"};
  for (std::size_t i = 2; i < kClasses.size(); ++i) {
    out.set("carillon_webhook_posts_total", totals.by_class[i], {{"outcome", kClasses[i]}});
  }
  using End = PostOutcome::End;
  for (const End end : {End::kRefused, End::kUnresolved, End::kUnreachable, End::kTls,
                        End::kTimedOut, End::kClosed, End::kGarbage}) {
    out.set("carillon_webhook_posts_total", totals.by_end[static_cast<std::size_t>(end)],
            {{"outcome", std::string(to_string(end))}});
  }
  out.set("carillon_webhook_jobs_delivered_total", totals.delivered);
  out.set("carillon_webhook_jobs_buried_total", totals.buried);
  out.set_durations("carillon_webhook_post_duration_seconds", totals);
  for (const auto& [tube, state] : sample.hooks) {
    const Families::Labels labels{{"tube", tube}};
    out.set("carillon_webhook_tube_failures", std::uint64_t{state.failures}, labels);
    out.set("carillon_webhook_tube_paused_seconds",
            state.paused_for ? std::chrono::duration<double>(*state.paused_for).count() : 0.0,
            labels);
  }
}

void set_process(Families& out, const MetricsSample& sample) {
  const ProcessFacts& process = sample.process;
  out.set("process_cpu_seconds_total", process.cpu_s);
  out.set("process_start_time_seconds", process.started_at_s);
  out.set("process_resident_memory_bytes", process.resident_bytes);
  out.set("process_virtual_memory_bytes", process.virtual_bytes);
  out.set("process_open_fds", process.open_files);
  out.set("process_max_fds", process.max_files);
  out.set("process_threads", process.threads);
}

}  // namespace

std::span<const MetricTraits> metric_catalogue() noexcept { return kCatalogue; }

void add_partition(broker::PartitionStats& sum, const broker::PartitionStats& part) {
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

std::string to_text(const MetricsSample& sample) {
  Families out;
  out.set("carillon_build_info", std::uint64_t{1}, {{"version", sample.version}});
  set_partitions(out, sample);
  out.set("carillon_connections", sample.connections, {{"protocol", "beanstalk"}});
  out.set("carillon_connections", sample.http_connections, {{"protocol", "http"}});
  out.set("carillon_connections_refused_total", sample.refused_connections);
  out.set("carillon_logins_failed_total", sample.failed_logins, {{"protocol", "beanstalk"}});
  out.set("carillon_logins_failed_total", sample.http_failed_logins, {{"protocol", "http"}});
  out.set("carillon_login_timeouts_total", sample.late_logins);
  out.set("carillon_http_requests_total", sample.http_requests);
  out.set("carillon_http_waiting_reserves", sample.http_waiting);
  set_tubes(out, sample);
  set_webhooks(out, sample);
  set_process(out, sample);
  return out.text();
}

const std::set<std::string>& MetricTubes::choose(const std::vector<std::string>& names) {
  std::set<std::string> kept;
  for (const std::string& name : names) {
    if (chosen_.contains(name)) kept.insert(name);
  }
  // In the order of names, so that servers with the same tubes show the same.
  std::vector<std::string> rest;
  for (const std::string& name : names) {
    if (!kept.contains(name) && name != kOtherTubes) rest.push_back(name);
  }
  std::sort(rest.begin(), rest.end());
  for (std::string& name : rest) {
    if (kept.size() >= limit_) break;
    kept.insert(std::move(name));
  }
  chosen_ = std::move(kept);
  return chosen_;
}

}  // namespace carillon::server
