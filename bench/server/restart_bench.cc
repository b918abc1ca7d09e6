// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>

#include "bench/server/load.h"
#include "bench/server/peers.h"
#include "bench/server/workloads.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

constexpr Window kWindow = {8, 64};
constexpr int kGroup = 64;

// Near is within any horizon, however long the peers take for it; far is beyond.
struct Distance {
  std::string_view name;
  std::uint32_t delay_s;
};
constexpr Distance kNear = {"near", 600};
constexpr Distance kFar = {"far", 86'400};

// From the start of the process until it has said that all jobs are there.
double seconds_to_start(RunningPeer& running, std::uint64_t jobs) {
  const SteadyClock clock;
  const Instant began = clock.now();
  running.start();
  running.verify_jobs_delayed(jobs);
  return std::chrono::duration<double>(clock.now() - began).count();
}

Measurement measure_restart(std::string_view peer, const Options& options, Distance distance,
                            std::uint64_t jobs) {
  RunningPeer running(peer, options.surroundings);
  PutLoad load;
  load.window = kWindow;
  load.group = kGroup;
  load.delay_s = distance.delay_s;
  load.max_jobs = jobs;
  run_put_load(load, peer, running.server());
  running.verify_jobs_delayed(jobs);
  const auto disk = static_cast<double>(running.disk_bytes());
  running.crash();
  const double after_crash = seconds_to_start(running, jobs);
  running.end();
  const double after_end = seconds_to_start(running, jobs);

  Measurement m;
  m.params = {{"jobs", static_cast<double>(jobs)}, {"delay_s", distance.delay_s}};
  m.values = {{"after_crash_s", after_crash},
              {"after_end_s", after_end},
              {"start_cpu_s", running.server().cpu_seconds()},
              {"disk_per_job", disk / static_cast<double>(jobs)}};
  return m;
}

}  // namespace

void run_restart_bench(const Options& options, Ledger& ledger) {
  std::vector<std::string_view> peers = {kCarillonData, kRedis, kBeanstalkdF50};
  if (!options.check) peers.push_back(kPostgres);
  const auto run = [&](Distance distance, std::uint64_t times) {
    const std::uint64_t jobs = times * options.scale.restart_jobs;
    const std::string cell = times == 1 ? std::string(distance.name)
                                        : fmt::format("{}, {} times as many", distance.name, times);
    alternate(options, ledger, options.scale.restart_reps, "restart " + cell, peers,
              [&](std::string_view peer) {
                Measurement m = measure_restart(peer, options, distance, jobs);
                m.bench = "restart";
                m.cell = cell;
                return m;
              });
  };
  run(kNear, 1);
  run(kFar, 1);
  if (!options.full) return;
  run(kNear, 10);
  run(kFar, 10);
}

}  // namespace carillon::bench
