// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/output_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "carillon/base/random.h"

namespace carillon::server {
namespace {

/// Sends up to `count` bytes through at most `vectors` iovecs.
std::string send(OutputBuffer& buffer, std::size_t count, std::size_t vectors = 16) {
  std::array<iovec, 16> described;
  const std::size_t used = buffer.describe(std::span(described).first(vectors));
  std::string sent;
  for (std::size_t i = 0; i < used; ++i) {
    sent.append(static_cast<const char*>(described[i].iov_base), described[i].iov_len);
  }
  sent.resize(std::min(sent.size(), count));
  buffer.consume(sent.size());
  return sent;
}

TEST(OutputBuffer, SendsTextAndBodiesInOrder) {
  OutputBuffer buffer;
  EXPECT_TRUE(buffer.empty());
  const std::string large(OutputBuffer::kCopyBelow, 'L');
  buffer.text() += "one ";
  buffer.append_body(broker::Body("small "));
  buffer.append_body(broker::Body(large));
  buffer.append_body(broker::Body(large));
  buffer.text() += " end";
  EXPECT_EQ(buffer.size(), 10 + 2 * large.size() + 4);
  EXPECT_EQ(send(buffer, 1'000'000), "one small " + large + large + " end");
  EXPECT_TRUE(buffer.empty());
}

TEST(OutputBuffer, AnyPartialSendGivesTheSameBytes) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    OutputBuffer buffer;
    std::string expected;
    std::string sent;
    for (int step = 0; step < 60; ++step) {
      const char mark = static_cast<char>('a' + random.below(26));
      switch (random.below(4)) {
        case 0: {
          const std::string body(random.below(20'000), mark);
          buffer.append_body(broker::Body(body));
          expected += body;
          break;
        }
        case 1: {
          const std::string text(random.below(9'000), mark);
          buffer.text() += text;
          expected += text;
          break;
        }
        default: sent += send(buffer, random.below(30'000), 1 + random.below(4)); break;
      }
      ASSERT_EQ(buffer.size(), expected.size() - sent.size());
    }
    while (!buffer.empty()) sent += send(buffer, 5'000, 1);
    ASSERT_TRUE(sent == expected);
  }
}

TEST(OutputBuffer, AReaderThatNeverCatchesUpDoesNotLetSentBytesPileUp) {
  OutputBuffer buffer;
  for (int i = 0; i < 1'000; ++i) {
    buffer.text() += std::string(10'000, 'x');
    if (i > 0) send(buffer, 10'000);
  }
  EXPECT_EQ(buffer.size(), 10'000U);
  EXPECT_LT(buffer.text().size(), 300'000U);
}

TEST(OutputBuffer, GivesBackMemoryWhenAllIsSent) {
  OutputBuffer buffer;
  buffer.text() += std::string(1'000'000, 'x');
  send(buffer, 1'000'000);
  EXPECT_LT(buffer.text().capacity(), 100'000U);
}

}  // namespace
}  // namespace carillon::server
