// SPDX-License-Identifier: Apache-2.0
// One HTTP client over partitions that answer when they are told: what is asked of them, in which
// order, and what becomes of it when the client goes away. HTTP itself is tested against the real
// server (tests/conformance/http).

#include "carillon/server/http_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_events.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Reply;
using broker::Verb;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr broker::SessionId kDesk = 1;
constexpr broker::SessionId kClient = 7;

/// Writes down what it is asked.
class AskedPartitions final : public Partitions {
 public:
  struct Asked {
    std::size_t partition;
    broker::Command command;
    std::string tube;
  };

  explicit AskedPartitions(std::size_t count) : count_(count) {}
  [[nodiscard]] std::size_t count() const noexcept override { return count_; }
  void open_session(broker::SessionId session) override { open.push_back(session); }
  void close_session(broker::SessionId session) override { std::erase(open, session); }
  void end_waiting(std::size_t partition, broker::SessionId) override {
    ended.push_back(partition);
  }
  void submit(std::size_t partition, broker::Command command) override {
    asked.push_back({partition, command, std::string(command.tube)});
  }
  [[nodiscard]] bool may_wait(broker::SessionId) const override { return true; }

  std::vector<Asked> take() { return std::exchange(asked, {}); }

  std::vector<broker::SessionId> open;
  std::vector<Asked> asked;
  std::vector<std::size_t> ended;

 private:
  const std::size_t count_;
};

class HttpSessionTest : public testing::Test {
 protected:
  explicit HttpSessionTest(std::size_t partitions = 1)
      : partitions_(partitions),
        desk_(kDesk, partitions_,
              [this](std::size_t partition, broker::Ticket ticket, Reply reply) {
                context_.deliver(partition, ticket, std::move(reply));
              }) {
    context_.epoch = 0xe;
    context_.deliver = [this](std::size_t partition, broker::Ticket ticket, Reply reply) {
      session_->on_reply(partition, ticket.slot, std::move(reply));
    };
    session_ = std::make_unique<HttpSession>(kClient, context_, output_, [this] { ++requests_; });
  }

  void post(const std::string& path, const std::string& body) {
    session_->receive("POST " + path +
                      " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      "Content-Length: " +
                      std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  void reply(const AskedPartitions::Asked& to, Answer answer, broker::JobId id = 0) {
    Reply reply;
    reply.answer = answer;
    reply.id = id;
    if (answer == Answer::kReserved) {
      broker::JobView job;
      job.attempt = 3;
      job.stats.id = id;
      job.stats.tube = "t";
      reply.body = broker::Body("x");
      reply.detail = std::make_unique<broker::Detail>(std::move(job));
    }
    if (to.command.ticket.session == kDesk) {
      desk_.on_reply(to.partition, to.command.ticket.slot, std::move(reply));
    } else {
      session_->on_reply(to.partition, to.command.ticket.slot, std::move(reply));
    }
  }
  /// What the client has been sent since the last call. It is with the kernel then.
  std::string sent() {
    std::string bytes;
    while (!output_.empty()) {
      iovec vectors[64];
      const std::size_t count = output_.describe(vectors);
      std::size_t size = 0;
      for (std::size_t i = 0; i < count; ++i) {
        bytes.append(static_cast<const char*>(vectors[i].iov_base), vectors[i].iov_len);
        size += vectors[i].iov_len;
      }
      output_.consume(size);
    }
    if (session_->awaits_sending()) session_->on_output_sent();
    return bytes;
  }
  std::vector<Verb> verbs() {
    std::vector<Verb> verbs;
    for (const auto& asked : partitions_.asked) verbs.push_back(asked.command.verb);
    return verbs;
  }
  /// Asks for jobs; the watches are granted.
  void reserve(const std::string& members) {
    post("/api/v1/reserve", "{" + members + "}");
    for (const auto& watch : partitions_.take()) {
      if (watch.command.verb != Verb::kReserve) reply(watch, Answer::kWatching);
    }
  }

  AskedPartitions partitions_;
  HttpGuard guard_;
  HttpDesk desk_;
  HttpEvents events_;
  ManualCalendar calendar_;
  HttpContext context_{.partitions = partitions_,
                       .guard = guard_,
                       .desk = desk_,
                       .events = events_,
                       .calendar = calendar_};
  OutputBuffer output_;
  std::unique_ptr<HttpSession> session_;
  int requests_ = 0;
};

class HttpSessionInTwoTest : public HttpSessionTest {
 protected:
  HttpSessionInTwoTest() : HttpSessionTest(2) {}
  // FNV-1a of these names: one in each partition.
  const std::string first_ = partition_of_tube("a", 2) == 0 ? "a" : "b";
  const std::string second_ = partition_of_tube("a", 2) == 0 ? "b" : "a";
};

TEST_F(HttpSessionTest, APutIsAnsweredWhenThePartitionHasAnswered) {
  post("/api/v1/tubes/t/jobs", R"({"body":"x","delay_ms":5})");
  const auto asked = partitions_.take();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].command.delay, std::chrono::milliseconds(5));
  EXPECT_EQ(asked[0].tube, "t");
  EXPECT_EQ(sent(), "");
  reply(asked[0], Answer::kInserted, 17);
  EXPECT_THAT(sent(), HasSubstr(R"({"id":"17"})"));
}

