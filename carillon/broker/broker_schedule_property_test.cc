// SPDX-License-Identifier: Apache-2.0
// Random schedules, workers, calendars, kills and failed commits: every period is accounted for
// exactly once.
//
// CARILLON_SEED=n repeats the run of seed n, CARILLON_RUNS=n makes n runs instead of the default.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/broker/testing/schedule_judge.h"
#include "carillon/broker/testing/schedules.h"
#include "carillon/broker/testing/seeds.h"
#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

// Of a gap only 1,000 periods are counted: none here has more.
constexpr std::array<std::int64_t, 4> kPeriods = {11'000, 17'000, 60'000, 3'600'000};
constexpr std::array<const char*, 3> kNames = {"a", "b", "c"};

std::size_t instances_in_all = 0;

BrokerOptions random_options(Random& random) {
  BrokerOptions options = schedule_options();
  if (random.one_in(2)) {
    options.store_keeps_far_jobs = true;
    options.store_keeps_bodies = true;
    options.horizon = seconds(10);
    options.body_budget_bytes = random.below(100);
  }
  return options;
}

class Trial {
 public:
  explicit Trial(std::uint64_t seed)
      : random_(seed), options_(random_options(random_)), world_(options_, true) {
    world_.pass(seconds(50));
    connect();
  }
  [[nodiscard]] const std::string& trace() const { return trace_; }

  void run() {
    for (int i = 0; i < 250; ++i) {
      gap_ = false;
      step();
      // Whatever the step has left in flight becomes durable, or fails.
      if (random_.one_in(12)) {
        fail_commits();
      } else {
        world_.commit();
      }
      while (!world_.fetches.empty()) world_.answer_fetch();
      while (!world_.keys.empty()) world_.answer_key();
      world_.commit();
      observe();
    }
    instances_in_all += judge_.instances();
  }

 private:
  void step() {
    switch (random_.below(14)) {
      case 0:
      case 1: return set();
      case 2:
        if (random_.one_in(4)) ask(on_schedule(Verb::kDeleteSchedule, name()));
        return;
      case 3:
        if (random_.one_in(2)) ask(on_schedule(Verb::kRunSchedule, name()));
        return;
      case 4:
        trace("jump");
        gap_ = true;
        world_.jump(milliseconds(random_.below(900'000)));
        return;
      case 5:
        if (!random_.one_in(2)) return;
        trace("step");
        gap_ = true;
        world_.step_calendar(seconds(random_.between(-7'200, 7'200)));
        world_.pass(milliseconds(1));
        return;
      case 6: return kill();
      case 7:
      case 8:
      case 9: return work();
      default:
        trace("pass");
        // In quiet times no commit fails.
        pass(milliseconds(random_.below(random_.one_in(5) ? 200'000 : 9'000)));
    }
  }

  /// Time goes by, and what it brings becomes durable as it comes.
  void pass(Span span) {
    const WallTime end = world_.now() + span;
    while (world_.now() < end) {
      const auto next = world_.broker().next_deadline();
      const WallTime at = next ? std::clamp(*next, world_.now() + milliseconds(1), end) : end;
      world_.pass_until(at);
      world_.commit();
      observe();
    }
  }

  void set() {
    const std::int64_t period = kPeriods[random_.below(kPeriods.size())];
    ScheduleSettings settings = every(period, name());
    settings.missed = random_.one_in(3) ? Missed::kSkip : Missed::kOnce;
    settings.overlap = static_cast<Overlap>(random_.below(3));
    if (random_.one_in(3)) settings.jitter_ms = static_cast<std::int64_t>(random_.below(20'000));
    ask(on_schedule(Verb::kSetSchedule, std::move(settings)));
  }

  void work() {
    if (held_.empty() || random_.one_in(2)) {
      Command reserve;
      reserve.verb = Verb::kReserve;
      reserve.timeout = Span::zero();
      ask(std::move(reserve));
      return;
    }
    Command command;
    command.verb = random_.one_in(4) ? Verb::kBury : Verb::kDelete;
    if (random_.one_in(5)) command.verb = Verb::kRelease;
    command.id = held_.back();
    held_.pop_back();
    ask(std::move(command));
  }

  void ask(Command command) {
    const Verb verb = command.verb;
    trace("verb " + std::to_string(static_cast<int>(verb)));
    std::string name;
    if (command.options) name = command.options->schedule.name;
    (void)world_.run(session_, std::move(command));
    // Failed or not, what was asked is known by its outcome in the store.
    if (random_.one_in(10)) {
      fail_commits();
      return;
    }
    world_.commit();
    while (!world_.fetches.empty()) world_.answer_fetch();
    world_.commit();
    const auto reply = world_.answer(session_);
    if (!reply) return;
    if (verb == Verb::kReserve && reply->answer == Answer::kReserved) held_.push_back(reply->id);
    if (verb == Verb::kRunSchedule && reply->answer == Answer::kInserted) {
      judge_.run_by_hand(reply->id);
    }
    if (verb == Verb::kDeleteSchedule && reply->answer == Answer::kDeleted) forget(name);
    trace("answer " + std::to_string(static_cast<int>(reply->answer)));
  }

  void fail_commits() {
    trace("fail");
    world_.submit();
    const std::map<std::string, ScheduleRecord> before = world_.store().durable().schedules;
    world_.fail_commits(random_.below(3));
    (void)world_.answer(session_);
    // A run or a deletion that failed may be there all the same.
    const StoredState& now = world_.store().durable();
    for (const auto& [name, record] : before) {
      if (!now.schedules.contains(name)) forget(name);
    }
    for (const auto& [id, entry] : now.jobs) {
      const SharedExtras& extras = entry.job.record.extras;
      if (extras && !extras->schedule.empty() && *extras->due_at_ms % 1'000 != 0) {
        judge_.run_by_hand(id);
      }
    }
    if (random_.one_in(3)) {
      world_.jump(seconds(random_.below(300)));
      gap_ = true;
    }
    world_.finish_recovery(reads_bodies());
    world_.pass(milliseconds(1));  // What is due is attended to at the next tick.
    std::erase_if(held_, [&](JobId id) { return !now.jobs.contains(id); });
  }

  void kill() {
    trace("kill");
    gap_ = true;
    world_.submit();
    world_.restart(milliseconds(random_.one_in(2) ? random_.below(2'000) : random_.below(600'000)),
                   reads_bodies(), random_.below(3));
    held_.clear();
    connect();
    world_.pass(milliseconds(1));
  }

  /// Whether a recovery reads the bodies too, which it must if they cannot be read later.
  bool reads_bodies() { return !options_.store_keeps_bodies || random_.one_in(2); }

  void connect() {
    session_ = world_.connect();
    world_.watch(session_, "other");
  }

  void observe() {
    const StoredState& state = world_.store().durable();
    judge_.calendar_reads(world_.calendar_ms());
    for (const auto& [name, record] : state.schedules) judge_.learn(record);
    std::map<std::string, int> live;
    for (const auto& [id, entry] : state.jobs) {
      const SharedExtras& extras = entry.job.record.extras;
      if (!extras || extras->schedule.empty()) continue;
      const std::string& name = extras->schedule;
      const auto schedule = state.schedules.find(name);
      // Those of a deleted one with that name do not count.
      if (schedule == state.schedules.end() || old_.contains(id)) continue;
      judge_.saw(name, id, *extras->due_at_ms);
      if (entry.job.record.state != JobState::kBuried) ++live[name];
    }
    for (const auto& [name, record] : state.schedules) judge_.judge(record, live[name], gap_);
  }

  void forget(const std::string& name) {
    judge_.forget(name);
    for (const auto& [id, entry] : world_.store().durable().jobs) {
      const SharedExtras& extras = entry.job.record.extras;
      if (extras && extras->schedule == name) old_.insert(id);
    }
  }

  const char* name() { return kNames[random_.below(kNames.size())]; }
  void trace(const std::string& what) {
    trace_ += "\n  " + std::to_string(world_.calendar_ms()) + " " + what;
  }

  Random random_;
  const BrokerOptions options_;
  World world_;
  ScheduleJudge judge_{true};
  std::set<JobId> old_;
  SessionId session_ = 0;
  std::vector<JobId> held_;
  bool gap_ = false;
  std::string trace_;
};

TEST(BrokerScheduleProperty, EveryPeriodIsAccountedForExactlyOnce) {
  instances_in_all = 0;
  run_seeds<Trial>(60);
  // It was about something.
  if (std::getenv("CARILLON_SEED") == nullptr) {
    EXPECT_GT(instances_in_all, 500U);
  }
}

}  // namespace
}  // namespace carillon::broker::testing
