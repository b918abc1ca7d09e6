// SPDX-License-Identifier: Apache-2.0
#include "bench/common/process.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace carillon::bench {
namespace {

double to_ms(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

ThreadUse use_of(const std::filesystem::path& folder) {
  ThreadUse use;
  std::ifstream(folder / "schedstat") >> use.cpu_us;
  use.cpu_us /= 1e3;
  std::ifstream status(folder / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.find("ctxt_switches:") == std::string::npos) continue;
    use.switches += std::stod(line.substr(line.find(':') + 1));
  }
  return use;
}

}  // namespace

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::int64_t together(std::size_t count, const std::function<void(std::size_t)>& part) {
  std::latch ready(static_cast<std::ptrdiff_t>(count));
  std::latch start(1);
  std::vector<std::int64_t> ends(count);
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ready.count_down();
      start.wait();
      try {
        part(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
      ends[i] = now_ns();
    });
  }
  ready.wait();
  sleep_seconds(1e-3);  // all of them wait
  const std::int64_t begin = now_ns();
  start.count_down();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return *std::max_element(ends.begin(), ends.end()) - begin;
}

double settled_resident_bytes() {
  ::malloc_trim(0);
  double pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

double cpu_ms() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return to_ms(usage.ru_utime) + to_ms(usage.ru_stime);
}

std::map<int, ThreadUse> thread_uses() {
  std::map<int, ThreadUse> uses;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    uses[std::stoi(entry.path().filename())] = use_of(entry.path());
  }
  return uses;
}

ThreadUse sum_without(const std::map<int, ThreadUse>& all, const std::map<int, ThreadUse>& others) {
  ThreadUse sum;
  for (const auto& [id, use] : all) {
    if (others.contains(id)) continue;
    sum.cpu_us += use.cpu_us;
    sum.switches += use.switches;
  }
  return sum;
}

}  // namespace carillon::bench
