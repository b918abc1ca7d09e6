// SPDX-License-Identifier: Apache-2.0
// What `carillon trace` shows is what the wheels do. The stories themselves are tests of the
// library: carillon/wheel/wheel_stories_test.cc.
#include "apps/carillon/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "apps/carillon/trace_drawing.h"

namespace carillon::app {
namespace {

using namespace std::chrono_literals;
using Kind = Trace::Event::Kind;

Trace make(const TraceSetup& setup) {
  Result<Trace> trace = Trace::create(setup);
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().message);
  return std::move(*trace);
}

// The places of the timers, counted, are the snapshot of the wheel that all of them are in.
void check_places(const Trace& trace) {
  WheelSnapshot snapshot = trace.snapshot();
  for (const Trace::Timer& timer : trace.timers()) {
    ASSERT_EQ(timer.place.has_value(), !timer.fired_at.has_value());
    if (!timer.place) continue;
    --snapshot.levels[static_cast<std::size_t>(timer.place->level)]
          .counts[static_cast<std::size_t>(timer.place->slot)];
  }
  for (const auto& level : snapshot.levels) {
    EXPECT_TRUE(std::all_of(level.counts.begin(), level.counts.end(),
                            [](std::size_t count) { return count == 0; }));
  }
}

class TraceOfEveryWheel : public ::testing::TestWithParam<WheelKind> {};

TEST_P(TraceOfEveryWheel, PlacesAreThoseOfTheSnapshotAndAllFireWhenDue) {
  TraceSetup setup;
  setup.kind = GetParam();
  setup.tick = 1ms;
  setup.start = 12'345ms;
  setup.delays = {0ms, 1ms, 5ms, 63ms, 64ms, 100ms, 100ms, 777ms, 3s, 10s, 2h, 90 * 24h};
  if (setup.kind == WheelKind::kHashed) setup.delays.resize(10);
  Trace trace = make(setup);
  check_places(trace);
  std::size_t fired = 0;
  while (const auto event = trace.next_event()) {
    ASSERT_GT(*event, trace.now());
    EXPECT_TRUE(trace.advance(*event - 1).empty()) << "something happened before " << *event;
    const auto events = trace.advance(*event);
    EXPECT_FALSE(events.empty()) << "nothing happened at " << *event;
    for (const Trace::Event& e : events) {
      const Trace::Timer& timer = trace.timers()[e.timer];
      if (e.kind == Kind::kFires) {
        ++fired;
        EXPECT_EQ(timer.fired_at, trace.now());
        EXPECT_EQ(timer.due, trace.now());
        EXPECT_GE(timer.due, timer.deadline);
      } else if (e.kind == Kind::kCascades) {
        EXPECT_LT(e.to.level, e.from.level);
      } else {
        EXPECT_EQ(e.to.rounds, e.from.rounds - 1);
      }
    }
    check_places(trace);
  }
  EXPECT_EQ(fired, setup.delays.size());
}

INSTANTIATE_TEST_SUITE_P(Wheels, TraceOfEveryWheel,
                         ::testing::Values(WheelKind::kHashed, WheelKind::kHierarchical,
                                           WheelKind::kLinux, WheelKind::kKafka, WheelKind::kClock,
                                           WheelKind::kHours, WheelKind::kCoarse,
                                           WheelKind::kKernel));

// Kind, timer, tick.
using Told = std::vector<std::tuple<Kind, char, Tick>>;

Told tell(const TraceSetup& setup) {
  Trace trace = make(setup);
  Told told;
  while (const auto event = trace.next_event()) {
    for (const Trace::Event& e : trace.advance(*event)) {
      told.emplace_back(e.kind, trace.timers()[e.timer].name, trace.now());
    }
  }
  return told;
}

TEST(TraceStories, TellWhatIsKnown) {
  EXPECT_EQ(tell(trace_stories()[0].setup), (Told{{Kind::kFires, 'B', 5},
                                                  {Kind::kPasses, 'C', 5},
                                                  {Kind::kFires, 'A', 7},
                                                  {Kind::kFires, 'C', 13}}));
  EXPECT_EQ(tell(trace_stories()[1].setup),
            (Told{{Kind::kCascades, 'A', 7'200}, {Kind::kFires, 'A', 9'000}}));
  EXPECT_EQ(tell(trace_stories()[2].setup), (Told{{Kind::kFires, 'A', 5},
                                                  {Kind::kFires, 'B', 100},
                                                  {Kind::kCascades, 'C', 2'800},
                                                  {Kind::kFires, 'C', 3'000},
                                                  {Kind::kCascades, 'D', 8'000},
                                                  {Kind::kFires, 'D', 10'000}}));
}

TEST(Trace, RefusesWithTheOptionAndItsLimits) {
  const auto refusal = [](TraceSetup setup) {
    const Result<Trace> trace = Trace::create(setup);
    return trace ? "" : trace.error().message;
  };
  TraceSetup setup;
  EXPECT_EQ(refusal(setup), "--delay: 0 timers, where 1 to 26 can be traced");
  setup.delays.assign(27, 1s);
  EXPECT_EQ(refusal(setup), "--delay: 27 timers, where 1 to 26 can be traced");
  setup.delays.resize(26);
  EXPECT_EQ(refusal(setup), "");
  setup.slots = 4097;
  EXPECT_EQ(refusal(setup), "--slots: 4097 is out of range (1 to 4096)");
  setup.slots = 0;
  EXPECT_EQ(refusal(setup), "--slots: 0 is out of range (1 to 4096)");
  setup.slots = 8;
  setup.start = 1500ms;
  EXPECT_EQ(refusal(setup), "--at: must be a whole number of ticks");
}

TEST(TraceDrawing, DrawsTheHandAndTheTimersWithTheirRounds) {
  const TraceSetup& setup = trace_stories()[0].setup;
  Trace trace = make(setup);
  const TraceDrawing drawing(trace, setup);
  EXPECT_EQ(drawing.heading(), "    slot    0     1     2     3     4     5     6     7\n");
  EXPECT_EQ(drawing.picture({}), "     2 s    .     .    [ ]    .     .   B C+1   .     A\n");
  EXPECT_EQ(drawing.timers(),
            "  A  +5 s    due at 7 s    slot 7            in 5 s\n"
            "  B  +3 s    due at 5 s    slot 5            in 3 s\n"
            "  C  +11 s   due at 13 s   slot 5, 1 round   in 11 s\n");
  EXPECT_EQ(drawing.picture(trace.advance(5)),
            "     5 s    .     .     .     .     .    [C]    .     A     B fires\n"
            "                                                            C: 0 rounds left\n");
}

TEST(TraceDrawing, DrawsALineForEachLevelTheCoarsestAbove) {
  const TraceSetup& setup = trace_stories()[1].setup;
  Trace trace = make(setup);
  const TraceDrawing drawing(trace, setup);
  EXPECT_EQ(drawing.heading(), "");
  EXPECT_EQ(drawing.picture(trace.advance(7'200)),
            "02:00:00  A cascades: hour 2 -> minute 30\n"
            "          hand  0         10        20        30        40        50\n"
            "  hours      2  ..|.....................\n"
            "  minutes    0  |.............................A.............................\n"
            "  seconds    0  |...........................................................\n"
            "  waiting: A due at 02:30:00\n");
}

TEST(TraceDrawing, IsNeverWiderThanATerminal) {
  for (const WheelKind kind :
       {WheelKind::kHashed, WheelKind::kHierarchical, WheelKind::kLinux, WheelKind::kKafka,
        WheelKind::kClock, WheelKind::kHours, WheelKind::kCoarse, WheelKind::kKernel}) {
    for (const std::size_t slots : {1U, 8U, 16U, 64U, 256U}) {
      TraceSetup setup;
      setup.kind = kind;
      setup.slots = slots;
      setup.tick = kind == WheelKind::kHours ? Span(1s) : Span(1ms);
      setup.start = slots == 8 ? Span(10h) : Span(0s);
      setup.time_of_day = slots == 8;
      for (int i = 0; i < 26; ++i) setup.delays.push_back(1ms * (1 << i));
      Trace trace = make(setup);
      const TraceDrawing drawing(trace, setup);
      const auto check = [&](const std::string& text) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
          ASSERT_LE(line.size(), TraceDrawing::kColumns) << line;
        }
      };
      check(drawing.wheel());
      check(drawing.timers());
      check(drawing.heading());
      check(drawing.picture({}));
      for (int steps = 0; trace.next_event() && steps < 200; ++steps) {
        check(drawing.picture(trace.advance(*trace.next_event())));
      }
    }
  }
}

}  // namespace
}  // namespace carillon::app
