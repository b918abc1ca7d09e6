// SPDX-License-Identifier: Apache-2.0
// The name of a schedule is unique in the server: every interleaving of clients that give one name
// to tubes of different partitions.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_events.h"
#include "carillon/server/http_session.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;

constexpr std::size_t kPartitions = 2;
constexpr broker::SessionId kDesk = 1;
constexpr broker::SessionId kFirstClient = 10;

std::string tube_of(std::size_t partition) {
  for (int i = 0;; ++i) {
    std::string name = "t" + std::to_string(i);
    if (partition_of_tube(name, kPartitions) == partition) return name;
  }
}

/// Partitions that know schedules by name, and take a step only when told: execute the command that
/// came first, or hand over the reply that was given first.
class SteppedPartitions final : public Partitions {
 public:
  struct Waiting {
    std::size_t partition;
    broker::Ticket ticket;
    Reply reply;
  };

  [[nodiscard]] std::size_t count() const noexcept override { return kPartitions; }
  void open_session(broker::SessionId) override {}
  void close_session(broker::SessionId) override {}
  void end_waiting(std::size_t, broker::SessionId) override {}
  void submit(std::size_t partition, Command command) override {
    commands_[partition].push_back(std::move(command));
  }
  [[nodiscard]] bool may_wait(broker::SessionId) const override { return true; }

  [[nodiscard]] bool can_execute(std::size_t p) const { return !commands_[p].empty(); }
  [[nodiscard]] bool can_hand_over(std::size_t p) const { return !replies_[p].empty(); }
  /// `fails`: it cannot be said whether what is set is there, and it is.
  void execute(std::size_t p, bool fails) {
    const Command command = std::move(commands_[p].front());
    commands_[p].pop_front();
    const std::string& name = command.options->schedule.name;
    Reply reply;
    if (command.verb == Verb::kGetSchedule) {
      reply.answer = names_[p].contains(name) ? Answer::kFound : Answer::kNotFound;
    } else {
      EXPECT_EQ(command.verb, Verb::kSetSchedule);
      reply.answer = fails ? Answer::kInternalError : Answer::kScheduleSet;
      reply.count = names_[p].insert(name).second ? 1 : 0;
      broker::ScheduleView view;
      view.record.settings = command.options->schedule;
      reply.detail = std::make_unique<broker::Detail>(std::move(view));
    }
    replies_[p].push_back({p, command.ticket, std::move(reply)});
  }
  Waiting hand_over(std::size_t p) {
    Waiting waiting = std::move(replies_[p].front());
    replies_[p].pop_front();
    return waiting;
  }
  [[nodiscard]] std::size_t places_of(const std::string& name) const {
    std::size_t places = 0;
    for (const auto& names : names_) places += names.count(name);
    return places;
  }

 private:
  std::array<std::deque<Command>, kPartitions> commands_;
  std::array<std::deque<Waiting>, kPartitions> replies_;
  std::array<std::set<std::string>, kPartitions> names_;
};

