// SPDX-License-Identifier: Apache-2.0
#include "bench/server/dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "bench/common/interrupt.h"
#include "bench/server/postgres_wire.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

const DueTime kDue = {milliseconds(10'000), WallTime(milliseconds(1'700'000'000'123))};

// One message of PostgreSQL: its size is that of the payload and of itself.
std::string message(char type, const std::string& payload) {
  return std::string{type, '\0', '\0', '\0', static_cast<char>(payload.size() + 4)} + payload;
}

std::string ready() { return message('Z', "I"); }

std::string with_terminator(std::string text) { return text + '\0'; }

// The claim that is cut from `reply` wherever it is split: nothing before its last byte has come.
std::vector<ClaimedJob> cut_claim_whole_only(Dialect& dialect, std::string_view reply) {
  std::vector<ClaimedJob> jobs;
  for (std::size_t size = 0; size < reply.size(); ++size) {
    EXPECT_EQ(dialect.cut_claim(reply.substr(0, size), jobs), 0U) << size;
    EXPECT_TRUE(jobs.empty()) << size;
  }
  EXPECT_EQ(dialect.cut_claim(reply, jobs), reply.size());
  return jobs;
}

TEST(RedisDialect, TwoRepliesAcknowledgeAJob) {
  const auto dialect = make_redis_dialect();
  std::uint64_t jobs = 0;
  EXPECT_EQ(dialect->cut_put(":1\r", jobs), 0U);
  EXPECT_EQ(dialect->cut_put(":1\r\n:1\r\n", jobs), 4U);
  EXPECT_EQ(jobs, 0U);
  EXPECT_EQ(dialect->cut_put(":1\r\n", jobs), 4U);
  EXPECT_EQ(jobs, 1U);
  EXPECT_THROW(dialect->cut_put("-OOM\r\n", jobs), BenchError);
}

TEST(RedisDialect, ClaimPairsIdsWithBodies) {
  const auto dialect = make_redis_dialect();
  const auto jobs = cut_claim_whole_only(
      *dialect, "*2\r\n*2\r\n$1\r\n7\r\n$2\r\n18\r\n*2\r\n$2\r\nab\r\n$4\r\nc\r\nd\r\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id, "7");
  EXPECT_EQ(jobs[1].id, "18");
  EXPECT_EQ(jobs[1].body, "c\r\nd");
  EXPECT_TRUE(cut_claim_whole_only(*dialect, "*0\r\n").empty());
  std::string out;
  dialect->append_finish(out, jobs);
  EXPECT_EQ(out,
            "*4\r\n$4\r\nZREM\r\n$7\r\nworking\r\n$1\r\n7\r\n$2\r\n18\r\n"
            "*4\r\n$4\r\nHDEL\r\n$4\r\njobs\r\n$1\r\n7\r\n$2\r\n18\r\n");
}

TEST(HttpDialect, OneJobIsJsonAndSeveralAreLines) {
  const auto dialect = make_http_dialect();
  const std::vector<JobToPut> jobs = {{1, "a"}, {2, "b"}};
  std::string out;
  dialect->append_put(out, kDue, std::span(jobs).first(1));
  EXPECT_THAT(out, HasSubstr("POST /api/v1/tubes/default/jobs HTTP/1.1\r\n"));
  EXPECT_THAT(out, HasSubstr("Content-Length: 30\r\n\r\n{\"body\":\"a\",\"delay_ms\":10000}\n"));
  out.clear();
  dialect->append_put(out, kDue, jobs);
  EXPECT_THAT(out, HasSubstr("jobs:batch HTTP/1.1\r\n"));
  EXPECT_THAT(out, HasSubstr("Content-Length: 60\r\n"));
}

TEST(HttpDialect, CutsWholeResponsesAndRefusesProblems) {
  const auto dialect = make_http_dialect();
  const std::string batch =
      "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"
      "{\"status\":201,\"id\":\"1\"}\n{\"status\":201,\"id\":\"22\"}\n ";
  std::uint64_t jobs = 0;
  for (std::size_t size = 0; size < batch.size(); ++size) {
    EXPECT_EQ(dialect->cut_put(std::string_view(batch).substr(0, size), jobs), 0U) << size;
  }
  EXPECT_EQ(dialect->cut_put(batch, jobs), batch.size());
  EXPECT_EQ(jobs, 2U);
  EXPECT_THROW(dialect->cut_put("HTTP/1.1 507 x\r\nContent-Length: 0\r\n\r\n", jobs), BenchError);
  EXPECT_THROW(dialect->cut_put("HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\n"
                                "{\"status\":201,\"id\":\"1\"}\n{\"status\":422}",
                                jobs),
               BenchError);
}

TEST(HttpDialect, ClaimFindsIdReceiptAndBody) {
  const auto dialect = make_http_dialect();
  const auto jobs =
      cut_claim_whole_only(*dialect,
                           "HTTP/1.1 200 OK\r\nContent-Length: 109\r\n\r\n"
                           R"({"jobs":[{"id":"1","receipt":"e.1","tube":"x","body":"ab"},)"
                           R"({"id":"23","receipt":"e.2","tube":"x","body":""}]})");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].receipt, "e.1");
  EXPECT_EQ(jobs[0].body, "ab");
  EXPECT_EQ(jobs[1].id, "23");
  EXPECT_EQ(jobs[1].body, "");
  std::string out;
  dialect->append_finish(out, jobs);
  EXPECT_THAT(out,
              HasSubstr(R"({"jobs":[{"id":"1","receipt":"e.1"},{"id":"23","receipt":"e.2"}]})"));
}

TEST(PostgresDialect, PutIsDoneWhenTheServerIsReadyAgain) {
  const auto dialect = make_postgres_dialect();
  const std::string reply =
      message('2', "") + message('C', with_terminator("INSERT 0 64")) + ready();
  std::uint64_t jobs = 0;
  for (std::size_t size = 0; size < reply.size(); ++size) {
    EXPECT_EQ(dialect->cut_put(std::string_view(reply).substr(0, size), jobs), 0U) << size;
  }
  EXPECT_EQ(dialect->cut_put(reply + reply, jobs), reply.size());
  EXPECT_EQ(jobs, 64U);
}

TEST(PostgresDialect, ErrorsEndTheBenchmarkWithWhatTheyAre) {
  const auto dialect = make_postgres_dialect();
  const std::string text = std::string("SERROR") + '\0' + "Mno such table" + '\0' + '\0';
  std::uint64_t jobs = 0;
  try {
    static_cast<void>(dialect->cut_put(message('E', text) + ready(), jobs));
    FAIL();
  } catch (const BenchError& error) {
    EXPECT_STREQ(error.what(), "PostgreSQL: ERROR no such table ");
  }
}

TEST(PostgresDialect, ClaimReadsRows) {
  const auto dialect = make_postgres_dialect();
  const std::string id = std::string(7, '\0') + '\x09';
  const std::string row = std::string{'\0', '\2', '\0', '\0', '\0', '\x08'} + id +
                          std::string{'\0', '\0', '\0', '\3'} + "abc";
  const auto jobs =
      cut_claim_whole_only(*dialect, message('2', "") + message('D', row) +
                                         message('C', with_terminator("UPDATE 1")) + ready());
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, id);
  EXPECT_EQ(jobs[0].body, "abc");
}

