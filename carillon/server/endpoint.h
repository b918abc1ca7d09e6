// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Addresses to listen on and to connect to, and the sockets that come of them.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/base/time.h"

namespace carillon::server {

inline constexpr std::uint16_t kDefaultPort = 11300;
inline constexpr std::uint16_t kDefaultHttpPort = 11380;

/// `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`; `HOST` alone is at the default port, `:PORT` alone on
/// 127.0.0.1. A host that ends in a number has to be an IPv4 address in full: the system would read
/// `0` as 0.0.0.0 and `127.1` as 127.0.0.1.
struct Endpoint {
  std::string host;  ///< Of TCP. Empty: 127.0.0.1.
  std::uint16_t port = kDefaultPort;
  std::string path;  ///< Not empty: a UNIX socket.

  [[nodiscard]] bool is_unix() const noexcept { return !path.empty(); }
  [[nodiscard]] std::string to_string() const;
  /// Whether only this machine reaches it: a UNIX socket, 127.0.0.0/8, ::1 or localhost.
  [[nodiscard]] bool is_local() const;
  [[nodiscard]] static Result<Endpoint> parse(std::string_view text,
                                              std::uint16_t default_port = kDefaultPort);
};

/// A file descriptor, closed with its owner.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept;
  void reset() noexcept;

 private:
  int fd_ = -1;
};

/// One listening socket, and where it listens.
struct ListeningSocket {
  FileDescriptor fd;
  Endpoint at;  ///< With the port that the system chose if 0 was asked for.
  /// Which file that of a UNIX socket is: another server may have taken its path since.
  dev_t device = 0;
  ino_t inode = 0;

  /// Whether the path of the UNIX socket leads to it still.
  [[nodiscard]] bool owns_path() const noexcept;
};

/// Listens, non-blocking, on every address that `endpoint` stands for (localhost may be two). A
/// UNIX socket that nobody listens on is replaced; one in use, however busy, is an error.
[[nodiscard]] Result<std::vector<ListeningSocket>> listen_on(const Endpoint& endpoint);

/// Connects, blocking, within `timeout`. The socket is left blocking.
[[nodiscard]] Result<FileDescriptor> connect_to(const Endpoint& endpoint, Span timeout);

}  // namespace carillon::server
