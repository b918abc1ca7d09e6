// SPDX-License-Identifier: Apache-2.0
// Nobody calls into a partition of this thread from inside its reply.

#include "carillon/server/local_partition.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carillon/server/client_session_testing.h"
#include "carillon/store/memory/volatile_store.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;

constexpr broker::SessionId kOne = 1;
constexpr broker::SessionId kOther = 2;

/// A partition in memory, whose replies a test gets.
class Fixture {
 public:
  Fixture() {
    PartitionSetup setup{{}, {}, clock_, calendar_, "boot", {}};
    setup.stores.push_back(std::make_unique<store::VolatileStore>());
    partition_ = std::make_unique<LocalPartition>(
        loop_, std::move(setup),
        PartitionGroup::Events{[this](std::size_t, broker::Ticket, Reply reply) {
                                 answers.push_back(reply.answer);
                                 if (on_reply) std::exchange(on_reply, nullptr)();
                               },
                               [] {}, [] {}});
    EXPECT_TRUE(partition_->open());
    partition_->open_session(kOne);
    partition_->open_session(kOther);
  }

  LocalPartition& operator*() { return *partition_; }
  LocalPartition* operator->() { return partition_.get(); }
  void ask(Verb verb, std::string_view tube = {}) {
    Command command;
    command.verb = verb;
    command.ticket = {kOne, ++slot_};
    command.tube = tube;
    partition_->submit(0, std::move(command));
  }

  std::function<void()> on_reply;
  std::vector<Answer> answers;

 private:
  ManualClock clock_;
  ManualCalendar calendar_;
  boost::asio::io_context loop_{1};
  std::unique_ptr<LocalPartition> partition_;
  std::uint64_t slot_ = 0;
};

struct Way {
  const char* name;
  void (*call)(Fixture& fixture);
};
constexpr Way kWays[] = {
    {"open_session", [](Fixture& fixture) { fixture->open_session(3); }},
    {"end_waiting", [](Fixture& fixture) { fixture->end_waiting(0, kOther); }},
    {"submit", [](Fixture& fixture) { fixture.ask(Verb::kListTubes); }},
    {"end_turn", [](Fixture& fixture) { fixture->end_turn(); }},
    {"close_session", [](Fixture& fixture) { fixture->close_session(kOther); }},
    {"begin_stop", [](Fixture& fixture) { fixture->begin_stop(); }},
};

TEST(LocalPartitionDeathTest, ACallFromInsideAReplyStopsTheProgram) {
  for (const Way& way : kWays) {
    Fixture fixture;
    fixture.on_reply = [&] { way.call(fixture); };
    EXPECT_DEATH(fixture.ask(Verb::kUse, "tube"),
                 std::string(way.name) + " from inside a reply of submit");
  }
}

TEST(LocalPartitionDeathTest, AReplyOfATurnIsNoBetter) {
  Fixture fixture;
  Command put;
  put.verb = Verb::kPut;
  put.ticket = {kOne, 99};
  put.tube = "tube";
  fixture->submit(0, std::move(put));  // Its reply waits for the commit.
  ASSERT_TRUE(fixture.answers.empty());
  fixture.on_reply = [&] { fixture.ask(Verb::kListTubes); };
  EXPECT_DEATH(fixture->end_turn(), "submit from inside a reply of end_turn");
}

TEST(LocalPartition, TheSameCallsAreFineBetweenReplies) {
  Fixture fixture;
  for (const Way& way : kWays) {
    fixture.ask(Verb::kUse, "tube");
    way.call(fixture);
  }
  EXPECT_GT(fixture.answers.size(), 6U);
}

TEST(LocalPartition, AReplyMayAskHowThingsStand) {
  Fixture fixture;
  bool looked = false;
  fixture.on_reply = [&] {
    looked = fixture->accepts_work() && !fixture->may_wait(kOne) &&
             fixture->totals().accepts_puts && fixture->count() == 1;
    (void)fixture->stopped();
  };
  fixture.ask(Verb::kUse, "tube");
  EXPECT_TRUE(looked);
}

// The receivers: those of HTTP and webhooks keep what they get for a turn of their own; a session
// of beanstalk's takes it at once, so it must ask for nothing while it does.

constexpr const char* kCommands[] = {
    "put 0 0 60 1\r\nx\r\n", "reserve\r\n",     "reserve-with-timeout 1\r\n",
    "reserve-job 5\r\n",     "delete 5\r\n",    "release 5 1 0\r\n",
    "bury 5 1\r\n",          "touch 5\r\n",     "kick 3\r\n",
    "kick-job 5\r\n",        "peek 5\r\n",      "peek-ready\r\n",
    "peek-delayed\r\n",      "peek-buried\r\n", "stats-job 5\r\n",
    "stats-tube t\r\n",      "stats\r\n",       "list-tubes\r\n",
    "use other\r\n",         "watch other\r\n", "pause-tube t 1\r\n"};

TEST(LocalPartition, ASessionOfBeanstalkAsksForNothingInsideAReply) {
  const Answer kAnswers[] = {Answer::kInserted,      Answer::kBuried,   Answer::kReserved,
                             Answer::kDeadlineSoon,  Answer::kTimedOut, Answer::kDeleted,
                             Answer::kReleased,      Answer::kNotFound, Answer::kOutOfMemory,
                             Answer::kInternalError, Answer::kUsing,    Answer::kWatching};
  for (const std::string command : kCommands) {
    for (const Answer answer : kAnswers) {
      SessionUnderTest session;
      // What follows is read already, and must wait for the turn of the session all the same.
      session.receive(command + "use next\r\n");
      const bool has_text = answer == Answer::kUsing || answer == Answer::kWatching;
      if (has_text && command.substr(0, 3) != "use" && command.substr(0, 5) != "watch") continue;
      session.reply(1, answer);
      EXPECT_TRUE(session.asked().empty()) << command << " " << static_cast<int>(answer);
    }
  }
}

TEST(LocalPartition, NorWhenStatisticsComeOrItsInputHasEnded) {
  SessionUnderTest session;
  session.receive("stats\r\nreserve\r\ndelete 1\r\n");
  session->end_input();
  session.asked();
  session.reply_detail(1, broker::PartitionStats{});
  session.reply(2, Answer::kDeadlineSoon);
  EXPECT_TRUE(session.asked().empty());
  SessionUnderTest lister;
  lister.receive("list-tubes\r\nlist-tubes\r\n");
  lister.asked();
  lister.reply_detail(1, broker::TubeNames{"default"});
  EXPECT_TRUE(lister.asked().empty());
}

}  // namespace
}  // namespace carillon::server
