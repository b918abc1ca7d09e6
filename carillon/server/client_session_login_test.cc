// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carillon/server/client_session_testing.h"

namespace carillon::server {
namespace {

using broker::Answer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// "p-token" may produce, "c-token" consume, "a-token" everything; without those of `revoked`.
HttpTokens tokens(const std::string& revoked = {}) {
  std::string text = "admin " + sha256_hex("spare") + "\n";
  for (const std::string role : {"produce", "consume", "admin"}) {
    const std::string token = role.substr(0, 1) + "-token";
    if (token != revoked) text.append(role).append(" ").append(sha256_hex(token)).append("\n");
  }
  Result<HttpTokens> parsed = HttpTokens::parse(text, "tokens");
  return std::move(*parsed);
}

/// A session of a server that wants logins.
struct GuardedSession : SessionUnderTest {
  GuardedSession() {
    context().logins = tokens();
    restart();
  }
};

TEST(ClientSessionLogin, IsNoCommandUnlessConfigured) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("login a-token\r\nlogin \r\nuse login;x\r\n"),
              ElementsAre("p0 #1 use login;x"));
  EXPECT_EQ(session.sent(), "UNKNOWN_COMMAND\r\nUNKNOWN_COMMAND\r\n");
  session.reply(1, Answer::kUsing);
  EXPECT_EQ(session.sent(), "USING login;x\r\n");
}

TEST(ClientSessionLogin, NothingIsDoneForWhoHasNotLoggedIn) {
  GuardedSession session;
  EXPECT_THAT(session.receive("put 0 0 1 3\r\nabc\r\nput 0 0 1 0\r\n\r\nreserve\r\ndelete 1\r\n"
                              "stats\r\nlist-tubes\r\nuse t\r\nkick 1\r\npeek-ready\r\n"),
              IsEmpty());
  std::string answers;
  for (int i = 0; i < 9; ++i) answers += "UNKNOWN_COMMAND\r\n";
  EXPECT_EQ(session.sent(), answers);
  EXPECT_EQ(session.context().workers, 0);
  EXPECT_EQ(session.context().producers, 0);
  // What is no command is answered as ever.
  session.receive("stats x\r\nfoo\r\n");
  EXPECT_EQ(session.sent(), "BAD_FORMAT\r\nUNKNOWN_COMMAND\r\n");
  session.receive("quit\r\n");
  EXPECT_TRUE(session->finished());
}

