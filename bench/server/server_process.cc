// SPDX-License-Identifier: Apache-2.0
#include "bench/server/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "bench/common/environment.h"
#include "bench/common/interrupt.h"
#include "bench/server/engine.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Span kStartLimit = seconds(30);
constexpr std::size_t kLogTailBytes = 600;
const SteadyClock kClock;

// The child's side of the fork: nothing here may allocate.
[[noreturn]] void become_server(char* const* argv, const char* log, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
  const int fd = ::open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) {
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
  }
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::execv(argv[0], argv);
  ::_exit(127);
}

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

ScratchDir::ScratchDir(const std::filesystem::path& parent) {
  std::filesystem::create_directories(parent);
  std::string name = (parent / "bench-server-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw BenchError(
        fmt::format("no folder can be made in {}: {}", parent.string(), std::strerror(errno)));
  }
  path_ = name;
}

ScratchDir::~ScratchDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ServerProcess::ServerProcess(const std::vector<std::string>& arguments, std::uint16_t port,
                             const std::filesystem::path& log)
    : port_(port), log_(log) {
  std::vector<std::string> words = arguments;
  words[0] = find_program(arguments[0]);
  if (words[0].empty()) throw BenchError(fmt::format("{} is not installed", arguments[0]));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw BenchError(fmt::format("fork: {}", std::strerror(errno)));
  if (pid_ == 0) become_server(argv.data(), log_.c_str(), parent);

  // A constructor that throws runs no destructor: the child is ended here.
  try {
    const Instant give_up = saturating_add(kClock.now(), kStartLimit);
    for (;;) {
      const int fd = connect_loopback(port_);
      if (fd >= 0) {
        ::close(fd);
        return;
      }
      if (reap(false)) {
        throw BenchError(fmt::format("{} ended at once: {}", words[0], log_tail()));
      }
      if (kClock.now() > give_up) {
        throw BenchError(fmt::format("{} does not listen on port {} after 30 s: {}", words[0],
                                     port_, log_tail()));
      }
      pause_for(milliseconds(2));
    }
  } catch (...) {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    static_cast<void>(reap(true));
    throw;
  }
}

ServerProcess::~ServerProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  static_cast<void>(reap(true));
}

bool ServerProcess::reap(bool wait) {
  if (pid_ <= 0) return true;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid_, nullptr, wait ? 0 : WNOHANG);
  } while (ended < 0 && errno == EINTR);
  if (ended == 0) return false;
  pid_ = -1;
  return true;
}

void ServerProcess::end_gracefully(Span limit) {
  const Instant give_up = saturating_add(kClock.now(), limit);
  ::kill(pid_, SIGTERM);
  while (!reap(false)) {
    if (kClock.now() > give_up) throw BenchError("the server does not end on SIGTERM");
    pause_for(milliseconds(5));
  }
}

double ServerProcess::cpu_seconds() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // Fields are counted from after the command's name, which may itself hold spaces.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) throw BenchError("the server has ended");
  std::istringstream fields(text.substr(end + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user_ticks = 0;
  double system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  return (user_ticks + system_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

MemoryUse ServerProcess::memory() const {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid_));
  if (!file) throw BenchError("the server has ended");
  MemoryUse use;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    std::int64_t kib = 0;
    fields >> name >> kib;
    if (name == "Rss:") use.rss = kib * 1024;
    if (name == "Pss:") use.pss = kib * 1024;
    if (name == "Anonymous:") use.anonymous = kib * 1024;
  }
  return use;
}

MemoryUse ServerProcess::settled_memory() const {
  MemoryUse before = memory();
  for (int i = 0; i < 15; ++i) {
    pause_for(milliseconds(200));
    const MemoryUse after = memory();
    const bool settled = std::abs(after.rss - before.rss) * 200 <= after.rss;
    before = after;
    if (settled) break;
  }
  return before;
}

std::string ServerProcess::log_tail() const {
  std::ifstream file(log_);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.size() > kLogTailBytes) text.erase(0, text.size() - kLogTailBytes);
  return text.empty() ? "(it said nothing)" : text;
}

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      fd >= 0 && ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0;
  if (fd >= 0) ::close(fd);
  if (!bound) throw BenchError(fmt::format("no free port: {}", std::strerror(errno)));
  return ntohs(address.sin_port);
}

void pause_for(Span span) {
  const timespec time = {static_cast<std::time_t>(span.count() / 1'000'000'000),
                         static_cast<long>(span.count() % 1'000'000'000)};
  ::nanosleep(&time, nullptr);
  check_interrupt();
}

double own_cpu_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
}

}  // namespace carillon::bench
