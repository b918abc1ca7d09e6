// SPDX-License-Identifier: Apache-2.0
// Stories whose outcome is known from papers and from the wheels that these are named after: where
// each timer lies, tick by tick, and when it expires. `carillon trace` draws them.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "carillon/wheel/hashed_wheel.h"
#include "carillon/wheel/hierarchical_wheel_impl.h"
#include "carillon/wheel/kafka_wheel.h"
#include "carillon/wheel/wall_clock_wheel.h"

namespace carillon {
namespace {

using Hands = std::vector<int>;
/// Level, slot, and how many timers lie there.
using Slots = std::vector<std::tuple<int, int, std::size_t>>;

struct Named : WheelHook {
  explicit Named(char n) : name(n) {}
  char name;
};

/// A wheel that is turned tick by tick, and what it gave out.
template <class Wheel>
struct Story {
  template <class... Arguments>
  explicit Story(Arguments... arguments) : wheel(arguments...) {}

  void turn_to(Tick target) {
    while (wheel.now() < target) {
      const Tick tick = wheel.now() + 1;
      wheel.advance(tick, [&](WheelHook& hook) {
        EXPECT_EQ(hook.deadline(), tick);
        fired.emplace_back(tick, static_cast<Named&>(hook).name);
      });
    }
  }

  [[nodiscard]] Slots occupied() const {
    const WheelSnapshot snapshot = wheel.snapshot();
    EXPECT_EQ(snapshot.due, 0U);
    Slots result;
    for (std::size_t level = 0; level < snapshot.levels.size(); ++level) {
      const auto& counts = snapshot.levels[level].counts;
      for (std::size_t slot = 0; slot < counts.size(); ++slot) {
        if (counts[slot] > 0) {
          result.emplace_back(static_cast<int>(level), static_cast<int>(slot), counts[slot]);
        }
      }
    }
    return result;
  }

  /// The hands of the finest `levels`.
  [[nodiscard]] Hands hands(std::size_t levels) const {
    const WheelSnapshot snapshot = wheel.snapshot();
    Hands result;
    for (std::size_t level = 0; level < levels; ++level) {
      result.push_back(snapshot.levels[level].hand);
    }
    return result;
  }

