// SPDX-License-Identifier: Apache-2.0
#include "bench/purgatory/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "bench/common/interrupt.h"
#include "bench/common/process.h"
#include "bench/purgatory/delay_queue_purgatory.h"
#include "bench/purgatory/plan.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

double share_to_expire(const Script& script) {
  return 1 - static_cast<double>(script.completions().size()) /
                 static_cast<double>(script.requests().size());
}

TEST(Script, IsTheMixOfThePublishedExperiment) {
  const Script low(kLowMix, 100'000, 1);
  const Script high(kHighMix, 100'000, 1);
  EXPECT_NEAR(static_cast<double>(low.requests().size()), 100'000, 2'000);
  EXPECT_NEAR(share_to_expire(low), 0.08, 0.01);
  EXPECT_NEAR(share_to_expire(high), 0.5, 0.01);
  const Script again(kLowMix, 100'000, 1);
  EXPECT_EQ(again.completions(), low.completions());
  EXPECT_EQ(again.keys(), low.keys());
  const auto end_of = [&](std::uint32_t i) {
    return low.requests()[i].arrives_ms + low.requests()[i].takes_ms;
  };
  EXPECT_TRUE(std::is_sorted(low.completions().begin(), low.completions().end(),
                             [&](auto a, auto b) { return end_of(a) < end_of(b); }));
  EXPECT_GE(low.last_end_ms(), end_of(low.completions().back()));
}

TEST(Experiment, EveryRequestOfEitherPurgatoryEndsOnce) {
  const Script script(kHighMix, 10'000, 0.1);
  for (const PurgatoryEntry& purgatory : purgatories()) {
    SCOPED_TRACE(purgatory.name);
    const Measurement m = purgatory.run(script);
    EXPECT_GT(m.value("done_k"), 0);
    EXPECT_GT(m.value("cpu_us"), 0);
    // Slow machines expire more: what is completed too late.
    EXPECT_GE(m.value("expired").value_or(0), 100 * share_to_expire(script) - 1e-9);
  }
}

std::string error_of(const Fates& fates, const Script& script) {
  try {
    fates.verify(script);
    return "none";
  } catch (const BenchError& error) {
    return error.what();
  }
}

TEST(Fates, KnowWhatEndsTwiceNeverEarlyOrWrongly) {
  const Script script(kLowMix, 1'000, 0.05);
  const std::size_t count = script.requests().size();
  const auto has_to_expire = [&](std::size_t i) {
    return script.requests()[i].takes_ms >= kRequestTimeout / std::chrono::milliseconds(1);
  };
  const auto end_all = [&](Fates& fates, std::size_t but, std::int64_t arrived) {
    for (std::size_t i = 0; i < count; ++i) {
      fates.arrive(i, arrived);
      if (i != but) fates.end(i, has_to_expire(i));
    }
  };
  const std::int64_t long_ago = now_ns() - 2 * kRequestTimeout.count();
  Fates good(count);
  end_all(good, count, long_ago);
  EXPECT_TRUE(good.all_ended());
  EXPECT_EQ(error_of(good, script), "none");
  good.end(3, false);
  EXPECT_EQ(error_of(good, script), "request 3 ended 2 times");
  Fates never(count);
  end_all(never, 0, long_ago);
  EXPECT_FALSE(never.all_ended());
  EXPECT_EQ(error_of(never, script), "request 0 ended 0 times");
  Fates early(count);
  end_all(early, count, now_ns());
  EXPECT_NE(error_of(early, script).find("expired early"), std::string::npos);
  std::size_t victim = 0;
  while (!has_to_expire(victim)) ++victim;
  Fates wrongly(count);
  end_all(wrongly, victim, long_ago);
  wrongly.end(victim, false);
  EXPECT_NE(error_of(wrongly, script).find("were to expire"), std::string::npos);
}

// ---------------------------------------------------------------------- the delay queue

TEST(DelayQueuePurgatory, CompletesOrExpiresWhicheverIsFirst) {
  DelayQueuePurgatory purgatory;
  const std::vector<std::uint64_t> keys = {1, 2};
  std::atomic<bool> holds = false;
  std::atomic<int> completed = 0;
  std::atomic<int> expired = 0;
  const auto watch = [&](Span timeout) {
    return purgatory.watch(
        keys, SteadyClock().now() + timeout, [&] { return holds.load(); },
        [&](bool over) { ++(over ? expired : completed); });
  };
  const auto soon = watch(std::chrono::milliseconds(20));
  watch(std::chrono::hours(1));
  const auto by_name = watch(std::chrono::hours(1));
  EXPECT_EQ(purgatory.check(1), 0U);
  EXPECT_TRUE(by_name->end(false));
  EXPECT_FALSE(by_name->end(false));
  EXPECT_EQ(completed, 1);
  while (!soon->ended()) sleep_seconds(1e-3);
  EXPECT_EQ(expired, 1);
  holds = true;
  EXPECT_EQ(purgatory.check(2), 1U);
  EXPECT_EQ(purgatory.check(1), 0U) << "exactly once";
  watch(std::chrono::hours(1));
  EXPECT_EQ(completed, 3) << "at once, if it holds already";
  EXPECT_EQ(expired, 1);
}

TEST(DelayQueuePurgatory, LetsGoOfWhatHasEnded) {
  DelayQueuePurgatory purgatory;
  const std::vector<std::uint64_t> keys = {1, 2, 3};
  std::vector<std::weak_ptr<DelayQueuePurgatory::Operation>> ended;
  constexpr int kMany = 3'000;  // three purges
  for (int i = 0; i < kMany; ++i) {
    const auto operation = purgatory.watch(
        keys, SteadyClock().now() + std::chrono::hours(1), [] { return false; }, [](bool) {});
    operation->end(false);
    ended.push_back(operation);
  }
  const auto held = [&] {
    return std::count_if(ended.begin(), ended.end(),
                         [](const auto& one) { return !one.expired(); });
  };
  while (held() >= 1'000) sleep_seconds(1e-3);
}

// ---------------------------------------------------------------------- plan, targets, tables

CommonOptions options_of(std::vector<const char*> words) {
  words.insert(words.begin(), "bench_purgatory");
  return parse_options(static_cast<int>(words.size()), const_cast<char**>(words.data()));
}

// What a run would measure, as made-up results.
Ledger made_up(const CommonOptions& options, double value) {
  Ledger ledger;
  const Plan todo = plan(options);
  for (const Mix& mix : todo.mixes) {
    for (const double rate : todo.rates) {
      for (const PurgatoryEntry& purgatory : purgatories()) {
        Measurement m;
        m.bench = mix.name;
        m.cell = cell_of(rate);
        m.peer = purgatory.name;
        m.rep = 1;
        for (const Column& column : purgatory_layouts()[0].columns) {
          m.values.emplace_back(column.metric, rate == 600e3 ? 2 * value : value);
        }
        ledger.add(std::move(m));
      }
    }
  }
  add_most(ledger);
  return ledger;
}

TEST(PurgatoryPlan, EveryTargetIsMeasured) {
  for (const bool check : {false, true}) {
    const CommonOptions options = check ? options_of({"--check"}) : options_of({});
    const Ledger ledger = made_up(options, 2);
    EXPECT_EQ(ledger.summary("High", kMost, "Purgatory", "done_k")->median, 4);
    for (const Verdict& verdict : judge(ledger, purgatory_targets(), check, benches_of(options))) {
      EXPECT_TRUE(verdict.measured) << verdict.target->name;
      EXPECT_LE(verdict.target->name.size(), 36U) << verdict.target->name;
    }
  }
  EXPECT_EQ(plan(options_of({"--only", "high"})).mixes.size(), 1U);
}

TEST(PurgatoryPlan, StopsWhereAPurgatoryIsFarBehind) {
  EXPECT_FALSE(is_saturated(100e3, 95));
  EXPECT_TRUE(is_saturated(100e3, 50));
}

TEST(PurgatoryTables, FitEightyColumns) {
  const CommonOptions options = options_of({});
  const Ledger ledger = made_up(options, 12'345.6);
  const std::string text =
      format_tables(ledger, purgatory_layouts()) +
      format_verdicts(judge(ledger, purgatory_targets(), false, benches_of(options)));
  std::size_t columns = 0;
  for (const char letter : text) {
    columns = letter == '\n' ? 0 : columns + 1;
    ASSERT_LE(columns, 80U) << text;
  }
}

}  // namespace
}  // namespace carillon::bench
