// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

namespace carillon::server {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kBacklog = 4096;  // The kernel clamps it to net.core.somaxconn.

Error system_error(std::string_view what, int number = errno) {
  const ErrorCode code =
      number == ECONNREFUSED || number == ENOENT || number == ETIMEDOUT || number == EAGAIN
          ? ErrorCode::kUnavailable
          : ErrorCode::kIo;
  return {code, std::string(what) + ": " + std::generic_category().message(number)};
}

Error bad_endpoint(std::string_view text, std::string_view why) {
  return {ErrorCode::kInvalidArgument, "address '" + std::string(text) + "': " + std::string(why)};
}

Result<std::uint16_t> parse_port(std::string_view digits, std::string_view whole) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return bad_endpoint(whole, "the port is not a number from 0 to 65535");
  }
  return port;
}

/// Whether the system might take `host` for a short IPv4 address though it is none in full.
bool is_short_ipv4(const std::string& host) {
  std::string_view last = host;
  if (last.ends_with('.')) last.remove_suffix(1);
  if (const std::size_t dot = last.rfind('.'); dot != std::string_view::npos) {
    last.remove_prefix(dot + 1);
  }
  const bool hex = last.starts_with("0x") || last.starts_with("0X");
  const std::string_view digits = hex ? "0123456789abcdefABCDEF" : "0123456789";
  const bool numeric = last.find_first_not_of(digits, hex ? 2 : 0) == std::string_view::npos;
  in_addr address{};
  return !last.empty() && numeric && inet_pton(AF_INET, host.c_str(), &address) != 1;
}

bool is_ipv6(std::string host) {
  if (const std::size_t zone = host.find('%'); zone != std::string::npos) host.resize(zone);
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

struct AddressList {
  struct Free {
    void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
  };
  std::unique_ptr<addrinfo, Free> first;
};

Result<AddressList> resolve(const Endpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  const std::string host = endpoint.host.empty() ? "127.0.0.1" : endpoint.host;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (error != 0) {
    return Error{ErrorCode::kUnavailable, "address '" + host + "': " + gai_strerror(error)};
  }
  AddressList result;
  result.first.reset(list);
  return result;
}

Result<sockaddr_un> unix_address(const Endpoint& endpoint) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (endpoint.path.size() >= sizeof(address.sun_path)) {
    return bad_endpoint(endpoint.to_string(), "the path is longer than 107 bytes");
  }
  std::memcpy(address.sun_path, endpoint.path.c_str(), endpoint.path.size() + 1);
  return address;
}

Result<void> connect_within(int fd, const sockaddr* address, socklen_t size, Span timeout) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  if (::connect(fd, address, size) != 0) {
    if (errno != EINPROGRESS) return system_error("connect");
    pollfd waiting{fd, POLLOUT, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
    const int ready = poll(&waiting, 1, static_cast<int>(std::clamp<std::int64_t>(ms, 0, 1 << 30)));
    if (ready == 0) return system_error("connect", ETIMEDOUT);
    if (ready < 0) return system_error("poll");
    int error = 0;
    socklen_t error_size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
    if (error != 0) return system_error("connect", error);
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return {};
}

/// Removes a socket file whose server is gone.
Result<void> remove_stale_socket(const Endpoint& endpoint) {
  struct stat status{};
  if (lstat(endpoint.path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return Error{ErrorCode::kAlreadyExists, endpoint.path + " exists and is not a socket"};
  }
  Result<sockaddr_un> address = unix_address(endpoint);
  if (!address) return std::move(address).error();
  FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe.is_open()) return system_error("socket");
  const bool connected =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0;
  // EAGAIN: its queue is full, so there is one.
  if (connected || errno == EAGAIN || errno == EINPROGRESS) {
    return Error{ErrorCode::kAlreadyExists, endpoint.path + ": another server listens there"};
  }
  if (errno == ENOENT) return {};
  if (errno != ECONNREFUSED) {
    return system_error(endpoint.path + " exists, and whether a server listens there is unknown");
  }
  if (unlink(endpoint.path.c_str()) != 0 && errno != ENOENT) return system_error("unlink");
  return {};
}

Result<std::vector<ListeningSocket>> listen_on_unix(const Endpoint& endpoint) {
  Result<sockaddr_un> address = unix_address(endpoint);
  if (!address) return std::move(address).error();
  if (Result<void> removed = remove_stale_socket(endpoint); !removed) {
    return std::move(removed).error();
  }
  FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) return system_error("socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return system_error(endpoint.to_string());
  }
  struct stat status{};
  if (lstat(endpoint.path.c_str(), &status) != 0) {
    return system_error(endpoint.to_string());
  }
  std::vector<ListeningSocket> sockets;
  sockets.push_back({std::move(fd), endpoint, status.st_dev, status.st_ino});
  return sockets;
}

