// SPDX-License-Identifier: Apache-2.0
#include "bench/blocks/probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "bench/common/process.h"

namespace carillon::bench {

RunQueueWait::RunQueueWait() : fd_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

RunQueueWait::~RunQueueWait() {
  if (fd_ >= 0) ::close(fd_);
}

// "time on a CPU, time waiting for one, times on one"
std::int64_t RunQueueWait::ns() const {
  char text[96];
  const ssize_t size = fd_ < 0 ? -1 : ::pread(fd_, text, sizeof text - 1, 0);
  if (size <= 0) return 0;
  text[size] = '\0';
  char* rest = nullptr;
  static_cast<void>(std::strtoll(text, &rest, 10));
  return std::strtoll(rest, nullptr, 10);
}

void LongestDelay::add(std::int64_t ns, std::int64_t waited_for_cpu) {
  with_cpu_ = std::max(with_cpu_, ns);
  longest_ = std::max(longest_, ns - std::min(ns, waited_for_cpu));
}

std::int64_t LongestDelay::now() { return now_ns(); }

}  // namespace carillon::bench
