// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_client.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <utility>

namespace carillon::server {
namespace {

namespace http = boost::beast::http;

constexpr std::uint64_t kMaxBody = std::uint64_t{1} << 30;

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

Result<HttpAnswer> ask_http(const Endpoint& endpoint, Span timeout, const HttpCall& call,
                            const ClientTlsContext* tls) {
  for (const std::string* part : {&call.method, &call.target, &call.content_type, &call.token}) {
    if (part->find_first_of("\r\n") == std::string::npos) continue;
    return Error{ErrorCode::kInvalidArgument, "a line feed in an HTTP request"};
  }
  Result<ClientStream> stream = ClientStream::connect(endpoint, timeout, tls);
  if (!stream) return std::move(stream).error();
  if (Result<void> sent = stream->send(request_of(endpoint, call)); !sent) {
    return std::move(sent).error();
  }
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxBody);
  parser.eager(true);
  std::string input;
  bool ended = false;
  boost::system::error_code error;
  while (!parser.is_done()) {
    std::array<char, std::size_t{64} * 1024> buffer;
    const Result<std::size_t> got = stream->receive(buffer, timeout);
    if (!got) return got.error();
    if (*got == 0) {
      if (!parser.got_some()) return stream->ended_early();
      parser.put_eof(error);
      ended = true;
    } else {
      input.append(buffer.data(), *got);
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
