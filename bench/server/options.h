// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The command line of bench_server, and how long everything runs.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/common/options.h"
#include "bench/server/peers.h"
#include "carillon/base/time.h"

namespace carillon::bench {

/// How much work each workload does. Two instances: the full run and --check.
struct Scale {
  int reps;                    ///< Repetitions of put and cycle.
  Span put_time;               ///< Of one timed put run,
  std::uint64_t put_max_jobs;  ///< which also ends after so many jobs.
  Span single_put_time;        ///< The same for one connection, one at a time.
  std::uint64_t cycle_jobs;    ///< Put, then reserved and deleted.
  int memory_reps;             ///< Memory hardly varies.
  std::uint64_t near_memory_jobs;
  std::uint64_t far_memory_jobs;
  int lateness_reps;
  std::uint64_t lateness_jobs;
  Span lateness_spread;            ///< Their due times cover this span evenly.
  std::uint32_t lateness_delay_s;  ///< More than the spread: puts end before the first is due.
  std::uint64_t one_worker_jobs;
  Span one_worker_spread;
  std::uint64_t one_worker_ready_jobs;  ///< For measuring what its round trips allow.
  int service_reps;
  Span service_time;           ///< Of one timed put run.
  std::uint64_t service_jobs;  ///< Put, then worked off; a fifth by clients one at a time.
  int restart_reps;
  std::uint64_t restart_jobs;
  int burst_reps;
  std::uint64_t burst_jobs;
  std::uint64_t burst_stream_jobs;  ///< Before and after it, each over a second.
  std::uint32_t burst_due_s;        ///< Seconds from the first put: enough to put all before.
};

struct Options : CommonOptions {
  bool all_delays = true;  ///< Put with delays of 0 and of a day too.
  bool full = false;       ///< Ten million pending jobs too.
  Scale scale;
  Surroundings surroundings;
};

/// Parses, or prints help or an error and exits: 0 for --help, 2 for a mistake.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace carillon::bench
