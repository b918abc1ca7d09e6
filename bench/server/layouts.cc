// SPDX-License-Identifier: Apache-2.0
#include "bench/server/layouts.h"

#include <array>

namespace carillon::bench {

std::span<const Layout> server_layouts() {
  static const std::array<Layout, 7> kLayouts = {
      Layout{"put",
             "B1 durable put, 200-byte bodies; delay: near 10 s, ready 0, far 1 day",
             {{"put/s", "per_s", 0, true},
              {"us each", "us_per_op", 1},
              {"server CPU us", "server_cpu_us_per_op", 1},
              {"client CPU us", "client_cpu_us_per_op", 1}}},
      Layout{"cycle",
             "B2 without a log, 200-byte bodies: put, then reserve+delete",
             {{"put/s", "put_per_s", 0, true},
              {"CPU us", "put_server_cpu_us", 1},
              {"res+del/s", "work_per_s", 0, true},
              {"CPU us", "work_server_cpu_us", 1}}},
      Layout{"memory",
             "B3 memory per delayed job, bytes; near 120 s, far 1 day",
             {{"standing", "standing_per_job", 1},
              {"just put", "rss_per_job", 1},
              {"2nd half", "second_half_rss_per_job", 1},
              {"anonymous", "anonymous_per_job", 1}}},
      Layout{"lateness",
             "B4 lateness of jobs that fall due while workers wait, ms",
             {{"p50", "p50_ms", 2},
              {"p99", "p99_ms", 2},
              {"p99.9", "p999_ms", 2},
              {"max", "max_ms", 2},
              {"early", "early", 0},
              {"jobs/s", "achieved_per_s", 0},
              {"of pace", "of_allowed", 2}}},
      Layout{"service",
             "B5 as a service, durable, 200-byte bodies: put; reserve and ack",
             {{"put/s", "put_per_s", 0, true},
              {"CPU us", "put_server_cpu_us", 1},
              {"work/s", "work_per_s", 0, true},
              {"CPU us", "work_server_cpu_us", 1}}},
      Layout{"restart",
             "B6 from the start of the process until a million pending jobs are there",
             {{"killed, s", "after_crash_s", 2},
              {"ended, s", "after_end_s", 2},
              {"CPU, s", "start_cpu_s", 2},
              {"disk/job", "disk_per_job", 0}}},
      Layout{"burst",
             "B7 many jobs due in one second; p99 of others before and after, ms",
             {{"drained, s", "drained_after_s", 2},
              {"p50", "p50_ms", 1},
              {"p99", "p99_ms", 1},
              {"early", "early", 0},
              {"before", "before_p99_ms", 2},
              {"after", "after_p99_ms", 2},
              {"CPU us", "server_cpu_us_per_job", 1}}},
  };
  return kLayouts;
}

}  // namespace carillon::bench
