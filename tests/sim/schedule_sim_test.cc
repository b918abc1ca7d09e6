// SPDX-License-Identifier: Apache-2.0
// Recurring jobs in a simulated world: the host and the broker as they are, over a disk that loses
// what was not synced, with kills at any moment, failed commits, reboots and calendars that step.
// Judged by what is durable: each period is accounted for exactly once.
//
// CARILLON_SEED=n repeats the run of seed n, CARILLON_RUNS=n makes n runs instead of the default.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/random.h"
#include "carillon/broker/testing/schedule_judge.h"
#include "carillon/broker/testing/schedules.h"
#include "carillon/broker/testing/seeds.h"
#include "carillon/server/partition_host.h"
#include "tests/sim/sim_store.h"

namespace carillon::sim {
namespace {

using broker::Answer;
using broker::Command;
using broker::JobId;
using broker::Reply;
using broker::Verb;
using broker::testing::on_schedule;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kNames[] = {"a", "b"};
// Of a gap 1,000 periods are counted, and no more: none here has more.
constexpr std::int64_t kPeriods[] = {17'000, 60'000, 1'800'000};

std::size_t instances_in_all = 0;
std::size_t kills_in_all = 0;
std::size_t failures_in_all = 0;

class Trial {
 public:
  explicit Trial(std::uint64_t seed)
      : random_(seed),
        keeps_far_(!random_.one_in(4)),
        calendar_(WallTime(seconds(1'700'000'000))),
        clock_(std::make_unique<ManualClock>(Instant(seconds(random_.below(1'000'000))))) {
    options_.broker.next_period = broker::testing::next_multiple;
    options_.broker.horizon = seconds(10);
    options_.max_batches_in_flight = 1 + random_.below(3);
    options_.advance_budget = 1 + random_.below(10);
    start();
  }
  [[nodiscard]] const std::string& trace() const { return trace_; }

  void run() {
    for (int i = 0; i < 3'000; ++i) {
      step();
      observe(true);
    }
    settle_down();
    instances_in_all += judge_.instances();
    failures_in_all += host_->stats().commit_failures;
  }

 private:
  void start() {
    auto store = std::make_unique<SimStore>(disk_, random_, faults_, keeps_far_);
    store_ = store.get();
    server::PartitionHost::Outside outside;
    outside.deliver = [this](broker::Ticket ticket, Reply reply) { deliver(ticket, reply); };
    outside.post = [this](std::function<void()> call) { posted_.push_back(std::move(call)); };
    outside.log = [](server::LogLevel, std::string_view) {};
    host_ = std::make_unique<server::PartitionHost>(options_, std::move(store), *clock_, calendar_,
                                                    "boot-" + std::to_string(boot_), outside);
    faults_.failing = false;
    const Result<void> opened = host_->open();
    CARILLON_CHECK(opened.has_value(), "cannot open");
    session_ = next_session_++;
    host_->open_session(session_);
    Command watch;
    watch.verb = Verb::kWatch;
    watch.tube = "default";
    ask(std::move(watch));
  }

  void kill(bool reboots) {
    trace(reboots ? "reboot" : "kill");
    ++kills_in_all;
    failures_in_all += host_->stats().commit_failures;
    const WallTime reached = host_->now();
    host_.reset();
    posted_.clear();
    disk_.lose_unsynced(random_);
    asking_ = false;
    held_.clear();
    const Span down = milliseconds(random_.below(random_.one_in(2) ? 3'000 : 300'000));
    if (reboots) {
      ++boot_;
      clock_ = std::make_unique<ManualClock>(Instant(seconds(random_.below(100))));
      const Span behind = random_.one_in(3) ? Span(hours(random_.below(3))) : Span::zero();
      set_calendar(reached + down - behind);
    } else {
      advance(down);
    }
    start();
  }

  void step() {
    const std::uint64_t dice = random_.below(1'000);
    if (dice < 350) {
      client_step();
    } else if (dice < 600) {
      (void)store_->step();
    } else if (dice < 750) {
      settle_posted();
    } else if (dice < 880) {
      const auto wake = host_->next_wake();
      if (wake && *wake > clock_->now() && *wake - clock_->now() < seconds(30)) {
        advance(*wake - clock_->now());
      } else {
        advance(Span(random_.below(3'000'000)));
      }
      settle_posted();
    } else if (dice < 960) {
      advance(milliseconds(random_.below(10'000)));
    } else if (dice < 968) {
      advance(milliseconds(random_.below(600'000)));
    } else if (dice < 974) {
      trace("step");
      set_calendar(calendar_.now() + seconds(random_.between(-3'600, 3'600)));
    } else if (dice < 982) {
      faults_.failing = !faults_.failing;
      trace(faults_.failing ? "full" : "room");
    } else if (dice < 988) {
      kill(random_.one_in(3));
    } else {
      pump();
    }
  }

  void client_step() {
    if (asking_) return;
    const std::string name = kNames[random_.below(std::size(kNames))];
    switch (random_.below(12)) {
      case 0: {
        auto settings = broker::testing::every(kPeriods[random_.below(std::size(kPeriods))], name);
        settings.missed = random_.one_in(3) ? broker::Missed::kSkip : broker::Missed::kOnce;
        settings.overlap = static_cast<broker::Overlap>(random_.below(3));
        if (random_.one_in(3)) settings.jitter_ms = static_cast<std::int64_t>(random_.below(9'000));
        return ask(on_schedule(Verb::kSetSchedule, std::move(settings)));
      }
      case 1:
        if (random_.one_in(6)) ask(on_schedule(Verb::kDeleteSchedule, name));
        return;
      case 2:
      case 3:
      case 4:
      case 5: {
        Command reserve;
        reserve.verb = Verb::kReserve;
        reserve.timeout = Span::zero();
        return ask(std::move(reserve));
      }
      default: {
        if (held_.empty()) return;
        Command command;
        command.verb = random_.one_in(5) ? Verb::kBury : Verb::kDelete;
        if (random_.one_in(8)) command.verb = Verb::kRelease;
        command.id = held_.back();
        held_.pop_back();
        return ask(std::move(command));
      }
    }
  }

  void ask(Command command) {
    command.ticket = {session_, next_slot_};
    asking_ = true;
    asked_slot_ = next_slot_++;
    host_->submit(std::move(command));
  }

  void deliver(broker::Ticket ticket, const Reply& reply) {
    if (ticket.session != session_ || ticket.slot != asked_slot_) return;
    asking_ = false;
    if (reply.answer == Answer::kReserved) held_.push_back(reply.id);
  }

  void advance(Span span) {
    clock_->advance(span);
    set_calendar(calendar_.now() + span);
  }
  void set_calendar(WallTime to) {
    calendar_.set(to);
    judge_.calendar_reads(floor_ms(to));
  }

  void settle_posted() {
    for (std::size_t count = random_.below(posted_.size() + 1); count > 0; --count) {
      auto call = std::move(posted_.front());
      posted_.pop_front();
      call();
    }
    (void)host_->turn();
  }

  /// Everything that can be done now is done, and looked at as it becomes durable.
  void pump() {
    for (bool busy = true; busy;) {
      busy = host_->turn();
      while (store_->step()) {
        busy = true;
        observe(true);
      }
      while (!posted_.empty()) {
        auto call = std::move(posted_.front());
        posted_.pop_front();
        call();
        busy = true;
      }
    }
  }

  /// No faults any more: after a while each period has its instance when it comes.
  void settle_down() {
    trace("quiet");
    faults_.failing = false;
    advance(seconds(2));
    pump();
    for (Span passed{}; passed < minutes(60);) {
      const auto wake = host_->next_wake();
      const Span span =
          wake ? std::clamp(*wake - clock_->now(), Span(1), Span(minutes(10))) : Span(minutes(10));
      advance(span);
      passed += span;
      pump();
      observe(false);
    }
  }

  void observe(bool gap) {
    const SimDisk::State& state = disk_.durable;
    for (auto known = known_.begin(); known != known_.end();) {
      if (state.schedules.contains(*known)) {
        ++known;
        continue;
      }
      judge_.forget(*known);
      for (const auto& [id, stored] : state.jobs) {
        const broker::SharedExtras& extras = stored.job.record.extras;
        if (extras && extras->schedule == *known) old_.insert(id);
      }
      known = known_.erase(known);
    }
    for (const auto& [name, record] : state.schedules) {
      known_.insert(name);
      judge_.learn(record);
    }
    std::map<std::string, int> live;
    for (const auto& [id, stored] : state.jobs) {
      const broker::SharedExtras& extras = stored.job.record.extras;
      if (!extras || !state.schedules.contains(extras->schedule) || old_.contains(id)) continue;
      judge_.saw(extras->schedule, id, *extras->due_at_ms);
      if (stored.job.record.state != broker::JobState::kBuried) ++live[extras->schedule];
    }
    for (const auto& [name, record] : state.schedules) judge_.judge(record, live[name], gap);
  }

  void trace(const std::string& what) {
    trace_ += "\n  " + std::to_string(floor_ms(calendar_.now())) + " " + what;
  }

  Random random_;
  const bool keeps_far_;
  server::PartitionHostOptions options_;
  ManualCalendar calendar_;
  std::unique_ptr<ManualClock> clock_;
  std::uint64_t boot_ = 0;
  SimDisk disk_;
  SimStore::Faults faults_;
  SimStore* store_ = nullptr;  ///< Owned by host_.
  std::deque<std::function<void()>> posted_;
  broker::testing::ScheduleJudge judge_{false};
  std::set<std::string> known_;
  std::set<JobId> old_;  ///< Instances of schedules that were deleted.
  std::unique_ptr<server::PartitionHost> host_;
  broker::SessionId session_ = 0;
  broker::SessionId next_session_ = 1;
  std::uint64_t next_slot_ = 1;
  std::uint64_t asked_slot_ = 0;
  bool asking_ = false;
  std::vector<JobId> held_;
  std::string trace_;
};

TEST(ScheduleSim, EveryPeriodIsAccountedForExactlyOnce) {
  instances_in_all = kills_in_all = failures_in_all = 0;
  broker::testing::run_seeds<Trial>(60);
  if (std::getenv("CARILLON_SEED") != nullptr) return;
  // It was about something.
  EXPECT_GT(instances_in_all, 2'000U);
  EXPECT_GT(kills_in_all, 500U);
  EXPECT_GT(failures_in_all, 200U);
}

}  // namespace
}  // namespace carillon::sim
