// SPDX-License-Identifier: Apache-2.0
// When a session stops reading, and how it goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "carillon/server/client_session_testing.h"

namespace carillon::server {
namespace {

using broker::Answer;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(ClientSessionLimits, NothingIsParsedWhileAReserveWaits) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("reserve\r\ndelete 1\r\nreserve\r\n"), ElementsAre("p0 #1 reserve"));
  EXPECT_TRUE(session->wants_input());  // To see the end of the input.
  EXPECT_FALSE(session->can_resume());
  session.reply_job(1, Answer::kReserved, 1, "b");
  EXPECT_TRUE(session->can_resume());
  EXPECT_FALSE(session->wants_input());  // First what is there.
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #2 delete 1", "p0 #3 reserve"));
  EXPECT_FALSE(session->can_resume());
}

TEST(ClientSessionLimits, AReserveThatOnlyWaitsForTheDiskHoldsNothingUp) {
  SessionUnderTest session;
  session.partitions().decided_at_once = true;
  EXPECT_THAT(session.receive("reserve\r\nreserve\r\ndelete 1\r\n"),
              ElementsAre("p0 #1 reserve", "p0 #2 reserve", "p0 #3 delete 1"));
  EXPECT_EQ(session.context().waiting, 0U);
  session->end_input();
  EXPECT_THAT(session.asked(), IsEmpty());
  session.reply(3, Answer::kDeleted);
  session.reply_job(1, Answer::kReserved, 1, "a");
  session.reply_job(2, Answer::kReserved, 2, "b");
  EXPECT_EQ(session.sent(), "RESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\nDELETED\r\n");
}

TEST(ClientSessionLimits, AReserveThatWaitsReadsAheadOnlySoMuch) {
  SessionUnderTest session;
  session.receive("reserve\r\n");
  std::size_t read = 0;
  while (session->wants_input() && read < 10 * ClientSession::kReadAhead) {
    session.receive(std::string(4096, 'x'));
    read += 4096;
  }
  EXPECT_EQ(read, ClientSession::kReadAhead);
}

TEST(ClientSessionLimits, HalfCloseEndsAWaitingReserveAndEveryLaterOne) {
  SessionUnderTest session;
  session.receive("reserve\r\nreserve-with-timeout 9\r\ndelete 1\r\n");
  session->end_input();
  EXPECT_THAT(session.asked(), ElementsAre("p0 end-waiting"));
  session.reply(1, Answer::kTimedOut);
  EXPECT_FALSE(session->finished());
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #2 reserve 9", "p0 end-waiting"));
  session.reply(2, Answer::kTimedOut);
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #3 delete 1"));
  session.reply(3, Answer::kNotFound);
  EXPECT_TRUE(session->finished());
  EXPECT_EQ(session.sent(), "TIMED_OUT\r\nTIMED_OUT\r\nNOT_FOUND\r\n");
}

TEST(ClientSessionLimits, TooManyUnansweredCommandsStopTheReading) {
  SessionLimits limits;
  limits.max_unanswered = 3;
  SessionUnderTest session(1, limits);
  EXPECT_THAT(session.receive("touch 1\r\ntouch 2\r\ntouch 3\r\ntouch 4\r\ntouch 5\r\n"),
              SizeIs(3));
  EXPECT_FALSE(session->wants_input());
  session.reply(2, Answer::kTouched);
  EXPECT_FALSE(session->can_resume());  // Its answer still waits for the first.
  session.reply(1, Answer::kTouched);
  EXPECT_TRUE(session->can_resume());
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #4 touch 4", "p0 #5 touch 5"));
}

TEST(ClientSessionLimits, TooManyUnansweredBytesStopTheReading) {
  SessionLimits limits;
  limits.max_unanswered_bytes = 1'000;
  SessionUnderTest session(1, limits);
  const std::string put = "put 0 0 1 600\r\n" + std::string(600, 'x') + "\r\n";
  EXPECT_THAT(session.receive(put + put + put), SizeIs(2));
  EXPECT_FALSE(session->wants_input());
  session.reply_job(1, Answer::kInserted, 1);
  session->resume();
  EXPECT_THAT(session.asked(), SizeIs(1));
}

