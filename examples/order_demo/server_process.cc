// SPDX-License-Identifier: Apache-2.0
#include "server_process.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace carillon::order_demo {
namespace {

// Asks the kernel for a free port. Somebody may take it before the server does; the server then
// says so and the demo ends.
std::uint16_t free_loopback_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool ok = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  if (!ok) {
    throw std::system_error(error, std::generic_category(), "no free loopback port");
  }
  return ntohs(address.sin_port);
}

[[noreturn]] void run_child(const std::vector<char*>& argv, int log_fd, bool outlives_us,
                            pid_t parent, int error_fd) {
  ::setsid();
  if (!outlives_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(127);
    }
  }
  const int null_fd = ::open("/dev/null", O_RDONLY);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(log_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t count = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "order-demo-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "make folder " + name);
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  if (!keep_) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

ServerProcess::ServerProcess(std::filesystem::path program, std::filesystem::path folder,
                             bool outlives_us)
    : program_(std::move(program)),
      folder_(std::move(folder)),
      outlives_us_(outlives_us),
      port_(free_loopback_port()) {
  std::filesystem::create_directories(data());
}

std::string ServerProcess::listen_address() const { return "127.0.0.1:" + std::to_string(port_); }

std::string ServerProcess::command() const {
  return program_.string() + " serve --data " + data().string() + " --listen " + listen_address();
}

Result<void> ServerProcess::start() {
  CARILLON_CHECK(pid_ < 0, "the server is running already");
  std::vector<std::string> words{program_.string(), "serve",    "--data",
                                 data().string(),   "--listen", listen_address()};
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);

  // The pipe closes when exec succeeds; otherwise it carries the reason.
  int error_pipe[2];
  const int log_fd = ::open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0 || ::pipe2(error_pipe, O_CLOEXEC) != 0) {
    return Error{ErrorCode::kIo, log().string() + ": " + std::strerror(errno)};
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    run_child(argv, log_fd, outlives_us_, parent, error_pipe[1]);
  }
  const int fork_error = errno;
  ::close(log_fd);
  ::close(error_pipe[1]);
  int error = 0;
  const bool failed = pid_ < 0 || ::read(error_pipe[0], &error, sizeof error) > 0;
  ::close(error_pipe[0]);
  if (failed) {
    error = pid_ < 0 ? fork_error : error;
    kill();
    return Error{ErrorCode::kIo, "start " + program_.string() + ": " + std::strerror(error)};
  }
  return {};
}

void ServerProcess::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

std::optional<std::string> ServerProcess::ended() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) {
    return std::nullopt;
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit status " + std::to_string(WEXITSTATUS(status));
}

std::string ServerProcess::log_tail() const {
  constexpr std::size_t kLines = 10;
  std::vector<std::string> lines;
  std::ifstream in(log());
  for (std::string line; std::getline(in, line);) {
    lines.push_back("  | " + line + "\n");
    if (lines.size() > kLines) {
      lines.erase(lines.begin());
    }
  }
  std::string tail;
  for (const std::string& line : lines) {
    tail += line;
  }
  return tail;
}

}  // namespace carillon::order_demo
