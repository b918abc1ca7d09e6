// SPDX-License-Identifier: Apache-2.0
#include "processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "carillon/base/clock.h"
#include "redis_connection.h"

namespace carillon::redis_lock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

Child::Child(std::vector<std::string> words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) fail("a pipe");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    if (::getppid() == parent) ::execvp(argv[0], argv.data());
    constexpr int kNotStarted = 127;
    ::_exit(kNotStarted);
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
  if (pid_ < 0) fail("fork");
}

Child::~Child() {
  kill();
  end_input();
  ::close(output_);
}

std::optional<std::string> Child::line(Span at_most) {
  const Instant until = saturating_add(SteadyClock().now(), at_most);
  for (;;) {
    if (const auto end = read_.find('\n'); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    const Span left = until - SteadyClock().now();
    pollfd readable{output_, POLLIN, 0};
    if (left < Span::zero() ||
        ::poll(&readable, 1, static_cast<int>(left / milliseconds(1)) + 1) < 1) {
      return std::nullopt;
    }
    char text[256];
    const ssize_t size = ::read(output_, text, sizeof text);
    if (size <= 0) return std::nullopt;
    read_.append(text, static_cast<std::size_t>(size));
  }
}

void Child::end_input() {
  if (input_ >= 0) ::close(std::exchange(input_, -1));
}

void Child::signal(int number) const { ::kill(pid_, number); }

void Child::kill() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

RedisServer::RedisServer() {
  folder_ = (std::filesystem::temp_directory_path() / "redis-lock-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) fail("a folder for Redis");
  unix_socket_ = folder_ + "/redis.sock";
}

RedisServer::~RedisServer() {
  stop();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void RedisServer::start() {
  child_.emplace(std::vector<std::string>{"redis-server", "--port", "0", "--unixsocket",
                                          unix_socket_, "--dir", folder_, "--save", "",
                                          "--appendonly", "no"});
  constexpr Span kPatience = seconds(30);
  RedisConnection connection(unix_socket_, milliseconds(200));
  const Instant until = SteadyClock().now() + kPatience;
  while (connection.ask({"PING"}).kind != Reply::Kind::kText) {
    if (SteadyClock().now() > until) throw std::runtime_error("redis-server does not answer");
    std::this_thread::sleep_for(milliseconds(10));
  }
}

void RedisServer::suspend() const { child_->signal(SIGSTOP); }
void RedisServer::resume() const { child_->signal(SIGCONT); }

}  // namespace carillon::redis_lock
