// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/partition_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "carillon/store/memory/memory_store.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Ticket;
using broker::Verb;
using std::chrono::milliseconds;
using std::chrono::seconds;
using store::MemoryStore;
using testing::ElementsAre;
using testing::IsEmpty;

/// A host over a store that completes when told, and what was delivered.
class Hosted {
 public:
  Hosted() {
    auto store = std::make_unique<MemoryStore>(std::make_shared<store::MemoryDisk>(),
                                               store::Completion::kManual);
    memory = store.get();
    PartitionHostOptions options;
    options.broker.horizon = seconds(10);
    PartitionHost::Outside outside;
    outside.deliver = [this](Ticket ticket, Reply reply) {
      answers[ticket.session].emplace_back(ticket.slot, reply.answer);
      if (reply.answer == Answer::kReserved) {
        granted[ticket.session].emplace_back(ticket.slot, reply.id);
      }
    };
    outside.log = [this](const LogEntry& entry) {
      log.append(entry.event).append(": ").append(entry.message).append("\n");
    };
    outside.post = [this](std::function<void()> call) { posted.push_back(std::move(call)); };
    host = std::make_unique<PartitionHost>(options, std::move(store), clock, calendar, "boot",
                                           std::move(outside));
    EXPECT_TRUE(host->open());
    settle();
  }

  void connect(broker::SessionId session) {
    host->open_session(session);
    ask(session, Verb::kUse, "default");
    ask(session, Verb::kWatch, "default");
    settle();
    answers[session].clear();
  }

  void cancel_reserve(broker::SessionId session, std::uint64_t reserve) {
    Command command;
    command.verb = Verb::kCancelReserve;
    command.ticket = {session, reserve};
    host->submit(std::move(command));
  }

  std::uint64_t ask(broker::SessionId session, Verb verb, std::string_view tube = "default",
                    Span delay = {}, broker::JobId id = 0) {
    Command command;
    command.verb = verb;
    command.ticket = {session, ++slot};
    command.tube = tube;
    command.delay = delay;
    command.ttr = seconds(60);
    command.id = id;
    if (verb == Verb::kPut) command.body = broker::Body("x");
    host->submit(std::move(command));
    return slot;
  }

  /// A put of a job with these extras.
  void put(broker::SessionId session, const broker::SharedExtras& extras, Span ttr) {
    Command command;
    command.verb = Verb::kPut;
    command.ticket = {session, ++slot};
    command.tube = "default";
    command.ttr = ttr;
    command.body = broker::Body("x");
    command.extras = extras;
    host->submit(std::move(command));
  }

  void run_posted() {
    while (!posted.empty()) {
      auto call = std::move(posted.front());
      posted.pop_front();
      call();
    }
  }
  /// Completes whatever the store was asked, until nothing is left.
  void settle() {
    do {
      host->turn();
      memory->complete_all();
      run_posted();
    } while (!host->idle() || !posted.empty() || memory->pending_reads() > 0);
  }

