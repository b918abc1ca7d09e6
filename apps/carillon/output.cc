// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/output.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace carillon::app {

void take_standard_descriptors() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The wrong way round, so that using it is EBADF as it would have been.
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) close(opened);
  }
}

void print_error(std::string_view message) noexcept {
  // Not by stdio or fmt, which throws. One call, so that lines of several processes do not mix.
  char end = '\n';
  const std::array<iovec, 2> parts = {iovec{const_cast<char*>(message.data()), message.size()},
                                      iovec{&end, 1}};
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, parts.data(), parts.size());
}

bool flush_output() noexcept {
  static bool failed = false;
  if (failed) return false;
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  failed = true;
  // The buffer of an earlier failed write is gone, and its errno with it.
  char message[160];
  std::snprintf(message, sizeof message, "carillon: standard output cannot be written%s%s",
                errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
  print_error(message);
  return false;
}

}  // namespace carillon::app