TEST_F(HttpSessionTest, APipelinedRequestWaitsForTheOneBeforeIt) {
  post("/api/v1/tubes/t/jobs", R"({"body":"1"})");
  post("/api/v1/tubes/t/jobs", R"({"body":"2"})");
  auto asked = partitions_.take();
  ASSERT_EQ(asked.size(), 1U);
  reply(asked[0], Answer::kInserted, 1);
  EXPECT_TRUE(session_->can_resume());
  session_->resume();
  asked = partitions_.take();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].command.body.view(), "2");
}

TEST_F(HttpSessionTest, HalfARequestKeepsNobodyBusy) {
  session_->receive("POST /api/v1/reserve HTTP/1.1\r\nHos");
  EXPECT_FALSE(session_->can_resume());
  EXPECT_EQ(session_->phase(), HttpSession::Phase::kHead);
  session_->receive("t: localhost\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(session_->phase(), HttpSession::Phase::kBody);
  EXPECT_FALSE(session_->can_resume());
  session_->time_out();
  EXPECT_THAT(sent(), HasSubstr("HTTP/1.1 408 "));
  EXPECT_TRUE(session_->finished());
}

TEST_F(HttpSessionTest, ABatchIsPutPieceByPiece) {
  std::string body = "[";
  for (int i = 0; i < 1200; ++i) body += std::string(i > 0 ? "," : "") + R"({"body":"x"})";
  post("/api/v1/tubes/t/jobs:batch", body + "]");
  std::vector<AskedPartitions::Asked> all;
  for (const std::size_t expected : {500U, 500U, 200U}) {
    auto some = partitions_.take();
    EXPECT_EQ(some.size(), expected);
    all.insert(all.end(), some.begin(), some.end());
    if (session_->can_resume()) session_->resume();
  }
  EXPECT_FALSE(session_->can_resume());
  for (std::size_t i = all.size(); i > 0; --i) {  // In any order.
    EXPECT_EQ(sent(), "");
    reply(all[i - 1], Answer::kInserted, i);
  }
  EXPECT_THAT(sent(), HasSubstr(R"({"results":[{"status":201,"id":"1"},{"status":201,"id":"2"},)"));
}

TEST_F(HttpSessionTest, AReservedJobGoesToTheDeskWhenTheResponseIsSent) {
  reserve(R"("tubes":["t"],"wait_ms":1000)");
  const auto asked = partitions_.take();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].command.timeout, std::chrono::seconds(1));
  reply(asked[0], Answer::kReserved, 9);
  EXPECT_THAT(verbs(), IsEmpty());
  EXPECT_THAT(sent(), HasSubstr(R"("receipt":"000000000000000e.3")"));
  const auto handed = partitions_.take();
  ASSERT_EQ(handed.size(), 1U);
  EXPECT_EQ(handed[0].command.verb, Verb::kHandOver);
  EXPECT_EQ(handed[0].command.to, kDesk);
  EXPECT_EQ(handed[0].command.ticket.session, kClient);
}

