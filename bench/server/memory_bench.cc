// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench/server/load.h"
#include "bench/server/workloads.h"

namespace carillon::bench {
namespace {

constexpr Window kWindow = {8, 64};
// Code pages, connection buffers, arenas: there whether jobs are or not, so touched beforehand.
constexpr std::uint64_t kWarmUpJobs = 2'000;
constexpr std::uint64_t kRestartJobs = 64;  // put after a restart: it serves again

struct Distance {
  std::string_view name;
  std::uint32_t delay_s;
  std::uint64_t Scale::* jobs;
};
// Near is well within any horizon and still not due when the last job has been put.
constexpr Distance kNear = {"near", 120, &Scale::near_memory_jobs};
constexpr Distance kFar = {"far", 86'400, &Scale::far_memory_jobs};

double per_job(std::int64_t before, std::int64_t after, std::uint64_t jobs) {
  return static_cast<double>(after - before) / static_cast<double>(jobs);
}

// The memory of a server that has just started and answered, with what it holds from before.
MemoryUse memory_after_restart(RunningPeer& running, std::string_view peer, PutLoad warm_up) {
  running.restart();
  warm_up.max_jobs = kRestartJobs;
  run_put_load(warm_up, peer, running.server());
  return running.server().settled_memory();
}

Measurement measure_memory(std::string_view peer, const Options& options, Distance distance) {
  const std::uint64_t jobs = options.scale.*distance.jobs;
  // Restarted, what is resident is what the pending jobs need, and no write buffer that happens to
  // be full: the cost of having jobs pending, apart from that of having just put them.
  const bool restarts = peer == kCarillonData;
  RunningPeer running(peer, options.surroundings);
  PutLoad load;
  load.window = kWindow;
  load.group = kWindow.depth;
  load.delay_s = distance.delay_s;
  load.max_jobs = kWarmUpJobs;
  run_put_load(load, peer, running.server());
  const MemoryUse empty_restarted =
      restarts ? memory_after_restart(running, peer, load) : MemoryUse{};
  load.max_jobs = kWarmUpJobs;
  load.first_id = kWarmUpJobs;
  run_put_load(load, peer, running.server());
  const MemoryUse empty = running.server().settled_memory();

  load.first_id = 2 * kWarmUpJobs;
  load.max_jobs = jobs / 2;
  run_put_load(load, peer, running.server());
  const MemoryUse half = running.server().memory();
  load.first_id += jobs / 2;
  load.max_jobs = jobs - jobs / 2;
  run_put_load(load, peer, running.server());
  const MemoryUse full = running.server().settled_memory();
  std::uint64_t pending = jobs + 2 * kWarmUpJobs + (restarts ? kRestartJobs : 0);
  running.verify_jobs_delayed(pending);

  Measurement m;
  m.params = {{"jobs", static_cast<double>(jobs)},
              {"delay_s", distance.delay_s},
              {"body_bytes", kBodyBytes}};
  m.values = {
      {"rss_per_job", per_job(empty.rss, full.rss, jobs)},
      {"pss_per_job", per_job(empty.pss, full.pss, jobs)},
      {"anonymous_per_job", per_job(empty.anonymous, full.anonymous, jobs)},
      {"second_half_rss_per_job", per_job(half.rss, full.rss, jobs - jobs / 2)},
      {"disk_per_job", static_cast<double>(running.disk_bytes()) / static_cast<double>(jobs)},
      {"rss_empty", static_cast<double>(empty.rss)},
      {"rss_full", static_cast<double>(full.rss)}};
  // What the table shows and the targets judge: with a restart where there is one.
  double standing = per_job(empty.rss, full.rss, jobs);
  if (restarts) {
    const MemoryUse restarted = memory_after_restart(running, peer, load);
    pending += kRestartJobs;
    running.verify_jobs_delayed(pending);
    standing = per_job(empty_restarted.rss, restarted.rss, jobs);
    m.values.emplace_back("rss_restarted", static_cast<double>(restarted.rss));
  }
  m.values.emplace_back("standing_per_job", standing);
  return m;
}

}  // namespace

void run_memory_bench(const Options& options, Ledger& ledger) {
  const auto run = [&](Distance distance, const std::vector<std::string_view>& peers) {
    const std::string cell(distance.name);
    alternate(options, ledger, options.scale.memory_reps, "memory " + cell, peers,
              [&](std::string_view peer) {
                Measurement m = measure_memory(peer, options, distance);
                m.bench = "memory";
                m.cell = cell;
                return m;
              });
  };
  std::vector<std::string_view> peers = {kCarillonData, kCarillonMemory, kBeanstalkd};
  if (!options.check) peers.insert(peers.end(), {kRedis, kPostgres});
  run(kNear, peers);
  // Distance changes nothing for beanstalkd; it is the yardstick of both cells.
  run(kFar, {kCarillonData, kCarillonMemory, kBeanstalkd});
}

}  // namespace carillon::bench
