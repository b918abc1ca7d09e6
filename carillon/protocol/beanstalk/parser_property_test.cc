// SPDX-License-Identifier: Apache-2.0
// Any cut of the bytes gives the same requests, whether bodies are copied or read in place.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "carillon/protocol/beanstalk/parser_testing.h"

namespace carillon::protocol::beanstalk {
namespace {

/// A piece of conversation: well-formed, nearly so, or noise.
rc::Gen<std::string> pieces() {
  static const std::vector<std::string> kFixed = {"reserve\r\n",
                                                  "stats\r\n",
                                                  "delete 18446744073709551615\r\n",
                                                  "use a\r\n",
                                                  "quit\r\n",
                                                  "kick -1\r\n",
                                                  "put 0 0 0 4\r\n\r\n\r\n\r\n",
                                                  "put 1 2 3 4\r\nabc",
                                                  "\r",
                                                  "\n",
                                                  "\r\n",
                                                  "release 1 2 3\r\n",
                                                  "pause-tube x 1\r\n",
                                                  "put 0 0 1 70000\r\n",
                                                  "watch a:b\r\n"};
  return rc::gen::oneOf(
      rc::gen::elementOf(kFixed), rc::gen::string<std::string>(),
      rc::gen::map(rc::gen::inRange<std::size_t>(0, 300),
                   [](std::size_t size) { return std::string(size, ' ') + "5\r\n"; }),
      rc::gen::map(rc::gen::inRange<std::size_t>(0, 40'000), [](std::size_t size) {
        return "put 1 2 3 " + std::to_string(size) + "\r\n" + std::string(size, 'b') + "\r\n";
      }));
}

std::string conversation() {
  std::string bytes;
  for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(pieces())) {
    bytes += piece;
  }
  return bytes;
}

RC_GTEST_PROP(BeanstalkParserProperty, AnyCutGivesTheSameRequests, ()) {
  const std::string bytes = conversation();
  const bool in_place = *rc::gen::arbitrary<bool>();
  const auto cuts = *rc::gen::container<std::vector<std::size_t>>(
      rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
  std::vector<std::size_t> sorted(cuts);
  sorted.push_back(bytes.size());
  std::sort(sorted.begin(), sorted.end());

  Parser parser(kDefaultMaxJobSize);
  std::vector<std::string> requests;
  std::size_t from = 0;
  for (const std::size_t cut : sorted) {
    const std::string_view piece = std::string_view(bytes).substr(from, cut - from);
    in_place ? feed_in_place(parser, piece, requests) : feed(parser, piece, requests);
    from = cut;
  }
  RC_ASSERT(requests == parse(bytes));
}

RC_GTEST_PROP(BeanstalkParserProperty, NamesAreTheOnesOfTheAlphabet, (const std::string& name)) {
  static const std::string kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()";
  const bool expected = !name.empty() && name.size() <= 200 && name[0] != '-' &&
                        name.find_first_not_of(kAlphabet) == std::string::npos;
  RC_ASSERT(is_tube_name(name) == expected);
}

}  // namespace
}  // namespace carillon::protocol::beanstalk