TEST_F(HttpSessionTest, AClientThatIsGoneKeepsNothing) {
  reserve(R"("tubes":["t"],"wait_ms":1000)");
  const auto asked = partitions_.take();
  session_->end_input();
  EXPECT_THAT(partitions_.ended, ElementsAre(0U));
  reply(asked[0], Answer::kReserved, 9);  // It crossed the end.
  session_.reset();                       // Nothing could be sent.
  EXPECT_THAT(verbs(), IsEmpty()) << "handed over";
  EXPECT_THAT(partitions_.open, ElementsAre(kDesk)) << "the job goes back with its session";
  EXPECT_EQ(context_.waiting, 0U);
}

TEST_F(HttpSessionTest, TheSameTubesAreWatchedOnce) {
  reserve(R"("tubes":["t"])");
  reply(partitions_.take().at(0), Answer::kTimedOut);
  sent();
  session_->resume();
  post("/api/v1/reserve", R"({"tubes":["t"]})");
  EXPECT_THAT(verbs(), ElementsAre(Verb::kReserve));
  reply(partitions_.take().at(0), Answer::kTimedOut);
  sent();
  session_->resume();
  post("/api/v1/reserve", R"({"tubes":["u"]})");
  EXPECT_THAT(verbs(), ElementsAre(Verb::kIgnore, Verb::kWatch));
}

TEST_F(HttpSessionTest, MoreAreAskedForOnlyWhenThereWasOne) {
  reserve(R"("tubes":["t"],"max":3)");
  reply(partitions_.take().at(0), Answer::kReserved, 1);
  session_->resume();
  const auto more = partitions_.take();
  ASSERT_EQ(more.size(), 2U);
  EXPECT_EQ(more[0].command.timeout, Span::zero());
  reply(more[0], Answer::kReserved, 2);
  reply(more[1], Answer::kTimedOut);
  const std::string response = sent();
  EXPECT_THAT(response, HasSubstr(R"("id":"1")"));
  EXPECT_THAT(response, HasSubstr(R"("id":"2")"));
  EXPECT_THAT(verbs(), ElementsAre(Verb::kHandOver, Verb::kHandOver));
}

TEST_F(HttpSessionInTwoTest, TheFirstJobEndsTheWaitingOfTheOtherPartition) {
  reserve(R"("tubes":[")" + first_ + R"(",")" + second_ + R"("],"max":5,"wait_ms":9000)");
  const auto asked = partitions_.take();
  ASSERT_EQ(asked.size(), 2U);
  reply(asked[1], Answer::kReserved, 2);
  EXPECT_THAT(partitions_.ended, ElementsAre(0U, 1U));
  EXPECT_EQ(sent(), "") << "the other may have a job on the way";
  reply(asked[0], Answer::kReserved, 1);
  session_->resume();
  while (!partitions_.asked.empty()) {  // Either has no more.
    for (const auto& more : partitions_.take()) reply(more, Answer::kTimedOut);
  }
  const std::string response = sent();
  EXPECT_THAT(response, HasSubstr(R"("id":"1")"));
  EXPECT_THAT(response, HasSubstr(R"("id":"2")"));
}

TEST_F(HttpSessionTest, AReceiptOfAnotherStartIsStaleWithoutAsking) {
  post("/api/v1/jobs/5/ack", R"({"receipt":"000000000000000d.1"})");
  EXPECT_THAT(verbs(), IsEmpty());
  EXPECT_THAT(sent(), HasSubstr("stale-receipt"));
  session_->resume();
  post("/api/v1/jobs/5/ack", R"({"receipt":"000000000000000e.4"})");
  const auto asked = partitions_.take();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].command.attempt, 4U);
  EXPECT_EQ(asked[0].command.ticket.session, kDesk);
  reply(asked[0], Answer::kNotFound);
  EXPECT_THAT(sent(), HasSubstr("stale-receipt"));
}