TEST(ClientSessionLogin, NoBodyIsKeptBeforeIt) {
  GuardedSession session;
  session.receive("put 0 0 1 60000\r\n");
  EXPECT_TRUE(session->body_room().empty());
  session.receive(std::string(60'000, 'x') + "\r\nlogin p-token\r\n");
  EXPECT_EQ(session.sent(), "UNKNOWN_COMMAND\r\nLOGGED_IN produce\r\n");
  session.receive("put 0 0 1 60000\r\n");
  EXPECT_FALSE(session->body_room().empty());
}

TEST(ClientSessionLogin, AllowsWhatTheRolesAreFor) {
  const std::string every =
      "put 0 0 1 0\r\n\r\nreserve-job 1\r\ndelete 1\r\nrelease 1 0 0\r\nbury 1 0\r\ntouch 1\r\n"
      "kick 1\r\nkick-job 1\r\npause-tube t 1\r\npeek 1\r\nstats-tube t\r\n";
  GuardedSession producer;
  EXPECT_THAT(producer.receive("login p-token\r\n" + every),
              ElementsAre("p0 #1 put default pri=0 delay=0 ttr=1 []", "p0 #3 delete 1",
                          "p0 #10 peek 1", "p0 #11 stats-tube t"));
  GuardedSession consumer;
  EXPECT_THAT(
      consumer.receive("login c-token\r\n" + every),
      ElementsAre("p0 #1 reserve-job 1", "p0 #2 delete 1", "p0 #3 release 1 pri=0 delay=0",
                  "p0 #4 bury 1 pri=0", "p0 #5 touch 1", "p0 #9 peek 1", "p0 #10 stats-tube t"));
  EXPECT_EQ(consumer.sent(), "LOGGED_IN consume\r\nUNKNOWN_COMMAND\r\n");
  GuardedSession admin;
  EXPECT_EQ(admin.receive("login a-token\r\n" + every).size(), 11);
}

TEST(ClientSessionLogin, UseAndWatchOfATubeLogInTheClientsThatKnowNoMore) {
  GuardedSession session;
  EXPECT_THAT(session.receive("use login;p-token\r\nlist-tube-used\r\n"), IsEmpty());
  EXPECT_EQ(session.sent(), "USING login;p-token\r\nUSING default\r\n");
  GuardedSession worker;
  EXPECT_THAT(worker.receive("watch login;c-token\r\nlist-tubes-watched\r\n"), IsEmpty());
  EXPECT_THAT(worker.sent(), HasSubstr("WATCHING 1\r\nOK 14\r\n---\n- default\n"));
  GuardedSession other;
  other.receive("use login;wrong\r\nuse login;\r\nlist-tube-used\r\n");
  EXPECT_EQ(other.sent(), "BAD_FORMAT\r\nBAD_FORMAT\r\nUNKNOWN_COMMAND\r\n");
}

TEST(ClientSessionLogin, EndsWithTheThirdWrongToken) {
  GuardedSession session;
  session.receive("login wrong\r\nlogin P-token\r\n");
  EXPECT_FALSE(session->finished());
  EXPECT_THAT(session.receive("login \r\nlogin p-token\r\nput 0 0 1 0\r\n\r\n"), IsEmpty());
  EXPECT_EQ(session.sent(), "LOGIN_FAILED\r\nLOGIN_FAILED\r\nLOGIN_FAILED\r\n");
  EXPECT_TRUE(session->finished());
}

TEST(ClientSessionLogin, AWrongTokenTakesNothingBack) {
  GuardedSession session;
  EXPECT_THAT(session.receive("login p-token\r\nlogin wrong\r\ndelete 3\r\n"),
              ElementsAre("p0 #1 delete 3"));
}

TEST(ClientSessionLogin, IsOverWhenTheTokenIsRevoked) {
  GuardedSession session;
  EXPECT_THAT(session.receive("login c-token\r\nreserve\r\n"), ElementsAre("p0 #1 reserve"));
  session.context().logins = tokens("a-token");
  session->check_login();
  EXPECT_THAT(session.asked(), IsEmpty());
  EXPECT_FALSE(session->finished());
  session.context().logins = tokens("c-token");
  session->check_login();
  EXPECT_THAT(session.asked(), ElementsAre("p0 end-waiting"));
  session.reply(1, Answer::kTimedOut);
  EXPECT_EQ(session.sent(), "LOGGED_IN consume\r\nTIMED_OUT\r\n");
  EXPECT_TRUE(session->finished());
}

TEST(ClientSessionLogin, AReserveThatWaitsEndsWithTheRole) {
  GuardedSession session;
  EXPECT_THAT(session.receive("login c-token\r\nreserve\r\n"), ElementsAre("p0 #1 reserve"));
  Result<HttpTokens> changed =
      HttpTokens::parse("produce " + sha256_hex("c-token") + "\n", "tokens");
  ASSERT_TRUE(changed);
  session.context().logins = std::move(*changed);
  session->check_login();
  EXPECT_THAT(session.asked(), ElementsAre("p0 end-waiting"));
  session.reply(1, Answer::kTimedOut);
  EXPECT_FALSE(session->finished()) << "it may still put";
  session.receive("reserve\r\n");
  EXPECT_EQ(session.sent(), "LOGGED_IN consume\r\nTIMED_OUT\r\nUNKNOWN_COMMAND\r\n");
}

TEST(ClientSessionLogin, ComesIntoForceForSessionsThatAreOpen) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("delete 1\r\n"), ElementsAre("p0 #1 delete 1"));
  session.context().logins = tokens();
  session->check_login();
  EXPECT_FALSE(session->finished());  // Not before it has its answer.
  session.reply(1, Answer::kNotFound);
  EXPECT_TRUE(session->finished());
  // One that may still log in stays, and one that need not any more is let go on.
  GuardedSession fresh;
  fresh->check_login();
  EXPECT_FALSE(fresh->finished());
  fresh.context().logins.reset();
  fresh->check_login();
  EXPECT_THAT(fresh.receive("put 0 0 1 1\r\nx\r\n"),
              ElementsAre("p0 #1 put default pri=0 delay=0 ttr=1 [x]"));
}

TEST(ClientSessionLogin, EachFailureIsReportedAndWhoHasNotLoggedInIsKnown) {
  SessionUnderTest open;
  EXPECT_FALSE(open->lacks_login());
  GuardedSession session;
  std::vector<broker::SessionId> failed;
  session.context().on_failed_login = [&](broker::SessionId id) { failed.push_back(id); };
  EXPECT_TRUE(session->lacks_login());
  session.receive("login x\r\nuse login;y\r\n");
  EXPECT_TRUE(session->lacks_login());
  EXPECT_THAT(failed, ElementsAre(session->id(), session->id()));
  session.receive("watch login;c-token\r\n");
  EXPECT_FALSE(session->lacks_login());
  EXPECT_EQ(failed.size(), 2);
}

TEST(ClientSessionLogin, IsCountedAndWhatIsRefusedIsNot) {
  GuardedSession session;
  session.receive("put 0 0 1 0\r\n\r\nlogin p-token\r\nput 0 0 1 0\r\n\r\n");
  using protocol::beanstalk::CommandName;
  EXPECT_EQ(session.context().commands[static_cast<std::size_t>(CommandName::kPut)], 1);
}

}  // namespace
}  // namespace carillon::server
