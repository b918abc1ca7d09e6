// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/beanstalk/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "carillon/protocol/beanstalk/parser_testing.h"

namespace carillon::protocol::beanstalk {
namespace {

using testing::ElementsAre;
using namespace std::literals;

/// The one request that the line makes.
std::string one(std::string_view line) {
  const std::vector<std::string> requests = parse(std::string(line) + "\r\n");
  return requests.size() == 1 ? requests.front() : std::to_string(requests.size()) + " requests";
}

TEST(BeanstalkParser, ReadsEveryCommand) {
  EXPECT_EQ(one("put 1 2 3 5\r\nhello"), "put pri=1 delay=2 ttr=3 [hello]");
  EXPECT_EQ(one("use x"), "use tube=x");
  EXPECT_EQ(one("reserve"), "reserve");
  EXPECT_EQ(one("reserve-with-timeout 7"), "reserve-with-timeout timeout=7");
  EXPECT_EQ(one("reserve-job 8"), "reserve-job id=8");
  EXPECT_EQ(one("delete 9"), "delete id=9");
  EXPECT_EQ(one("release 9 10 11"), "release id=9 pri=10 delay=11");
  EXPECT_EQ(one("bury 9 10"), "bury id=9 pri=10");
  EXPECT_EQ(one("touch 9"), "touch id=9");
  EXPECT_EQ(one("watch x"), "watch tube=x");
  EXPECT_EQ(one("ignore x"), "ignore tube=x");
  EXPECT_EQ(one("peek 9"), "peek id=9");
  EXPECT_EQ(one("peek-ready"), "peek-ready");
  EXPECT_EQ(one("peek-delayed"), "peek-delayed");
  EXPECT_EQ(one("peek-buried"), "peek-buried");
  EXPECT_EQ(one("kick 12"), "kick count=12");
  EXPECT_EQ(one("kick-job 9"), "kick-job id=9");
  EXPECT_EQ(one("stats-job 9"), "stats-job id=9");
  EXPECT_EQ(one("stats-tube x"), "stats-tube tube=x");
  EXPECT_EQ(one("stats"), "stats");
  EXPECT_EQ(one("list-tubes"), "list-tubes");
  EXPECT_EQ(one("list-tube-used"), "list-tube-used");
  EXPECT_EQ(one("list-tubes-watched"), "list-tubes-watched");
  EXPECT_EQ(one("pause-tube x 13"), "pause-tube tube=x delay=13");
  EXPECT_EQ(one("quit"), "quit");
  EXPECT_EQ(one("login a:b c"), "login token=a:b c");
  EXPECT_EQ(one("login "), "login token=");
  EXPECT_EQ(one("login"), "! UNKNOWN_COMMAND");
}

TEST(BeanstalkParser, NumbersHaveTheRangesOfTheProtocol) {
  EXPECT_EQ(one("put 4294967295 4294967295 4294967295 0\r\n"),
            "put pri=4294967295 delay=4294967295 ttr=4294967295 []");
  EXPECT_EQ(one("put 4294967296 0 1 0"), "! BAD_FORMAT");
  EXPECT_EQ(one("put 0 4294967296 1 0"), "! BAD_FORMAT");
  EXPECT_EQ(one("put 0 0 4294967296 0"), "! BAD_FORMAT");
  EXPECT_EQ(one("put 0 0 1 4294967296"), "! BAD_FORMAT");
  EXPECT_EQ(one("delete 18446744073709551615"), "delete id=18446744073709551615");
  EXPECT_EQ(one("delete 18446744073709551616"), "! BAD_FORMAT");
  EXPECT_EQ(one("delete 99999999999999999999999999"), "! BAD_FORMAT");
  EXPECT_EQ(one("release 1 4294967296 0"), "! BAD_FORMAT");
  EXPECT_EQ(one("release 1 0 4294967296"), "! BAD_FORMAT");
  EXPECT_EQ(one("bury 1 4294967296"), "! BAD_FORMAT");
  EXPECT_EQ(one("pause-tube x 4294967296"), "! BAD_FORMAT");
  EXPECT_EQ(one("reserve-with-timeout 2147483647"), "reserve-with-timeout timeout=2147483647");
  EXPECT_EQ(one("reserve-with-timeout 2147483648"), "! BAD_FORMAT");
}

TEST(BeanstalkParser, ASignIsNoNumber) {
  EXPECT_EQ(one("delete -1"), "! BAD_FORMAT");
  EXPECT_EQ(one("delete +1"), "! BAD_FORMAT");
  EXPECT_EQ(one("put -1 0 1 0"), "! BAD_FORMAT");
  EXPECT_EQ(one("reserve-with-timeout -1"), "! BAD_FORMAT");
}

TEST(BeanstalkParser, SpacesBeforeNumbersAreTakenAndBehindThemAreNot) {
  EXPECT_EQ(one("delete   5"), "delete id=5");
  EXPECT_EQ(one("delete 5 "), "! BAD_FORMAT");
  EXPECT_EQ(one("delete 5x"), "! BAD_FORMAT");
  EXPECT_EQ(one("delete "), "! BAD_FORMAT");
  EXPECT_EQ(one("delete\t5"), "! UNKNOWN_COMMAND");
  EXPECT_EQ(one("release 1  2   3"), "release id=1 pri=2 delay=3");
  EXPECT_EQ(one("release 1 2"), "! BAD_FORMAT");
  EXPECT_EQ(one("put 1 2 3"), "! BAD_FORMAT");
}

TEST(BeanstalkParser, ZeroTtrBecomesOneSecond) {
  EXPECT_EQ(one("put 0 0 0 1\r\nx"), "put pri=0 delay=0 ttr=1 [x]");
}

TEST(BeanstalkParser, NamesHaveTheAlphabetOfTheProtocol) {
  const std::string longest(200, 'n');
  EXPECT_EQ(one("use " + longest), "use tube=" + longest);
  EXPECT_EQ(one("watch aZ09-+/;.$_()"), "watch tube=aZ09-+/;.$_()");
  EXPECT_EQ(one("use " + longest + "n"), "! BAD_FORMAT");
  for (const std::string_view bad :
       {"", "-x", "a:b", "a b", " a", "a ", "caf\xc3\xa9", "a,b", "a\tb", "*", "\"x\""}) {
    EXPECT_EQ(one("use " + std::string(bad)), "! BAD_FORMAT") << bad;
    EXPECT_EQ(one("stats-tube " + std::string(bad)), "! BAD_FORMAT") << bad;
  }
  EXPECT_EQ(one("pause-tube -x 1"), "! BAD_FORMAT");
  EXPECT_EQ(one("pause-tube " + longest + "n 1"), "! BAD_FORMAT");
}

TEST(BeanstalkParser, KickIsReadLaxly) {
  EXPECT_EQ(one("kick -1"), "kick count=18446744073709551615");
  EXPECT_EQ(one("kick +3"), "kick count=3");
  EXPECT_EQ(one("kick 10 zz"), "kick count=10");
  EXPECT_EQ(one("kick   10"), "kick count=10");
  EXPECT_EQ(one("kick 18446744073709551616"), "! BAD_FORMAT");
  EXPECT_EQ(one("kick"), "! UNKNOWN_COMMAND");
  EXPECT_EQ(one("kick "), "! BAD_FORMAT");
  EXPECT_EQ(one("kick x"), "! BAD_FORMAT");
  EXPECT_EQ(one("kick -"), "! BAD_FORMAT");
  EXPECT_EQ(one("kick - 1"), "! BAD_FORMAT");
}

TEST(BeanstalkParser, OddSpellingsAreTakenAsBeanstalkdTakesThem) {
  EXPECT_EQ(one("quitter"), "quit");
  EXPECT_EQ(one("reserve-with-timeout 0 junk"), "reserve-with-timeout timeout=0");
  EXPECT_EQ(one("pause-tube   x 1"), "pause-tube tube=x delay=1");
  EXPECT_EQ(one("reservex"), "! BAD_FORMAT");
  EXPECT_EQ(one("reserve-with-timeout"), "! BAD_FORMAT");
  EXPECT_EQ(one("reserve "), "! BAD_FORMAT");
  EXPECT_EQ(one("stats "), "! BAD_FORMAT");
  EXPECT_EQ(one("list-tubes x"), "! BAD_FORMAT");
  EXPECT_EQ(one("peek-readyx"), "! BAD_FORMAT");
  EXPECT_EQ(one("peek-delayed 1"), "! BAD_FORMAT");
  EXPECT_EQ(one("pause-tube x"), "! BAD_FORMAT");
  EXPECT_EQ(one("pause-tube x 1 2"), "! BAD_FORMAT");
}

TEST(BeanstalkParser, WhatIsNoCommandIsUnknown) {
  for (const std::string_view line : {"", " ", "put", "putx", "delete", "nonsense", "PUT 0 0 1 0",
                                      "list-tube", "peek", "\n", "\xff\xfe"}) {
    EXPECT_EQ(one(line), "! UNKNOWN_COMMAND") << line;
  }
}

// A page in a browser can have it post any lines to a port of its machine.
TEST(BeanstalkParser, AConnectionThatBeginsAsHttpIsOfAnotherProtocol) {
  for (const std::string_view line : {"GET / HTTP/1.1", "POST /x HTTP/1.0", "PUT /", "HEAD / x",
                                      "DELETE /", "OPTIONS * HTTP/1.1", "PATCH /?a=b HTTP/1.1"}) {
    EXPECT_EQ(one(line), "! OTHER_PROTOCOL") << line;
  }
  const std::string long_path = "POST /" + std::string(500, 'x') + " HTTP/1.1\r\n";
  EXPECT_THAT(parse(long_path + "quit\r\n"), ElementsAre("! OTHER_PROTOCOL", "quit"));
  EXPECT_THAT(parse("quit\r\nGET / HTTP/1.1\r\n"), ElementsAre("quit", "! UNKNOWN_COMMAND"));
  EXPECT_THAT(parse("quit\r\n" + long_path), ElementsAre("quit", "! BAD_FORMAT"));
  EXPECT_EQ(one("get /"), "! UNKNOWN_COMMAND");
  EXPECT_EQ(one("GET"), "! UNKNOWN_COMMAND");
}

TEST(BeanstalkParser, OnlyCrlfEndsALine) {
  EXPECT_THAT(parse("reserve\nstats\n"), ElementsAre());
  EXPECT_THAT(parse("reserve\nstats\r\nquit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
  EXPECT_THAT(parse("reserve\rstats\r\nquit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
  EXPECT_THAT(parse("reserve\r\r\nquit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
  EXPECT_THAT(parse("\n\r\n"), ElementsAre("! UNKNOWN_COMMAND"));
}

TEST(BeanstalkParser, NulIsBadFormat) {
  EXPECT_THAT(parse("use a\0b\r\nquit\r\n"sv), ElementsAre("! BAD_FORMAT", "quit"));
  EXPECT_THAT(parse("nonsense\0\r\nquit\r\n"sv), ElementsAre("! BAD_FORMAT", "quit"));
}

TEST(BeanstalkParser, ALineMayHave224BytesWithItsCrlf) {
  // Made longer by spaces, which are allowed before a number.
  const auto line = [](std::size_t size) {
    return "delete " + std::string(size - 2 - 8, ' ') + "5\r\n";
  };
  ASSERT_EQ(line(224).size(), 224U);
  EXPECT_THAT(parse(line(224) + "quit\r\n"), ElementsAre("delete id=5", "quit"));
  EXPECT_THAT(parse(line(225) + "quit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
  EXPECT_THAT(parse(line(226) + "quit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
}

TEST(BeanstalkParser, TooLongALineIsSwallowedAndAnsweredOnce) {
  const std::string endless(1'000'000, 'x');
  EXPECT_THAT(parse(endless), ElementsAre());
  EXPECT_THAT(parse(endless + "\r\nquit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
  EXPECT_THAT(parse(endless + "\n\r\r\nquit\r\n"), ElementsAre("! BAD_FORMAT", "quit"));
}

TEST(BeanstalkParser, ByteByByteIsTheSame) {
  const std::string bytes = "put 1 2 3 5\r\nhe\r\no\r\n" + std::string(300, 'x') +
                            "\r\nuse a\r\nput 0 0 0 2\r\nabc\r\ndelete 7\r\nput 0 0 0 9\r\n" +
                            "123456789\r\n\r\n";
  Parser parser(5);
  std::vector<std::string> requests;
  for (const char& byte : bytes) feed(parser, std::string_view(&byte, 1), requests);
  EXPECT_EQ(requests, parse(bytes, 5));
  EXPECT_THAT(requests, ElementsAre("put pri=1 delay=2 ttr=3 [he\r\no]", "! BAD_FORMAT",
                                    "use tube=a", "put ! EXPECTED_CRLF", "! UNKNOWN_COMMAND",
                                    "put ! JOB_TOO_BIG", "! UNKNOWN_COMMAND"));
  EXPECT_TRUE(parser.between_requests());
}

TEST(BeanstalkParser, SaysWhetherItIsInTheMiddleOfSomething) {
  Parser parser(10);
  std::vector<std::string> requests;
  EXPECT_TRUE(parser.between_requests());
  feed(parser, "sta", requests);
  EXPECT_FALSE(parser.between_requests());
  feed(parser, "ts\r\n", requests);
  EXPECT_TRUE(parser.between_requests());
  feed(parser, "put 0 0 0 1\r\n", requests);
  EXPECT_FALSE(parser.between_requests());
  feed(parser, "x\r", requests);
  EXPECT_FALSE(parser.between_requests());
  feed(parser, "\n", requests);
  EXPECT_TRUE(parser.between_requests());
}

}  // namespace
}  // namespace carillon::protocol::beanstalk
