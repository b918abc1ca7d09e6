// SPDX-License-Identifier: Apache-2.0
// A session over several partitions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "carillon/server/client_session_testing.h"

namespace carillon::server {
namespace {

using broker::Answer;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::size_t kPartitions = 3;

/// A tube of each partition.
const std::array<std::string, kPartitions>& tubes() {
  static const std::array<std::string, kPartitions> names = [] {
    std::array<std::string, kPartitions> found;
    for (int i = 0; std::any_of(found.begin(), found.end(), [](auto& n) { return n.empty(); });
         ++i) {
      const std::string name = "t" + std::to_string(i);
      std::string& place = found[partition_of_tube(name, kPartitions)];
      if (place.empty()) place = name;
    }
    return found;
  }();
  return names;
}

/// A session that watches the tubes of the given partitions, and `default` no more. The last slot
/// used is `slots`.
struct Watcher {
  explicit Watcher(const std::vector<std::size_t>& partitions) : session(kPartitions) {
    for (const std::size_t partition : partitions) {
      session.receive("watch " + tubes()[partition] + "\r\n");
      session.reply(++slots, Answer::kWatching, partition);
    }
    session.receive("ignore default\r\n");
    session.reply(++slots, Answer::kWatching, partition_of_tube("default", kPartitions));
    session.sent();
    session.asked();
  }
  SessionUnderTest session;
  std::uint64_t slots = 0;
};

TEST(ClientSessionPartitions, TubesAndJobsHaveTheirPlaceForEver) {
  // These values are what data folders were written with.
  EXPECT_EQ(partition_of_tube("default", 64), 62U);
  EXPECT_EQ(partition_of_tube("default", 3), 0U);
  EXPECT_EQ(partition_of_tube("anything", 1), 0U);
  EXPECT_EQ(partition_of_job(1, 3), 0U);
  EXPECT_EQ(partition_of_job(2, 3), 1U);
  EXPECT_EQ(partition_of_job(3, 3), 2U);
  EXPECT_EQ(partition_of_job(4, 3), 0U);
  EXPECT_LT(partition_of_job(0, 3), 3U);
}

TEST(ClientSessionPartitions, CommandsGoWhereTheirTubeOrJobIs) {
  SessionUnderTest session(kPartitions);
  EXPECT_THAT(
      session.receive("delete 1\r\ndelete 2\r\ndelete 6\r\nstats-tube " + tubes()[1] +
                      "\r\npause-tube " + tubes()[2] + " 1\r\n"),
      ElementsAre("p0 #1 delete 1", "p1 #2 delete 2", "p2 #3 delete 6",
                  "p1 #4 stats-tube " + tubes()[1], "p2 #5 pause-tube " + tubes()[2] + " 1"));
}

TEST(ClientSessionPartitions, UsingATubeOfAnotherPartitionEndsTheUseInTheFirst) {
  SessionUnderTest session(kPartitions);
  const std::size_t home = partition_of_tube("default", kPartitions);
  const std::size_t away = (home + 1) % kPartitions;
  session.receive("use " + tubes()[away] + "\r\n");
  session.reply(1, Answer::kUsing, away);
  EXPECT_THAT(session.asked(), ElementsAre("p" + std::to_string(home) + " #0 use "));
  // There and back: the second waits for the answer to the first.
  EXPECT_THAT(session.receive("use default\r\nuse " + tubes()[away] + "\r\n"),
              ElementsAre("p" + std::to_string(home) + " #2 use default"));
  session.reply(2, Answer::kUsing, home);
  EXPECT_THAT(session.asked(), ElementsAre("p" + std::to_string(away) + " #0 use "));
  session->resume();
  EXPECT_THAT(session.asked(),
              ElementsAre("p" + std::to_string(away) + " #3 use " + tubes()[away]));
  session.reply(3, Answer::kUsing, away);
  EXPECT_THAT(session.asked(), ElementsAre("p" + std::to_string(home) + " #0 use "));
}

TEST(ClientSessionPartitions, ARefusedUseOrWatchIsKnownBeforeTheNextCommand) {
  SessionUnderTest session(kPartitions);
  session.receive("watch " + tubes()[1] + "\r\nignore default\r\nlist-tubes-watched\r\n");
  session.reply(1, Answer::kOutOfMemory, 1);
  session->resume();
  EXPECT_EQ(session.sent(), "OUT_OF_MEMORY\r\nNOT_IGNORED\r\nOK 14\r\n---\n- default\n\r\n");
}

TEST(ClientSessionPartitions, WhereItHoldsAJobIsAskedTooForTheSafetyMargin) {
  Watcher watcher({1});
  SessionUnderTest& session = watcher.session;
  session.receive("reserve-job 3\r\n");
  session.reply_job(3, Answer::kReserved, 3, "held", 2);
  session.asked();
  EXPECT_THAT(session.receive("reserve-with-timeout 9\r\n"),
              ElementsAre("p1 #4 reserve 9", "p2 #4 reserve 9"));
}

TEST(ClientSessionPartitions, ReserveOverOnePartitionAsksOnlyThat) {
  Watcher watcher({1});
  EXPECT_THAT(watcher.session.receive("reserve\r\ndelete 1\r\n"), ElementsAre("p1 #3 reserve"));
  watcher.session.reply_job(3, Answer::kReserved, 2, "b", 1);
  EXPECT_EQ(watcher.session.sent(), "RESERVED 2 1\r\nb\r\n");
}

TEST(ClientSessionPartitions, FirstGrantWinsAndTheOthersAreToldToStop) {
  Watcher watcher({0, 1, 2});
  SessionUnderTest& session = watcher.session;
  EXPECT_THAT(session.receive("reserve-with-timeout 9\r\n"),
              ElementsAre("p0 #5 reserve 9", "p1 #5 reserve 9", "p2 #5 reserve 9"));
  session.reply_job(5, Answer::kReserved, 2, "b", 1);
  EXPECT_THAT(session.asked(), ElementsAre("p0 #5 cancel-reserve", "p2 #5 cancel-reserve"));
  EXPECT_EQ(session.sent(), "RESERVED 2 1\r\nb\r\n");
  EXPECT_EQ(session.context().waiting, 0U);
}

TEST(ClientSessionPartitions, AGrantThatCrossedAnotherIsTakenBackByTheMessageThatItCrossed) {
  Watcher watcher({0, 1, 2});
  SessionUnderTest& session = watcher.session;
  session.receive("reserve\r\n");
  session.reply_job(5, Answer::kReserved, 2, "b", 1);
  EXPECT_THAT(session.asked(), ElementsAre("p0 #5 cancel-reserve", "p2 #5 cancel-reserve"));
  session.reply_job(5, Answer::kReserved, 3, "c", 2);
  session.reply(5, Answer::kTimedOut, 0);
  EXPECT_THAT(session.asked(), IsEmpty());
  EXPECT_EQ(session.sent(), "RESERVED 2 1\r\nb\r\n");
  // Also when an earlier slot holds its answer up.
  session.receive("touch 1\r\nreserve\r\n");
  session.asked();
  session.reply_job(7, Answer::kReserved, 5, "d", 1);
  session.reply_job(7, Answer::kReserved, 6, "e", 2);
  EXPECT_THAT(session.asked(), ElementsAre("p0 #7 cancel-reserve", "p2 #7 cancel-reserve"));
  session.reply(6, Answer::kTouched, 0);
  EXPECT_EQ(session.sent(), "TOUCHED\r\nRESERVED 5 1\r\nd\r\n");
}

TEST(ClientSessionPartitions, TimedOutWhenAllHave) {
  Watcher watcher({0, 1, 2});
  SessionUnderTest& session = watcher.session;
  session.receive("reserve-with-timeout 0\r\n");
  session.reply(5, Answer::kTimedOut, 2);
  session.reply(5, Answer::kTimedOut, 0);
  EXPECT_EQ(session.sent(), "");
  session.reply(5, Answer::kTimedOut, 1);
  EXPECT_EQ(session.sent(), "TIMED_OUT\r\n");
  EXPECT_FALSE(session->has_unanswered());
}

TEST(ClientSessionPartitions, DeadlineSoonOnlyIfNoOtherPartitionHasAJob) {
  Watcher watcher({0, 1, 2});
  SessionUnderTest& session = watcher.session;
  session.receive("reserve\r\n");
  session.asked();
  session.reply(5, Answer::kDeadlineSoon, 0);
  EXPECT_THAT(session.asked(), ElementsAre("p1 end-waiting", "p2 end-waiting"));
  session.reply(5, Answer::kTimedOut, 1);
  EXPECT_EQ(session.sent(), "");
  session.reply(5, Answer::kTimedOut, 2);
  EXPECT_EQ(session.sent(), "DEADLINE_SOON\r\n");

  session.receive("reserve\r\n");
  session.reply(6, Answer::kDeadlineSoon, 0);
  session.asked();
  session.reply_job(6, Answer::kReserved, 2, "b", 1);
  EXPECT_THAT(session.asked(), ElementsAre("p2 #6 cancel-reserve"));
  EXPECT_EQ(session.sent(), "RESERVED 2 1\r\nb\r\n");
}

TEST(ClientSessionPartitions, HalfCloseEndsTheWaitEverywhere) {
  Watcher watcher({0, 2});
  SessionUnderTest& session = watcher.session;
  session.receive("reserve\r\n");
  session.asked();
  session->end_input();
  EXPECT_THAT(session.asked(), ElementsAre("p0 end-waiting", "p2 end-waiting"));
  session.reply(4, Answer::kTimedOut, 0);
  session.reply(4, Answer::kTimedOut, 2);
  EXPECT_EQ(session.sent(), "TIMED_OUT\r\n");
  EXPECT_TRUE(session->finished());
}

TEST(ClientSessionPartitions, AnErrorOfOnePartitionIsTheAnswer) {
  Watcher watcher({0, 1});
  SessionUnderTest& session = watcher.session;
  session.receive("reserve\r\n");
  session.asked();
  session.reply(4, Answer::kInternalError, 1);
  EXPECT_THAT(session.asked(), ElementsAre("p0 #4 cancel-reserve"));
  EXPECT_EQ(session.sent(), "INTERNAL_ERROR\r\n");
  session.receive("list-tubes\r\n");
  session.reply(5, Answer::kInternalError, 0);
  session.reply_detail(5, broker::TubeNames{"late"}, 1);
  EXPECT_EQ(session.sent(), "INTERNAL_ERROR\r\n");
}

TEST(ClientSessionPartitions, StatsAreSums) {
  SessionUnderTest session(kPartitions);
  EXPECT_THAT(session.receive("stats\r\n"),
              ElementsAre("p0 #1 stats", "p1 #1 stats", "p2 #1 stats"));
  for (std::size_t partition = 0; partition < kPartitions; ++partition) {
    broker::PartitionStats stats;
    stats.jobs = {1, 20, 300, 4'000, 50'000};
    stats.timeouts = 2;
    stats.total_jobs = 3;
    stats.tubes = 4;
    EXPECT_EQ(session.sent(), "");
    session.reply_detail(1, stats, partition);
  }
  const std::string sent = session.sent();
  for (const char* line :
       {"current-jobs-urgent: 3\n", "current-jobs-ready: 60\n", "current-jobs-reserved: 900\n",
        "current-jobs-delayed: 12000\n", "current-jobs-buried: 150000\n", "job-timeouts: 6\n",
        "total-jobs: 9\n", "current-tubes: 12\n"}) {
    EXPECT_THAT(sent, testing::HasSubstr(line));
  }
}

TEST(ClientSessionPartitions, TubesAreListedByPartitionWhateverTheOrderOfTheReplies) {
  SessionUnderTest session(kPartitions);
  session.receive("list-tubes\r\n");
  session.reply_detail(1, broker::TubeNames{"c"}, 2);
  session.reply_detail(1, broker::TubeNames{"a", "b"}, 0);
  session.reply_detail(1, broker::TubeNames{}, 1);
  EXPECT_EQ(session.sent(), "OK 16\r\n---\n- a\n- b\n- c\n\r\n");
}

}  // namespace
}  // namespace carillon::server
