// SPDX-License-Identifier: Apache-2.0
#include "connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace carillon::order_demo {
namespace {

constexpr std::size_t kReadSize = 64 * 1024;

bool has_body(std::string_view line) {
  return line.starts_with("RESERVED ") || line.starts_with("OK ");
}

// The last word of "RESERVED <id> <bytes>" and "OK <bytes>".
std::size_t body_size(std::string_view line) {
  const std::string_view word = line.substr(line.rfind(' ') + 1);
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
  if (error != std::errc{} || end != word.data() + word.size()) {
    throw std::runtime_error("answer without a body size: " + std::string(line));
  }
  return size;
}

}  // namespace

Result<void> Connection::connect(std::uint16_t port) {
  CARILLON_CHECK(!is_open(), "connect of an open connection");
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return Error{ErrorCode::kIo, std::string("socket: ") + std::strerror(errno)};
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // On loopback connect answers at once, so this one call may block.
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    const std::string reason = std::strerror(errno);
    ::close(fd);
    return Error{ErrorCode::kUnavailable,
                 "connect to port " + std::to_string(port) + ": " + reason};
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  fd_ = fd;
  return {};
}

void Connection::close() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
  fd_ = -1;
  out_.clear();
  out_sent_ = 0;
  in_.clear();
  in_used_ = 0;
}

void Connection::send(Request request, std::string_view bytes) {
  CARILLON_CHECK(is_open(), "send on a closed connection");
  out_ += bytes;
  unanswered_.push_back(request);
}

bool Connection::flush() {
  while (is_open() && out_sent_ < out_.size()) {
    const ssize_t count =
        ::send(fd_, out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL);
    if (count >= 0) {
      out_sent_ += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      // On EPIPE and ECONNRESET too: answers may still lie in the receive buffer, and read() finds
      // the end after them.
      return errno == EAGAIN;
    }
  }
  out_.clear();
  out_sent_ = 0;
  return false;
}

void Connection::read(const Clock& clock, const OnReply& on_reply) {
  while (is_open()) {
    const std::size_t old_size = in_.size();
    in_.resize(old_size + kReadSize);
    const ssize_t count = ::recv(fd_, in_.data() + old_size, kReadSize, 0);
    const int error = errno;
    in_.resize(old_size + (count > 0 ? static_cast<std::size_t>(count) : 0));
    if (count < 0 && error == EINTR) {
      continue;
    }
    if (count < 0 && error == EAGAIN) {
      return;
    }
    if (count <= 0) {
      close();
      return;
    }
    Reply reply{.line = {}, .body = {}, .received_at = clock.now()};
    while (next_reply(reply)) {
      if (unanswered_.empty()) {
        throw std::runtime_error("answer that nobody asked for: " + std::string(reply.line));
      }
      const Request request = unanswered_.front();
      unanswered_.pop_front();
      on_reply(request, reply);
    }
    in_.erase(0, in_used_);
    in_used_ = 0;
    if (static_cast<std::size_t>(count) < kReadSize) {
      return;  // level-triggered: what came meanwhile is reported again, the end included
    }
  }
}

bool Connection::next_reply(Reply& reply) {
  const std::string_view rest = std::string_view(in_).substr(in_used_);
  const std::size_t line_size = rest.find("\r\n");
  if (line_size == std::string_view::npos) {
    return false;
  }
  reply.line = rest.substr(0, line_size);
  reply.body = {};
  std::size_t used = line_size + 2;
  if (has_body(reply.line)) {
    const std::size_t size = body_size(reply.line);
    if (rest.size() < used + size + 2) {
      return false;
    }
    reply.body = rest.substr(used, size);
    used += size + 2;
  }
  in_used_ += used;
  return true;
}

std::size_t Connection::unanswered(Verb verb) const {
  return static_cast<std::size_t>(
      std::count_if(unanswered_.begin(), unanswered_.end(),
                    [verb](const Request& request) { return request.verb == verb; }));
}

std::vector<Request> Connection::take_unanswered() {
  CARILLON_CHECK(!is_open(), "the connection may still answer");
  std::vector<Request> cut_off(unanswered_.begin(), unanswered_.end());
  unanswered_.clear();
  return cut_off;
}

}  // namespace carillon::order_demo
