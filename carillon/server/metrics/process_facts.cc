// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/metrics/process_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace carillon::server {
namespace {

/// When this machine was started, in Unix time.
double boot_time_s() {
  std::ifstream stat("/proc/stat");
  std::string word;
  while (stat >> word) {
    double seconds = 0;
    if (word == "btime" && stat >> seconds) return seconds;
    stat.ignore(1 << 20, '\n');
  }
  return 0;
}

}  // namespace

ProcessFacts read_process_facts() {
  ProcessFacts facts;
  const auto ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  // The name of the program is in parentheses, and may hold anything.
  const std::size_t name_end = line.rfind(')');
  if (name_end != std::string::npos) {
    std::istringstream fields(line.substr(name_end + 1));
    std::string field;
    double utime = 0;
    double stime = 0;
    double start = 0;
    // proc(5): the first field behind the name is the third.
    for (int number = 3; fields >> field; ++number) {
      switch (number) {
        case 14: utime = std::stod(field); break;
        case 15: stime = std::stod(field); break;
        case 20: facts.threads = std::stoull(field); break;
        case 22: start = std::stod(field); break;
        case 23: facts.virtual_bytes = std::stoull(field); break;
        case 24:
          facts.resident_bytes =
              std::stoull(field) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
          break;
        default: break;
      }
    }
    facts.cpu_s = (utime + stime) / ticks_per_s;
    facts.started_at_s = boot_time_s() + start / ticks_per_s;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc/self/fd", error), end; !error && each != end;
       each.increment(error)) {
    ++facts.open_files;
  }
  if (facts.open_files > 0) --facts.open_files;  // The one that they were counted by.
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.max_files = limit.rlim_cur;
  return facts;
}

}  // namespace carillon::server
