// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/workloads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bench/timer/heap_timer.h"
#include "bench/timer/jvm.h"
#include "bench/timer/plan.h"
#include "bench/timer/targets.h"

namespace carillon::bench {
namespace {

constexpr Span kFar = std::chrono::hours(2);

// All workloads, small.
std::vector<Load> small_loads() {
  return {
      {.bench = "T1", .timers = 4'000, .threads = {2}, .delay = kFar},
      {.bench = "T2", .timers = 4'000, .delay = kFar},
      {.bench = "T3", .threads = {1, 2}, .seconds = 0.01, .delay = kFar},
      {.bench = "T3", .threads = {2}, .pending = 500, .seconds = 0.01, .delay = kFar},
      {.bench = "T4", .timers = 500, .seconds = 0.05},
      {.bench = "T5", .seconds = 0.05},
      {.bench = "T6", .seconds = 0.01, .delay = kFar},
      {.bench = "T8", .seconds = 0.05, .rate = 10'000, .delay = kFar},
  };
}

TEST(Workloads, EverySubjectInCppDoesTheWork) {
  for (const SubjectEntry& subject : subjects()) {
    if (subject.in_jvm()) continue;
    for (const Load& load : small_loads()) {
      SCOPED_TRACE(fmt::format("{}, {}", subject.name, load.bench));
      const std::vector<Measurement> results = subject.run(load);
      EXPECT_EQ(results.size(), load.threads.size());
      if (load.bench == "T4") {
        EXPECT_EQ(results[0].value("early"), 0);
      }
    }
  }
}

TEST(Workloads, EverySubjectOfTheJvmDoesTheWork) {
  if (const std::string why = why_no_jvm(); !why.empty()) GTEST_SKIP() << why;
  std::size_t number = 0;
  for (const SubjectEntry& subject : subjects()) {
    if (!subject.in_jvm() || subject.name.ends_with(kAsItComes)) continue;
    // A JVM takes a while to begin: two workloads with each, all of them between them.
    std::vector<Load> loads = small_loads();
    for (int i = 0; i < 2; ++i) {
      const Load& load = loads[number++ % loads.size()];
      SCOPED_TRACE(fmt::format("{}, {}", subject.name, load.bench));
      const std::vector<Measurement> results = run_in_child(subject, load);
      EXPECT_EQ(results.size(), load.threads.size());
      EXPECT_FALSE(results.at(0).values.empty());
      if (load.bench == "T4") {
        EXPECT_TRUE(results[0].value("p99_ms"));
      }
    }
  }
}

TEST(Workloads, AChildSaysWhatItMeasured) {
  const Load load = {.bench = "T4", .timers = 500, .seconds = 0.05};
  const std::vector<Measurement> results = run_in_child(heap_subject(), load);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].params.front(), (std::pair<std::string, double>("timers", 500)));
  EXPECT_EQ(results[0].value("early"), 0);
  EXPECT_FALSE(results[0].curve.empty());
}

enum class Fault { kLosesOne, kFiresTwice, kSaysCancelled, kFiresTheCancelled };

// A heap with a fault.
template <Fault kFault>
class Faulty {
 public:
  static constexpr std::string_view kName = "faulty";
  using Handle = HeapTimer::Handle;

  template <class F>
  Handle add(Span delay, F callback) {
    const bool now = ++added_ == 7;
    if (now && kFault == Fault::kLosesOne) return timer_.add(kFar, callback);
    if (now && kFault == Fault::kFiresTwice) timer_.add(Span(0), callback);
    if (now && kFault == Fault::kFiresTheCancelled) callback();
    return timer_.add(delay, callback);
  }
  bool cancel(Handle& handle) {
    if (kFault == Fault::kSaysCancelled && ++cancelled_ == 7) return true;
    return timer_.cancel(handle);
  }
  std::size_t close() { return timer_.close() - (kFault == Fault::kLosesOne ? 1U : 0U); }

 private:
  std::size_t added_ = 0;
  std::size_t cancelled_ = 0;
  HeapTimer timer_;
};

template <Fault kFault>
std::string error_of(const Load& load) {
  try {
    static_cast<void>(run_workload<Faulty<kFault>>(load));
    return "none";
  } catch (const BenchError& error) {
    return error.what();
  }
}

TEST(Workloads, WhoDoesNotDoTheWorkEndsTheProgram) {
  const std::vector<Load> loads = small_loads();
  const Load& adding = loads[0];
  const Load& pairs = loads[2];
  EXPECT_EQ(error_of<Fault::kLosesOne>(loads[1]), "timers pending: 4000 expected, 3999 found");
  EXPECT_NE(error_of<Fault::kFiresTheCancelled>(adding), "none");
  EXPECT_EQ(error_of<Fault::kFiresTheCancelled>(pairs), "timers fired: 0 expected, 1 found");
  EXPECT_NE(error_of<Fault::kFiresTwice>(loads[4]), "none");
  EXPECT_EQ(error_of<Fault::kSaysCancelled>(pairs), "timers pending: 0 expected, 1 found");
}

TEST(Schedule, KnowsATimerThatFiresTwiceOrNever) {
  Schedule schedule(3, 1);
  for (std::uint32_t i : {0U, 1U, 1U}) schedule.fire(i);
  schedule.await(0);
  EXPECT_THROW(schedule.verify(), BenchError);
  Schedule waiting(1, 1);
  EXPECT_THROW(waiting.await(0), BenchError);
}

TEST(Schedule, CountsLatenessFromThePlan) {
  Schedule schedule(1, 1e-9);
  const std::int64_t now = now_ns();
  EXPECT_EQ(schedule.plan(0, now + 40, now), 40);
  EXPECT_EQ(schedule.plan(0, now - 40, now), 0) << "what is due is due now";
  schedule.fire(0);
  const std::int64_t late = schedule.lateness().at(0);
  EXPECT_GE(late, 0);
  EXPECT_LE(late, now_ns() - now);
}

TEST(Jvm, ItsLatenessNeedNotBeSorted) {
  Measurement m;
  add_lateness_of(m, JsonLine(R"({"lateness_ns":[3000000,-1,2000000]})"));
  EXPECT_EQ(m.value("early"), 1);
  EXPECT_EQ(m.value("p50_ms"), 2);
}

// ---------------------------------------------------------------------- plan, targets, tables

Options options_of(std::vector<const char*> words) {
  words.insert(words.begin(), "bench_timer");
  return parse_options(static_cast<int>(words.size()), const_cast<char**>(words.data()));
}

// What a run would measure, as made-up results: the same value everywhere.
Ledger made_up(const Options& options, double value) {
  Ledger ledger;
  for (const Step& step : plan(options)) {
    for (const SubjectEntry& subject : subjects()) {
      if (!is_wanted(options, subject, step.load)) continue;
      for (const std::size_t threads : step.load.threads) {
        for (int rep = 1; rep <= step.reps; ++rep) {
          Measurement m;
          m.params = {{"threads", static_cast<double>(threads)}};
          m.bench = step.load.bench;
          m.cell = cell_of(step.load, m);
          m.peer = subject.name;
          m.rep = rep;
          for (const Layout& layout : timer_layouts()) {
            for (const Column& column : layout.columns) m.values.emplace_back(column.metric, value);
          }
          ledger.add(std::move(m));
        }
      }
    }
  }
  return ledger;
}

TEST(Plan, EveryTargetIsMeasuredAndACheckMeasuresNoMore) {
  for (const bool check : {false, true}) {
    const Options options = check ? options_of({"--check"}) : options_of({});
    const Ledger ledger = made_up(options, 2);
    for (const Verdict& verdict : judge(ledger, timer_targets(), check, benches_of(options))) {
      EXPECT_TRUE(verdict.measured) << verdict.target->name;
    }
    EXPECT_EQ(ledger.peers("T6", "one adds, one cancels").empty(), check);
  }
}

TEST(Plan, OnlyAndSubjectSelect) {
  const Options options = options_of({"--only", "t3", "--subject", "Netty", "--reps", "2"});
  const Ledger ledger = made_up(options, 1);
  EXPECT_THAT(ledger.peers("T3", "4 threads"), testing::ElementsAre("Netty", "Netty, 1 ms ticks"));
  EXPECT_TRUE(ledger.peers("T1", "1 thread").empty());
  EXPECT_EQ(ledger.measurements().back().rep, 2);
}

TEST(TimerTables, FitEightyColumns) {
  const Options options = options_of({});
  const Ledger ledger = made_up(options, 12'345.6);
  const std::string text =
      format_tables(ledger, timer_layouts()) +
      format_verdicts(judge(ledger, timer_targets(), false, benches_of(options)));
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // The second byte of a character is no column.
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U;
    columns = text[i] == '\n' ? 0 : columns + (begins ? 1 : 0);
    ASSERT_LE(columns, 80U) << text.substr(0, i);
  }
}

TEST(TimerTargets, NameOnlyWhoIsMeasured) {
  std::map<std::string, bool, std::less<>> known;
  for (const SubjectEntry& subject : subjects()) known[std::string(subject.name)] = true;
  for (const Target& target : timer_targets()) {
    for (std::string_view names : {target.subject, target.rival}) {
      while (!names.empty()) {
        const std::size_t end = std::min(names.find('|'), names.size());
        EXPECT_TRUE(known.contains(names.substr(0, end))) << names;
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }
    EXPECT_LE(target.name.size(), 36U) << target.name;
  }
}

}  // namespace
}  // namespace carillon::bench
