// SPDX-License-Identifier: Apache-2.0
// The poster against a server on loopback. Nothing here waits for time to pass but what tests a
// timeout, and that waits for its outcome.

#include "carillon/server/webhook/http_poster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "carillon/server/webhook/delivery.h"
#include "carillon/server/webhook/poster_testing.h"
#include "carillon/server/webhook/signature.h"

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using End = PostOutcome::End;
using testing::HasSubstr;
using testing::Not;

std::string url_of(const ScriptedServer& server, const std::string& host = "127.0.0.1") {
  return "http://" + host + ":" + std::to_string(server.port()) + "/hook?a=b";
}

/// Answers each request on a connection with `status`.
ScriptedServer::Script answering(int status, std::string fields = {}) {
  return [status, fields = std::move(fields)](ServerSide& side) {
    while (true) {
      side.read_request();
      side.answer(status, fields);
    }
  };
}

TEST(RequestHead, HasAllThatIsKnownOfTheJob) {
  Post post = PosterUnderTest::make(7, "https://example.com/in?x=1", R"({"order":7})");
  PostTarget target = *post.target;
  target.secrets = {"secret"};
  post.target = std::make_shared<const PostTarget>(target);
  post.job = 42;
  post.attempt = 3;
  post.key = "order-7";
  post.content_type = "application/json; charset=utf-8";
  post.due_at_ms = 1'700'000'000'120;
  const std::string signature = sign_webhook(target.secrets, 1'700'000'001, 42, R"({"order":7})");
  EXPECT_EQ(request_head(post, "carillon/1", 1'700'000'001),
            "POST /in?x=1 HTTP/1.1\r\n"
            "Host: example.com\r\n"
            "User-Agent: carillon/1\r\n"
            "Content-Type: application/json; charset=utf-8\r\n"
            "Content-Length: 11\r\n"
            "Carillon-Job-Id: 42\r\n"
            "Carillon-Tube: tube\r\n"
            "Carillon-Attempt: 3\r\n"
            "Carillon-Due: 2023-11-14T22:13:20.120Z\r\n"
            "Carillon-Key: order-7\r\n"
            "Carillon-Timestamp: 1700000001\r\n"
            "Carillon-Signature: " +
                signature + "\r\n\r\n");
}

TEST(RequestHead, WhatAClientChoseAddsNoFields) {
  Post post = PosterUnderTest::make(7, "http://example.com/");
  post.key = "a%b\r\nX-Evil: 1\xff ";
  post.content_type = "text/plain\r\nX-Evil: 1";
  const std::string head = request_head(post, "carillon", 1);
  EXPECT_THAT(head, HasSubstr("\r\nCarillon-Key: a%25b%0D%0AX-Evil:%201%FF%20\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nContent-Type: application/octet-stream\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("\r\nX-Evil")));
  EXPECT_THAT(head, Not(HasSubstr("Carillon-Due")));
  EXPECT_THAT(head, Not(HasSubstr("Carillon-Signature")));
}

TEST(HttpPoster, PostsTheBodyAndReportsTheAnswer) {
  std::promise<ServerSide::Request> seen;
  ScriptedServer server([&](ServerSide& side) {
    seen.set_value(side.read_request());
    side.answer(204);
    side.wait_for_end();
  });
  PosterUnderTest poster({"127.0.0.1"});
  const std::string bytes("\0\r\n\xff", 4);
  const PostOutcome outcome = poster.post(1, url_of(server), bytes);
  EXPECT_EQ(outcome.end, End::kAnswered);
  EXPECT_EQ(outcome.status, 204);
  EXPECT_TRUE(outcome.succeeded());
  ServerSide::Request request = seen.get_future().get();
  EXPECT_EQ(request.line, "POST /hook?a=b HTTP/1.1");
  EXPECT_EQ(request.body, bytes);
  EXPECT_EQ(request.fields["Host"], "127.0.0.1:" + std::to_string(server.port()));
  EXPECT_EQ(request.fields["Carillon-Job-Id"], "101");
  EXPECT_EQ(request.fields["Carillon-Timestamp"], "1700000000");
  poster.stop();
}

TEST(HttpPoster, UsesAConnectionAgain) {
  ScriptedServer server(answering(200));
  PosterUnderTest poster({"127.0.0.1"});
  // An outcome may come before the connection is free: it is when the next is asked for.
  for (PostId id = 1; id <= 5; ++id) {
    EXPECT_EQ(poster.post(id, url_of(server)).status, 200);
  }
  EXPECT_EQ(server.connections(), 1);
  poster.stop();
}

TEST(HttpPoster, AnErrorAndItsRetryAfterAreReported) {
  ScriptedServer server(answering(503, "Retry-After: 120\r\n"));
  PosterUnderTest poster({"127.0.0.1"});
  const PostOutcome outcome = poster.post(1, url_of(server));
  EXPECT_EQ(outcome.end, End::kAnswered);
  EXPECT_EQ(outcome.status, 503);
  EXPECT_FALSE(outcome.succeeded());
  EXPECT_EQ(outcome.retry_after, Span(120s));
  EXPECT_THAT(outcome.detail, HasSubstr("answered 503"));
  poster.stop();
}

TEST(HttpPoster, DoesNotFollowARedirect) {
  ScriptedServer target(answering(200));
  ScriptedServer server(answering(307, "Location: " + url_of(target) + "\r\n"));
  PosterUnderTest poster({"127.0.0.1"});
  const PostOutcome outcome = poster.post(1, url_of(server));
  EXPECT_EQ(outcome.status, 307);
  EXPECT_FALSE(outcome.succeeded());
  poster.stop();
  EXPECT_EQ(target.connections(), 0);
}

TEST(HttpPoster, ConnectsToNoAddressThatIsNotPublic) {
  ScriptedServer server(answering(200));
  HttpPosterOptions options;
  options.lookup = [](const std::string& host) -> HostResolver::Addresses {
    if (host == "two.example") {
      return std::vector{*IpAddress::parse("127.0.0.1"), *IpAddress::parse("::ffff:10.0.0.1")};
    }
    return std::vector{*IpAddress::parse("127.0.0.1")};
  };
  PosterUnderTest poster(options);
  for (const char* host :
       {"127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "rebound.example", "two.example"}) {
    const PostOutcome outcome = poster.post(1, url_of(server, host));
    EXPECT_EQ(outcome.end, End::kRefused) << host;
    EXPECT_THAT(outcome.detail, HasSubstr("address")) << host;
  }
  poster.stop();
  EXPECT_EQ(server.connections(), 0);
}

TEST(HttpPoster, ConnectsToTheAddressThatWasJudged) {
  // The name changes its mind: public, as far as the policy knows, only when first asked.
  ScriptedServer server(answering(200));
  std::atomic<int> lookups = 0;
  HttpPosterOptions options;
  options.policy = PosterUnderTest::policy_of({"127.0.0.1"});
  options.lookup = [&](const std::string&) -> HostResolver::Addresses {
    return std::vector{*IpAddress::parse(++lookups == 1 ? "127.0.0.1" : "127.0.0.2")};
  };
  PosterUnderTest poster(options);
  EXPECT_EQ(poster.post(1, url_of(server, "rebinding.example")).status, 200);
  EXPECT_EQ(lookups, 1);
  poster.stop();
}

TEST(HttpPoster, PassesOverRefusedAndDeadAddresses) {
  ScriptedServer server(answering(200));
  HttpPosterOptions options;
  options.policy = PosterUnderTest::policy_of({"127.0.0.0/8"});
  options.lookup = [](const std::string&) -> HostResolver::Addresses {
    return std::vector{*IpAddress::parse("10.0.0.1"), *IpAddress::parse("127.0.0.2"),
                       *IpAddress::parse("127.0.0.1")};
  };
  PosterUnderTest poster(options);
  EXPECT_EQ(poster.post(1, url_of(server, "many.example")).status, 200);
  poster.stop();
}

TEST(HttpPoster, SaysWhyNothingWasReached) {
  HttpPosterOptions options;
  options.policy = PosterUnderTest::policy_of({"127.0.0.1"});
  options.lookup = [](const std::string& host) -> HostResolver::Addresses {
    if (host == "empty.example") return std::vector<IpAddress>();
    return Error{ErrorCode::kUnavailable, "resolve " + host + ": no such name"};
  };
  std::uint16_t free_port = 0;
  {
    const ScriptedServer gone(answering(200));
    free_port = gone.port();
  }
  PosterUnderTest poster(options);
  const PostOutcome refused = poster.post(1, "http://127.0.0.1:" + std::to_string(free_port) + "/");
  EXPECT_EQ(refused.end, End::kUnreachable);
  EXPECT_THAT(refused.detail, HasSubstr("connect to 127.0.0.1"));
  EXPECT_EQ(poster.post(2, "http://nobody.example/").end, End::kUnresolved);
  EXPECT_EQ(poster.post(3, "http://empty.example/").end, End::kUnresolved);
  poster.stop();
}

TEST(HttpPoster, AServerThatClosesHasNotAnswered) {
  ScriptedServer server([](ServerSide& side) { side.read_request(); });
  PosterUnderTest poster({"127.0.0.1"});
  EXPECT_EQ(poster.post(1, url_of(server)).end, End::kClosed);
  EXPECT_EQ(server.connections(), 1);  // Tried again only if the connection was an old one.
  poster.stop();
}

TEST(HttpPoster, AServerThatTalksGarbageHasNotAnswered) {
  ScriptedServer server([](ServerSide& side) {
    side.read_request();
    side.send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
    side.wait_for_end();
  });
  PosterUnderTest poster({"127.0.0.1"});
  EXPECT_EQ(poster.post(1, url_of(server)).end, End::kGarbage);
  poster.stop();
}

TEST(HttpPoster, AServerThatIsSilentTimesOut) {
  ScriptedServer server([](ServerSide& side) { side.wait_for_end(); });
  PosterUnderTest poster({"127.0.0.1"});
  Post post = PosterUnderTest::make(1, url_of(server));
  PostTarget target = *post.target;
  target.timeout = 50ms;
  post.target = std::make_shared<const PostTarget>(target);
  poster->post(post);
  const PostOutcome outcome = poster.outcome_of(1);
  EXPECT_EQ(outcome.end, End::kTimedOut);
  EXPECT_GE(outcome.took, 50ms);
  EXPECT_THAT(outcome.detail, HasSubstr("timed out"));
  poster.stop();
}

TEST(HttpPoster, AnIdleConnectionThatHasEndedCostsNoAttempt) {
  std::atomic<int> requests = 0;
  ScriptedServer server([&](ServerSide& side) {
    side.read_request();
    side.answer(200);
    side.read_head();  // And closes, as if its time for idle connections were over just then.
    ++requests;
  });
  PosterUnderTest poster({"127.0.0.1"});
  EXPECT_EQ(poster.post(1, url_of(server)).status, 200);
  EXPECT_EQ(poster.post(2, url_of(server)).status, 200);
  EXPECT_EQ(poster.outcomes(2), 1U);
  EXPECT_EQ(server.connections(), 2);
  poster.stop();
}

TEST(HttpPoster, AnAnswerBeforeTheRequestIsReadCounts) {
  ScriptedServer server([](ServerSide& side) {
    side.read_head();
    side.answer(413, "Connection: close\r\n");
    side.wait_for_end();
  });
  PosterUnderTest poster({"127.0.0.1"});
  // More than the buffers of a socket hold.
  const std::string body(16 << 20, 'x');
  EXPECT_EQ(poster.post(1, url_of(server), body).status, 413);
  poster.stop();
}

TEST(HttpPoster, AnEndlessAnswerIsCutOff) {
  std::promise<void> cut;
  ScriptedServer server([&](ServerSide& side) {
    side.read_request();
    side.send("HTTP/1.1 200 OK\r\n\r\n");
    try {
      while (true) side.send(std::string(10'000, 'x'));
    } catch (const std::exception&) {
      cut.set_value();
    }
  });
  PosterUnderTest poster({"127.0.0.1"});
  EXPECT_EQ(poster.post(1, url_of(server)).status, 200);
  cut.get_future().wait();
  poster.stop();
}

TEST(HttpPoster, CancelEndsAPost) {
  std::promise<void> arrived;
  ScriptedServer server([&](ServerSide& side) {
    side.read_request();
    arrived.set_value();
    side.wait_for_end();
  });
  PosterUnderTest poster({"127.0.0.1"});
  poster->post(PosterUnderTest::make(1, url_of(server)));
  arrived.get_future().wait();
  poster->cancel(1);
  poster->cancel(2);  // Nobody.
  EXPECT_EQ(poster.outcome_of(1).end, End::kCancelled);
  poster.stop();
}

TEST(HttpPoster, ItsEndCancelsWhatIsInWork) {
  std::promise<void> arrived;
  ScriptedServer server([&](ServerSide& side) {
    side.read_request();
    arrived.set_value();
    side.wait_for_end();
  });
  PosterUnderTest poster({"127.0.0.1"});
  poster->post(PosterUnderTest::make(1, url_of(server)));
  arrived.get_future().wait();
  poster.stop();
  EXPECT_EQ(poster.outcome_of(1).end, End::kCancelled);
}

TEST(HttpPoster, ASlowNameHoldsUpNobody) {
  ScriptedServer server(answering(200));
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  HttpPosterOptions options;
  options.policy = PosterUnderTest::policy_of({"127.0.0.1"});
  options.lookup = [released](const std::string& host) -> HostResolver::Addresses {
    if (host == "slow.example") released.wait();
    return std::vector{*IpAddress::parse("127.0.0.1")};
  };
  PosterUnderTest poster(options);
  poster->post(PosterUnderTest::make(1, url_of(server, "slow.example")));
  poster->post(PosterUnderTest::make(2, url_of(server, "slow.example")));
  EXPECT_EQ(poster.post(3, url_of(server, "quick.example")).status, 200);
  EXPECT_EQ(poster.outcomes(1), 0U);
  release.set_value();
  EXPECT_EQ(poster.outcome_of(1).status, 200);
  EXPECT_EQ(poster.outcome_of(2).status, 200);
  poster.stop();
}

TEST(HttpPoster, ConnectionsAreBounded) {
  ScriptedServer one(answering(200));
  ScriptedServer two([](ServerSide& side) {
    side.read_request();
    side.answer(200);
    side.wait_for_end();
  });
  HttpPosterOptions options;
  options.policy = PosterUnderTest::policy_of({"127.0.0.1"});
  options.max_connections = 1;
  PosterUnderTest poster(options);
  EXPECT_EQ(poster.post(1, url_of(one)).status, 200);
  EXPECT_EQ(poster.post(2, url_of(two)).status, 200);  // For which the idle one gave way.
  EXPECT_EQ(poster.post(3, url_of(one)).status, 200);
  EXPECT_EQ(one.connections(), 2);
  poster.stop();
}

}  // namespace
}  // namespace carillon::server
