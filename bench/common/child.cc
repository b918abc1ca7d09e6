// SPDX-License-Identifier: Apache-2.0
#include "bench/common/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "bench/common/environment.h"
#include "bench/common/interrupt.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

constexpr std::size_t kErrorTailBytes = 600;
constexpr int kPollMillis = 100;

class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void refuse(const char* what) {
  throw BenchError(fmt::format("{}: {}", what, std::strerror(errno)));
}

// A process that is killed and reaped by the destructor, unless it was waited for.
class Child {
 public:
  explicit Child(pid_t pid) noexcept : pid_(pid) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    static_cast<void>(wait());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] int wait() noexcept {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

// Until the child closes its end. Throws when `give_up` has come.
std::string read_all(int fd, Instant give_up) {
  std::string text;
  for (;;) {
    check_interrupt();
    pollfd waiting = {fd, POLLIN, 0};
    if (::poll(&waiting, 1, kPollMillis) <= 0) {
      if (SteadyClock().now() > give_up) throw BenchError("does not end");
      continue;
    }
    char buffer[1 << 16];
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count == 0) return text;
    if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) refuse("read");
  }
}

std::string tail_of(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(kErrorTailBytes));
  std::string text(static_cast<std::size_t>(size - from), '\0');
  const ssize_t count = ::pread(fd, text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  while (text.ends_with('\n')) text.pop_back();
  return text.empty() ? "(it said nothing)" : text;
}

// `become` ends the child's process; its descriptors 1 and 2 are read here.
std::string output_of(const std::function<void()>& become, Span limit) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse("pipe");
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const Descriptor errors(::memfd_create("errors", MFD_CLOEXEC));
  if (errors.get() < 0) refuse("memfd_create");

  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) refuse("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::dup2(writing.get(), STDOUT_FILENO);
    ::dup2(errors.get(), STDERR_FILENO);
    become();
    ::_exit(127);
  }
  Child child(pid);
  writing.close();
  std::string text;
  try {
    text = read_all(reading.get(), saturating_add(SteadyClock().now(), limit));
  } catch (const BenchError& error) {
    throw BenchError(fmt::format("{}: {}", error.what(), tail_of(errors.get())));
  }
  const int status = child.wait();
  if (status != 0) {
    check_interrupt();  // Ctrl-C ended both.
    throw BenchError(tail_of(errors.get()));
  }
  return text;
}

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(fd, text.data() + at, text.size() - at);
    if (count > 0) at += static_cast<std::size_t>(count);
    if (count < 0 && errno != EINTR) ::_exit(127);
  }
}

}  // namespace

std::string output_of_program(const std::vector<std::string>& arguments, Span limit) {
  std::vector<std::string> words = arguments;
  words[0] = find_program(arguments[0]);
  if (words[0].empty()) throw BenchError(fmt::format("{} is not installed", arguments[0]));
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return output_of([&argv] { ::execv(argv[0], argv.data()); }, limit);
}

std::string output_of_fork(const std::function<std::string()>& work, Span limit) {
  const auto become = [&work] {
    try {
      write_all(STDOUT_FILENO, work());
      ::_exit(0);
    } catch (const std::exception& error) {
      write_all(STDERR_FILENO, error.what());
      ::_exit(1);
    }
  };
  return output_of(become, limit);
}

}  // namespace carillon::bench
