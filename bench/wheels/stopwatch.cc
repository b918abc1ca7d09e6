// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/stopwatch.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "bench/common/interrupt.h"
#include "bench/common/ledger.h"
#include "bench/wheels/virtual_time.h"

namespace carillon::bench {
namespace {

// What an empty phase takes.
double empty_phase_ns() {
  double least = 1e9;
  for (int i = 0; i < 1'000; ++i) {
    const double begin = real_ns();
    least = std::min(least, real_ns() - begin);
  }
  return least;
}

}  // namespace

double real_ns() {
  const timespec time = real_time();
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

void pin_to_one_core() {
  cpu_set_t set;
  bool pinned = ::sched_getaffinity(0, sizeof set, &set) == 0;
  if (pinned) {
    int last = CPU_SETSIZE - 1;
    while (last > 0 && !CPU_ISSET(last, &set)) --last;
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    pinned = ::sched_setaffinity(0, sizeof set, &set) == 0;
  }
  if (!pinned) throw BenchError(fmt::format("cannot stay on one core: {}", std::strerror(errno)));
}

double resident_bytes() {
  ::malloc_trim(0);
  double pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double Phase::ns() const { return summarize(rounds_).median; }

void Phase::add(double ns) {
  add_part(ns);
  end_round();
}

void Phase::add_part(double ns) {
  static const double kEmpty = empty_phase_ns();
  parts_ += std::max(ns - kEmpty, 0.0);
}

void Phase::end_round() {
  rounds_.push_back(parts_ / operations_);
  parts_ = 0;
  check_interrupt();
}

}  // namespace carillon::bench
