// SPDX-License-Identifier: Apache-2.0
#include "bench/server/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "bench/common/environment.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Scale kFullScale = {
    .reps = 5,
    .put_time = seconds(3),
    .put_max_jobs = 3'000'000,
    .single_put_time = seconds(2),
    .cycle_jobs = 200'000,
    .memory_reps = 1,
    .near_memory_jobs = 1'000'000,
    .far_memory_jobs = 1'000'000,
    .lateness_reps = 3,
    .lateness_jobs = 100'000,
    .lateness_spread = seconds(5),
    .lateness_delay_s = 6,
    .one_worker_jobs = 100'000,
    .one_worker_spread = seconds(5),
    .one_worker_ready_jobs = 10'000,
    .service_reps = 3,
    .service_time = seconds(2),
    .service_jobs = 200'000,
    .restart_reps = 1,
    .restart_jobs = 1'000'000,
    .burst_reps = 1,
    .burst_jobs = 500'000,
    .burst_stream_jobs = 1'000,
    .burst_due_s = 20,
};

// The same rates for a shorter time: all of it, peers included, in about two minutes. What a moment
// in which the machine stands still would decide is repeated.
constexpr Scale kCheckScale = {
    .reps = 3,
    .put_time = milliseconds(400),
    .put_max_jobs = 1'000'000,
    .single_put_time = milliseconds(600),
    .cycle_jobs = 25'000,
    .memory_reps = 1,
    .near_memory_jobs = 600'000,  // Fewer do not carry the store's own buffers.
    .far_memory_jobs = 100'000,
    .lateness_reps = 3,
    .lateness_jobs = 12'000,
    .lateness_spread = milliseconds(600),
    .lateness_delay_s = 1,
    .one_worker_jobs = 9'000,
    .one_worker_spread = milliseconds(900),
    .one_worker_ready_jobs = 2'000,
    .service_reps = 3,
    .service_time = milliseconds(200),
    .service_jobs = 12'000,
    .restart_reps = 1,
    .restart_jobs = 200'000,
    .burst_reps = 1,
    .burst_jobs = 500'000,
    .burst_stream_jobs = 1'000,
    .burst_due_s = 8,
};

std::filesystem::path folder_of_this_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::current_path() : self.parent_path();
}

// The build folder if it is on a disk and writable, else /var/tmp.
std::filesystem::path default_dir() {
  std::filesystem::path build = CARILLON_BENCH_BINARY_DIR;
  if (::access(build.c_str(), W_OK) == 0 && filesystem_of(build) != "tmpfs") return build;
  return "/var/tmp";
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  Surroundings& where = options.surroundings;
  where.carillon = (folder_of_this_program() / "carillon").string();
  where.dir = default_dir();
  std::uint64_t jobs = 0;
  std::string delay;

  CLI::App app(
      "Measures carillon beside beanstalkd, Redis and PostgreSQL: same client, same machine, in "
      "turn.",
      "bench_server");
  add_common_options(app, options, {"B1", "B2", "B3", "B4", "B5", "B6", "B7"},
                     "B1 durable put, B2 in memory, B3 memory, B4 lateness, B5 as a service, "
                     "B6 restart, B7 many at once");
  add_name_option(app, options, "--peer");
  add_from_option(app, options);
  app.add_option("--delay", delay, "Of durable puts: near only, or all of near, ready and far")
      ->check(CLI::IsMember({"near", "all"}));
  app.add_flag("--full", options.full, "B6 with ten million pending jobs too");
  app.add_option("--jobs", jobs, "So many jobs in each workload")
      ->check(CLI::Range(100, 100'000'000));
  app.add_option("--server", where.carillon,
                 "The carillon to measure; default: the one beside this program");
  app.add_option("--server-arg", where.carillon_extras,
                 "An argument more for `carillon serve`; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--dir", where.dir,
                 "Where servers keep their data meanwhile: a folder on a real disk")
      ->capture_default_str();
  parse_or_exit(app, options, argc, argv);

  options.scale = options.check ? kCheckScale : kFullScale;
  options.all_delays = delay.empty() ? !options.check : delay == "all";
  if (jobs > 0) {
    Scale& scale = options.scale;
    scale.put_max_jobs = scale.cycle_jobs = jobs;
    scale.near_memory_jobs = scale.far_memory_jobs = jobs;
    scale.lateness_jobs = scale.one_worker_jobs = jobs;
    scale.service_jobs = scale.restart_jobs = scale.burst_jobs = jobs;
  }
  if (options.reps > 0) {
    Scale& scale = options.scale;
    scale.reps = scale.memory_reps = scale.lateness_reps = options.reps;
    scale.service_reps = scale.restart_reps = scale.burst_reps = options.reps;
  }
  if (filesystem_of(where.dir) == "tmpfs") {
    refuse_to_run(
        app, fmt::format("--dir {} is in memory (tmpfs), where fsync costs nothing: name a folder "
                         "on a disk",
                         where.dir.string()));
  }
  return options;
}

}  // namespace carillon::bench
