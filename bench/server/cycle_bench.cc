// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench/server/load.h"
#include "bench/server/workloads.h"

namespace carillon::bench {
namespace {

Measurement measure_cycle(std::string_view peer, const Options& options, Window window) {
  RunningPeer running(peer, options.surroundings);
  PutLoad load;
  load.window = window;
  load.max_jobs = options.scale.cycle_jobs;
  const LoadOutcome put = run_put_load(load, peer, running.server());
  const LoadOutcome work = run_work_load(window, put.jobs, peer, running.server());
  running.verify_jobs_put(put.jobs);

  Measurement m;
  m.params = {{"connections", window.connections},
              {"depth", window.depth},
              {"delay_s", 0},
              {"body_bytes", kBodyBytes},
              {"jobs", static_cast<double>(put.jobs)}};
  m.values = {{"put_per_s", put.per_second()},
              {"put_server_cpu_us", put.server_us_per_job()},
              {"put_client_cpu_us", put.client_us_per_job()},
              {"work_per_s", work.per_second()},
              {"work_server_cpu_us", work.server_us_per_job()},
              {"work_client_cpu_us", work.client_us_per_job()}};
  return m;
}

}  // namespace

void run_cycle_bench(const Options& options, Ledger& ledger) {
  for (const Window window : {Window{8, 64}, Window{1, 64}}) {
    const std::string cell = fmt::format("{}x{}", window.connections, window.depth);
    alternate(options, ledger, options.scale.reps, "cycle " + cell, {kCarillonMemory, kBeanstalkd},
              [&](std::string_view peer) {
                Measurement m = measure_cycle(peer, options, window);
                m.bench = "cycle";
                m.cell = cell;
                return m;
              });
  }
}

}  // namespace carillon::bench
