// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/client_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carillon/server/client_session_testing.h"

namespace carillon::server {
namespace {

using broker::Answer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ClientSession, IsOpenUsesAndWatchesDefault) {
  RecordedPartitions partitions;
  SessionContext context{partitions};
  OutputBuffer output;
  {
    const ClientSession session(7, context, output);
    EXPECT_THAT(partitions.take(), ElementsAre("open", "p0 #0 use default", "p0 #0 watch default"));
  }
  EXPECT_THAT(partitions.take(), ElementsAre("close"));
}

TEST(ClientSession, AsksThePartitionForEveryCommandWithItsArguments) {
  SessionUnderTest session;
  EXPECT_THAT(
      session.receive("put 1 2 3 1\r\nx\r\nreserve-job 4\r\ndelete 5\r\nrelease 6 7 8\r\n"
                      "bury 9 10\r\ntouch 11\r\nkick 12\r\nkick-job 13\r\npeek 14\r\n"
                      "peek-ready\r\npeek-delayed\r\npeek-buried\r\npause-tube t 15\r\n"
                      "stats-job 16\r\nstats-tube t\r\nstats\r\n"
                      "reserve-with-timeout 17\r\n"),
      ElementsAre("p0 #1 put default pri=1 delay=2 ttr=3 [x]", "p0 #2 reserve-job 4",
                  "p0 #3 delete 5", "p0 #4 release 6 pri=7 delay=8", "p0 #5 bury 9 pri=10",
                  "p0 #6 touch 11", "p0 #7 kick default 12", "p0 #8 kick-job 13", "p0 #9 peek 14",
                  "p0 #10 peek-ready default", "p0 #11 peek-delayed default",
                  "p0 #12 peek-buried default", "p0 #13 pause-tube t 15", "p0 #14 stats-job 16",
                  "p0 #15 stats-tube t", "p0 #16 stats", "p0 #17 reserve 17"));
  EXPECT_EQ(session.sent(), "");
  SessionUnderTest other;
  EXPECT_THAT(other.receive("list-tubes\r\n"), ElementsAre("p0 #1 list-tubes"));
}

TEST(ClientSession, AnswersInTheOrderOfTheCommandsWhateverTheOrderOfTheReplies) {
  SessionUnderTest session;
  session.receive("put 0 0 1 1\r\nx\r\ndelete 5\r\nlist-tube-used\r\nfoo\r\ntouch 6\r\n");
  session.reply(3 + 2, Answer::kTouched);
  session.reply(2, Answer::kDeleted);
  EXPECT_EQ(session.sent(), "");
  EXPECT_TRUE(session->has_unanswered());
  session.reply_job(1, Answer::kInserted, 9);
  EXPECT_EQ(session.sent(),
            "INSERTED 9\r\nDELETED\r\nUSING default\r\nUNKNOWN_COMMAND\r\nTOUCHED\r\n");
  EXPECT_FALSE(session->has_unanswered());
}

TEST(ClientSession, AnswersByItselfAtOnceWhenNothingIsOutstanding) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("list-tube-used\r\nlist-tubes-watched\r\nfoo\r\nuse a:b\r\n"
                              "put 0 0 1 2\r\nabcd"),
              IsEmpty());
  EXPECT_EQ(session.sent(),
            "USING default\r\nOK 14\r\n---\n- default\n\r\nUNKNOWN_COMMAND\r\nBAD_FORMAT\r\n"
            "EXPECTED_CRLF\r\n");
}

TEST(ClientSession, DoesNothingOfWhatABrowserPosts) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("POST / HTTP/1.1\r\nHost: localhost:11300\r\n\r\n"
                              "put 0 0 60 1\r\nx\r\n"),
              IsEmpty());
  EXPECT_THAT(session.receive("put 0 0 60 1\r\nx\r\n"), IsEmpty());
  EXPECT_EQ(session.sent(), "UNKNOWN_COMMAND\r\n");
  EXPECT_TRUE(session->finished());
}

