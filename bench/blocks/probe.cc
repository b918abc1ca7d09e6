// SPDX-License-Identifier: Apache-2.0
#include "bench/blocks/probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "bench/common/process.h"

namespace carillon::bench {
namespace {

// "time on a CPU, time waiting for one, times on one"; 0 once the thread has ended.
std::int64_t waited_ns(int fd) {
  char text[96];
  const ssize_t size = ::pread(fd, text, sizeof text - 1, 0);
  if (size <= 0) return 0;
  text[size] = '\0';
  char* rest = nullptr;
  static_cast<void>(std::strtoll(text, &rest, 10));
  return std::strtoll(rest, nullptr, 10);
}

}  // namespace

void RunQueueWaits::refresh() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string id = entry.path().filename();
    if (threads_.contains(id)) continue;
    const int fd = ::open((entry.path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) threads_[id] = {fd, 0};
  }
}

RunQueueWaits::~RunQueueWaits() {
  for (const auto& [id, thread] : threads_) ::close(thread.fd);
}

void RunQueueWaits::begin() {
  for (auto& [id, thread] : threads_) thread.before = waited_ns(thread.fd);
}

std::int64_t RunQueueWaits::longest_ns() const {
  std::int64_t longest = 0;
  for (const auto& [id, thread] : threads_) {
    longest = std::max(longest, waited_ns(thread.fd) - thread.before);
  }
  return longest;
}

void LongestDelay::add(std::int64_t ns, std::int64_t waited_for_cpu) {
  with_cpu_ = std::max(with_cpu_, ns);
  longest_ = std::max(longest_, ns - std::min(ns, waited_for_cpu));
}

std::int64_t LongestDelay::now() { return now_ns(); }

}  // namespace carillon::bench
