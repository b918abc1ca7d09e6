// SPDX-License-Identifier: Apache-2.0
#include "bench/blocks/workloads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "bench/blocks/heap_map.h"
#include "bench/blocks/plan.h"
#include "bench/blocks/probe.h"
#include "bench/blocks/swept_map.h"

namespace carillon::bench {
namespace {

// All parts of a load, small.
std::vector<Load> small_loads(std::string_view bench) {
  return {
      {.bench = bench,
       .cell = "",
       .part = Part::kRate,
       .items = 500,
       .threads = {1, 2},
       .seconds = 0.01},
      {.bench = bench, .cell = "", .part = Part::kMemory, .items = 500},
      {.bench = bench,
       .cell = "",
       .part = Part::kHerd,
       .items = 500,
       .lead = std::chrono::milliseconds(50)},
  };
}

TEST(BlockWorkloads, EverySubjectDoesTheWork) {
  for (const SubjectEntry& subject : subjects()) {
    for (const Load& load : small_loads(subject.bench)) {
      SCOPED_TRACE(
          fmt::format("{}, {}, {}", subject.bench, subject.name, static_cast<int>(load.part)));
      const std::vector<Measurement> results = subject.run(load);
      ASSERT_EQ(results.size(), 1U);
      switch (load.part) {
        case Part::kRate:
          EXPECT_GT(results[0].value("m_per_s_1"), 0);
          EXPECT_GT(results[0].value("m_per_s_2"), 0);
          break;
        case Part::kMemory: EXPECT_TRUE(results[0].value("bytes")); break;
        case Part::kHerd:
          EXPECT_GE(results[0].value("herd_ms"), 0);
          EXPECT_LE(results[0].value("delay_ms"), results[0].value("delay_cpu_ms"));
          break;
      }
    }
  }
}

TEST(BlockWorkloads, ALimiterThatHasToRefuseRefuses) {
  for (const SubjectEntry& subject : subjects()) {
    if (subject.bench != "Window" && subject.bench != "Bucket") continue;
    SCOPED_TRACE(fmt::format("{}, {}", subject.bench, subject.name));
    Load load = small_loads(subject.bench)[0];
    load.refused = true;
    EXPECT_EQ(subject.run(load).size(), 1U);
  }
}

TEST(BlockWorkloads, AChildSaysWhatItMeasured) {
  const Load load = small_loads(subjects().front().bench)[0];
  const std::vector<Measurement> results = run_in_child(subjects().front(), load);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].params.front(), (std::pair<std::string, double>("items", 500)));
}

enum class Fault { kNone, kForgetsOne, kRefusesOne, kGrantsOne, kExpiresEarly };

// Items that expire when the time comes, with a fault.
template <Fault kFault>
class Faulty {
 public:
  static constexpr std::string_view kBench = "faulty";
  static constexpr std::string_view kName = "faulty";
  static constexpr bool kComesAndGoes = false;

  explicit Faulty(const Setup& setup) : refused_(setup.refused) {}
  void add(std::size_t /*first*/, std::size_t count, Instant deadline) {
    if (deadline > SteadyClock().now() + kLife / 2) return;
    count_ = count;
    deadline_ = deadline;
  }
  bool use(std::size_t item, std::uint64_t number) {
    if (kFault == Fault::kForgetsOne && item == 7) return false;
    if (kFault == Fault::kRefusesOne && number == 7) return false;
    if (kFault == Fault::kGrantsOne && number == 7) return true;
    return !refused_;
  }
  std::size_t gone() {
    const bool due = count_ > 0 && SteadyClock().now() >= deadline_;
    return kFault == Fault::kExpiresEarly && !due ? 1 : due ? count_ : 0;
  }
  void help() {}

 private:
  bool refused_;
  std::size_t count_ = 0;
  Instant deadline_;
};

template <Fault kFault>
std::string error_of(Load load, bool refused = false) {
  load.refused = refused;
  try {
    static_cast<void>(run_load<Faulty<kFault>>(load));
    return "none";
  } catch (const BenchError& error) {
    return error.what();
  }
}

TEST(BlockWorkloads, WhoDoesNotDoTheWorkEndsTheProgram) {
  const std::vector<Load> loads = small_loads("faulty");
  for (const Load& load : loads) EXPECT_EQ(error_of<Fault::kNone>(load), "none");
  EXPECT_EQ(error_of<Fault::kNone>(loads[0], true), "none");
  EXPECT_NE(error_of<Fault::kRefusesOne>(loads[0]), "none");
  EXPECT_NE(error_of<Fault::kGrantsOne>(loads[0], true), "none");
  EXPECT_NE(error_of<Fault::kForgetsOne>(loads[1]), "none");
  EXPECT_EQ(error_of<Fault::kExpiresEarly>(loads[2]),
            "items that expired early: 0 expected, 1 found");
}

// ---------------------------------------------------------------------- those by hand