/// The address in `storage`, numeric.
Endpoint bound_endpoint(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size);
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  Endpoint endpoint;
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
    endpoint.host = host;
    std::from_chars(port, port + std::strlen(port), endpoint.port);
  }
  return endpoint;
}

}  // namespace

std::string Endpoint::to_string() const {
  if (is_unix()) return std::string(kUnixPrefix) + path;
  const std::string name = host.empty() ? "127.0.0.1" : host;
  const bool bracketed = name.find(':') != std::string::npos;
  return (bracketed ? "[" + name + "]" : name) + ":" + std::to_string(port);
}

bool Endpoint::is_local() const {
  if (is_unix() || host.empty() || host == "localhost") return true;
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  in6_addr address6{};
  return inet_pton(AF_INET6, host.c_str(), &address6) == 1 && IN6_IS_ADDR_LOOPBACK(&address6);
}

Result<Endpoint> Endpoint::parse(std::string_view text, std::uint16_t default_port) {
  Endpoint endpoint;
  endpoint.port = default_port;
  if (text.starts_with(kUnixPrefix)) {
    endpoint.path = text.substr(kUnixPrefix.size());
    if (endpoint.path.empty()) return bad_endpoint(text, "unix: needs a path");
    return endpoint;
  }
  if (text.empty()) return bad_endpoint(text, "is empty");
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return bad_endpoint(text, "'[' without ']'");
    endpoint.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!port.empty() && !port.starts_with(':')) return bad_endpoint(text, "text behind ']'");
    if (!is_ipv6(endpoint.host)) return bad_endpoint(text, "no IPv6 address in '[' ']'");
  } else {
    const std::size_t colon = text.find(':');
    if (colon != text.rfind(':')) {
      return bad_endpoint(text, "an IPv6 address is written [ADDRESS]:PORT");
    }
    endpoint.host = text.substr(0, colon);
    port = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
    if (is_short_ipv4(endpoint.host)) {
      return bad_endpoint(text, port.empty()
                                    ? "a port alone is written :PORT, an IPv4 address in full"
                                    : "an IPv4 address is written in full, as 127.0.0.1");
    }
  }
  if (port.empty()) return endpoint;
  Result<std::uint16_t> number = parse_port(port.substr(1), text);
  if (!number) return std::move(number).error();
  endpoint.port = *number;
  return endpoint;
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() noexcept { return std::exchange(fd_, -1); }

void FileDescriptor::reset() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool ListeningSocket::owns_path() const noexcept {
  struct stat status{};
  return at.is_unix() && lstat(at.path.c_str(), &status) == 0 && status.st_dev == device &&
         status.st_ino == inode;
}

Result<std::vector<ListeningSocket>> listen_on(const Endpoint& endpoint) {
  if (endpoint.is_unix()) return listen_on_unix(endpoint);
  Result<AddressList> addresses = resolve(endpoint, AI_PASSIVE);
  if (!addresses) return std::move(addresses).error();
  std::vector<ListeningSocket> sockets;
  Error last{ErrorCode::kUnavailable, "no address"};
  for (const addrinfo* info = addresses->first.get(); info != nullptr; info = info->ai_next) {
    FileDescriptor fd(socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) {
      last = system_error("socket");
      continue;
    }
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (info->ai_family == AF_INET6) {
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    if (bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0 || ::listen(fd.get(), kBacklog) != 0) {
      const int number = errno;
      last = system_error(endpoint.to_string(), number);
      if (number == EADDRINUSE) return last;
      continue;  // A machine without IPv6 still resolves localhost to ::1.
    }
    Endpoint at = bound_endpoint(fd.get());
    sockets.push_back({std::move(fd), std::move(at), 0, 0});
    if (endpoint.port == 0) break;  // One port, not one for each address.
  }
  if (sockets.empty()) return last;
  return sockets;
}

Result<FileDescriptor> connect_to(const Endpoint& endpoint, Span timeout) {
  if (endpoint.is_unix()) {
    Result<sockaddr_un> address = unix_address(endpoint);
    if (!address) return std::move(address).error();
    FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) return system_error("socket");
    Result<void> connected = connect_within(fd.get(), reinterpret_cast<const sockaddr*>(&*address),
                                            sizeof *address, timeout);
    if (!connected) return std::move(connected).error().prefixed(endpoint.to_string());
    return fd;
  }
  Result<AddressList> addresses = resolve(endpoint, 0);
  if (!addresses) return std::move(addresses).error();
  Error last{ErrorCode::kUnavailable, "no address"};
  for (const addrinfo* info = addresses->first.get(); info != nullptr; info = info->ai_next) {
    FileDescriptor fd(socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.is_open()) {
      last = system_error("socket");
      continue;
    }
    Result<void> connected = connect_within(fd.get(), info->ai_addr, info->ai_addrlen, timeout);
    if (!connected) {
      last = std::move(connected).error();
      continue;
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
  }
  return std::move(last).prefixed(endpoint.to_string());
}

}  // namespace carillon::server