TEST(ClientSession, CarriesBodiesOfAnySize) {
  SessionUnderTest session;
  session.receive("peek 1\r\npeek 2\r\n");
  const std::string large(100'000, 'L');
  session.reply_job(1, Answer::kFound, 1, large);
  session.reply_job(2, Answer::kFound, 2, "s");
  EXPECT_EQ(session.sent(), "FOUND 1 100000\r\n" + large + "\r\nFOUND 2 1\r\ns\r\n");
}

TEST(ClientSession, UsedTubeIsThatOfPutKickAndPeeks) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("use t\r\nput 0 0 1 0\r\n\r\nkick 1\r\npeek-ready\r\n"),
              ElementsAre("p0 #1 use t", "p0 #2 put t pri=0 delay=0 ttr=1 []", "p0 #3 kick t 1",
                          "p0 #4 peek-ready t"));
  session.reply(1, Answer::kUsing);
  EXPECT_EQ(session.sent(), "USING t\r\n");
  // Again is no news to the partition.
  SessionUnderTest other;
  EXPECT_THAT(other.receive("use default\r\n"), IsEmpty());
  EXPECT_EQ(other.sent(), "USING default\r\n");
}

TEST(ClientSession, RefusedUseLeavesTheTubeThatWasUsed) {
  SessionUnderTest session;
  session.receive("use t\r\n");
  session.reply(1, Answer::kOutOfMemory);
  EXPECT_EQ(session.sent(), "OUT_OF_MEMORY\r\n");
  session.receive("list-tube-used\r\n");
  EXPECT_EQ(session.sent(), "USING default\r\n");
}

TEST(ClientSession, WatchAndIgnoreCountTheTubesWatched) {
  SessionUnderTest session;
  EXPECT_THAT(
      session.receive("watch a\r\nwatch b\r\nwatch a\r\nignore c\r\nignore default\r\n"
                      "ignore a\r\nignore b\r\nlist-tubes-watched\r\n"),
      ElementsAre("p0 #1 watch a", "p0 #2 watch b", "p0 #5 ignore default", "p0 #6 ignore a"));
  for (const std::uint64_t slot : {1, 2, 5, 6}) session.reply(slot, Answer::kWatching);
  EXPECT_EQ(session.sent(),
            "WATCHING 2\r\nWATCHING 3\r\nWATCHING 3\r\nWATCHING 3\r\nWATCHING 2\r\nWATCHING 1\r\n"
            "NOT_IGNORED\r\nOK 8\r\n---\n- b\n\r\n");
}

TEST(ClientSession, WatchedTubesAreListedInTheOrderInWhichTheyWereWatched) {
  SessionUnderTest session;
  session.receive("watch z\r\nwatch a\r\n");
  session.reply(1, Answer::kWatching);
  session.reply(2, Answer::kWatching);
  session.sent();
  session.receive("list-tubes-watched\r\n");
  EXPECT_EQ(session.sent(), "OK 22\r\n---\n- default\n- z\n- a\n\r\n");
}

TEST(ClientSession, RefusedWatchIsNotWatched) {
  SessionUnderTest session;
  session.receive("watch a\r\n");
  session.reply(1, Answer::kOutOfMemory);
  session.receive("ignore default\r\n");
  EXPECT_EQ(session.sent(), "OUT_OF_MEMORY\r\nNOT_IGNORED\r\n");
}

TEST(ClientSession, DrainModeRefusesPutsAfterTheirBodyAndNothingElse) {
  SessionUnderTest session;
  session.context().draining = true;
  EXPECT_THAT(session.receive("put 0 0 1 1\r\nx\r\nput 0 0 1 1\r\nxyz"), IsEmpty());
  EXPECT_EQ(session.sent(), "DRAINING\r\nEXPECTED_CRLF\r\n");
  EXPECT_THAT(session.receive("delete 1\r\n"), ElementsAre("p0 #1 delete 1"));
}

TEST(ClientSession, QuitEndsItAfterTheAnswersThatAreOwed) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("delete 1\r\nquit\r\ndelete 2\r\n"), ElementsAre("p0 #1 delete 1"));
  EXPECT_FALSE(session->finished());
  EXPECT_FALSE(session->wants_input());
  session.reply(1, Answer::kDeleted);
  EXPECT_TRUE(session->finished());
  EXPECT_EQ(session.sent(), "DELETED\r\n");
  EXPECT_THAT(session.receive("delete 3\r\n"), IsEmpty());
}