TEST(ClientSessionLimits, AnswersThatMayBringAJobCountAsTheLargest) {
  SessionLimits limits;
  limits.max_unanswered_bytes = 3 * protocol::beanstalk::kDefaultMaxJobSize;
  SessionUnderTest session(1, limits);
  EXPECT_THAT(session.receive("peek 1\r\npeek-ready\r\nreserve-job 3\r\npeek 4\r\ntouch 5\r\n"),
              SizeIs(3));
  session.reply(1, Answer::kNotFound);
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #4 peek 4"));
  session.reply_job(2, Answer::kFound, 2, "small");
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #5 touch 5"));
}

TEST(ClientSessionLimits, AnswersThatAreNotKnownYetCountAsUnsent) {
  SessionLimits limits;
  limits.max_unsent_bytes = 10 * ClientSession::kDocumentBytes;
  SessionUnderTest session(1, limits);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "stats\r\nstats-job 1\r\nstats-tube default\r\n";
  EXPECT_THAT(session.receive(many), SizeIs(10));
  EXPECT_FALSE(session->wants_input());
  std::uint64_t answered = 0;
  std::size_t most = 0;
  while (session->has_unanswered()) {
    ++answered;
    if (answered % 3 == 1) {
      session.reply_detail(answered, broker::PartitionStats{});
    } else {
      session.reply(answered, Answer::kNotFound);
    }
    most = std::max(most, session.output().size());
    session.sent();
    session->resume();
    EXPECT_LE(session.asked().size(), 1U);  // One for each that was sent.
  }
  EXPECT_EQ(answered, 300U);
  EXPECT_TRUE(session->wants_input());
  EXPECT_LE(most, ClientSession::kDocumentBytes);  // An answer is no larger than it is taken for.
}

TEST(ClientSessionLimits, OneListOfAllTubesIsOnItsWayAtATime) {
  SessionUnderTest session;
  EXPECT_THAT(session.receive("list-tubes\r\nlist-tubes\r\ntouch 1\r\n"),
              ElementsAre("p0 #1 list-tubes"));
  EXPECT_FALSE(session->can_resume());
  session.reply_detail(1, broker::TubeNames{"default"});
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #2 list-tubes"));
  session.reply_detail(2, broker::TubeNames{"default"});
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #3 touch 1"));
}

