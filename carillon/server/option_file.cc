// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/option_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "carillon/server/endpoint.h"

namespace carillon::server {

Result<std::string> read_option_file(const std::string& path, std::string_view what,
                                     std::size_t max_size) {
  const auto failed = [&](ErrorCode code, std::string_view why) {
    return Error{code, fmt::format("{} '{}' cannot be read: {}", what, path, why)};
  };
  // Without O_NONBLOCK the open() of a FIFO waits for a writer, before anybody could look at it.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) {
    return failed(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                  std::generic_category().message(errno));
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    return failed(ErrorCode::kIo, std::generic_category().message(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    return failed(ErrorCode::kInvalidArgument, std::generic_category().message(EISDIR));
  }
  if (!S_ISREG(status.st_mode)) {
    return failed(ErrorCode::kInvalidArgument, "it is not a regular file");
  }
  // What it is said to have may grow meanwhile, or be 0 as in /proc.
  std::string text;
  std::size_t size = 0;
  for (;;) {
    constexpr std::size_t kStep = std::size_t{64} << 10;
    text.resize(size + kStep);
    const ssize_t got = ::read(file.get(), text.data() + size, kStep);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(ErrorCode::kIo, std::generic_category().message(errno));
    size += static_cast<std::size_t>(got);
    text.resize(size);
    if (got == 0) return text;
    if (size > max_size) {
      return failed(ErrorCode::kInvalidArgument,
                    fmt::format("it has more than {} MiB", max_size >> 20));
    }
  }
}

}  // namespace carillon::server
