// SPDX-License-Identifier: Apache-2.0
#include "bench/server/bare_append.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

#include "bench/common/interrupt.h"
#include "carillon/base/clock.h"

namespace carillon::bench {

AppendOutcome append_and_sync(const std::filesystem::path& file, std::size_t record_bytes,
                              Span time) {
  const SteadyClock clock;
  const std::string record(record_bytes, 'r');
  const int fd = ::open(file.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  AppendOutcome outcome;
  int error = fd < 0 ? errno : 0;
  const Instant began = clock.now();
  Instant now = began;
  for (; error == 0 && now - began < time; now = clock.now()) {
    if (::write(fd, record.data(), record.size()) != static_cast<ssize_t>(record.size()) ||
        ::fdatasync(fd) != 0) {
      error = errno == EINTR ? 0 : errno;
      if (error == 0) break;  // interrupted: noticed below, once the file is closed
    }
    ++outcome.appends;
  }
  outcome.seconds = std::chrono::duration<double>(now - began).count();
  if (fd >= 0) ::close(fd);
  check_interrupt();
  if (error != 0 || outcome.appends == 0) {
    throw BenchError(fmt::format("append to {}: {}", file.string(), std::strerror(error)));
  }
  return outcome;
}

}  // namespace carillon::bench