TEST(ClientSessionLimits, AnswersHeldBackByAnEarlierOneCountAsUnsent) {
  SessionLimits limits;
  limits.max_unsent_bytes = 1'000;
  SessionUnderTest session(1, limits);
  std::string commands = "touch 1\r\n";
  for (int i = 0; i < 1'000; ++i) commands += "list-tube-used\r\n";
  session.receive(commands);
  EXPECT_FALSE(session->can_resume());
  session.reply(1, Answer::kTouched);
  const std::string first = session.sent();
  EXPECT_GE(first.size(), 1'000U);
  EXPECT_LT(first.size(), 1'100U);
  std::size_t size = first.size();
  while (session->can_resume()) {
    session->resume();
    size += session.sent().size();
  }
  EXPECT_EQ(size,
            std::string("TOUCHED\r\n").size() + 1'000 * std::string("USING default\r\n").size());
}

TEST(ClientSessionLimits, BodiesHeldBackByAnEarlierAnswerStayCounted) {
  SessionLimits limits;
  limits.max_unanswered_bytes = std::size_t{2} * protocol::beanstalk::kDefaultMaxJobSize;
  SessionUnderTest session(1, limits);
  EXPECT_THAT(session.receive("touch 1\r\npeek 2\r\npeek 3\r\npeek 4\r\n"), SizeIs(3));
  session.reply_job(2, Answer::kFound, 2, "two");
  session.reply_job(3, Answer::kFound, 3, "three");
  EXPECT_FALSE(session->can_resume());  // Both are held in memory until the first is answered.
  session.reply(1, Answer::kTouched);
  session->resume();
  EXPECT_THAT(session.asked(), ElementsAre("p0 #4 peek 4"));
}

TEST(ClientSessionLimits, ARefusedCommandIsCountedOnlyUntilItIsAnswered) {
  SessionLimits limits;
  limits.max_unanswered_bytes = std::size_t{4} * protocol::beanstalk::kDefaultMaxJobSize;
  SessionUnderTest session(1, limits);
  for (std::uint64_t slot = 1; slot <= 22; slot += 11) {
    std::string commands = "touch 1\r\n";
    for (int i = 0; i < 10; ++i) commands += "peek x\r\n";
    session.receive(commands);
    session.reply(slot, Answer::kTouched);
    EXPECT_TRUE(session->wants_input());
  }
}

TEST(ClientSessionLimits, OneTurnAnswersOnlySoMuch) {
  SessionUnderTest session;
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += "list-tube-used\r\n";
  session.receive(many);
  std::string all;
  for (bool more = true; more;) {
    EXPECT_LE(session.output().size(), ClientSession::kTurnBytes + 100);
    all += session.sent();
    more = session->can_resume();
    session->resume();
  }
  EXPECT_EQ(all.size(), 10'000 * std::string("USING default\r\n").size());
  EXPECT_TRUE(session->wants_input());
}

TEST(ClientSessionLimits, OneTurnGoesThroughOnlySoManyWatchedTubes) {
  constexpr std::size_t kTubes = 800;
  SessionUnderTest session;
  std::string watches;
  for (std::size_t i = 1; i <= kTubes; ++i) watches += "watch t" + std::to_string(i) + "\r\n";
  session.receive(watches);
  for (std::size_t slot = 1; slot <= kTubes;) {
    session.reply(slot, Answer::kWatching);
    if (++slot % 64 == 0) session->resume();
  }
  session.sent();
  constexpr std::size_t kAsked = 1'000;
  std::string many;
  for (std::size_t i = 0; i < kAsked; ++i) many += "ignore nothing\r\n";
  session.receive(many);
  const std::size_t one = std::string("WATCHING 801\r\n").size();
  constexpr std::size_t kMost = ClientSession::kTurnWork / (kTubes / 8) + 1;
  std::string all;
  std::size_t turns = 0;
  for (bool more = true; more; ++turns) {
    EXPECT_LE(session.output().size(), kMost * one);
    all += session.sent();
    more = session->can_resume();
    session->resume();
  }
  EXPECT_EQ(all.size(), kAsked * one);
  EXPECT_GT(turns, kAsked / kMost);
}

TEST(ClientSessionLimits, AClientThatDoesNotReadItsAnswersIsNotRead) {
  SessionLimits limits;
  limits.max_unsent_bytes = 10'000;
  SessionUnderTest session(1, limits);
  std::string many;
  for (int i = 0; i < 2'000; ++i) many += "list-tube-used\r\n";
  session.receive(many);
  EXPECT_GE(session.output().size(), 10'000U);
  EXPECT_LT(session.output().size(), 10'100U);
  EXPECT_FALSE(session->wants_input());
  EXPECT_FALSE(session->can_resume());
  std::string all = session.sent();
  while (session->can_resume()) {
    session->resume();
    all += session.sent();
  }
  EXPECT_EQ(all.size(), 2'000 * std::string("USING default\r\n").size());
  EXPECT_TRUE(session->wants_input());
}

TEST(ClientSessionLimits, ManySmallPiecesWhileBlockedAreAllDone) {
  SessionLimits limits;
  limits.max_unanswered = 1;
  SessionUnderTest session(1, limits);
  std::string commands;
  for (int i = 1; i <= 10'000; ++i) commands += "touch " + std::to_string(i) + "\r\n";
  session.receive(commands);
  std::string sent;
  for (std::uint64_t slot = 1; slot <= 10'000; ++slot) {
    session.reply(slot, Answer::kTouched);
    session->resume();
    sent += session.sent();
  }
  EXPECT_EQ(sent.size(), 10'000 * std::string("TOUCHED\r\n").size());
  EXPECT_FALSE(session->has_unanswered());
  EXPECT_TRUE(session->wants_input());
}

TEST(ClientSessionLimits, LargeBodyIsReadInPlace) {
  SessionUnderTest session;
  session.context().max_job_size = 1'000'000;
  // The limit is taken when a session begins.
  OutputBuffer output;
  RecordedPartitions partitions;
  SessionContext context{partitions};
  context.max_job_size = 1'000'000;
  ClientSession large(8, context, output);
  partitions.take();
  large.receive("put 0 0 1 100000\r\n");
  const std::span<char> room = large.body_room();
  ASSERT_EQ(room.size(), 100'000U);
  std::fill(room.begin(), room.end(), 'b');
  large.body_filled(room.size());
  EXPECT_THAT(partitions.take(), IsEmpty());
  large.receive("\r\n");
  EXPECT_THAT(partitions.take(), ElementsAre("p0 #1 put default pri=0 delay=0 ttr=1 [" +
                                             std::string(100'000, 'b') + "]"));
}

}  // namespace
}  // namespace carillon::server