TEST_F(HttpSessionTest, BodiesOfRefusedRequestsAreNotCounted) {
  context_.limits.max_bodies = 100;
  post("/api/v1/tubes/t/jobs", R"({"body":"x"})");
  EXPECT_EQ(context_.bodies, 12U);
  reply(partitions_.take().at(0), Answer::kInserted, 1);
  sent();
  session_->resume();
  EXPECT_EQ(context_.bodies, 0U);
  post("/api/v1/tubes/t/jobs", std::string(101, ' '));
  EXPECT_THAT(sent(), HasSubstr("overloaded"));
  EXPECT_EQ(context_.bodies, 0U);
}

TEST_F(HttpSessionTest, OnlyWhatHasComeOfABodyTakesRoomFromOthers) {
  context_.limits.max_bodies = 100;
  const std::string_view chunked =
      "POST /api/v1/tubes/t/jobs HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
  session_->receive(chunked);
  EXPECT_EQ(context_.bodies, 0U) << "announced only";
  session_->receive("a\r\n0123456789\r\n");
  EXPECT_EQ(context_.bodies, 10U);
  session_->receive("5\r\n01");
  EXPECT_EQ(context_.bodies, 12U);
  context_.bodies += 86;  // Of others.
  session_->receive("2");
  EXPECT_THAT(sent(), IsEmpty());
  session_->receive("34");
  EXPECT_THAT(sent(), AllOf(HasSubstr(" 503 "), HasSubstr("http-max-bodies is 100")));
  EXPECT_FALSE(session_->wants_input());
  session_.reset();
  EXPECT_EQ(context_.bodies, 86U);
}

TEST_F(HttpSessionTest, TrailersHaveALimit) {
  session_->receive(
      "POST /api/v1/tubes/t/jobs HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n");
  const std::string trailers(1'000, 'a');
  std::size_t given = 0;
  std::string said;
  while (said.empty() && given < 10 * context_.limits.max_header) {
    session_->receive("a: " + trailers + "\r\n");
    given += trailers.size();
    said = sent();
  }
  EXPECT_THAT(said, AllOf(HasSubstr(" 431 "), HasSubstr("the trailer")));
  EXPECT_LE(given, context_.limits.max_header + 2 * trailers.size());
  EXPECT_FALSE(session_->wants_input());
}

TEST_F(HttpSessionTest, AFewTrailersAreReadOver) {
  session_->receive(
      "POST /api/v1/tubes/t/jobs HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
      "Digest: none\r\nHost: elsewhere\r\n\r\n");
  const auto asked = partitions_.take();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].command.body.view(), "x");
}

TEST_F(HttpSessionTest, EventsGoToWhoListensAndStopWithThem) {
  session_->receive("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(sent(), HasSubstr("text/event-stream"));
  events_.publish("stats", "{}");
  EXPECT_EQ(sent(), "event: stats\ndata: {}\n\n");
  session_->end_input();
  EXPECT_EQ(events_.size(), 0U);
  session_->resume();
  EXPECT_TRUE(session_->finished());
}

TEST_F(HttpSessionTest, AStopEndsWhatWaitsAndClosesAfterTheResponse) {
  reserve(R"("tubes":["t"],"wait_ms":1000)");
  const auto asked = partitions_.take();
  context_.stopping = true;
  session_->stop();
  EXPECT_THAT(partitions_.ended, ElementsAre(0U));
  reply(asked[0], Answer::kTimedOut);
  EXPECT_THAT(sent(), HasSubstr("Connection: close"));
  session_->resume();
  EXPECT_TRUE(session_->finished());
}

}  // namespace
}  // namespace carillon::server
