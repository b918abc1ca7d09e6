// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "carillon/protocol/beanstalk/parser_testing.h"

namespace carillon::protocol::beanstalk {
namespace {

using testing::ElementsAre;
using namespace std::literals;

TEST(BeanstalkParserBody, IsOpaqueBytes) {
  EXPECT_THAT(parse("put 0 0 1 8\r\n\0\r\nput \r\r\nquit\r\n"sv),
              ElementsAre("put pri=0 delay=0 ttr=1 [\0\r\nput \r]"s, "quit"));
  EXPECT_THAT(parse("put 0 0 1 0\r\n\r\nquit\r\n"),
              ElementsAre("put pri=0 delay=0 ttr=1 []", "quit"));
}

TEST(BeanstalkParserBody, EmptyBodyIsNotANullHandle) {
  Parser parser(10);
  std::string_view bytes = "put 0 0 1 0\r\n\r\n";
  Request request;
  ASSERT_TRUE(parser.next(bytes, request));
  EXPECT_TRUE(request.body);
}

TEST(BeanstalkParserBody, WithoutCrlfExactlySizePlusTwoBytesAreTaken) {
  EXPECT_THAT(parse("put 0 0 1 2\r\nabXYquit\r\n"), ElementsAre("put ! EXPECTED_CRLF", "quit"));
  EXPECT_THAT(parse("put 0 0 1 2\r\nabcd\r\nquit\r\n"),
              ElementsAre("put ! EXPECTED_CRLF", "! UNKNOWN_COMMAND", "quit"));
  EXPECT_THAT(parse("put 0 0 1 2\r\nab\n\rquit\r\n"), ElementsAre("put ! EXPECTED_CRLF", "quit"));
  EXPECT_THAT(parse("put 0 0 1 2\r\nab\r\rquit\r\n"), ElementsAre("put ! EXPECTED_CRLF", "quit"));
}

TEST(BeanstalkParserBody, OfExactlyTheLimitIsTakenAndOneByteMoreSkipped) {
  const std::string most(65'535, 'b');
  EXPECT_THAT(parse("put 0 0 1 65535\r\n" + most + "\r\nquit\r\n"),
              ElementsAre("put pri=0 delay=0 ttr=1 [" + most + "]", "quit"));
  EXPECT_THAT(parse("put 0 0 1 65536\r\n" + most + "b\r\nquit\r\n"),
              ElementsAre("put ! JOB_TOO_BIG", "quit"));
}

TEST(BeanstalkParserBody, TooBigIsSaidOnlyAfterTheWholeBodyWasSkipped) {
  Parser parser(3);
  std::vector<std::string> requests;
  feed(parser, "put 0 0 1 5\r\n", requests);
  feed(parser, "12345\r", requests);
  EXPECT_THAT(requests, ElementsAre());
  feed(parser, "\nquit\r\n", requests);
  EXPECT_THAT(requests, ElementsAre("put ! JOB_TOO_BIG", "quit"));
}

TEST(BeanstalkParserBody, TooBigIsSaidBeforeTrailingGarbageIs) {
  EXPECT_THAT(parse("put 0 0 1 5 zz\r\n12345\r\nquit\r\n", 3),
              ElementsAre("put ! JOB_TOO_BIG", "quit"));
}

TEST(BeanstalkParserBody, OfAMalformedPutIsReadAsCommands) {
  EXPECT_THAT(parse("put 0 0 1 5 zz\r\n12345\r\nquit\r\n"),
              ElementsAre("put ! BAD_FORMAT", "! UNKNOWN_COMMAND", "quit"));
  EXPECT_THAT(parse("put 0 x 1 5\r\nquit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
}

TEST(BeanstalkParserBody, LargestAnnouncementIsSkippedWithoutOverflow) {
  Parser parser(10);
  std::vector<std::string> requests;
  feed(parser, "put 0 0 1 4294967295\r\n", requests);
  const std::string piece(64 << 20, 'x');
  for (std::uint64_t left = std::uint64_t{4294967295} + 2; left > 0;) {
    std::string_view bytes = std::string_view(piece).substr(0, left);
    left -= bytes.size();
    Request request;
    const bool done = parser.next(bytes, request);
    ASSERT_EQ(done, left == 0);
    if (done) {
      EXPECT_EQ(describe(request), "put ! JOB_TOO_BIG");
    }
  }
  EXPECT_TRUE(parser.between_requests());
}

TEST(BeanstalkParserBody, SmallOneOffersNoRoomForDirectReading) {
  Parser parser(kDefaultMaxJobSize);
  std::vector<std::string> requests;
  EXPECT_TRUE(parser.body_room().empty());
  feed(parser, "put 0 0 1 1000\r\n", requests);
  EXPECT_TRUE(parser.body_room().empty());
}

TEST(BeanstalkParserBody, LargeOneIsFilledInPlace) {
  constexpr std::uint32_t kSize = 3'000'000;
  const std::string body = [] {
    std::string text(kSize, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
    return text;
  }();
  Parser parser(kSize);
  std::vector<std::string> requests;
  feed(parser, "put 0 0 1 3000000\r\n", requests);
  std::string_view rest(body);
  std::size_t direct = 0;
  while (!rest.empty()) {
    const std::span<char> room = parser.body_room();
    const std::string_view piece = rest.substr(0, 100'000);
    const std::size_t count = std::min(room.size(), piece.size());
    direct += count;
    feed_in_place(parser, piece, requests);
    rest.remove_prefix(piece.size());
  }
  EXPECT_GT(direct, kSize - 200'000U);
  feed(parser, "\r\nquit\r\n", requests);
  EXPECT_THAT(requests, ElementsAre("put pri=0 delay=0 ttr=1 [" + body + "]", "quit"));
}

TEST(BeanstalkParserBody, MemoryFollowsWhatHasArrivedAndNotWhatWasAnnounced) {
  Parser parser(kMaxJobSizeCap);
  std::vector<std::string> requests;
  feed(parser, "put 0 0 1 1073741824\r\n", requests);
  // Room is what was allocated and not yet filled.
  EXPECT_LE(parser.body_room().size(), std::size_t{1} << 20);
  const std::string piece(1 << 20, 'x');
  for (std::size_t arrived = piece.size(); arrived <= 8 * piece.size(); arrived += piece.size()) {
    feed(parser, piece, requests);
    EXPECT_LE(parser.body_room().size(), 3 * arrived + (std::size_t{1} << 20));
  }
}

// In a process of its own, whose memory is limited.
TEST(BeanstalkParserBody, WithoutMemoryForItIsSkippedAndRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space itself";
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer needs the address space itself";
#endif
#endif
  const auto run = [] {
    const std::string piece(1 << 20, 'x');
    Parser parser(kMaxJobSizeCap);
    std::vector<std::string> requests;
    const rlimit limit{std::size_t{256} << 20, std::size_t{256} << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) std::exit(2);
    feed(parser, "put 0 0 1 1073741824\r\n", requests);
    Request request;
    bool done = false;
    for (int i = 0; i < 1024; ++i) {
      std::string_view bytes(piece);
      if (parser.next(bytes, request)) std::exit(3);
    }
    std::string_view end = "\r\nquit\r\n";
    done = parser.next(end, request);
    if (!done || describe(request) != "put ! OUT_OF_MEMORY") std::exit(4);
    done = parser.next(end, request);
    std::exit(done && request.name == CommandName::kQuit ? 0 : 5);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace carillon::protocol::beanstalk