/// Clients that all set the schedule "report", each for a tube of another partition than the one
/// before, and what they were answered.
class Race {
 public:
  explicit Race(std::size_t clients) : desk_(kDesk, partitions_), clients_(clients) {
    context_.deliver = [this](std::size_t partition, broker::Ticket ticket, Reply reply) {
      const std::unique_ptr<HttpSession>& session = clients_[ticket.session - kFirstClient].session;
      if (session) session->on_reply(partition, ticket.slot, std::move(reply));
    };
    for (std::size_t i = 0; i < clients; ++i) {
      Client& client = clients_[i];
      client.session =
          std::make_unique<HttpSession>(kFirstClient + i, context_, client.output, [] {});
      const std::string body =
          R"({"body": "x", "spec": "every 1m", "tube": ")" + tube_of(i % kPartitions) + "\"}";
      client.session->receive(
          "PUT /api/v1/schedules/report HTTP/1.1\r\nHost: localhost\r\n"
          "Content-Type: application/json\r\nContent-Length: " +
          std::to_string(body.size()) + "\r\n\r\n" + body);
    }
  }

  enum class Kind : std::uint8_t { kExecute, kFail, kHandOver, kLeave };
  struct Step {
    Kind kind;
    std::size_t index;
  };
  [[nodiscard]] std::vector<Step> steps(bool with_trouble) const {
    std::vector<Step> steps;
    for (std::size_t p = 0; p < kPartitions; ++p) {
      if (partitions_.can_execute(p)) steps.push_back({Kind::kExecute, p});
      if (partitions_.can_hand_over(p)) steps.push_back({Kind::kHandOver, p});
      if (with_trouble && partitions_.can_execute(p)) steps.push_back({Kind::kFail, p});
    }
    const bool is_over = steps.empty();
    for (std::size_t i = 0; with_trouble && !is_over && i < clients_.size(); ++i) {
      if (clients_[i].session) steps.push_back({Kind::kLeave, i});
    }
    return steps;
  }
  void take(Step step) {
    switch (step.kind) {
      case Kind::kExecute: partitions_.execute(step.index, false); break;
      case Kind::kFail: partitions_.execute(step.index, true); break;
      case Kind::kLeave: clients_[step.index].session.reset(); break;
      case Kind::kHandOver: {
        SteppedPartitions::Waiting waiting = partitions_.hand_over(step.index);
        if (waiting.ticket.session == kDesk) {
          desk_.on_reply(waiting.partition, waiting.ticket.slot, std::move(waiting.reply));
        } else {
          context_.deliver(waiting.partition, waiting.ticket, std::move(waiting.reply));
        }
        break;
      }
    }
    // Wherever a kill comes, this is what is on the disk.
    ASSERT_LE(partitions_.places_of("report"), 1U);
  }
  /// The status that each was answered, 0: none.
  [[nodiscard]] std::vector<int> statuses() {
    std::vector<int> statuses;
    for (Client& client : clients_) {
      iovec vectors[8];
      const std::size_t count = client.output.describe(vectors);
      const std::string_view text =
          count == 0
              ? std::string_view()
              : std::string_view(static_cast<const char*>(vectors[0].iov_base), vectors[0].iov_len);
      statuses.push_back(text.empty() ? 0 : std::stoi(std::string(text.substr(9, 3))));
    }
    return statuses;
  }

 private:
  struct Client {
    OutputBuffer output;
    std::unique_ptr<HttpSession> session;
  };

  SteppedPartitions partitions_;
  HttpGuard guard_;
  HttpDesk desk_;
  HttpEvents events_;
  ManualCalendar calendar_;
  HttpContext context_{.partitions = partitions_,
                       .guard = guard_,
                       .desk = desk_,
                       .events = events_,
                       .calendar = calendar_};
  std::vector<Client> clients_;
};

/// Every way there is, by taking each once: a way is the choice at each of its steps.
std::size_t run_all(std::size_t clients, std::size_t troubles,
                    const std::function<void(Race&, std::size_t left)>& judge) {
  std::vector<std::size_t> choices;
  std::size_t ways = 0;
  for (;;) {
    Race race(clients);
    std::size_t left = troubles;
    std::vector<std::size_t> widths;
    for (;;) {
      const std::vector<Race::Step> steps = race.steps(left > 0);
      if (steps.empty()) break;
      const std::size_t depth = widths.size();
      if (depth == choices.size()) choices.push_back(0);
      widths.push_back(steps.size());
      const Race::Step step = steps[choices[depth]];
      left -= step.kind == Race::Kind::kFail || step.kind == Race::Kind::kLeave ? 1 : 0;
      race.take(step);
      if (testing::Test::HasFatalFailure()) return ways;
    }
    judge(race, left);
    ++ways;
    while (!choices.empty() && choices.back() + 1 == widths[choices.size() - 1]) choices.pop_back();
    if (choices.empty()) return ways;
    ++choices.back();
  }
}

TEST(ScheduleNames, OneOfTwoGetsTheNameWhateverTheInterleaving) {
  const std::size_t ways = run_all(2, 0, [](Race& race, std::size_t) {
    const std::vector<int> statuses = race.statuses();
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 201), 1);
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 422), 1);
  });
  EXPECT_GT(ways, 30U);
}

TEST(ScheduleNames, NobodyWaitsForOneWhoLeftOrWhoseBatchFailed) {
  std::size_t answered = 0;
  const std::size_t ways = run_all(3, 1, [&](Race& race, std::size_t left) {
    const std::vector<int> statuses = race.statuses();
    const auto none = std::count(statuses.begin(), statuses.end(), 0);
    EXPECT_LE(none, left == 0 ? 1 : 0);
    answered += static_cast<std::size_t>(3 - none);
  });
  EXPECT_GT(ways, 1000U);
  EXPECT_GE(answered, 2 * ways);
}

}  // namespace
}  // namespace carillon::server
