// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

namespace carillon::app {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

TubeLine tube(std::string name, std::uint64_t ready, std::uint64_t delayed, std::uint64_t total) {
  TubeLine line;
  line.name = std::move(name);
  line.ready = ready;
  line.delayed = delayed;
  line.total = total;
  return line;
}

TopSample sample(Span at) {
  TopSample now;
  now.at = Instant(at);
  now.version = "0.1.0";
  now.uptime_s = 90'061;
  now.ready = 12;
  now.delayed = 3'400'000;
  now.tubes = {tube("default", 0, 0, 0), tube("mail", 7, 1'234'567'890, 100),
               tube("report", 9, 3, 7)};
  return now;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(TopScreen, ShowsCountsAndRates) {
  TopSample before = sample(0s);
  TopSample now = sample(2s);
  now.puts = 3'000;
  now.deletes = 1;
  now.cpu_s = 1.5;
  now.tubes[1].total = 150;
  const std::vector<std::string> lines =
      lines_of(draw_top(now, before, {"127.0.0.1:11300", TopOrder::kReady, 0, ""}, {80, 24}));
  ASSERT_THAT(lines, SizeIs(24));
  EXPECT_EQ(lines[0], "carillon 0.1.0 at 127.0.0.1:11300   up 1 d 1 h   0 connections, 0 waiting");
  EXPECT_EQ(lines[1], "jobs          12 ready    3.40M delayed        0 reserved        0 buried");
  EXPECT_EQ(lines[2].substr(0, 41), "a second    1500 put        0.0 reserved ");
  EXPECT_THAT(lines[3], HasSubstr("0.75 cores"));
  EXPECT_THAT(lines[6], HasSubstr("report"));  // More ready jobs than mail.
  EXPECT_EQ(lines[7],
            "mail                                7    1.23G        0        0       0    25.0");
  EXPECT_THAT(lines[23], HasSubstr("tubes 1-3 of 3"));
}

TEST(TopScreen, FitsAnyTerminal) {
  TopSample now = sample(1s);
  now.tubes_left_out = 10;
  for (int i = 0; i < 100; ++i) now.tubes.push_back(tube(std::string(150, 'x'), 1, 1, 1));
  for (const std::size_t columns : {1U, 20U, 40U, 80U, 300U}) {
    for (const std::size_t rows : {1U, 2U, 5U, 6U, 7U, 24U, 100U}) {
      const std::vector<std::string> lines = lines_of(draw_top(now, {}, {}, {columns, rows}));
      EXPECT_EQ(lines.size(), rows);
      EXPECT_EQ(lines.back().substr(0, 6), std::string("q quit").substr(0, columns));
      for (const std::string& line : lines)
        EXPECT_LE(line.size(), std::max<std::size_t>(columns, 1));
    }
  }
}

TEST(TopScreen, FitsEightyColumnsWhateverTheNumbers) {
  TopSample before = sample(0s);
  TopSample now = sample(1s);
  now.ready = now.delayed = now.reserved = now.buried = ~std::uint64_t{0};
  now.puts = now.reserves = now.deletes = now.timeouts = ~std::uint64_t{0};
  for (const std::string& line : lines_of(draw_top(now, before, {}, {300, 24}))) {
    EXPECT_LE(line.size(), 81U) << line;
  }
}

TEST(TopScreen, ScrollsNotBeyondTheEnd) {
  TopSample now = sample(1s);
  now.tubes.clear();
  for (int i = 0; i < 50; ++i) now.tubes.push_back(tube("t" + std::to_string(100 + i), 0, 0, 0));
  TopView view;
  view.order = TopOrder::kName;
  view.first = 1'000;
  const std::vector<std::string> lines = lines_of(draw_top(now, {}, view, {80, 17}));
  EXPECT_THAT(lines[6], HasSubstr("t140"));
  EXPECT_THAT(lines[15], HasSubstr("t149"));
  EXPECT_THAT(lines[16], HasSubstr("tubes 41-50 of 50"));
}

TEST(TopScreen, HasNoRatesAcrossARestart) {
  TopSample before = sample(0s);
  before.puts = 1'000;
  TopSample now = sample(1s);
  now.puts = 5;
  now.uptime_s = 1;
  EXPECT_EQ(rates_between(before, now).puts, 0);
}

TEST(TopScreen, SaysWhatIsWrong) {
  EXPECT_THAT(draw_top(sample(1s), {}, {"x", TopOrder::kReady, 0, "connection refused"}, {80, 24}),
              HasSubstr("NO ANSWER: connection refused"));
}

}  // namespace
}  // namespace carillon::app
