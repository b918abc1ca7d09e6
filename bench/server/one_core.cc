// SPDX-License-Identifier: Apache-2.0
#include "bench/server/one_core.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "bench/common/interrupt.h"
#include "bench/server/bare_append.h"
#include "bench/server/server_process.h"

namespace carillon::bench {
namespace {

constexpr int kCoresTried = 8;
constexpr Span kTryTime = std::chrono::milliseconds(60);

void run_on(const cpu_set_t& cores) {
  if (::sched_setaffinity(0, sizeof(cores), &cores) != 0) {
    throw BenchError(fmt::format("sched_setaffinity: {}", std::strerror(errno)));
  }
}

cpu_set_t only(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return set;
}

}  // namespace

OneCore::OneCore(const std::filesystem::path& dir) {
  if (::sched_getaffinity(0, sizeof(before_), &before_) != 0) {
    throw BenchError(fmt::format("sched_getaffinity: {}", std::strerror(errno)));
  }
  try {
    const ScratchDir scratch(dir);
    double best_rate = 0;
    int best = -1;
    int tried = 0;
    for (int core = 0; core < CPU_SETSIZE && tried < kCoresTried; ++core) {
      if (!CPU_ISSET(core, &before_)) continue;
      ++tried;
      run_on(only(core));
      const AppendOutcome outcome = append_and_sync(scratch.path() / "log", 240, kTryTime);
      const double rate = static_cast<double>(outcome.appends) / outcome.seconds;
      if (rate > best_rate) {
        best_rate = rate;
        best = core;
      }
    }
    run_on(only(best));
  } catch (...) {
    ::sched_setaffinity(0, sizeof(before_), &before_);
    throw;
  }
}

OneCore::~OneCore() { ::sched_setaffinity(0, sizeof(before_), &before_); }

}  // namespace carillon::bench
