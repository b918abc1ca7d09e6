// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/levels.h"

#include <gtest/gtest.h>

#include "carillon/base/random.h"
#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/internal/slot_set.h"
#include "carillon/wheel/kafka_wheel.h"
#include "carillon/wheel/mixed_radix_levels.h"
#include "carillon/wheel/wall_clock_wheel.h"

namespace carillon {
namespace {

template <class Levels>
class LevelsTest : public ::testing::Test {};
using Geometries =
    ::testing::Types<PowerOfTwoLevels<6>, PowerOfTwoLevels<8, 6>, PowerOfTwoLevels<8>,
                     PowerOfTwoLevels<1>, PowerOfTwoLevels<1, 7, 3>, PowerOfTwoLevels<12>,
                     KafkaLevels, WallClockLevels, MixedRadixLevels<2>, MixedRadixLevels<3>,
                     MixedRadixLevels<2, 4095, 5, 7>, MixedRadixLevels<4096>>;
TYPED_TEST_SUITE(LevelsTest, Geometries);

TYPED_TEST(LevelsTest, LevelsCoverAllOfTimeAndOneTurnIsOneSlotOfTheNext) {
  using Levels = TypeParam;
  for (int level = 0; level + 1 < Levels::kLevels; ++level) {
    EXPECT_EQ(Levels::start(level, static_cast<Tick>(Levels::slots(level))),
              Levels::start(level + 1, 1));
  }
  constexpr int kTop = Levels::kLevels - 1;
  EXPECT_EQ(Levels::number(kTop, kLastTick), static_cast<Tick>(Levels::slots(kTop)) - 1);
  EXPECT_EQ(Levels::parent(kTop, static_cast<Tick>(Levels::slots(kTop)) - 1), 0U);
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

TEST(Levels, MixedRadixOfPowersOfTwoIsPowerOfTwo) {
  using Shifting = PowerOfTwoLevels<1, 7, 3>;
  using Dividing = MixedRadixLevels<2, 128, 8>;
  ASSERT_EQ(Dividing::kLevels, Shifting::kLevels);
  EXPECT_EQ(Dividing::kMaxSlots, Shifting::kMaxSlots);
  EXPECT_EQ(Dividing::kAllSlots, Shifting::kAllSlots);
  Random random(3);
  for (int round = 0; round < 10'000; ++round) {
    const Tick now = random() >> random.below(64);
    const Tick tick = now + std::min(kLastTick - now, random() >> random.below(64));
    ASSERT_EQ(Dividing::level_of(now, tick), Shifting::level_of(now, tick)) << now << " " << tick;
    for (int level = 0; level < Shifting::kLevels; ++level) {
      const Tick number = Shifting::number(level, tick);
      ASSERT_EQ(Dividing::slots(level), Shifting::slots(level));
      ASSERT_EQ(Dividing::number(level, tick), number);
      ASSERT_EQ(Dividing::start(level, number), Shifting::start(level, number));
      ASSERT_EQ(Dividing::parent(level, number), Shifting::parent(level, number));
      ASSERT_EQ(Dividing::index(level, number), Shifting::index(level, number));
    }
  }
}

TEST(Levels, ClassicalWheelsHaveTheSlotsOfTheirModels) {
  for (int level = 0; level < 14; ++level) {
    EXPECT_EQ(KafkaLevels::slots(level), 20);
  }
  EXPECT_EQ(KafkaLevels::start(1, 1), 20U);
  EXPECT_EQ(KafkaLevels::start(2, 1), 400U);
  EXPECT_EQ(KafkaLevels::start(3, 1), 8'000U) << "the three levels turn once in 8 s";
  EXPECT_EQ(KafkaLevels::kLevels, 15);
  EXPECT_EQ(KafkaLevels::slots(14), 12);

  EXPECT_EQ(WallClockLevels::kLevels, 10);
  EXPECT_EQ(WallClockLevels::start(1, 1), 1'000U);
  EXPECT_EQ(WallClockLevels::start(2, 1), 60'000U);
  EXPECT_EQ(WallClockLevels::start(3, 1), 3'600'000U);
  EXPECT_EQ(WallClockLevels::start(4, 1), 86'400'000U);
  EXPECT_EQ(WallClockLevels::start(5, 1), 8'640'000'000U);
  EXPECT_EQ(WallClockLevels::slots(9), 22);
}

// What the headers say of the memory, lists and bits and all.
TEST(Levels, ClassicalWheelsAreAsSmallAsTheirHeadersSay) {
  EXPECT_LT(sizeof(HierarchicalWheel), 23U << 10);
  EXPECT_LT(sizeof(KafkaWheel), 11U << 10);
  EXPECT_LT(sizeof(WallClockWheel), 57U << 10);
}

TEST(Reciprocal, DividesAsTheProcessorDoes) {
  using internal::Reciprocal;
  static_assert(Reciprocal(7).divide(48) == 6);
  Random random(4);
  const auto check = [](std::uint64_t number, std::uint64_t divisor) {
    ASSERT_EQ(Reciprocal(divisor).divide(number), number / divisor) << number << " / " << divisor;
    ASSERT_EQ(Reciprocal(divisor).remainder(number), number % divisor);
  };
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t divisor = std::max<std::uint64_t>(1, random() >> random.below(64));
    const std::uint64_t quotient = random() >> random.below(64);
    check(quotient, divisor);
    check(kLastTick - quotient % 1'000, divisor);
    // Beside the multiples of the divisor, where a wrong multiplier errs.
    const std::uint64_t multiple = quotient % (kLastTick / divisor) * divisor;
    for (const std::uint64_t number : {multiple - 1, multiple, multiple + 1}) {
      check(number, divisor);
    }
  }
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t divisor : {power - 1, power, power + 1}) {
      if (divisor > 0) {
        check(kLastTick, divisor);
        check(divisor - 1, divisor);
        check(divisor, divisor);
      }
    }
  }
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
