// SPDX-License-Identifier: Apache-2.0
#include "bench/common/ledger.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>

#include "bench/common/interrupt.h"
#include "bench/common/json_line.h"
#include "bench/common/lateness.h"
#include "bench/common/table.h"
#include "bench/common/targets.h"

namespace carillon::bench {
namespace {

Measurement measured(std::string_view bench, std::string_view cell, std::string_view peer, int rep,
                     std::string_view metric, double value) {
  Measurement m;
  m.bench = bench;
  m.cell = cell;
  m.peer = peer;
  m.rep = rep;
  m.values = {{std::string(metric), value}};
  return m;
}

TEST(Ledger, SummaryIsTheMedianAndItsDeviation) {
  const Summary odd = summarize({9, 1, 5, 4, 100});
  EXPECT_EQ(odd.median, 5);
  EXPECT_EQ(odd.mad, 4);
  EXPECT_EQ(odd.max, 100);
  EXPECT_EQ(summarize({1, 2, 3, 4}).median, 2.5);
}

TEST(Ledger, PercentileIsTheNearestRank) {
  std::vector<std::int64_t> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  EXPECT_EQ(percentile(hundred, 0), 1);
  EXPECT_EQ(percentile(hundred, 0.5), 50);
  EXPECT_EQ(percentile(hundred, 0.99), 99);
  EXPECT_EQ(percentile(hundred, 1), 100);
  EXPECT_EQ(percentile({7}, 0.999), 7);
}

TEST(Ledger, RatioPairsTheSameRepetition) {
  Ledger ledger;
  // The machine was slow in repetition 1 for both: the ratio is 2 in each.
  ledger.add(measured("put", "c", "a", 1, "per_s", 20));
  ledger.add(measured("put", "c", "b", 1, "per_s", 10));
  ledger.add(measured("put", "c", "a", 2, "per_s", 200));
  ledger.add(measured("put", "c", "b", 2, "per_s", 100));
  EXPECT_EQ(ledger.ratio("put", "c", "per_s", "a", "b"), 2.0);
  EXPECT_EQ(ledger.ratio("put", "c", "per_s", "a", "nobody"), std::nullopt);
}

TEST(Ledger, SeveralNamesAreTheLowestOfThemInEachRepetition) {
  Ledger ledger;
  ledger.add(measured("W1", "c", "list", 1, "ns", 8));
  ledger.add(measured("W1", "c", "pool", 1, "ns", 9));
  ledger.add(measured("W1", "c", "list", 2, "ns", 7));
  ledger.add(measured("W1", "c", "pool", 2, "ns", 5));
  ledger.add(measured("W1", "c", "poo", 2, "ns", 1));
  EXPECT_EQ(ledger.lowest("W1", "c", "list|pool", "ns"), (Series{{1, 8}, {2, 5}}));
  EXPECT_TRUE(ledger.lowest("W1", "c", "l|ist", "ns").empty());
}

TEST(Ledger, ReadsWhatItWrote) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "carillon_ledger_test.jsonl";
  std::filesystem::remove(file);
  Ledger written;
  Measurement m = measured("W1", "1,000", "heap, \"lazy\" \\ cancel", 3, "ns", 12.25);
  m.values.emplace_back("bytes", -1e-7);
  m.values.emplace_back("never", std::numeric_limits<double>::infinity());
  m.params = {{"n", 1'000}};
  m.curve = {{0, 0.5}, {0.99, 2}};
  written.add(m);
  written.append_json(file, Environment());
  Ledger read;
  read.read_json(file);
  read.read_json(file);
  ASSERT_EQ(read.measurements().size(), 2U);
  const Measurement& back = read.measurements()[1];
  EXPECT_EQ(back.bench, m.bench);
  EXPECT_EQ(back.cell, m.cell);
  EXPECT_EQ(back.peer, m.peer);
  EXPECT_EQ(back.rep, 3);
  EXPECT_EQ(back.params, m.params);
  EXPECT_EQ(back.curve, m.curve);
  EXPECT_EQ(back.value("ns"), 12.25);
  EXPECT_EQ(back.value("bytes"), -1e-7);
  EXPECT_EQ(back.value("never"), std::nullopt) << "JSON knows no infinity";
  std::ofstream(file, std::ios::app) << "{\"bench\":1}\n";
  EXPECT_THROW(read.read_json(file), BenchError);
  std::filesystem::remove(file);
  EXPECT_THROW(read.read_json(file), BenchError);
}

TEST(JsonLine, ReadsArraysAndRefusesWhatIsNone) {
  const JsonLine line(R"({"late":[1,-2.5],"none":[],"pairs":[],"open":[1,2})");
  EXPECT_EQ(line.array("late"), (std::vector<double>{1, -2.5}));
  EXPECT_TRUE(line.array("none").empty());
  EXPECT_TRUE(line.pairs("pairs").empty());
  EXPECT_THROW(static_cast<void>(line.array("open")), BenchError);
  EXPECT_THROW(static_cast<void>(line.pairs("late")), BenchError);
  EXPECT_FALSE(line.has("curve"));
}

TEST(Lateness, CountsWhatIsEarly) {
  Measurement m;
  std::vector<std::int64_t> late(1'000, 2'000'000);
  late[0] = -1;
  late[999] = 5'000'000;
  add_lateness(m, late);
  EXPECT_EQ(m.value("early"), 1);
  EXPECT_EQ(m.value("p50_ms"), 2);
  EXPECT_EQ(m.value("p999_ms"), 2);
  EXPECT_EQ(m.value("max_ms"), 5);
  EXPECT_EQ(m.curve.back(), (std::pair<double, double>(1, 5)));
}

TEST(Targets, TheRivalMayBeMeasuredElsewhere) {
  Ledger ledger;
  ledger.add(measured("W4", "far", "wheel", 1, "ns", 30));
  ledger.add(measured("W4", "near", "wheel", 1, "ns", 20));
  const std::array targets = {Target{"far as near", "W4", "far", "ns", "wheel", "wheel",
                                     Bound::kAtMost, 1.5, 1.5, "ns", "", "near", ""},
                              Target{"farther", "W4", "far", "ns", "wheel", "wheel", Bound::kBelow,
                                     1.5, 1.5, "ns", "", "near", ""}};
  const auto verdicts = judge(ledger, targets, false, {"W4"});
  ASSERT_EQ(verdicts.size(), 2U);
  EXPECT_EQ(verdicts[0].measured, 1.5);
  EXPECT_EQ(verdicts[0].value, 30.0);
  EXPECT_TRUE(verdicts[0].met);
  EXPECT_FALSE(verdicts[1].met);
}

TEST(Targets, MayBeMetByAValueInsteadOfARatio) {
  Ledger ledger;
  ledger.add(measured("W1", "n", "wheel", 1, "ns", 30));
  ledger.add(measured("W1", "n", "peer", 1, "ns", 10));
  Target target{"quick", "W1", "n",  "ns", "wheel", "peer", Bound::kAtMost,
                2,       2,    "ns", "",   "",      "",     30};
  const std::array met = {target};
  target.or_value = 29.9;
  const std::array missed = {target};
  const auto good = judge(ledger, met, false, {"W1"});
  EXPECT_TRUE(good[0].met);
  EXPECT_TRUE(good[0].met_by_value);
  EXPECT_NE(format_verdicts(good).find("<= 30 ns"), std::string::npos) << format_verdicts(good);
  const auto bad = judge(ledger, missed, false, {"W1"});
  EXPECT_FALSE(bad[0].met);
  EXPECT_NE(format_verdicts(bad).find("<= 2 "), std::string::npos) << format_verdicts(bad);
}

}  // namespace
}  // namespace carillon::bench
