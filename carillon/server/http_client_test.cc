// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Answers one connection with fixed bytes, and keeps what it was asked.
class Peer {
 public:
  explicit Peer(std::string answer) {
    Result<std::vector<ListeningSocket>> sockets = listen_on(*Endpoint::parse("127.0.0.1:0"));
    listening_ = std::move(sockets->front());
    thread_ = std::thread([this, answer = std::move(answer)] {
      int socket = -1;
      while (socket < 0) socket = ::accept(listening_.fd.get(), nullptr, nullptr);
      const FileDescriptor connection(socket);
      char buffer[4096];
      while (asked_.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        asked_.append(buffer, static_cast<std::size_t>(got));
      }
      for (const char byte : answer) {  // In the smallest pieces.
        ::send(socket, &byte, 1, MSG_NOSIGNAL);
      }
    });
  }
  ~Peer() { thread_.join(); }
  [[nodiscard]] const Endpoint& at() const { return listening_.at; }
  [[nodiscard]] const std::string& asked() {
    thread_.join();
    thread_ = std::thread([] {});
    return asked_;
  }

 private:
  ListeningSocket listening_;
  std::string asked_;
  std::thread thread_;
};

TEST(HttpClient, AsksAndReadsAnAnswerWithALength) {
  Peer peer("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
  HttpCall call;
  call.method = "POST";
  call.target = "/api/v1/x?y=1";
  call.body = "{}";
  call.token = "secret";
  const Result<HttpAnswer> answer = ask_http(peer.at(), 10s, call);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->content_type, "text/plain");
  EXPECT_EQ(answer->body, "hello");
  EXPECT_EQ(peer.asked(), "POST /api/v1/x?y=1 HTTP/1.1\r\nHost: " + peer.at().to_string() +
                              "\r\nConnection: close\r\nUser-Agent: carillon\r\n"
                              "Authorization: Bearer secret\r\nContent-Type: application/json\r\n"
                              "Content-Length: 2\r\n\r\n{}");
}

TEST(HttpClient, ReadsChunksAndWhatEndsWithTheConnection) {
  {
    Peer peer(
        "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n"
        "0\r\n\r\n");
    const Result<HttpAnswer> answer = ask_http(peer.at(), 10s, {});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->status, 404);
    EXPECT_EQ(answer->body, "abcde");
  }
  Peer peer("HTTP/1.1 200 OK\r\n\r\nuntil the end");
  EXPECT_EQ(ask_http(peer.at(), 10s, {})->body, "until the end");
}

TEST(HttpClient, SaysWhatIsWrong) {
  for (const auto& [bytes, code] :
       {std::pair("", ErrorCode::kUnavailable), std::pair("RESERVED 1 2\r\n", ErrorCode::kCorrupt),
        std::pair("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ErrorCode::kCorrupt)}) {
    Peer peer(bytes);
    const Result<HttpAnswer> answer = ask_http(peer.at(), 10s, {});
    ASSERT_FALSE(answer) << bytes;
    EXPECT_EQ(answer.error().code, code) << answer.error().message;
  }
  HttpCall call;
  call.target = "/\r\nX: y";
  EXPECT_EQ(ask_http(*Endpoint::parse("127.0.0.1:1"), 1s, call).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ask_http(*Endpoint::parse("127.0.0.1:1"), 1s, {}).error().code,
            ErrorCode::kUnavailable);
}

TEST(HttpClient, EncodesWhatIsNotPlain) {
  EXPECT_EQ(url_encoded("a-Z_0.~"), "a-Z_0.~");
  EXPECT_EQ(url_encoded("a/b c%\xff&="), "a%2Fb%20c%25%FF%26%3D");
}

}  // namespace
}  // namespace carillon::server
