// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/common/lateness.h"
#include "bench/server/load.h"
#include "bench/server/schedule.h"
#include "bench/server/workloads.h"

namespace carillon::bench {
namespace {

constexpr int kWorkers = 16;

void add_outcome(Measurement& m, const Schedule& schedule, const LoadOutcome& outcome) {
  const std::vector<std::int64_t> late_from_ack = schedule.lateness_from_acknowledged();
  const auto add = [&m](std::string name, double value) {
    m.values.emplace_back(std::move(name), value);
  };
  add_lateness(m, schedule.lateness_from_sent());
  add("p99_from_ack_ms", percentile(late_from_ack, 0.99) / 1e6);
  add("twice", static_cast<double>(schedule.duplicates()));
  add("server_cpu_us_per_job", outcome.server_us_per_job());
  add("client_cpu_us_per_job", outcome.client_us_per_job());
}

Measurement measure_lateness(std::string_view peer, const Options& options) {
  const Scale& scale = options.scale;
  RunningPeer running(peer, options.surroundings);
  Schedule schedule(scale.lateness_jobs, scale.lateness_spread, scale.lateness_delay_s);
  const LoadOutcome outcome = run_schedule(schedule, kWorkers, peer, running.server());
  Measurement m;
  m.params = {{"jobs", static_cast<double>(schedule.jobs())},
              {"spread_s", std::chrono::duration<double>(scale.lateness_spread).count()},
              {"delay_s", schedule.delay_s()},
              {"putters", kSchedulePutters},
              {"workers", kWorkers}};
  add_outcome(m, schedule, outcome);
  return m;
}

// The pace at which one worker, one request at a time, works off jobs that are ready: what its
// round trips to this server allow.
double measure_ready_pace(std::string_view peer, const Options& options,
                          const ServerProcess& server) {
  PutLoad ready;
  ready.window = {kSchedulePutters, 64};
  ready.max_jobs = options.scale.one_worker_ready_jobs;
  run_put_load(ready, peer, server);
  return run_work_load({1, 1}, ready.max_jobs, peer, server).per_second();
}

// When jobs fall due faster than its round trips allow, one worker should go on at that pace; when
// slower, at theirs. The pace is measured before and after, and the lower counts: what others do on
// the machine meanwhile is not the server's doing.
Measurement measure_one_worker(std::string_view peer, const Options& options) {
  const Scale& scale = options.scale;
  RunningPeer running(peer, options.surroundings);
  const double pace_before = measure_ready_pace(peer, options, running.server());

  Schedule schedule(scale.one_worker_jobs, scale.one_worker_spread, scale.lateness_delay_s);
  const LoadOutcome outcome = run_schedule(schedule, 1, peer, running.server());

  const double spread_s = std::chrono::duration<double>(scale.one_worker_spread).count();
  const double offered = static_cast<double>(schedule.jobs()) / spread_s;
  const double pace_after = measure_ready_pace(peer, options, running.server());
  const double allowed = std::min(pace_before, pace_after);
  const double seconds =
      std::chrono::duration<double>(schedule.last_reserved() - schedule.first_due()).count();
  const double achieved = static_cast<double>(schedule.jobs()) / seconds;
  Measurement m;
  m.params = {{"jobs", static_cast<double>(schedule.jobs())},
              {"spread_s", spread_s},
              {"delay_s", schedule.delay_s()},
              {"putters", kSchedulePutters},
              {"workers", 1}};
  m.values = {{"offered_per_s", offered},
              {"pace_before_per_s", pace_before},
              {"pace_after_per_s", pace_after},
              {"achieved_per_s", achieved},
              {"of_allowed", achieved / std::min(offered, allowed)}};
  add_outcome(m, schedule, outcome);
  return m;
}

}  // namespace

void run_lateness_bench(const Options& options, Ledger& ledger) {
  std::vector<std::string_view> peers = {kCarillonMemory, kCarillonData, kBeanstalkd,
                                         kBeanstalkdF50};
  const auto run = [&](const char* cell, auto measure) {
    alternate(options, ledger, options.scale.lateness_reps, fmt::format("lateness, {}", cell),
              peers, [&](std::string_view peer) {
                Measurement m = measure(peer, options);
                m.bench = "lateness";
                m.cell = cell;
                return m;
              });
  };
  const std::vector<std::string_view> with_commands = peers;
  if (!options.check) peers.insert(peers.end(), {kCarillonHttp, kRedis, kRedisEverysec, kPostgres});
  run("16 workers", measure_lateness);
  // A worker alone is held against its own round trips, so a short run needs no rival.
  peers = with_commands;
  if (options.check) peers = {kCarillonMemory, kCarillonData};
  run("1 worker", measure_one_worker);
}

}  // namespace carillon::bench
