// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/workloads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "bench/common/table.h"
#include "bench/wheels/limits.h"
#include "bench/wheels/ordered_map.h"
#include "bench/wheels/table.h"
#include "bench/wheels/targets.h"

namespace carillon::bench {
namespace {

constexpr std::size_t kTimers = 300;
constexpr std::size_t kRefreshes = 40'000;

TEST(Workloads, EverySubjectDoesTheSameWork) {
  const Script script(kTimers, kRefreshes);
  EXPECT_EQ(script.expired.count, kTimers * script.expiry_rounds);
  EXPECT_EQ(script.drained.count, kTimers);
  const Script slow(kTimers, 10 * kRefreshesPerTick);
  const LoopScript loop(kTimers);
  EXPECT_GT(loop.expired.count, 0U);
  for (const SubjectEntry& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    EXPECT_EQ(subject.run(script, Wanted()).size(), subject.equal_timeouts ? 1U : 3U);
    subject.run(slow, Wanted());
    subject.run_loop(loop);
    if (subject.run_sparse == nullptr) continue;
    for (const Tick span : {100U, 100'000U, 10'000'000U}) {
      subject.run_sparse(SparseScript(span, 5));
    }
  }
}

// Timers that were not refreshed lapse and are armed anew: the script must contain some.
TEST(Script, SomeTimersLapseWhileOthersAreRefreshed) {
  const Script script(100'000, 50'000);
  EXPECT_GT(script.lapsed.count, 0U);
  EXPECT_EQ(script.drained.count, 100'000U);
  EXPECT_EQ(Script(100'000, 50'000).lapsed.sum, script.lapsed.sum) << "the same on every run";
}

TEST(Script, NineteenConnectionsOfTwentyClose) {
  const LoopScript script(20'000);
  EXPECT_NEAR(static_cast<double>(script.expired.count), 1'000, 150);
  EXPECT_EQ(script.events.size() + script.expired.count, 20'000U * (LoopScript::kPackets + 2));
  EXPECT_EQ(script.begins.back(), script.events.size());
}

enum class Fault { kLosesOne, kLate, kForgetsRefresh, kForgetsCancel };

// A multimap with a fault.
template <Fault kFault>
class Faulty {
 public:
  using Timer = OrderedMap::Hook;
  static constexpr std::string_view kName = "faulty";
  static constexpr Family kFamily = Family::kHeap;
  static constexpr bool kEqualTimeouts = false;
  static constexpr bool kDrivesItself = false;
  static constexpr int kLateShift = 0;
  static constexpr std::size_t kPayloadBytes = 0;

  explicit Faulty(std::size_t) {}
  void prepare(Timer&) {}
  void dispose(Timer& timer) { map_.cancel(timer); }
  // By reschedule(): what was not cancelled is scheduled still.
  void schedule(Timer& timer, Tick deadline) {
    const bool late = kFault == Fault::kLate && ++scheduled_ % 100 == 77;
    map_.reschedule(timer, deadline + (late ? 1 : 0));
  }
  void cancel(Timer& timer) {
    if (kFault == Fault::kForgetsCancel && ++cancelled_ % 1'000 == 77) return;
    map_.cancel(timer);
  }
  void refresh(Timer& timer, Tick deadline) {
    if (kFault == Fault::kForgetsRefresh) return;
    map_.reschedule(timer, deadline);
  }
  template <class Sink>
  void advance(Tick now, Sink&& sink) {
    map_.advance(now, [&](Timer& timer) {
      if (kFault == Fault::kLosesOne && ++expired_ == 100) return;
      sink(timer, map_.now());
    });
  }
  [[nodiscard]] std::optional<Tick> next_deadline() const { return map_.next_deadline(); }
  [[nodiscard]] Tick now() const { return map_.now(); }

 private:
  OrderedMap map_;
  int scheduled_ = 0;
  int expired_ = 0;
  int cancelled_ = 0;
};

TEST(Workloads, WhoDoesNotDoTheWorkEndsTheProgram) {
  const Script script(kTimers, kRefreshes);
  const LoopScript loop(kTimers);
  EXPECT_THROW(run<Faulty<Fault::kLosesOne>>(script, Wanted{false, false, true}), BenchError);
  EXPECT_THROW(run<Faulty<Fault::kLate>>(script, Wanted{false, false, true}), BenchError);
  EXPECT_THROW(run<Faulty<Fault::kForgetsRefresh>>(script, Wanted{false, true, false}), BenchError);
  EXPECT_THROW(run<Faulty<Fault::kForgetsCancel>>(script, Wanted{true, false, false}), BenchError);
  EXPECT_THROW(run_loop<Faulty<Fault::kForgetsRefresh>>(loop), BenchError);
  EXPECT_THROW(run_loop<Faulty<Fault::kForgetsCancel>>(LoopScript(3'000)), BenchError);
  EXPECT_THROW(run_sparse<Faulty<Fault::kLosesOne>>(SparseScript(1'000, 20)), BenchError);
}

struct Late : Faulty<Fault::kLate> {
  using Faulty::Faulty;
  static constexpr int kLateShift = 3;
};

TEST(Workloads, LateByMoreThanPromisedIsSeen) {
  Checksum got;
  Checksum foreseen;
  for (std::uint64_t id = 0; id < 10; ++id) {
    foreseen.add_both(id, 800);
    got.add_late(id, 900);
  }
  const Tick allowed = allowance<Late>(foreseen.ticks, foreseen.count);
  EXPECT_NO_THROW(require_foreseen<Late>("W3", 10, got, foreseen, allowed));
  got.ticks += 11;
  EXPECT_THROW(require_foreseen<Late>("W3", 10, got, foreseen, allowed), BenchError);
  got.ticks = foreseen.ticks - 1;
  EXPECT_THROW(require_foreseen<Late>("W3", 10, got, foreseen, allowed), BenchError);
}

// The subjects, with made-up times.
Ledger made_up() {
  Ledger ledger;
  const auto add = [&](std::string_view bench, std::string_view cell, std::string_view peer,
                       const std::vector<std::pair<std::string, double>>& values) {
    for (int rep = 1; rep <= 2; ++rep) {
      Measurement m;
      m.bench = bench;
      m.cell = cell;
      m.peer = peer;
      m.rep = rep;
      m.params = {{"n", 1}};
      m.values = values;
      ledger.add(m);
    }
  };
  double ns = 5;
  for (const SubjectEntry& subject : subjects()) {
    for (const char* cell : {"1,000", "1,000,000", "10,000,000"}) {
      add("W1", cell, subject.name,
          {{"schedule_ns", ns},
           {"cancel_ns", ns},
           {"in_all_ns", 30 * ns},
           {"hook_bytes", 32},
           {"bytes", 1'234.5}});
      add("W2", cell, subject.name, {{"refresh_ns", 7 * ns}});
      add("W3", cell, subject.name, {{"expire_ns", 123 * ns}});
    }
    for (const char* cell : {"1,000", "1,000,000,000"}) {
      add("W4", cell, subject.name, {{"expire_ns", 12'345.6 * ns}});
    }
    add("W5", "1,000,000", subject.name, {{"event_ns", 11 * ns}});
    ns *= 1.7;
  }
  for (const char* cell : {"1,000", "1,000,000", "10,000,000"}) {
    add("limit", cell, kLimitPeer,
        {{"line_ns", 1'234.5}, {"unlink_ns", 12'345.6}, {"dependent_ns", 12'345.6}});
  }
  return ledger;
}

TEST(WheelTables, FitEightyColumnsAndCountFromTheBestWheel) {
  const Ledger ledger = made_up();
  const std::string text =
      format_wheel_tables(ledger) +
      format_verdicts(judge(ledger, wheel_targets(), false, {"W1", "W2", "W3", "W4", "W5"}));
  std::size_t columns = 0;
  for (const char c : text) {
    columns = c == '\n' ? 0 : columns + 1;
    EXPECT_LE(columns, 80U) << text;
  }
  EXPECT_THAT(text, testing::HasSubstr("1.0x"));
  EXPECT_THAT(text, testing::HasSubstr("1.7x"));
}

TEST(WheelTargets, NameOnlyWhatIsMeasured) {
  std::map<std::string, bool, std::less<>> known;
  for (const SubjectEntry& subject : subjects()) known[std::string(subject.name)] = true;
  known[std::string(kLimitPeer)] = true;
  for (const Target& target : wheel_targets()) {
    for (std::string_view names : {target.subject, target.rival}) {
      while (!names.empty()) {
        const std::size_t end = std::min(names.find('|'), names.size());
        EXPECT_TRUE(known.contains(names.substr(0, end))) << names;
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }
    EXPECT_LE(target.name.size(), 36U) << target.name;
  }
  for (const Verdict& verdict : judge(made_up(), wheel_targets(), false, {"W1", "W2", "W3"})) {
    EXPECT_TRUE(verdict.measured.has_value()) << verdict.target->name;
  }
}

}  // namespace
}  // namespace carillon::bench
