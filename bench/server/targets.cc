// SPDX-License-Identifier: Apache-2.0
#include "bench/server/targets.h"

#include <array>

#include "bench/server/peers.h"

namespace carillon::bench {
namespace {

constexpr std::array kTargets = {
    Target{"durable put 8x64, against -f50", "put", "8x64 near", "per_s", kCarillonData,
           kBeanstalkdF50, Bound::kAtLeast, 2.0, 2.0},
    Target{"durable put 8x64, against -f0", "put", "8x64 near", "per_s", kCarillonData,
           kBeanstalkdF0, Bound::kAtLeast, 20.0, 15.0},
    Target{"durable put 8x64, against Redis", "put", "8x64 near", "per_s", kCarillonData, kRedis,
           Bound::kAbove, 1.0, 1.0},
    Target{"durable put 1x1, against the disk", "put", "1x1 near", "us_per_op", kCarillonData,
           kBareAppend, Bound::kAtMost, 1.3, 1.3},
    Target{"put in memory 8x64", "cycle", "8x64", "put_per_s", kCarillonMemory, kBeanstalkd,
           Bound::kAtLeast, 2.0, 2.0},
    Target{"put in memory 1x64", "cycle", "1x64", "put_per_s", kCarillonMemory, kBeanstalkd,
           Bound::kAtLeast, 2.0, 2.0},
    Target{"reserve+delete in memory 8x64", "cycle", "8x64", "work_per_s", kCarillonMemory,
           kBeanstalkd, Bound::kAtLeast, 2.0, 2.0},
    Target{"reserve+delete in memory 1x64", "cycle", "1x64", "work_per_s", kCarillonMemory,
           kBeanstalkd, Bound::kAtLeast, 2.0, 2.0},
    Target{"memory per near job", "memory", "near", "standing_per_job", kCarillonData, kBeanstalkd,
           Bound::kBelow, 0.5, 0.5},
    // A short run divides the same write buffers by too few jobs.
    Target{"memory per near job, just put", "memory", "near", "rss_per_job", kCarillonData,
           kBeanstalkd, Bound::kBelow, 0.5, 0},
    // 0.02 of about 410 bytes is 8 bytes; a short run cannot tell 8 bytes from a moved arena.
    Target{"memory per far job", "memory", "far", "standing_per_job", kCarillonData, kBeanstalkd,
           Bound::kBelow, 0.02, 0.1},
    // 1 MB for 100,000 jobs.
    Target{"memory per far job, bytes", "memory", "far", "standing_per_job", kCarillonData, "",
           Bound::kBelow, 10.0, 40.0},
    Target{"lateness p99 in memory", "lateness", "16 workers", "p99_ms", kCarillonMemory,
           kBeanstalkd, Bound::kBelow, 1.0, 1.0},
    Target{"lateness p99 durable, against -f50", "lateness", "16 workers", "p99_ms", kCarillonData,
           kBeanstalkdF50, Bound::kBelow, 1.0, 1.0},
    Target{"never early in memory", "lateness", "16 workers", "early", kCarillonMemory, "",
           Bound::kAtMost, 0, 0},
    Target{"never early durable", "lateness", "16 workers", "early", kCarillonData, "",
           Bound::kAtMost, 0, 0},
    Target{"one worker keeps its pace in memory", "lateness", "1 worker", "of_allowed",
           kCarillonMemory, "", Bound::kAtLeast, 0.9, 0.85},
    Target{"one worker keeps its pace durable", "lateness", "1 worker", "of_allowed", kCarillonData,
           "", Bound::kAtLeast, 0.9, 0.85},
    // By HTTP: what it costs a team that has no client library. The rivals are durable likewise.
    Target{"HTTP put 64x1, to PostgreSQL", "service", "put, 64 clients x 1", "put_per_s",
           kCarillonHttp, kPostgres, Bound::kAtLeast, 1.5, 1.2},
    Target{"HTTP put 64x1, to Redis", "service", "put, 64 clients x 1", "put_per_s", kCarillonHttp,
           kRedis, Bound::kAtLeast, 0.5, 0.4},
    Target{"NDJSON put 8x64, to PostgreSQL", "service", "put, 8 clients x 64", "put_per_s",
           kCarillonHttp, kPostgres, Bound::kAtLeast, 2.0, 1.5},
    Target{"NDJSON put 8x64, to Redis", "service", "put, 8 clients x 64", "put_per_s",
           kCarillonHttp, kRedis, Bound::kAtLeast, 1.0, 0.8},
    Target{"HTTP work 64x1, to PostgreSQL", "service", "work, 64 clients x 1", "work_per_s",
           kCarillonHttp, kPostgres, Bound::kAtLeast, 1.5, 1.2},
    Target{"HTTP work 8x64, to PostgreSQL", "service", "work, 8 clients x 64", "work_per_s",
           kCarillonHttp, kPostgres, Bound::kAtLeast, 2.0, 1.5},
    Target{"HTTP work 8x64, to Redis", "service", "work, 8 clients x 64", "work_per_s",
           kCarillonHttp, kRedis, Bound::kAtLeast, 1.0, 0.8},
    Target{"CPU of NDJSON put, to PostgreSQL", "service", "put, 8 clients x 64",
           "put_server_cpu_us", kCarillonHttp, kPostgres, Bound::kBelow, 0.5, 0.67},
    Target{"restart when killed, near, to Redis", "restart", "near", "after_crash_s", kCarillonData,
           kRedis, Bound::kBelow, 1.0, 1.0},
    // Of a fifth of the jobs the start of the process is a larger part.
    Target{"restart when killed, far, to Redis", "restart", "far", "after_crash_s", kCarillonData,
           kRedis, Bound::kBelow, 0.5, 0.7},
    Target{"500,000 at once: s to deliver", "burst", "one second", "drained_after_s", kCarillonData,
           "", Bound::kAtMost, 2.0, 2.0},
    Target{"500,000 at once by HTTP: s", "burst", "one second", "drained_after_s", kCarillonHttp,
           "", Bound::kAtMost, 2.0, 3.0},
    Target{"500,000 at once: never early", "burst", "one second", "early", kCarillonData, "",
           Bound::kAtMost, 0, 0},
    // A few ms are not "later than usual", whatever the ratio of two small numbers.
    Target{"lateness p99 after them, to before",
           "burst",
           "one second",
           "after_p99_ms",
           kCarillonData,
           kCarillonData,
           Bound::kAtMost,
           1.5,
           1.5,
           "ms",
           {},
           {},
           "before_p99_ms",
           5.0},
};

}  // namespace

std::span<const Target> server_targets() { return kTargets; }

}  // namespace carillon::bench
