// SPDX-License-Identifier: Apache-2.0
#include "bench/server/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
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
#include <optional>
#include <sstream>
#include <utility>

#include "bench/common/environment.h"
#include "bench/common/interrupt.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Span kStartLimit = seconds(180);
constexpr std::size_t kLogTailBytes = 600;
const SteadyClock kClock;

// The child's side of the fork: nothing here may allocate.
[[noreturn]] void become_server(char* const* argv, const ServerCommand& command, const char* log,
                                pid_t parent) {
  const int fd = ::open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) {
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
  }
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  if (command.group != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(command.group) != 0)) {
    ::_exit(126);
  }
  if (command.user != 0 && ::setuid(command.user) != 0) ::_exit(126);
  ::prctl(PR_SET_PDEATHSIG, command.kill_signal);  // after setuid, which resets it
  if (::getppid() != parent) ::_exit(127);         // the parent died before the line above
  ::execv(argv[0], argv);
  ::_exit(127);
}

pid_t start_child(const ServerCommand& command, const std::filesystem::path& log) {
  std::vector<std::string> words = command.words;
  words[0] = find_program(command.words[0]);
  if (words[0].empty()) throw BenchError(fmt::format("{} is not installed", command.words[0]));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw BenchError(fmt::format("fork: {}", std::strerror(errno)));
  if (pid == 0) become_server(argv.data(), command, log.c_str(), parent);
  return pid;
}

std::string tail_of(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.size() > kLogTailBytes) text.erase(0, text.size() - kLogTailBytes);
  return text.empty() ? "(it said nothing)" : text;
}

// A process and what it has started; a server's children have none of their own.
std::vector<pid_t> with_children(pid_t pid) {
  std::vector<pid_t> pids = {pid};
  std::ifstream children(fmt::format("/proc/{}/task/{}/children", pid, pid));
  for (pid_t child = 0; children >> child;) pids.push_back(child);
  return pids;
}

// User and system time of a process, to 10 ms, and of those of its children that have ended.
// Nothing of a process that is gone.
std::optional<double> cpu_seconds_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // Fields are counted from after the command's name, which may itself hold spaces.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double sum = 0;
  for (int field = 0; field < 4; ++field) {
    double ticks = 0;
    fields >> ticks;
    sum += ticks;
  }
  return sum / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// The same to a nanosecond, of one thread: 64 children would lose 5 ms each.
double cpu_seconds_of_child(pid_t pid) {
  double nanos = 0;
  std::ifstream(fmt::format("/proc/{}/schedstat", pid)) >> nanos;
  return nanos / 1e9;
}

bool add_memory(pid_t pid, MemoryUse& use) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    std::int64_t kib = 0;
    fields >> name >> kib;
    if (name == "Rss:") use.rss += kib * 1024;
    if (name == "Pss:") use.pss += kib * 1024;
    if (name == "Anonymous:") use.anonymous += kib * 1024;
  }
  return true;
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

ServerProcess::ServerProcess(ServerCommand command, const std::filesystem::path& log)
    : pid_(start_child(command, log)), command_(std::move(command)), log_(log) {
  // A constructor that throws runs no destructor: the child is ended here.
  try {
    const Instant give_up = saturating_add(kClock.now(), kStartLimit);
    for (;;) {
      const int fd = connect_to(command_.address);
      if (fd >= 0) {
        ::close(fd);
        return;
      }
      if (reap(false)) {
        throw BenchError(fmt::format("{} ended at once: {}", command_.words[0], log_tail()));
      }
      if (kClock.now() > give_up) {
        throw BenchError(
            fmt::format("{} does not listen after 180 s: {}", command_.words[0], log_tail()));
      }
      pause_for(milliseconds(2));
    }
  } catch (...) {
    kill();
    throw;
  }
}

ServerProcess::~ServerProcess() { kill(); }

void ServerProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, command_.kill_signal);
  // Children that are waited for may take a moment; what does not end is not waited for twice.
  for (int i = 0; i < 2'000 && !reap(false); ++i) {
    const timespec moment = {0, 5'000'000};
    ::nanosleep(&moment, nullptr);
  }
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
  ::kill(pid_, command_.end_signal);
  while (!reap(false)) {
    if (kClock.now() > give_up) throw BenchError("the server does not end when asked to");
    pause_for(milliseconds(5));
  }
}

double ServerProcess::cpu_seconds() const {
  const std::optional<double> own = cpu_seconds_of(pid_);
  if (!own) throw BenchError("the server has ended");
  double seconds = *own;
  for (const pid_t pid : with_children(pid_)) {
    if (pid != pid_) seconds += cpu_seconds_of_child(pid);
  }
  return seconds;
}

MemoryUse ServerProcess::memory() const {
  MemoryUse use;
  const std::vector<pid_t> pids = with_children(pid_);
  for (const pid_t pid : pids) {
    if (!add_memory(pid, use) && pid == pid_) throw BenchError("the server has ended");
  }
  if (pids.size() > 1) use.rss = use.pss;
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

std::string ServerProcess::log_tail() const { return tail_of(log_); }

void run_to_end(const std::vector<std::string>& words, unsigned user, unsigned group,
                const std::filesystem::path& log) {
  ServerCommand command;
  command.words = words;
  command.user = user;
  command.group = group;
  const pid_t pid = start_child(command, log);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  check_interrupt();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw BenchError(fmt::format("{}: {}", words[0], tail_of(log)));
  }
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