  ManualClock clock{Instant(seconds(100))};
  ManualCalendar calendar{WallTime(seconds(1'700'000'000))};
  std::deque<std::function<void()>> posted;
  std::map<broker::SessionId, std::vector<std::pair<std::uint64_t, Answer>>> answers;
  std::map<broker::SessionId, std::vector<std::pair<std::uint64_t, broker::JobId>>> granted;
  std::string log;
  std::uint64_t slot = 0;
  MemoryStore* memory = nullptr;
  std::unique_ptr<PartitionHost> host;
};

TEST(PartitionHost, AnAnswerWaitsUntilItsBatchIsDurable) {
  Hosted hosted;
  hosted.connect(1);
  const auto put = hosted.ask(1, Verb::kPut);
  hosted.host->turn();
  EXPECT_THAT(hosted.answers[1], IsEmpty());
  EXPECT_EQ(hosted.memory->pending_commits(), 1U);
  hosted.memory->complete_commits(1);
  hosted.run_posted();
  EXPECT_THAT(hosted.answers[1], ElementsAre(std::pair(put, Answer::kInserted)));
}

TEST(PartitionHost, WhileBatchesAreInFlightTheNextOneFills) {
  Hosted hosted;
  hosted.connect(1);
  const PartitionHostOptions defaults;
  for (std::size_t i = 0; i <= defaults.max_small_in_flight; ++i) hosted.ask(1, Verb::kPut);
  hosted.host->turn();
  for (int i = 0; i < 10; ++i) {
    hosted.ask(1, Verb::kPut);
    hosted.host->turn();
  }
  EXPECT_EQ(hosted.memory->pending_commits(), defaults.max_batches_in_flight);
  hosted.settle();
  EXPECT_EQ(hosted.answers[1].size(), defaults.max_small_in_flight + 11);
}

TEST(PartitionHost, AFewSmallBatchesDoNotWaitForEachOther) {
  Hosted hosted;
  hosted.connect(1);
  for (std::size_t i = 0; i < 10; ++i) {
    hosted.ask(1, Verb::kPut);
    hosted.host->turn();
  }
  EXPECT_EQ(hosted.memory->pending_commits(), 10U);
  for (std::size_t i = 0; i < PartitionHostOptions().max_small_in_flight; ++i) {
    hosted.ask(1, Verb::kPut);
    hosted.host->turn();
  }
  EXPECT_GT(hosted.memory->pending_commits(), 20U);
  EXPECT_LE(hosted.memory->pending_commits(), PartitionHostOptions().max_small_in_flight);
  hosted.settle();
  // Afterwards there is room again.
  for (std::size_t i = 0; i < 10; ++i) {
    hosted.ask(1, Verb::kPut);
    hosted.host->turn();
  }
  EXPECT_EQ(hosted.memory->pending_commits(), 10U);
}

TEST(PartitionHost, AFailedCommitIsAnErrorAndTheStoreIsReadAgain) {
  Hosted hosted;
  hosted.connect(1);
  hosted.memory->fail_commit(1, Error{ErrorCode::kNoSpace, "the disk is full"});
  const auto put = hosted.ask(1, Verb::kPut);
  hosted.host->turn();
  hosted.memory->complete_commits(1);
  hosted.run_posted();
  EXPECT_THAT(hosted.answers[1], ElementsAre(std::pair(put, Answer::kOutOfMemory)));
  EXPECT_FALSE(hosted.host->available());
  hosted.settle();
  EXPECT_TRUE(hosted.host->available());
  hosted.ask(1, Verb::kPut);
  hosted.settle();
  EXPECT_EQ(hosted.answers[1].back().second, Answer::kInserted);
}

TEST(PartitionHost, APutRefusedByAFailedSyncMayBeThereAllTheSame) {
  for (const bool kept : {false, true}) {
    Hosted hosted;
    hosted.connect(1);
    hosted.memory->fail_sync(Error{ErrorCode::kIo, "the disk is sick"});
    const auto put = hosted.ask(1, Verb::kPut);
    hosted.host->turn();
    hosted.memory->disk().set_survivors(
        [kept](std::size_t unsynced) { return kept ? unsynced : 0; });
    hosted.memory->complete_commits(1);
    hosted.run_posted();
    EXPECT_THAT(hosted.answers[1], ElementsAre(std::pair(put, Answer::kOutOfMemory)));
    hosted.settle();
    EXPECT_EQ(hosted.host->broker().stats().jobs.ready, kept ? 1U : 0U);
  }
}

/// A host whose store has failed, with a ready job in it, and cannot be brought back.
class Outage : public Hosted, public testing::Test {
 protected:
  Outage() {
    for (const broker::SessionId session : {1, 2}) connect(session);
    ask(1, Verb::kPut);
    settle();
    memory->fail_recover(Error{ErrorCode::kNoSpace, "the disk is full"});
    memory->fail_commit(1, Error{ErrorCode::kNoSpace, "the disk is full"});
    ask(1, Verb::kPut);
    settle();
    EXPECT_FALSE(host->available());
  }

  std::uint64_t reserve(Span timeout) {
    Command command;
    command.verb = Verb::kReserve;
    command.ticket = {2, ++slot};
    command.timeout = timeout;
    host->submit(std::move(command));
    return slot;
  }
  /// As the event loop does: sleeps until there is something to do.
  void sleep_until(Instant end) {
    while (const std::optional<Instant> wake = host->next_wake()) {
      if (*wake > end) break;
      clock.advance_to(std::max(*wake, clock.now()));
      settle();
    }
    clock.advance_to(end);
    settle();
  }
};

TEST_F(Outage, AReserveThatWaitsIsGrantedAJobWhenTheStoreIsBack) {
  const Instant begin = clock.now();
  const auto waiting = reserve(seconds(5));
  sleep_until(begin + seconds(3));
  EXPECT_THAT(answers[2], IsEmpty());
  memory->fail_recover(std::nullopt);
  sleep_until(begin + seconds(4));
  EXPECT_THAT(answers[2], ElementsAre(std::pair(waiting, Answer::kReserved)));
}

TEST_F(Outage, AReserveThatWaitsTimesOutWhenItsTimeIsUp) {
  const Instant begin = clock.now();
  const auto waiting = reserve(milliseconds(2'500));
  sleep_until(begin + milliseconds(2'499));
  EXPECT_THAT(answers[2], IsEmpty());
  sleep_until(begin + milliseconds(2'501));
  EXPECT_THAT(answers[2], ElementsAre(std::pair(waiting, Answer::kTimedOut)));
  EXPECT_FALSE(host->available());
  // It has no part in what comes after.
  memory->fail_recover(std::nullopt);
  sleep_until(begin + seconds(10));
  EXPECT_EQ(answers[2].size(), 1U);
  EXPECT_EQ(host->broker().stats().jobs.ready, 1U);
}

TEST_F(Outage, AReserveWhoseTimeIsUpAsTheStoreComesBackHasTheJob) {
  const Instant begin = clock.now();
  const auto waiting = reserve(seconds(3));
  sleep_until(begin + milliseconds(2'900));
  memory->fail_recover(std::nullopt);
  clock.advance_to(begin + milliseconds(3'500));  // The process was held up.
  settle();
  EXPECT_THAT(answers[2], ElementsAre(std::pair(waiting, Answer::kReserved)));
}

TEST(PartitionHost, CancellingAReserveQueuedBehindAReadLeavesTheReadAlone) {
  Hosted hosted;
  hosted.connect(1);
  hosted.ask(1, Verb::kPut, "default", seconds(1'000));  // Far.
  hosted.settle();
  hosted.answers[1].clear();

  const auto peek = hosted.ask(1, Verb::kPeekDelayed);
  const auto reserve = hosted.ask(1, Verb::kReserve);
  ASSERT_THAT(hosted.answers[1], IsEmpty());
  hosted.cancel_reserve(1, reserve);
  const auto list = hosted.ask(1, Verb::kListTubes);
  hosted.settle();
  EXPECT_THAT(hosted.answers[1],
              ElementsAre(std::pair(peek, Answer::kFound), std::pair(list, Answer::kStats)));
}

TEST(PartitionHost, AHalfCloseEndsAReserveThatIsQueuedBehindARead) {
  Hosted hosted;
  hosted.connect(1);
  hosted.ask(1, Verb::kPut, "default", seconds(1'000));
  hosted.settle();
  hosted.answers[1].clear();

  const auto peek = hosted.ask(1, Verb::kPeekDelayed);
  const auto reserve = hosted.ask(1, Verb::kReserve);
  hosted.host->end_waiting(1);
  hosted.settle();
  EXPECT_THAT(hosted.answers[1],
              ElementsAre(std::pair(peek, Answer::kFound), std::pair(reserve, Answer::kTimedOut)));
}

TEST(PartitionHost, CancellingAWaitingReserveLetsTheSessionGoOn) {
  Hosted hosted;
  hosted.connect(1);
  hosted.cancel_reserve(1, hosted.ask(1, Verb::kReserve));
  const auto list = hosted.ask(1, Verb::kListTubes);
  hosted.settle();
  EXPECT_THAT(hosted.answers[1], ElementsAre(std::pair(list, Answer::kStats)));
  hosted.ask(1, Verb::kPut);
  hosted.settle();
  EXPECT_EQ(hosted.host->broker().stats().jobs.ready, 1U);
}

TEST(PartitionHost, CancellingAGrantedReserveGivesTheJobBackBeforeTheNextReserve) {
  Hosted hosted;
  hosted.connect(1);
  hosted.connect(2);
  hosted.ask(2, Verb::kPut);
  hosted.ask(2, Verb::kPut);
  hosted.settle();
  // The grant is on its way when the session hears of another partition's.
  const auto first = hosted.ask(1, Verb::kReserve);
  hosted.cancel_reserve(1, first);
  EXPECT_EQ(hosted.host->broker().stats().jobs.ready, 2U);
  const auto second = hosted.ask(1, Verb::kReserve);
  EXPECT_THAT(hosted.granted[1], ElementsAre(std::pair(first, 1U), std::pair(second, 1U)));
  // A cancel that comes again, or for another reserve, takes nothing back.
  hosted.cancel_reserve(1, first);
  EXPECT_EQ(hosted.host->broker().stats().jobs.ready, 1U);
  // Nor does one that meets a reserve without a grant.
  hosted.ask(1, Verb::kReserve);
  const auto waiting = hosted.ask(1, Verb::kReserve);
  hosted.cancel_reserve(1, waiting);
  hosted.cancel_reserve(1, waiting);
  hosted.settle();
  EXPECT_EQ(hosted.host->broker().stats().jobs.reserved, 2U);
}

broker::SharedExtras with_date(WallTime due_at) {
  broker::JobExtras extras;
  extras.due_at_ms = floor_ms(due_at);
  return std::make_shared<const broker::JobExtras>(extras);
}

TEST(PartitionHost, AStepOfTheCalendarIsNoticedThoughNothingElseHappens) {
  Hosted hosted;
  hosted.connect(1);
  EXPECT_FALSE(hosted.host->next_wake()) << "no date is pending, and it looks at the calendar";
  // Set back since the last turn: the date is an hour from now.
  hosted.calendar.set(hosted.calendar.now() - std::chrono::hours(1));
  hosted.put(1, with_date(hosted.calendar.now() + std::chrono::hours(1)), seconds(60));
  hosted.settle();
  const auto reserve = hosted.ask(1, Verb::kReserve);
  hosted.settle();
  hosted.answers[1].clear();
  hosted.calendar.set(hosted.calendar.now() + std::chrono::hours(1));
  for (int turns = 0; hosted.answers[1].empty(); ++turns) {
    ASSERT_LT(turns, 5);
    const auto wake = hosted.host->next_wake();
    ASSERT_TRUE(wake && *wake <= hosted.clock.now() + seconds(1)) << "it would sleep on";
    hosted.clock.advance_to(std::max(*wake, hosted.clock.now()));
    hosted.settle();
  }
  EXPECT_THAT(hosted.answers[1], ElementsAre(std::pair(reserve, Answer::kReserved)));
  EXPECT_LE(hosted.clock.now(), Instant(seconds(102)));
}

TEST(PartitionHost, WhatIsBuriedUnaskedIsLoggedAtAPace) {
  Hosted hosted;
  hosted.connect(1);
  broker::JobExtras once;
  once.max_attempts = 1;
  const auto fail_one = [&] {
    hosted.put(1, std::make_shared<const broker::JobExtras>(once), seconds(1));
    Command reserve;
    reserve.verb = Verb::kReserve;
    reserve.ticket = {1, ++hosted.slot};
    hosted.host->submit(std::move(reserve));
    hosted.settle();
    hosted.clock.advance(milliseconds(1'001));
    hosted.settle();
  };
  fail_one();
  EXPECT_EQ(hosted.log,
            "attempts_used_up: buried since their attempts are used up: 1 job, the last "
            "of them 1 of tube default after 1\n");
  hosted.log.clear();
  for (int i = 0; i < 9; ++i) fail_one();
  EXPECT_EQ(hosted.log, "");
  fail_one();
  EXPECT_THAT(hosted.log, testing::HasSubstr(": 10 jobs, the last of them 11 "));
}

TEST(PartitionHost, CountsTheTimeOfCommitsAndTheSizeOfBatches) {
  Hosted hosted;
  hosted.connect(1);
  const auto before = hosted.host->stats();
  for (int i = 0; i < 5; ++i) hosted.ask(1, Verb::kPut);
  hosted.host->turn();
  hosted.clock.advance(milliseconds(3));
  hosted.settle();
  const PartitionHostStats& after = hosted.host->stats();
  EXPECT_EQ(after.commit_us.count, before.commit_us.count + 1);
  EXPECT_EQ(after.commit_us.sum, before.commit_us.sum + 3'000);
  EXPECT_EQ(after.batch_mutations.count, before.batch_mutations.count + 1);
  EXPECT_GE(after.batch_mutations.sum, before.batch_mutations.sum + 5);
}

TEST(PartitionHost, NothingToDoIsNothingToWakeFor) {
  Hosted hosted;
  EXPECT_FALSE(hosted.host->next_wake());
  hosted.connect(1);
  hosted.ask(1, Verb::kPut, "default", seconds(2));
  hosted.settle();
  ASSERT_TRUE(hosted.host->next_wake());
  EXPECT_GE(*hosted.host->next_wake() - hosted.clock.now(), Span(seconds(2)));
  EXPECT_LE(*hosted.host->next_wake() - hosted.clock.now(), Span(milliseconds(2'001)));
}

}  // namespace
}  // namespace carillon::server
