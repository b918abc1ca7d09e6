// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/host_facts.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <random>

namespace carillon::server {
namespace {

std::int64_t microseconds(const timeval& time) noexcept {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec;
}

}  // namespace

void describe_process(protocol::beanstalk::ServerStats& stats) {
  stats.pid = getpid();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  stats.user_time_us = microseconds(usage.ru_utime);
  stats.system_time_us = microseconds(usage.ru_stime);
  utsname names{};
  if (uname(&names) == 0) {
    stats.hostname = names.nodename;
    stats.os = names.version;
    stats.platform = names.machine;
  }
}

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::uint64_t raise_file_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur;
}

}  // namespace carillon::server
