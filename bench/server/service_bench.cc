// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/server/load.h"
#include "bench/server/peers.h"
#include "bench/server/workloads.h"

namespace carillon::bench {
namespace {

constexpr Span kWarmUp = std::chrono::milliseconds(100);
constexpr std::uint32_t kNearDelayS = 10;

// How one cell asks for its jobs.
struct Style {
  std::string_view name;
  Window window;
  int group;  // jobs a request, where one can hold several
};
// As many clients as there are jobs in flight, as web servers have it; and few with many.
constexpr Style kSingle = {"64 clients x 1", {64, 1}, 1};
constexpr Style kBatch = {"8 clients x 64", {8, 64}, 64};

PutLoad load_of(Style style, std::string_view peer) {
  PutLoad load;
  load.window = style.window;
  load.group = style.group;
  // The one server works off one request while the other is on its way.
  if (style.group > 1 && peer == kPostgres) load.group = style.group / 2;
  return load;
}

Measurement measure_put(std::string_view peer, const Options& options, Style style) {
  RunningPeer running(peer, options.surroundings);
  PutLoad load = load_of(style, peer);
  load.delay_s = kNearDelayS;
  load.max_jobs = options.scale.put_max_jobs;
  load.max_time = options.scale.service_time;
  load.warm_up = kWarmUp;
  const LoadOutcome outcome = run_put_load(load, peer, running.server());
  running.verify_jobs_put(outcome.jobs_before + outcome.jobs);

  Measurement m;
  m.params = {{"connections", style.window.connections},
              {"depth", style.window.depth},
              {"delay_s", kNearDelayS},
              {"body_bytes", kBodyBytes}};
  m.values = {{"jobs", static_cast<double>(outcome.jobs)},
              {"put_per_s", outcome.per_second()},
              {"put_server_cpu_us", outcome.server_us_per_job()},
              {"put_client_cpu_us", outcome.client_us_per_job()}};
  return m;
}

Measurement measure_work(std::string_view peer, const Options& options, Style style) {
  RunningPeer running(peer, options.surroundings);
  // They are put in batches whatever the style is, since only the work is timed.
  PutLoad load = load_of(kBatch, peer);
  load.max_jobs = options.scale.service_jobs;
  if (peer == kBeanstalkdF0) load.max_jobs /= 5;  // as long as the others
  if (style.group == 1) load.max_jobs /= 5;
  const LoadOutcome put = run_put_load(load, peer, running.server());
  const LoadOutcome work = run_work_load(style.window, put.jobs, peer, running.server());

  Measurement m;
  m.params = {{"connections", style.window.connections},
              {"depth", style.window.depth},
              {"body_bytes", kBodyBytes},
              {"jobs", static_cast<double>(put.jobs)}};
  m.values = {{"work_per_s", work.per_second()},
              {"work_server_cpu_us", work.server_us_per_job()},
              {"work_client_cpu_us", work.client_us_per_job()}};
  return m;
}

}  // namespace

void run_service_bench(const Options& options, Ledger& ledger) {
  std::vector<std::string_view> peers = {kCarillonHttp, kCarillonData, kPostgres, kRedis,
                                         kRedisEverysec};
  if (!options.check) peers.insert(peers.end(), {kBeanstalkdF50, kBeanstalkdF0});
  const auto run = [&](Style style, std::string_view what, auto measure) {
    const std::string cell = fmt::format("{}, {}", what, style.name);
    alternate(options, ledger, options.scale.service_reps, "service " + cell, peers,
              [&](std::string_view peer) {
                Measurement m = measure(peer, options, style);
                m.bench = "service";
                m.cell = cell;
                return m;
              });
  };
  for (const Style style : {kSingle, kBatch}) run(style, "put", measure_put);
  for (const Style style : {kSingle, kBatch}) run(style, "work", measure_work);
}

}  // namespace carillon::bench
