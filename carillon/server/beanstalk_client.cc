// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/beanstalk_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

namespace carillon::server {
namespace {

/// Longest line of an answer that is believed.
constexpr std::size_t kMaxLine = 1024;

Error gone(std::string message) { return {ErrorCode::kUnavailable, std::move(message)}; }

/// The size of the body that `line` announces: its last number, if it is an answer that has one.
Result<std::size_t> announced_size(std::string_view line, bool& has_body) {
  has_body = line.starts_with("RESERVED ") || line.starts_with("FOUND ") || line.starts_with("OK ");
  if (!has_body) return std::size_t{0};
  const std::string_view digits = line.substr(line.rfind(' ') + 1);
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return Error{ErrorCode::kCorrupt, "no size in the answer '" + std::string(line) + "'"};
  }
  return size;
}

}  // namespace

bool BeanstalkClient::Answer::is(std::string_view word) const noexcept {
  return line.starts_with(word) && (line.size() == word.size() || line[word.size()] == ' ');
}

std::uint64_t BeanstalkClient::Answer::id() const noexcept {
  std::uint64_t id = 0;
  const std::size_t space = line.find(' ');
  if (space != std::string::npos) {
    std::from_chars(line.data() + space + 1, line.data() + line.size(), id);
  }
  return id;
}

Result<BeanstalkClient> BeanstalkClient::connect(const Endpoint& endpoint, Span timeout) {
  Result<FileDescriptor> socket = connect_to(endpoint, timeout);
  if (!socket) return std::move(socket).error();
  return BeanstalkClient(std::move(*socket), timeout);
}

Result<BeanstalkClient::Answer> BeanstalkClient::ask(std::string_view line) {
  return ask_waiting(line, Span::zero());
}

Result<BeanstalkClient::Answer> BeanstalkClient::ask_waiting(std::string_view line, Span extra) {
  if (Result<void> sent = send(std::string(line) + "\r\n"); !sent) return std::move(sent).error();
  return read_answer(extra > kForever - timeout_ ? kForever : timeout_ + extra);
}

Result<BeanstalkClient::Answer> BeanstalkClient::put(std::uint32_t priority, std::uint32_t delay_s,
                                                     std::uint32_t ttr_s, std::string_view body) {
  std::string bytes = "put " + std::to_string(priority) + " " + std::to_string(delay_s) + " " +
                      std::to_string(ttr_s) + " " + std::to_string(body.size()) + "\r\n";
  bytes.append(body).append("\r\n");
  if (Result<void> sent = send(bytes); !sent) return std::move(sent).error();
  return read_answer();
}

Result<void> BeanstalkClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd writable{socket_.get(), POLLOUT, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count();
    const int ready = poll(&writable, 1, static_cast<int>(std::min<std::int64_t>(ms, 1 << 30)));
    if (ready == 0) return gone("the server does not take what is sent");
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return gone("send: " + std::generic_category().message(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<BeanstalkClient::Answer> BeanstalkClient::read_answer(Span timeout) {
  Result<std::string> line = take_line(timeout);
  if (!line) return std::move(line).error();
  Answer answer;
  answer.line = std::move(*line);
  bool has_body = false;
  Result<std::size_t> size = announced_size(answer.line, has_body);
  if (!size) return std::move(size).error();
  if (has_body) {
    Result<std::string> body = take_body(*size, timeout_);
    if (!body) return std::move(body).error();
    answer.body = std::move(*body);
  }
  return answer;
}

Result<std::string> BeanstalkClient::read_to_end() {
  for (;;) {
    Result<bool> more = fill(timeout_);
    if (!more) return std::move(more).error();
    if (!*more) return std::exchange(input_, {});
  }
}

void BeanstalkClient::end_input() noexcept { ::shutdown(socket_.get(), SHUT_WR); }

/// Reads something; false at the end of the connection.
Result<bool> BeanstalkClient::fill(Span timeout) {
  for (;;) {
    pollfd readable{socket_.get(), POLLIN, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
    const int ready = poll(&readable, 1, static_cast<int>(std::min<std::int64_t>(ms, 1 << 30)));
    if (ready == 0) return gone("no answer in time");
    std::array<char, 16 * 1024> buffer;
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return gone("recv: " + std::generic_category().message(errno));
    }
    input_.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }
}

Result<std::string> BeanstalkClient::take_line(Span timeout) {
  for (;;) {
    const std::size_t end = input_.find("\r\n");
    if (end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 2);
      return line;
    }
    if (input_.size() > kMaxLine) return Error{ErrorCode::kCorrupt, "an answer without an end"};
    Result<bool> more = fill(timeout);
    if (!more) return std::move(more).error();
    if (!*more) return gone("the server closed the connection");
  }
}

Result<std::string> BeanstalkClient::take_body(std::size_t size, Span timeout) {
  while (input_.size() < size + 2) {
    Result<bool> more = fill(timeout);
    if (!more) return std::move(more).error();
    if (!*more) return gone("the server closed the connection");
  }
  if (input_.compare(size, 2, "\r\n") != 0) {
    return Error{ErrorCode::kCorrupt, "a body without CRLF behind it"};
  }
  std::string body = input_.substr(0, size);
  input_.erase(0, size + 2);
  return body;
}

}  // namespace carillon::server
