// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace carillon::server {
namespace {

namespace http = boost::beast::http;

constexpr std::uint64_t kMaxBody = std::uint64_t{1} << 30;

Error gone(std::string message) { return {ErrorCode::kUnavailable, std::move(message)}; }

Result<void> wait_for(int socket, short events, Span timeout, const char* otherwise) {
  pollfd watched{socket, events, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  for (;;) {
    const int ready = ::poll(&watched, 1, static_cast<int>(std::min<std::int64_t>(ms, 1 << 30)));
    if (ready > 0) return {};
    if (ready == 0) return gone(otherwise);
    if (errno != EINTR) return gone("poll: " + std::generic_category().message(errno));
  }
}

Result<void> send_all(int socket, std::string_view bytes, Span timeout) {
  while (!bytes.empty()) {
    Result<void> ready =
        wait_for(socket, POLLOUT, timeout, "the server does not take what is sent");
    if (!ready) return ready;
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      // It may have answered before it closed: the answer says why.
      if (errno == EPIPE || errno == ECONNRESET) return {};
      return gone("send: " + std::generic_category().message(errno));
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

std::string request_of(const Endpoint& endpoint, const HttpCall& call) {
  std::string text = call.method + " " + call.target + " HTTP/1.1\r\n";
  text +=
      "Host: " + (endpoint.is_unix() ? std::string("localhost") : endpoint.to_string()) + "\r\n";
  text += "Connection: close\r\nUser-Agent: carillon\r\n";
  if (!call.token.empty()) text += "Authorization: Bearer " + call.token + "\r\n";
  if (!call.body.empty() || call.method != "GET") {
    text += "Content-Type: " + call.content_type + "\r\n";
    text += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  }
  return text + "\r\n" + call.body;
}

}  // namespace

Result<HttpAnswer> ask_http(const Endpoint& endpoint, Span timeout, const HttpCall& call) {
  for (const std::string* part : {&call.method, &call.target, &call.content_type, &call.token}) {
    if (part->find_first_of("\r\n") == std::string::npos) continue;
    return Error{ErrorCode::kInvalidArgument, "a line feed in an HTTP request"};
  }
  Result<FileDescriptor> socket = connect_to(endpoint, timeout);
  if (!socket) return std::move(socket).error();
  if (Result<void> sent = send_all(socket->get(), request_of(endpoint, call), timeout); !sent) {
    return std::move(sent).error();
  }
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxBody);
  parser.eager(true);
  std::string input;
  bool ended = false;
  boost::system::error_code error;
  while (!parser.is_done()) {
    Result<void> ready = wait_for(socket->get(), POLLIN, timeout, "no answer in time");
    if (!ready) return std::move(ready).error();
    std::array<char, 64 * 1024> buffer;
    const ssize_t got = ::recv(socket->get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return gone("recv: " + std::generic_category().message(errno));
    }
    if (got == 0) {
      if (!parser.got_some()) return gone("the server closed the connection");
      parser.put_eof(error);
      ended = true;
    } else {
      input.append(buffer.data(), static_cast<std::size_t>(got));
      while (!input.empty() && !parser.is_done()) {
        const std::size_t used = parser.put(boost::asio::buffer(input), error);
        input.erase(0, used);
        if (error || used == 0) break;
      }
      if (error == http::error::need_more) error = {};
    }
    if (error) return Error{ErrorCode::kCorrupt, "the answer is not HTTP: " + error.message()};
    if (ended) break;
  }
  HttpAnswer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  const auto type = parser.get()[http::field::content_type];
  answer.content_type.assign(type.data(), type.size());
  answer.body = std::move(parser.get().body());
  return answer;
}

std::string url_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kOthers = "-._~";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       kOthers.find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.append("%").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15U]);
    }
  }
  return out;
}

}  // namespace carillon::server
