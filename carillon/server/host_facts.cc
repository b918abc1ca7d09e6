// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/host_facts.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <random>
#include <system_error>

namespace carillon::server {
namespace {

std::int64_t microseconds(const timeval& time) noexcept {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec;
}

sigset_t held_signals() noexcept {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) sigaddset(&held, signal);
  return held;
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

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<std::uint64_t> free_bytes_of(const std::string& folder) {
  struct statvfs system{};
  if (::statvfs(folder.c_str(), &system) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize;
}

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

SignalsHeldBack::SignalsHeldBack() noexcept {
  const sigset_t held = held_signals();
  pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

SignalsHeldBack::~SignalsHeldBack() {
  const sigset_t held = held_signals();
  pthread_sigmask(SIG_UNBLOCK, &held, nullptr);
}

Result<void> check_writable(const std::string& folder) {
  if (access(folder.c_str(), R_OK | W_OK | X_OK) == 0 || errno == ENOENT) return {};
  return Error{ErrorCode::kIo, fmt::format("data folder {} cannot be written: {}", folder,
                                           std::generic_category().message(errno))};
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