  Wheel wheel;
  std::vector<std::pair<Tick, char>> fired;
};

using Fired = std::vector<std::pair<Tick, char>>;

// The hashed wheel's: a slot is `deadline mod 8`, and what is more than a turn away waits for the
// hand to come round.
TEST(WheelStory, EightSlotsOfASecondTheHandAtTwo) {
  Story<HashedWheel> story(Tick{2}, std::size_t{8});
  Named a('A'), b('B'), c('C');
  auto& wheel = story.wheel;
  wheel.schedule(a, 2 + 5);
  wheel.schedule(b, 2 + 3);
  wheel.schedule(c, 2 + 11);
  ASSERT_EQ(wheel.slots(), 8U);
  EXPECT_EQ(wheel.slot_of(a.deadline()), 7U);
  EXPECT_EQ(wheel.slot_of(b.deadline()), 5U);
  EXPECT_EQ(wheel.slot_of(c.deadline()), 5U);
  EXPECT_EQ(wheel.rounds(a.deadline()), 0U);
  EXPECT_EQ(wheel.rounds(b.deadline()), 0U);
  EXPECT_EQ(wheel.rounds(c.deadline()), 1U);
  EXPECT_EQ(story.hands(1), Hands{2});
  EXPECT_EQ(story.occupied(), (Slots{{0, 5, 2}, {0, 7, 1}}));

  story.turn_to(4);
  EXPECT_EQ(wheel.rounds(c.deadline()), 1U) << "the hand has not passed yet";
  EXPECT_TRUE(story.fired.empty());
  story.turn_to(5);
  EXPECT_EQ(story.fired, (Fired{{5, 'B'}}));
  EXPECT_EQ(story.occupied(), (Slots{{0, 5, 1}, {0, 7, 1}}));
  EXPECT_EQ(wheel.rounds(c.deadline()), 0U);
  story.turn_to(7);
  EXPECT_EQ(story.hands(1), Hands{7});
  EXPECT_EQ(story.fired, (Fired{{5, 'B'}, {7, 'A'}}));
  story.turn_to(12);
  EXPECT_EQ(story.hands(1), Hands{4});
  EXPECT_EQ(story.occupied(), (Slots{{0, 5, 1}}));
  story.turn_to(13);
  EXPECT_EQ(story.fired, (Fired{{5, 'B'}, {7, 'A'}, {13, 'C'}}));
  EXPECT_TRUE(story.occupied().empty());
}

using Clock = BasicHierarchicalWheel<MixedRadixLevels<60, 60, 24, 100>>;

// Hours, minutes, seconds: 2 h 30 min goes down level by level.
TEST(WheelStory, TwoHoursAndAHalfGoDownFromHoursToMinutesToSeconds) {
  Story<Clock> story;
  Named a('A');
  const Tick hours = 3600;
  const Tick minutes = 60;
  story.wheel.schedule(a, 2 * hours + 30 * minutes);
  EXPECT_EQ(story.occupied(), (Slots{{2, 2, 1}})) << "hour 2";
  story.turn_to(2 * hours - 1);
  EXPECT_EQ(story.hands(3), (Hands{59, 59, 1}));
  EXPECT_EQ(story.occupied(), (Slots{{2, 2, 1}}));
  story.turn_to(2 * hours);
  EXPECT_EQ(story.hands(3), (Hands{0, 0, 2}));
  EXPECT_EQ(story.occupied(), (Slots{{1, 30, 1}})) << "minute 30";
  story.turn_to(2 * hours + 30 * minutes - 1);
  EXPECT_EQ(story.hands(3), (Hands{59, 29, 2}));
  EXPECT_EQ(story.occupied(), (Slots{{1, 30, 1}}));
  EXPECT_TRUE(story.fired.empty());
  story.turn_to(2 * hours + 30 * minutes);
  EXPECT_EQ(story.fired, (Fired{{9000, 'A'}}));
}

// From 10:24:30 on, so that no hand is at zero when it ends: 12:54:30.
TEST(WheelStory, TwoHoursAndAHalfFromAnUnevenTimeRestOnEveryLevel) {
  const Tick start = 10 * 3600 + 24 * 60 + 30;
  Story<Clock> story(start);
  Named a('A');
  story.wheel.schedule(a, start + 9000);
  EXPECT_EQ(story.hands(3), (Hands{30, 24, 10}));
  EXPECT_EQ(story.occupied(), (Slots{{2, 12, 1}}));
  story.turn_to(12 * 3600 - 1);
  EXPECT_EQ(story.occupied(), (Slots{{2, 12, 1}}));
  story.turn_to(12 * 3600);
  EXPECT_EQ(story.occupied(), (Slots{{1, 54, 1}}));
  story.turn_to(12 * 3600 + 54 * 60);
  EXPECT_EQ(story.occupied(), (Slots{{0, 30, 1}}));
  EXPECT_TRUE(story.fired.empty());
  story.turn_to(start + 9000);
  EXPECT_EQ(story.fired, (Fired{{start + 9000, 'A'}}));
}

// The same on the wall clock's wheel, of which a tick is a millisecond: to the millisecond.
TEST(WheelStory, WallClockKeepsTheMillisecondOfTwoHoursAndAHalf) {
  Story<WallClockWheel> story;
  Named a('A');
  const Tick due = 9'000'250;
  story.wheel.schedule(a, due);
  EXPECT_EQ(story.occupied(), (Slots{{3, 2, 1}})) << "hour 2";
  story.turn_to(7'200'000);
  EXPECT_EQ(story.occupied(), (Slots{{2, 30, 1}})) << "minute 30";
  story.turn_to(9'000'000);
  EXPECT_EQ(story.occupied(), (Slots{{0, 250, 1}})) << "second 0 is here: millisecond 250";
  story.turn_to(due);
  EXPECT_EQ(story.fired, (Fired{{due, 'A'}}));
}

// Kafka's: 20 x 1 ms, 20 x 20 ms, 20 x 400 ms, and what is beyond 8 s overflows.
TEST(WheelStory, KafkaLevelsWithFiveAHundredThreeThousandAndTenThousandMilliseconds) {
  Story<KafkaWheel> story;
  Named a('A'), b('B'), c('C'), d('D');
  auto& wheel = story.wheel;
  wheel.schedule(a, 5);
  wheel.schedule(b, 100);
  wheel.schedule(c, 3'000);
  wheel.schedule(d, 10'000);
  const WheelSnapshot snapshot = wheel.snapshot();
  for (const auto& [level, granularity] : {std::pair{0, 1}, {1, 20}, {2, 400}, {3, 8'000}}) {
    EXPECT_EQ(snapshot.levels[static_cast<std::size_t>(level)].granularity,
              static_cast<Tick>(granularity));
    EXPECT_EQ(snapshot.levels[static_cast<std::size_t>(level)].counts.size(), 20U);
  }
  EXPECT_EQ(story.occupied(), (Slots{{0, 5, 1}, {1, 5, 1}, {2, 7, 1}, {3, 1, 1}}));
  story.turn_to(5);
  EXPECT_EQ(story.fired, (Fired{{5, 'A'}}));
  story.turn_to(99);
  EXPECT_EQ(story.occupied(), (Slots{{1, 5, 1}, {2, 7, 1}, {3, 1, 1}}));
  story.turn_to(100);
  EXPECT_EQ(story.fired.back(), (std::pair{Tick{100}, 'B'}));
  story.turn_to(2'799);
  EXPECT_EQ(story.occupied(), (Slots{{2, 7, 1}, {3, 1, 1}}));
  story.turn_to(2'800);
  EXPECT_EQ(story.hands(3), (Hands{0, 0, 7}));
  EXPECT_EQ(story.occupied(), (Slots{{1, 10, 1}, {3, 1, 1}})) << "200 ms left: ten slots of 20";
  story.turn_to(3'000);
  EXPECT_EQ(story.fired.back(), (std::pair{Tick{3'000}, 'C'}));
  story.turn_to(8'000);
  EXPECT_EQ(story.occupied(), (Slots{{2, 5, 1}})) << "out of the overflow: 2 s left";
  story.turn_to(9'999);
  EXPECT_EQ(story.occupied(), (Slots{{2, 5, 1}}));
  story.turn_to(10'000);
  EXPECT_EQ(story.fired, (Fired{{5, 'A'}, {100, 'B'}, {3'000, 'C'}, {10'000, 'D'}}));
}

// A short delay costs no more precision because the wheel also holds one of a thousand years, and
// the edges of all units are as exact as their middles: decimal boundaries, where a wheel of powers
// of two has none.
template <class Wheel>
class UnitByUnit : public ::testing::Test {};
using UnitWheels = ::testing::Types<KafkaWheel, WallClockWheel, Clock>;
TYPED_TEST_SUITE(UnitByUnit, UnitWheels);

TYPED_TEST(UnitByUnit, LeapsToTheEdgeOfEverySlotOfEveryLevelAreNeitherEarlyNorLate) {
  const WheelSnapshot shape = TypeParam().snapshot();
  const auto ignore = [](WheelHook&) {};
  for (std::size_t level = 0; level < shape.levels.size(); ++level) {
    const Tick granularity = shape.levels[level].granularity;
    const Tick slots = shape.levels[level].counts.size();
    for (const Tick slot : {Tick{1}, Tick{2}, slots / 2, slots - 1}) {
      for (const Tick phase : {Tick{0}, Tick{1}, granularity - 1}) {
        for (int offset = -1; offset <= 1; ++offset) {
          const Tick deadline = slot * granularity + static_cast<Tick>(offset);
          if (deadline <= phase + 1) {
            continue;
          }
          TypeParam wheel(phase);
          WheelHook near, never;
          wheel.schedule(never, kLastTick);
          wheel.schedule(near, deadline);
          EXPECT_EQ(wheel.next_deadline(), deadline);
          EXPECT_EQ(wheel.advance(deadline - 1, ignore).expired, 0U) << deadline;
          EXPECT_EQ(wheel.next_deadline(), deadline);
          EXPECT_EQ(wheel.advance(deadline, ignore).expired, 1U) << deadline;
          wheel.schedule(near, deadline + 2);
          EXPECT_EQ(wheel.advance(deadline + 1, ignore).expired, 0U) << deadline;
          EXPECT_EQ(wheel.advance(deadline + 3, ignore).expired, 1U) << deadline;
          EXPECT_EQ(wheel.size(), 1U);
        }
      }
    }
  }
}

// That of hook.h: an object with two timeouts, each a member.
struct Order;
struct Timeout : WheelHook {
  Timeout(Order& o, void (Order::*f)()) : order(o), on_due(f) {}
  Order& order;
  void (Order::*on_due)();
};
struct Order {
  Timeout unpaid{*this, &Order::cancel};
  Timeout unsent{*this, &Order::remind};
  std::string history;
  void cancel() { history += "cancelled "; }
  void remind() { history += "reminded "; }
};

TEST(WheelHook, ObjectWithTwoTimeoutsIsFoundFromEach) {
  HierarchicalWheel wheel;
  Order pen;
  Order book;
  wheel.schedule(pen.unpaid, 30);
  wheel.schedule(pen.unsent, 20);
  wheel.schedule(book.unsent, 40);
  wheel.schedule(book.unpaid, 30);
  wheel.cancel(book.unpaid);
  wheel.advance(50, [](WheelHook& hook) {
    auto& timeout = static_cast<Timeout&>(hook);
    (timeout.order.*timeout.on_due)();
  });
  EXPECT_EQ(pen.history, "reminded cancelled ");
  EXPECT_EQ(book.history, "reminded ");
}

}  // namespace
}  // namespace carillon
