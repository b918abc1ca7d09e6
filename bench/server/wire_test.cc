// SPDX-License-Identifier: Apache-2.0
#include "bench/server/wire.h"

#include <gtest/gtest.h>

namespace carillon::bench {
namespace {

TEST(Wire, PutIsOneLineAndTheBody) {
  std::string out;
  append_put(out, 86'400, "hello");
  EXPECT_EQ(out, "put 1024 86400 60 5\r\nhello\r\n");
}

TEST(Wire, RedisPutIsTwoCommandsOfBulkStrings) {
  std::string out;
  append_redis_put(out, 42, 1'700'000'000'123, "hello");
  EXPECT_EQ(out,
            "*4\r\n$4\r\nZADD\r\n$7\r\ndelayed\r\n$13\r\n1700000000123\r\n$2\r\n42\r\n"
            "*4\r\n$4\r\nHSET\r\n$4\r\njobs\r\n$2\r\n42\r\n$5\r\nhello\r\n");
}

TEST(Wire, CutsEachReplyOnceWhereverTheBytesAreSplit) {
  const std::string in = "INSERTED 7\r\nRESERVED 8 6\r\nab\r\ncd\r\nDELETED\r\n:1\r\nTIMED_OUT\r\n";
  const std::vector<ReplyKind> expected = {ReplyKind::kInserted, ReplyKind::kReserved,
                                           ReplyKind::kDeleted, ReplyKind::kRedisInteger,
                                           ReplyKind::kTimedOut};
  for (std::size_t split = 0; split <= in.size(); ++split) {
    std::vector<ReplyKind> kinds;
    std::string buffer;
    for (const std::string& part : {in.substr(0, split), in.substr(split)}) {
      buffer += part;
      Reply reply;
      for (std::size_t n = 0; (n = cut_reply(buffer, reply)) > 0;) {
        kinds.push_back(reply.kind);
        if (reply.kind == ReplyKind::kInserted) {
          EXPECT_EQ(reply.id, 7U);
        }
        if (reply.kind == ReplyKind::kReserved) {
          EXPECT_EQ(reply.id, 8U);
          EXPECT_EQ(reply.body, "ab\r\ncd");
        }
        buffer.erase(0, n);
      }
    }
    EXPECT_EQ(kinds, expected) << "split at " << split;
    EXPECT_TRUE(buffer.empty());
  }
}

TEST(Wire, WhatItDoesNotKnowIsCutAndShown) {
  Reply reply;
  EXPECT_EQ(cut_reply("JOB_TOO_BIG\r\nINSERTED 1\r\n", reply), 13U);
  EXPECT_EQ(reply.kind, ReplyKind::kOther);
  EXPECT_EQ(reply.line, "JOB_TOO_BIG");
  EXPECT_EQ(cut_reply("RESERVED 8\r\n", reply), 12U);
  EXPECT_EQ(reply.kind, ReplyKind::kOther);
}

TEST(Wire, BodiesDifferAndHaveTheirSize) {
  const Bodies bodies(200);
  EXPECT_EQ(bodies.at(0).size(), 200U);
  EXPECT_NE(bodies.at(0), bodies.at(1));
  EXPECT_EQ(bodies.at(3), Bodies(200).at(3)) << "every run puts the same bytes";
}

}  // namespace
}  // namespace carillon::bench
