// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/levels.h"

#include <gtest/gtest.h>

#include "carillon/base/random.h"
#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/internal/slot_set.h"

namespace carillon {
namespace {

template <class Levels>
class LevelsTest : public ::testing::Test {};
using Geometries =
    ::testing::Types<PowerOfTwoLevels<6>, PowerOfTwoLevels<8, 6>, PowerOfTwoLevels<8>,
                     PowerOfTwoLevels<1>, PowerOfTwoLevels<1, 7, 3>, PowerOfTwoLevels<12>>;
TYPED_TEST_SUITE(LevelsTest, Geometries);

TYPED_TEST(LevelsTest, LevelsCoverAllOfTimeAndOneTurnIsOneSlotOfTheNext) {
  using Levels = TypeParam;
  for (int level = 0; level + 1 < Levels::kLevels; ++level) {
    EXPECT_EQ(Levels::start(level, static_cast<Tick>(Levels::slots(level))),
              Levels::start(level + 1, 1));
  }
  constexpr int kTop = Levels::kLevels - 1;
  EXPECT_EQ(Levels::number(kTop, kLastTick), static_cast<Tick>(Levels::slots(kTop)) - 1);
}

TYPED_TEST(LevelsTest, SlotsNestAndContainTheirTicks) {
  using Levels = TypeParam;
  Random random(1);
  for (int round = 0; round < 2'000; ++round) {
    const Tick tick = random() >> random.below(64);
    for (int level = 0; level < Levels::kLevels; ++level) {
      const Tick number = Levels::number(level, tick);
      const int index = Levels::index(level, number);
      EXPECT_LE(Levels::start(level, number), tick);
      EXPECT_LT(tick - Levels::start(level, number), Levels::start(level, 1));
      EXPECT_TRUE(index >= 0 && index < Levels::slots(level));
      EXPECT_EQ(Levels::child(level, Levels::parent(level, number), index), number);
      if (level + 1 < Levels::kLevels) {
        EXPECT_EQ(Levels::parent(level, number), Levels::number(level + 1, tick));
      }
    }
  }
}

TYPED_TEST(LevelsTest, LevelIsTheFinestWhoseParentIsShared) {
  using Levels = TypeParam;
  Random random(2);
  for (int round = 0; round < 2'000; ++round) {
    const Tick now = random() >> random.below(64);
    const Tick tick = now + std::min(kLastTick - now, random() >> random.below(64));
    const auto parent = [](int level, Tick t) {
      return Levels::parent(level, Levels::number(level, t));
    };
    int finest = 0;
    while (parent(finest, now) != parent(finest, tick)) {
      ++finest;
    }
    EXPECT_EQ(Levels::level_of(now, tick), finest) << now << " " << tick;
  }
}

TEST(Levels, NamedWheelsHaveTheSlotsOfTheirModels) {
  using Default = PowerOfTwoLevels<6>;
  EXPECT_EQ(Default::kLevels, 11);
  EXPECT_EQ(Default::slots(0), 64);
  EXPECT_EQ(Default::slots(10), 16);
  using Linux = PowerOfTwoLevels<8, 6>;
  EXPECT_EQ(Linux::slots(0), 256);
  for (int level = 1; level < 5; ++level) {
    EXPECT_EQ(Linux::slots(level), 64);
  }
  EXPECT_EQ(Linux::start(4, 64), Tick{1} << 32) << "the five levels turn once in 2^32 jiffies";
}

TEST(SlotSet, FirstIsTheLowestOfAsManySlotsAsALevelMayHave) {
  internal::SlotSet<4096> set;
  EXPECT_TRUE(set.empty());
  for (const int slot : {4095, 64, 63, 2000, 0}) {
    set.set(slot);
  }
  for (const int slot : {0, 63, 64, 2000, 4095}) {
    ASSERT_FALSE(set.empty());
    EXPECT_EQ(set.first(), slot);
    set.clear(slot);
    set.clear(slot);
  }
  EXPECT_TRUE(set.empty());
}

TEST(WheelSnapshot, ShowsTheHandsAndWhatLiesInEachSlot) {
  HierarchicalWheel wheel(1000);  // 15 * 64 + 40
  WheelHook a, b, c, d;
  wheel.schedule(a, 1023);
  wheel.schedule(b, 1030);
  wheel.schedule(c, 1031);
  wheel.schedule(d, 1000 + 4096);
  const auto look = [&] {
    const WheelSnapshot snapshot = wheel.snapshot();
    EXPECT_EQ(snapshot.now, wheel.now());
    EXPECT_EQ(snapshot.size, 4U);
    EXPECT_EQ(snapshot.levels[0].hand, 40);
    EXPECT_EQ(snapshot.levels[1].hand, 15);
    EXPECT_EQ(snapshot.levels[1].granularity, 64U);
    EXPECT_EQ(snapshot.levels[0].counts[63], 1U);
    EXPECT_EQ(snapshot.levels[1].counts[16], 2U);
    EXPECT_EQ(snapshot.levels[2].counts[1], 1U);
  };
  look();
  // Asking for the next deadline may sort slots ahead; that is not to be seen.
  EXPECT_EQ(wheel.next_deadline(), 1023U);
  look();
  wheel.advance(1024, [](WheelHook&) {});
  const WheelSnapshot snapshot = wheel.snapshot();
  EXPECT_EQ(snapshot.levels[0].counts[6], 1U) << "cascaded";
  EXPECT_EQ(snapshot.levels[0].counts[7], 1U);
  EXPECT_EQ(snapshot.levels[1].counts[16], 0U);
}

}  // namespace
}  // namespace carillon
