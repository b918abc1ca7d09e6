// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>

#include "bench/server/bare_append.h"
#include "bench/server/load.h"
#include "bench/server/one_core.h"
#include "bench/server/workloads.h"

namespace carillon::bench {
namespace {

constexpr Span kWarmUp = std::chrono::milliseconds(100);
// A put of 200 bytes with id, due time and framing, as every log writes it in one form or another.
constexpr std::size_t kRecordBytes = 240;

struct Delay {
  std::string_view name;
  std::uint32_t seconds;
};
constexpr Delay kNear = {"near", 10};
constexpr Delay kReady = {"ready", 0};
constexpr Delay kFar = {"far", 86'400};

Measurement measure_put(std::string_view peer, const Options& options, Window window, Delay delay,
                        Span time) {
  RunningPeer running(peer, options.surroundings);
  PutLoad load;
  load.window = window;
  load.delay_s = delay.seconds;
  load.max_jobs = options.scale.put_max_jobs;
  load.max_time = time;
  load.warm_up = kWarmUp;
  const LoadOutcome outcome = run_put_load(load, peer, running.server());
  running.verify_jobs_put(outcome.jobs_before + outcome.jobs);

  Measurement m;
  m.params = {{"connections", window.connections},
              {"depth", window.depth},
              {"delay_s", delay.seconds},
              {"body_bytes", kBodyBytes}};
  m.values = {{"jobs", static_cast<double>(outcome.jobs)},
              {"seconds", outcome.seconds},
              {"per_s", outcome.per_second()},
              {"us_per_op", 1e6 / outcome.per_second()},
              {"server_cpu_us_per_op", outcome.server_us_per_job()},
              {"client_cpu_us_per_op", outcome.client_us_per_job()}};
  return m;
}

Measurement measure_bare_append(const Options& options, Span time) {
  const ScratchDir scratch(options.surroundings.dir);
  const AppendOutcome outcome = append_and_sync(scratch.path() / "log", kRecordBytes, time);
  Measurement m;
  m.params = {{"record_bytes", kRecordBytes}};
  m.values = {{"jobs", static_cast<double>(outcome.appends)},
              {"seconds", outcome.seconds},
              {"per_s", static_cast<double>(outcome.appends) / outcome.seconds},
              {"us_per_op", outcome.seconds * 1e6 / static_cast<double>(outcome.appends)}};
  return m;
}

}  // namespace

void run_put_bench(const Options& options, Ledger& ledger) {
  const std::vector<std::string_view> peers = {kCarillonData, kBeanstalkdF50, kBeanstalkdF0,
                                               kRedis};
  std::vector<Delay> delays = {kNear};
  if (options.all_delays) delays.insert(delays.end(), {kReady, kFar});
  const auto run = [&](Window window, Delay delay, Span time,
                       const std::vector<std::string_view>& contenders) {
    const std::string cell = fmt::format("{}x{} {}", window.connections, window.depth, delay.name);
    alternate(
        options, ledger, options.scale.reps, "put " + cell, contenders, [&](std::string_view peer) {
          Measurement m = peer == kBareAppend ? measure_bare_append(options, time)
                                              : measure_put(peer, options, window, delay, time);
          m.bench = "put";
          m.cell = cell;
          return m;
        });
  };
  for (const Delay delay : delays) run({8, 64}, delay, options.scale.put_time, peers);
  // The floor is measured last in each repetition, next to Redis and the following carillon.
  std::vector<std::string_view> single = peers;
  single.push_back(kBareAppend);
  const OneCore one_core(options.surroundings.dir);
  run({1, 1}, kNear, options.scale.single_put_time, single);
}

}  // namespace carillon::bench
