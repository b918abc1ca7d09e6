// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/response_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carillon::server {
namespace {

using State = ResponseReader::State;
using testing::HasSubstr;

/// Whole, and byte by byte: both have to come to the same.
template <class Check>
void read_both_ways(const std::string& bytes, Check check) {
  ResponseReader whole;
  whole.receive(bytes);
  check(whole);
  ResponseReader cut;
  for (const char byte : bytes) cut.receive({&byte, 1});
  check(cut);
}

TEST(ResponseReader, ReadsAStatusWithoutABody) {
  read_both_ways("HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", [](ResponseReader& reader) {
    EXPECT_EQ(reader.state(), State::kFinished);
    EXPECT_EQ(reader.status(), 204);
    EXPECT_TRUE(reader.can_reuse_connection());
  });
}

TEST(ResponseReader, ReadsOverABody) {
  read_both_ways("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", [](ResponseReader& reader) {
    EXPECT_EQ(reader.state(), State::kFinished);
    EXPECT_TRUE(reader.can_reuse_connection());
  });
}

TEST(ResponseReader, ReadsOverChunksAndATrailer) {
  read_both_ways(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=1\r\nabc\r\n0\r\nTrailer: yes\r\n\r\n",
      [](ResponseReader& reader) {
        EXPECT_EQ(reader.state(), State::kFinished);
        EXPECT_TRUE(reader.can_reuse_connection());
      });
}

TEST(ResponseReader, TheAnswerIsKnownBeforeTheBodyEnds) {
  ResponseReader reader;
  EXPECT_EQ(reader.receive("HTTP/1.1 500 Oops\r\nContent-Length: 9\r\n\r\nab"), State::kBody);
  EXPECT_EQ(reader.status(), 500);
  EXPECT_FALSE(reader.can_reuse_connection());
  EXPECT_EQ(reader.end_input(), State::kBroken);
  EXPECT_EQ(reader.status(), 500);
}

TEST(ResponseReader, ABodyWithoutALengthEndsWithTheConnection) {
  ResponseReader reader;
  EXPECT_EQ(reader.receive("HTTP/1.0 200 OK\r\n\r\nwhatever"), State::kBody);
  EXPECT_EQ(reader.end_input(), State::kFinished);
  EXPECT_FALSE(reader.can_reuse_connection());
}

TEST(ResponseReader, KeepsRetryAfter) {
  read_both_ways("HTTP/1.1 503 Busy\r\nretry-AFTER:  120 \r\nContent-Length: 0\r\n\r\n",
                 [](ResponseReader& reader) { EXPECT_EQ(reader.retry_after(), "120"); });
}

TEST(ResponseReader, SkipsInterimResponses) {
  read_both_ways(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
      "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
      [](ResponseReader& reader) {
        EXPECT_EQ(reader.state(), State::kFinished);
        EXPECT_EQ(reader.status(), 202);
      });
  ResponseReader endless;
  std::string interim;
  for (int i = 0; i < 100; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_EQ(endless.receive(interim), State::kBroken);
  EXPECT_EQ(endless.status(), 0);
}

TEST(ResponseReader, AConnectionThatIsToCloseIsNotUsedAgain) {
  read_both_ways("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                 [](ResponseReader& reader) { EXPECT_FALSE(reader.can_reuse_connection()); });
  read_both_ways("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
                 [](ResponseReader& reader) { EXPECT_FALSE(reader.can_reuse_connection()); });
  read_both_ways("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
                 [](ResponseReader& reader) {
                   EXPECT_EQ(reader.state(), State::kFinished);
                   EXPECT_FALSE(reader.can_reuse_connection());
                 });
}

TEST(ResponseReader, RefusesGarbage) {
  for (const char* bytes :
       {"SSH-2.0-OpenSSH_9\r\n\r\n", "220 mail ESMTP\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", "HTTP/1.1 99 x\r\n\r\n",
        "HTTP/1.1 1000 x\r\n\r\n", "HTTP/1.1 600 x\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/2 200\r\n\r\n", "HTTP/1.1 200 OK\r\nBad Field: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"}) {
    ResponseReader reader;
    reader.receive(bytes);
    EXPECT_EQ(reader.end_input(), State::kBroken) << bytes;
    EXPECT_EQ(reader.status(), 0) << bytes;
    EXPECT_FALSE(reader.error().empty());
  }
}

TEST(ResponseReader, AnEndWithoutAWordIsBroken) {
  ResponseReader reader;
  EXPECT_FALSE(reader.has_begun());
  EXPECT_EQ(reader.end_input(), State::kBroken);
}

TEST(ResponseReader, IsBounded) {
  ResponseReader head;
  head.receive("HTTP/1.1 200 OK\r\n");
  for (int i = 0; i < 1'000 && head.state() == State::kHead; ++i) {
    head.receive("X-Filler: 012345678901234567890123456789\r\n");
  }
  EXPECT_EQ(head.state(), State::kBroken);
  EXPECT_EQ(head.status(), 0);

  ResponseReader body;
  body.receive("HTTP/1.1 200 OK\r\n\r\n");
  std::size_t sent = 0;
  for (; sent < 1'000'000 && body.state() == State::kBody; sent += 1'000) {
    body.receive(std::string(1'000, 'x'));
  }
  EXPECT_EQ(body.state(), State::kBroken);
  EXPECT_LE(sent, ResponseReader::kMaxBody + 2'000);
  EXPECT_EQ(body.status(), 200);  // The answer stands.
  EXPECT_THAT(body.error(), HasSubstr("too long"));

  ResponseReader trailer;
  trailer.receive("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
  for (int i = 0; i < 10'000 && trailer.state() == State::kBody; ++i)
    trailer.receive("X: yyyy\r\n");
  EXPECT_EQ(trailer.state(), State::kBroken);
}

}  // namespace
}  // namespace carillon::server