TEST(SweptMap, TakesOutWhatIsOver) {
  std::atomic<bool> over = false;
  SweptMap<int, int, 64> map([&](const int& value, Instant) { return value == 1 && over; });
  for (int key = 0; key < 100; ++key) {
    map.with(key, [key](int& value) { value = key % 2; });
  }
  EXPECT_EQ(map.gone(), 0U);
  over = true;
  while (map.gone() < 50) sleep_seconds(1e-3);
  for (int key = 0; key < 100; ++key) {
    EXPECT_EQ(map.with_existing(key, [](int&) { return true; }), key % 2 == 0);
  }
}

TEST(HeapMap, ExpiresAtTheDeadlineThatIsWrittenDown) {
  const Instant begin = SteadyClock().now();
  const Instant soon = begin + std::chrono::milliseconds(5);
  const Instant far = begin + kLife;
  std::atomic<int> gone = 0;
  HeapMap<int, int> map([&](int& value) { gone += value; });
  EXPECT_TRUE(map.put(1, 1, far));
  EXPECT_TRUE(map.put(2, 2, soon));
  EXPECT_TRUE(map.put(3, 4, soon));
  EXPECT_TRUE(map.put(4, 8, soon));
  EXPECT_FALSE(map.put(3, 4, far));
  EXPECT_TRUE(map.with(4, begin, [&](int&, Instant& deadline) { deadline = far; }));
  EXPECT_FALSE(map.with(2, soon, [](int&, Instant&) { FAIL(); })) << "not seen from then on";
  while (gone < 2) sleep_seconds(1e-3);
  EXPECT_EQ(gone, 2);
  EXPECT_TRUE(map.with(3, begin, [](int&, Instant&) {}));
  EXPECT_TRUE(map.with(4, begin, [](int&, Instant&) {}));
}

TEST(LongestDelay, IsThatOfTheLongest) {
  LongestDelay delay;
  delay.time([] {});
  EXPECT_LE(delay.ms(), delay.with_cpu_ms());
  delay.time([] { sleep_seconds(3e-3); });
  const double longest = delay.with_cpu_ms();
  EXPECT_GE(longest, 3);
  delay.time([] {});
  EXPECT_EQ(delay.with_cpu_ms(), longest);
}

// ---------------------------------------------------------------------- plan, targets, tables

CommonOptions options_of(std::vector<const char*> words) {
  words.insert(words.begin(), "bench_blocks");
  return parse_options(static_cast<int>(words.size()), const_cast<char**>(words.data()));
}

// What a run would measure, as made-up results: the same value everywhere.
Ledger made_up(const CommonOptions& options, double value) {
  Ledger ledger;
  for (const Step& step : plan(options)) {
    for (const SubjectEntry& subject : subjects()) {
      if (!is_wanted(options, subject, step.load)) continue;
      Measurement m;
      m.bench = step.load.bench;
      m.cell = step.load.cell;
      m.peer = subject.name;
      m.rep = 1;
      for (const Layout& layout : block_layouts()) {
        for (const Column& column : layout.columns) m.values.emplace_back(column.metric, value);
      }
      m.values.emplace_back("op_ns", value);
      ledger.add(std::move(m));
    }
  }
  return ledger;
}

TEST(BlockPlan, EveryTargetIsMeasured) {
  for (const bool check : {false, true}) {
    const CommonOptions options = check ? options_of({"--check"}) : options_of({});
    const Ledger ledger = made_up(options, 2);
    for (const Verdict& verdict : judge(ledger, block_targets(), check, benches_of(options))) {
      EXPECT_TRUE(verdict.measured) << verdict.target->name;
    }
  }
}

TEST(BlockPlan, OnlyAndSubjectSelect) {
  const CommonOptions options = options_of({"--only", "map", "--subject", "heap", "--reps", "2"});
  const Ledger ledger = made_up(options, 1);
  EXPECT_EQ(ledger.peers("Map", "1 M entries"), std::vector<std::string>{"map + heap"});
  EXPECT_TRUE(ledger.peers("Window", "1 M keys").empty());
  EXPECT_EQ(plan(options).front().reps, 2);
}

TEST(BlockTables, FitEightyColumns) {
  const CommonOptions options = options_of({});
  const Ledger ledger = made_up(options, 1'234.5);
  const std::string text =
      format_tables(ledger, block_layouts()) +
      format_verdicts(judge(ledger, block_targets(), false, benches_of(options)));
  std::size_t columns = 0;
  for (const char letter : text) {
    columns = letter == '\n' ? 0 : columns + 1;
    ASSERT_LE(columns, 80U) << text;
  }
}

TEST(BlockTargets, NameOnlyWhoIsMeasured) {
  std::set<std::string, std::less<>> known = {""};
  for (const SubjectEntry& subject : subjects()) known.emplace(subject.name);
  for (const Target& target : block_targets()) {
    EXPECT_TRUE(known.contains(target.subject)) << target.subject;
    EXPECT_TRUE(known.contains(target.rival)) << target.rival;
    EXPECT_LE(target.name.size(), 36U) << target.name;
  }
}

}  // namespace
}  // namespace carillon::bench
