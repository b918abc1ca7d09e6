// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <sstream>
#include <stdexcept>
#include <string>

#include "bench/common/ledger.h"
#include "bench/common/table.h"
#include "bench/server/layouts.h"
#include "bench/server/peers.h"
#include "bench/server/targets.h"

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

const Verdict& verdict_named(const std::vector<Verdict>& verdicts, std::string_view name) {
  for (const Verdict& verdict : verdicts) {
    if (verdict.target->name == name) return verdict;
  }
  throw std::runtime_error("no such target");
}

TEST(Targets, BoundsAreJudgedAsTheyAreWritten) {
  Ledger ledger;
  ledger.add(measured("put", "8x64 near", kCarillonData, 1, "per_s", 100'000));
  ledger.add(measured("put", "8x64 near", kBeanstalkdF50, 1, "per_s", 50'000));
  ledger.add(measured("put", "8x64 near", kRedis, 1, "per_s", 100'000));
  const auto verdicts = judge(ledger, server_targets(), false, {"put"});
  EXPECT_TRUE(verdict_named(verdicts, "durable put 8x64, against -f50").met) << "at least 2";
  EXPECT_FALSE(verdict_named(verdicts, "durable put 8x64, against Redis").met) << "ahead of it";
  const Verdict& unmeasured = verdict_named(verdicts, "durable put 8x64, against -f0");
  EXPECT_FALSE(unmeasured.met);
  EXPECT_FALSE(unmeasured.measured.has_value());
}

TEST(Targets, OneEarlyJobInOneRepetitionIsNotExcusedByTheMedian) {
  Ledger ledger;
  for (int rep = 1; rep <= 3; ++rep) {
    ledger.add(measured("lateness", "16 workers", kCarillonData, rep, "early", rep == 2 ? 1 : 0));
    ledger.add(measured("lateness", "16 workers", kCarillonMemory, rep, "early", 0));
  }
  const auto verdicts = judge(ledger, server_targets(), true, {"lateness"});
  EXPECT_FALSE(verdict_named(verdicts, "never early durable").met);
  EXPECT_TRUE(verdict_named(verdicts, "never early in memory").met);
}

TEST(Table, FitsEightyColumns) {
  Ledger ledger;
  for (int rep = 1; rep <= 2; ++rep) {
    Measurement m = measured("put", "8x64 ready", kCarillonMemory, rep, "per_s", 1'234'567.8);
    m.values.insert(m.values.end(), {{"us_per_op", 1234.5},
                                     {"server_cpu_us_per_op", 1234.5},
                                     {"client_cpu_us_per_op", 1234.5}});
    ledger.add(m);
    m.bench = "cycle";
    m.values = {{"put_per_s", 1'234'567.0},
                {"put_server_cpu_us", 123.4},
                {"work_per_s", 1'234'567.0},
                {"work_server_cpu_us", 123.4}};
    ledger.add(m);
    m.bench = "lateness";
    m.values = {{"p50_ms", 1234.56}, {"p99_ms", 1234.56}, {"p999_ms", 1234.56},
                {"max_ms", 1234.56}, {"early", 100'000},  {"achieved_per_s", 123'456},
                {"of_allowed", 0.95}};
    ledger.add(m);
    m.bench = "service";
    m.values = {{"put_per_s", 123'456.0},
                {"put_server_cpu_us", 123.4},
                {"work_per_s", 123'456.0},
                {"work_server_cpu_us", 123.4}};
    ledger.add(m);
    m.bench = "restart";
    m.values = {{"after_crash_s", 123.45},
                {"after_end_s", 123.45},
                {"start_cpu_s", 123.45},
                {"disk_per_job", 1'234.0}};
    ledger.add(m);
    m.bench = "burst";
    m.cell = "one second";
    m.values = {{"drained_after_s", 12.34},
                {"p50_ms", 12'345.6},
                {"p99_ms", 12'345.6},
                {"early", 500'000},
                {"before_p99_ms", 123.45},
                {"after_p99_ms", 1234.56},
                {"server_cpu_us_per_job", 123.4}};
    ledger.add(m);
    m.bench = "lateness";
    m.cell = "8x64 ready";
    m.peer = kBeanstalkd;
    m.values = {{"p50_ms", 0.12},           {"p99_ms", 1.2},    {"p999_ms", 123.45},
                {"max_ms", 98765.4},        {"early", 100'000}, {"twice", 0},
                {"achieved_per_s", 123'456}};
    ledger.add(m);
  }
  const std::string text =
      format_tables(ledger, server_layouts()) +
      format_verdicts(judge(ledger, server_targets(), false,
                            {"put", "cycle", "memory", "lateness", "service", "restart", "burst"}));
  EXPECT_THAT(text, testing::HasSubstr("1,234,568"));
  std::size_t columns = 0;
  for (const char c : text) {
    columns = c == '\n' ? 0 : columns + ((c & 0xC0) != 0x80);
    EXPECT_LE(columns, 80U);
  }
}

TEST(Table, NumbersStandUnderTheirHeadersHoweverLarge) {
  Ledger ledger;
  for (const double late_ms : {0.1, 99.99, 999.9, 1'000.4, 123'456.7}) {
    Measurement m =
        measured("lateness", fmt::format("{} ms", late_ms), kCarillonData, 1, "p50_ms", late_ms);
    m.values.emplace_back("p99_ms", 2 * late_ms);
    m.values.emplace_back("max_ms", 30 * late_ms);
    ledger.add(m);
  }
  const std::string text = format_tables(ledger, server_layouts());
  std::istringstream lines(text);
  std::size_t p50_ends = 0;
  std::size_t max_ends = 0;
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (const std::size_t at = line.find(" max"); at != std::string::npos) {
      p50_ends = line.find("p50") + 3;
      max_ends = at + 4;
    }
    if (line.find(kCarillonData) == std::string::npos) continue;
    ++rows;
    EXPECT_EQ(line.size(), max_ends) << text;  // What is not measured is blank.
    EXPECT_NE(line[p50_ends - 1], ' ') << text;
    EXPECT_EQ(line[p50_ends], ' ') << text;
  }
  EXPECT_EQ(rows, 5U);
}

}  // namespace
}  // namespace carillon::bench
