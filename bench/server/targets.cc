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
           kBeanstalkdF0, Bound::kAtLeast, 20.0, 20.0},
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
};

}  // namespace

std::span<const Target> server_targets() { return kTargets; }

}  // namespace carillon::bench