TEST(PostgresWire, AStatementIsBoundExecutedAndSynced) {
  std::string out;
  {
    BoundStatement statement(out, "put", 2);
    statement.add_int8(0x0102030405060708);
    statement.begin_array(kByteaType, 1);
    statement.add_bytes("xyz");
    statement.end_array();
  }
  MessageReader reader(out);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.type(), 'B');
  const std::string_view bound = reader.payload();
  EXPECT_EQ(bound.substr(0, 5), std::string_view("\0put\0", 5));
  EXPECT_EQ(bound.substr(5, 6), std::string_view("\0\1\0\1\0\2", 6));
  EXPECT_EQ(bound.substr(11, 12), std::string_view("\0\0\0\x08\1\2\3\4\5\6\7\x08", 12));
  EXPECT_EQ(bound.substr(23, 4), std::string_view("\0\0\0\x1b", 4));  // of 27 bytes
  EXPECT_EQ(bound.substr(27, 12), std::string_view("\0\0\0\1\0\0\0\0\0\0\0\x11", 12));
  EXPECT_EQ(bound.substr(39, 15), std::string_view("\0\0\0\1\0\0\0\1\0\0\0\3xyz", 15));
  // An Execute would be taken for an error, which has the same letter, from a server.
  EXPECT_EQ(out.substr(reader.taken()), std::string_view("E\0\0\0\x09\0\0\0\0\0S\0\0\0\4", 15));
}

}  // namespace
}  // namespace carillon::bench