TEST(ClientSession, EndOfInputEndsItAfterTheAnswersThatAreOwed) {
  SessionUnderTest session;
  session.receive("delete 1\r\ndele");
  session->end_input();
  EXPECT_FALSE(session->finished());
  session.reply(1, Answer::kNotFound);
  EXPECT_TRUE(session->finished());
  EXPECT_EQ(session.sent(), "NOT_FOUND\r\n");
}

TEST(ClientSession, AGrantForOneThatQuitMeanwhileIsNoOnesSlot) {
  SessionUnderTest session;
  session.receive("delete 1\r\n");
  session.reply(1, Answer::kDeleted);
  session.reply(1, Answer::kDeleted);  // As of a late message: nothing may come of it.
  EXPECT_EQ(session.sent(), "DELETED\r\n");
}

TEST(ClientSession, CountsCommandsProducersWorkersAndThoseWhoWait) {
  SessionUnderTest session;
  session.receive("put 0 0 1 99999\r\n" + std::string(99'999, 'x') + "\r\n");
  EXPECT_EQ(session.context().producers, 1U);
  EXPECT_EQ(session.context().workers, 0U);
  session.receive("reserve\r\n");
  EXPECT_EQ(session.context().workers, 1U);
  EXPECT_EQ(session.context().waiting, 1U);
  session.reply_job(1, Answer::kReserved, 3, "b");
  EXPECT_EQ(session.context().waiting, 0U);
  session.receive("delete x\r\nreserve\r\n");
  using protocol::beanstalk::CommandName;
  const auto& commands = session.context().commands;
  EXPECT_EQ(commands[static_cast<std::size_t>(CommandName::kPut)], 1U);
  EXPECT_EQ(commands[static_cast<std::size_t>(CommandName::kReserve)], 2U);
  EXPECT_EQ(commands[static_cast<std::size_t>(CommandName::kDelete)], 0U);
  session.close();
  EXPECT_EQ(session.context().producers, 0U);
  EXPECT_EQ(session.context().workers, 0U);
  EXPECT_EQ(session.context().waiting, 0U);
}

TEST(ClientSession, ReservesTakeTheTubesInTurnIfTheServerIsToldSo) {
  SessionUnderTest session;
  EXPECT_EQ(session.receive("reserve-with-timeout 0\r\n"),
            (std::vector<std::string>{"p0 #1 reserve 0"}));
  session.reply(1, Answer::kTimedOut);
  session.context().tubes_in_turn = true;
  EXPECT_EQ(session.receive("reserve\r\n"), (std::vector<std::string>{"p0 #2 reserve in turn"}));
}

TEST(ClientSession, ReserveJobMakesAWorkerOnlyIfItSucceeds) {
  SessionUnderTest session;
  session.receive("reserve-job 1\r\nreserve-job 2\r\n");
  session.reply(1, Answer::kNotFound);
  EXPECT_EQ(session.context().workers, 0U);
  session.reply_job(2, Answer::kReserved, 2, "b");
  EXPECT_EQ(session.context().workers, 1U);
}

TEST(ClientSession, StatsShowTheJobsOfThePartitionAndTheCountersOfTheServer) {
  SessionUnderTest session;
  session.receive("put 0 0 1 1\r\nx\r\nstats\r\n");
  broker::PartitionStats stats;
  stats.jobs = {1, 2, 3, 4, 5};
  stats.timeouts = 6;
  stats.total_jobs = 7;
  stats.tubes = 8;
  session.reply_detail(2, stats);
  session.reply_job(1, Answer::kInserted, 1);
  const std::string sent = session.sent();
  for (const char* line : {"\ncurrent-jobs-urgent: 1\n", "\ncurrent-jobs-buried: 5\n",
                           "\ncmd-put: 1\n", "\ncmd-stats: 1\n", "\njob-timeouts: 6\n",
                           "\ntotal-jobs: 7\n", "\ncurrent-tubes: 8\n", "\ncurrent-producers: 1\n",
                           "\nmax-job-size: 65535\n", "\npid: 4711\n", "\ndraining: false\n"}) {
    EXPECT_THAT(sent, HasSubstr(line));
  }
}

}  // namespace
}  // namespace carillon::server
