// SPDX-License-Identifier: Apache-2.0
// Random commands while commits linger and fail, reads come late, out of order or not at all, and
// the process is killed. What a client was told is written down outside, and judged:
//
//     no acknowledged put is lost, no acknowledged delete undone
//     no job is handed out before its time, nor with another's body
//     no job is handed out while a client that was told it has it still does
//     whoever waits for a read gets an answer
//
// The store judges each mutation, the broker its invariants after each step. CARILLON_SEED=n
// repeats the run of seed n, CARILLON_RUNS=n makes n runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/broker/testing/seeds.h"
#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

constexpr std::array<std::string_view, 3> kTubes{"default", "a", "b"};

BrokerOptions random_options(Random& random) {
  BrokerOptions options;
  options.store_keeps_far_jobs = !random.one_in(5);
  options.store_keeps_bodies = options.store_keeps_far_jobs || random.one_in(2);
  options.horizon = milliseconds(random.between(10, 5'000));
  options.load_chunk = static_cast<std::size_t>(random.between(1, 3));
  options.body_budget_bytes = random.below(60);
  options.read_ahead_jobs = random.below(8);
  options.read_ahead_bytes = random.below(200);
  options.read_ahead_budget_bytes = random.below(400);
  return options;
}

class Trial {
 public:
  explicit Trial(std::uint64_t seed)
      : random_(seed), options_(random_options(random_)), world_(options_, true) {}

  [[nodiscard]] const std::string& trace() const { return trace_; }

  void run() {
    for (int i = 0; i < 500 && !::testing::Test::HasFailure(); ++i) step();
    if (!::testing::Test::HasFailure()) wind_up();
  }

 private:
  struct Client {
    bool busy = false;
    Command command;
    WallTime asked_at;
    int asked_in = 0;  // The step.
    std::string body;
  };
  struct Known {
    std::string body;
    std::int64_t ttr_ms = 0;
    WallTime not_before{};          // As far as the client can know.
    std::optional<int> deleted_in;  // The step.
    bool acknowledged = false;
    // Who was told that he has it, and how long he certainly has.
    SessionId holder = 0;
    int told_in = 0;  // The step.
    WallTime held_until{};
  };

  void step() {
    ++steps_;
    const std::uint64_t what = random_.below(100);
    world_.reads_look_at_once = random_.one_in(2);
    if (clients_.empty() || (what < 3 && clients_.size() < 5)) {
      const SessionId id = world_.connect_bare();
      clients_[id];
      log("open", id);
      run(id, Verb::kWatch);
    } else if (what < 5) {
      close();
    } else if (what < 6) {
      restart();
    } else if (what < 20) {
      log("submit", 0);
      world_.submit();
    } else if (what < 34) {
      log("make durable", 0);
      if (world_.store().anything_in_flight()) world_.make_durable();
    } else if (what < 36) {
      fail();
    } else if (what < 50) {
      read();
    } else if (what < 60) {
      const Span span = Span(random_.between(0, random_.one_in(3) ? 3'000'000'000 : 50'000'000));
      log("pass", static_cast<std::uint64_t>(span.count()));
      world_.pass(span);
    } else {
      command();
    }
    if (!recovering_.empty() && random_.one_in(4)) recover();
    world_.broker().check_invariants();
    hear();
  }

  SessionId some_client() {
    auto it = clients_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.below(clients_.size())));
    return it->first;
  }

  void close() {
    const SessionId id = some_client();
    log("close", id);
    world_.close(id);
    forget(id);
  }
  void forget(SessionId id) {
    // What it still waited for may have been done at any time until now.
    if (clients_.at(id).busy) hasten_all();
    clients_.erase(id);
    for (auto& [job, known] : known_) {
      if (known.holder == id) known.holder = 0;
    }
  }
  void restart() {
    log("restart", 0);
    recovering_.clear();
    while (!clients_.empty()) forget(clients_.begin()->first);
    world_.restart(milliseconds(random_.one_in(2) ? 0 : random_.between(0, 10'000)),
                   !options_.store_keeps_bodies || random_.one_in(2), random_.below(3));
  }
  void fail() {
    if (!recovering_.empty() || !world_.store().anything_in_flight()) return;
    log("fail", 0);
    world_.fail_commits(random_.below(3));
    recovering_ = "yes";
  }
  void recover() {
    log("recover", 0);
    // The first attempt may break off in the middle.
    if (random_.one_in(3)) world_.store().recover(world_.broker());
    recovering_.clear();
    world_.finish_recovery(!options_.store_keeps_bodies || random_.one_in(2));
  }
  void read() {
    const bool failing = random_.one_in(15);
    if (!world_.fetches.empty() && random_.one_in(2)) {
      const std::size_t which = random_.below(world_.fetches.size());
      log(failing ? "fail fetch" : "fetch", world_.fetches[which].id);
      failing ? world_.fail_fetch(which) : world_.answer_fetch(which);
    } else if (!world_.scans.empty()) {
      const std::size_t which = random_.below(world_.scans.size());
      log(failing ? "fail scan" : "scan", world_.scans[which].tube);
      failing ? world_.fail_scan(which) : world_.answer_scan(which);
    }
  }

  JobId some_job(SessionId session) {
    if (known_.empty() || random_.one_in(10)) return random_.below(highest_ + 4);
    if (random_.one_in(2)) {
      for (const auto& [id, known] : known_) {
        if (known.holder == session && random_.one_in(2)) return id;
      }
    }
    auto it = known_.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(random_.below(known_.size())));
    return it->first;
  }

  void command() {
    static constexpr std::array kVerbs{
        Verb::kPut,     Verb::kPut,     Verb::kPut,        Verb::kPut,        Verb::kReserve,
        Verb::kReserve, Verb::kReserve, Verb::kReserveJob, Verb::kReserveJob, Verb::kDelete,
        Verb::kDelete,  Verb::kRelease, Verb::kRelease,    Verb::kBury,       Verb::kTouch,
        Verb::kKick,    Verb::kKickJob, Verb::kPeek,       Verb::kPeekReady,  Verb::kPeekDelayed,
        Verb::kUse,     Verb::kWatch,   Verb::kPauseTube,  Verb::kStatsJob};
    const SessionId session = some_client();
    if (clients_.at(session).busy) {
      if (random_.one_in(5) && clients_.at(session).command.verb == Verb::kReserve) {
        log("end waiting", session);
        world_.end_waiting(session);
      }
      return;
    }
    run(session, kVerbs[random_.below(kVerbs.size())]);
  }

  void run(SessionId session, Verb verb) {
    Client& client = clients_.at(session);
    Command c;
    c.verb = verb;
    c.id = some_job(session);
    c.tube = kTubes[random_.below(kTubes.size())];
    c.priority = static_cast<std::uint32_t>(random_.below(3));
    if (!random_.one_in(3)) c.delay = milliseconds(random_.between(1, 15'000));
    if (verb == Verb::kPauseTube && !random_.one_in(3)) c.delay = {};
    if (verb == Verb::kPut || random_.one_in(2)) c.ttr = milliseconds(random_.between(500, 8'000));
    c.count = random_.below(4);
    if (!random_.one_in(4)) c.timeout = milliseconds(random_.between(0, 3'000));
    if (verb == Verb::kPut) {
      client.body = "body " + std::to_string(++bodies_) + std::string(random_.below(20), '.');
      c.body = Body(client.body);
    }
    log("verb " + std::to_string(static_cast<int>(verb)) + " by " + std::to_string(session) +
            " tube " + std::string(c.tube) + " delay " +
            std::to_string(c.delay.count() / 1'000'000),
        c.id);
    client.busy = true;
    client.command = c;
    client.asked_at = world_.now();
    client.asked_in = steps_;
    foresee(session, c);
    const std::optional<Reply> reply = world_.run(session, c);
    if (reply) judge(session, *reply);
  }

  /// What a command may do even if its reply never comes.
  void foresee(SessionId session, const Command& c) {
    const auto known = known_.find(c.id);
    switch (c.verb) {
      case Verb::kDelete: delete_asked_.insert(c.id); break;
      case Verb::kReserveJob:
      case Verb::kKickJob:
        hastened_[c.id] = steps_;
        if (known != known_.end()) known->second.not_before = {};
        break;
      case Verb::kKick: hasten_all(); break;
      case Verb::kTouch:
        if (known != known_.end()) {
          Known& job = known->second;
          job.held_until = std::min(job.held_until, held_until(c, job, world_.now()));
        }
        break;
      default: break;
    }
    const bool ends = c.verb == Verb::kDelete || c.verb == Verb::kRelease || c.verb == Verb::kBury;
    if (ends && known != known_.end() && known->second.holder == session) known->second.holder = 0;
  }

  void hear() {
    std::vector<std::pair<SessionId, Reply>> replies;
    for (auto& [session, client] : clients_) {
      if (!client.busy) continue;
      if (std::optional<Reply> reply = world_.answer(session)) {
        replies.emplace_back(session, std::move(*reply));
      }
    }
    // Of those that come at once, first what explains the others.
    std::partition(replies.begin(), replies.end(),
                   [](const auto& item) { return item.second.answer == Answer::kKicked; });
    for (const auto& [session, reply] : replies) judge(session, reply);
  }

  void judge(SessionId session, const Reply& reply) {
    Client& client = clients_.at(session);
    log("answer " + std::to_string(static_cast<int>(reply.answer)) + " to " +
            std::to_string(session) + " id",
        reply.id);
    ASSERT_TRUE(client.busy) << trace_;
    client.busy = false;
    const Command& c = client.command;
    switch (reply.answer) {
      case Answer::kInserted: {
        highest_ = std::max(highest_, reply.id);
        Known& job = known_[reply.id];
        ASSERT_FALSE(job.acknowledged) << "id " << reply.id << " was given twice" << trace_;
        ASSERT_TRUE(job.body.empty() || job.body == client.body) << trace_;
        if (job.body.empty()) hold_back(client, reply.id);
        job.acknowledged = true;
        job.body = client.body;
        job.ttr_ms = whole_ms(c.ttr);
        return;
      }
      case Answer::kFound:
      case Answer::kReserved: {
        highest_ = std::max(highest_, reply.id);
        Known& job = known_[reply.id];
        ASSERT_TRUE(reply.body) << trace_;
        if (job.body.empty()) job.body = reply.body.view();
        ASSERT_EQ(job.body, reply.body.view()) << "job " << reply.id << trace_;
        // Replies of one step come at once: which is heard first means nothing.
        ASSERT_TRUE(!job.deleted_in || *job.deleted_in == steps_)
            << "job " << reply.id << " came back" << trace_;
        if (reply.answer == Answer::kReserved) judge_reserved(session, reply.id, job);
        return;
      }
      case Answer::kKicked:
      case Answer::kJobKicked: hasten_all(); return;  // It may have kicked only now.
      case Answer::kDeleted: known_[c.id].deleted_in = steps_; return;
      case Answer::kReleased: hold_back(client, c.id); return;
      default: return;
    }
  }

  void hasten_all() {
    for (auto& [id, job] : known_) job.not_before = {};
    all_hastened_ = steps_;
  }
  /// The client's put or release of `id` with a delay was acknowledged.
  void hold_back(const Client& client, JobId id) {
    const auto hastened = hastened_.find(id);
    if (all_hastened_ >= client.asked_in) return;
    if (hastened != hastened_.end() && hastened->second >= client.asked_in) return;
    known_[id].not_before = client.asked_at + client.command.delay;
  }

  void judge_reserved(SessionId session, JobId id, Known& job) {
    ASSERT_LE(job.not_before, world_.now()) << "job " << id << " is early" << trace_;
    // Of two told in the same step the first may have lost it before he heard of it.
    if (job.holder != 0 && job.holder != session && job.told_in != steps_) {
      ASSERT_LE(job.held_until, world_.now())
          << "job " << id << " is held by " << job.holder << " too" << trace_;
    }
    job.holder = session;
    job.told_in = steps_;
    const Client& client = clients_.at(session);
    job.held_until = held_until(client.command, job, client.asked_at);
  }
  /// Until when a reserve or touch asked for at `at` holds the job at least.
  static WallTime held_until(const Command& c, const Known& job, WallTime at) {
    const std::int64_t asked_ms = whole_ms(c.ttr);
    const std::int64_t ttr_ms = asked_ms > 0 ? asked_ms : job.ttr_ms;
    return ttr_ms == 0 ? WallTime{} : at + milliseconds(ttr_ms);
  }

  void wind_up() {
    trace_ += "\n  wind up";
    if (!recovering_.empty()) recover();
    for (int round = 0; round < 200; ++round) {
      while (!world_.fetches.empty() || !world_.scans.empty() || world_.broker().has_batch() ||
             world_.store().anything_in_flight()) {
        world_.commit();
        if (!world_.fetches.empty()) world_.answer_fetch();
        if (!world_.scans.empty()) world_.answer_scan();
      }
      world_.pass(milliseconds(200));
      hear();
    }
    for (const auto& [session, client] : clients_) {
      const bool may_wait = client.command.verb == Verb::kReserve && !client.command.timeout;
      ASSERT_TRUE(!client.busy || may_wait) << "session " << session << " has no answer" << trace_;
    }
    const SessionId observer = world_.connect_bare();
    for (const auto& [id, job] : known_) {
      auto reply = world_.by_id(observer, Verb::kPeek, id);
      while (!reply) {
        world_.commit();
        if (!world_.fetches.empty()) world_.answer_fetch();
        reply = world_.answer(observer);
      }
      if (job.deleted_in) {
        ASSERT_EQ(reply->answer, Answer::kNotFound) << "job " << id << " came back" << trace_;
      } else if (job.acknowledged && !delete_asked_.contains(id)) {
        ASSERT_EQ(reply->answer, Answer::kFound) << "job " << id << " is lost" << trace_;
      }
      if (reply->answer == Answer::kFound) {
        ASSERT_EQ(reply->body.view(), job.body) << trace_;
      }
    }
    world_.commit();
    const PartitionStats stats = world_.broker().stats();
    const std::uint64_t jobs =
        stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried;
    ASSERT_EQ(jobs, world_.store().durable().jobs.size()) << trace_;
  }

  static std::int64_t whole_ms(Span span) {
    return std::chrono::duration_cast<milliseconds>(span).count();
  }
  void log(const std::string& what, std::uint64_t number) {
    trace_ +=
        "\n  at " + std::to_string(world_.now_ms()) + ": " + what + " " + std::to_string(number);
  }

  Random random_;
  BrokerOptions options_;
  World world_;
  std::map<SessionId, Client> clients_;
  std::map<JobId, Known> known_;
  // Named in a delete; in a reserve-job or kick-job, and in which step last.
  std::set<JobId> delete_asked_;
  std::map<JobId, int> hastened_;
  int all_hastened_ = -1;
  int steps_ = 0;
  JobId highest_ = 0;
  std::uint64_t bodies_ = 0;
  std::string recovering_;
  std::string trace_;
};

TEST(BrokerChaos, NothingThatAClientWasToldIsBroken) { run_seeds<Trial>(300); }

}  // namespace
}  // namespace carillon::broker::testing
