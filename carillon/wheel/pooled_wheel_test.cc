// SPDX-License-Identifier: Apache-2.0
// What a PooledWheel does that other wheels do too; handles are in pooled_wheel_handle_test.cc,
// payloads in pooled_wheel_payload_test.cc, stale entries in pooled_wheel_compaction_test.cc.
#include "carillon/wheel/pooled_wheel.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/wheel/pooled_wheel_hooks.h"

namespace carillon {
namespace {

using Expiries = std::vector<std::pair<Tick, int>>;

template <class Shape>
class PooledWheelTest : public ::testing::Test {
 protected:
  using Wheel = BasicPooledWheel<int, Shape>;

  auto record() {
    return [this](typename Wheel::Expired&& expired) {
      EXPECT_EQ(expired.deadline, wheel_.now());
      EXPECT_FALSE(wheel_.contains(expired.handle));
      expired_.emplace_back(wheel_.now(), expired.payload);
    };
  }

  Wheel wheel_;
  Expiries expired_;
};

using Shapes = ::testing::Types<PooledShape, TinyPool, SmallPool>;
TYPED_TEST_SUITE(PooledWheelTest, Shapes);

TYPED_TEST(PooledWheelTest, ThousandTimersOfOneTickExpireFirstInFirstOut) {
  Expiries wanted;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(this->wheel_.schedule(70'000, i));
    wanted.emplace_back(70'000, i);
    // A cascade half way must not change the order.
    if (i == 500) {
      this->wheel_.advance(69'999, this->record());
    }
  }
  EXPECT_EQ(this->wheel_.advance(70'000, this->record()).expired, 1000U);
  EXPECT_EQ(this->expired_, wanted);
}

TYPED_TEST(PooledWheelTest, PastDeadlineExpiresAtTheNextTick) {
  this->wheel_.advance(100, this->record());
  const WheelHandle handle = this->wheel_.schedule(40, 1);
  EXPECT_EQ(this->wheel_.deadline(handle), Tick{101});
  EXPECT_EQ(this->wheel_.advance(100, this->record()).expired, 0U);
  EXPECT_EQ(this->wheel_.advance(101, this->record()).expired, 1U);
}

TYPED_TEST(PooledWheelTest, JumpOverAnyGapIsOneCallInOrder) {
  Expiries wanted;
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(this->wheel_.schedule(Tick{1} << (63 - i), i));
    wanted.insert(wanted.begin(), {Tick{1} << (63 - i), i});
  }
  const AdvanceResult result = this->wheel_.advance(kLastTick, this->record());
  EXPECT_EQ(result, (AdvanceResult{64, false}));
  EXPECT_EQ(this->expired_, wanted);
}

TYPED_TEST(PooledWheelTest, DeadlinesNearTheEndOfTimeAreNeitherEarlyNorLost) {
  this->wheel_.advance(kLastTick - 3, this->record());
  ASSERT_TRUE(this->wheel_.schedule(kLastTick, 1));
  ASSERT_TRUE(this->wheel_.schedule(kLastTick - 1, 2));
  ASSERT_TRUE(this->wheel_.schedule(kLastTick - 2, 3));
  EXPECT_EQ(this->wheel_.next_deadline(), kLastTick - 2);
  this->wheel_.advance(kLastTick - 1, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{kLastTick - 2, 3}, {kLastTick - 1, 2}}));
  this->wheel_.advance(kLastTick, this->record());
  EXPECT_EQ(this->expired_.back(), (std::pair{kLastTick, 1}));
  // There is no next tick: it expires at the next advance to the last one.
  ASSERT_TRUE(this->wheel_.schedule(5, 4));
  EXPECT_EQ(this->wheel_.next_deadline(), kLastTick);
  EXPECT_EQ(this->wheel_.advance(kLastTick, this->record()).expired, 1U);
}

TYPED_TEST(PooledWheelTest, PracticallyNeverIsNotNow) {
  const WheelHandle never = this->wheel_.schedule(kLastTick, 1);
  this->wheel_.advance(kLastTick - 1, this->record());
  EXPECT_TRUE(this->wheel_.contains(never));
  EXPECT_TRUE(this->expired_.empty());
}

TYPED_TEST(PooledWheelTest, WakesOncePerTimerWhateverTheGap) {
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(
          this->wheel_.schedule(this->wheel_.now() + 1 + (random() >> (10 + random.below(50))), i));
    }
    std::size_t wake_ups = 0;
    std::size_t expired = 0;
    while (const std::optional<Tick> next = this->wheel_.next_deadline()) {
      ++wake_ups;
      const std::size_t now = this->wheel_.advance(*next, this->record()).expired;
      ASSERT_GT(now, 0U) << "woke in vain";
      expired += now;
    }
    ASSERT_LE(wake_ups, 3U);
    ASSERT_EQ(expired, 3U);
  }
}

TYPED_TEST(PooledWheelTest, RescheduledToLaterIsNeitherEarlyNorLate) {
  const WheelHandle handle = this->wheel_.schedule(10, 1);
  for (Tick deadline = 11; deadline < 5000; deadline += 7) {
    ASSERT_TRUE(this->wheel_.reschedule(handle, deadline));
    ASSERT_EQ(this->wheel_.next_deadline(), deadline);
    this->wheel_.advance(deadline - 1, this->record());
    ASSERT_TRUE(this->expired_.empty());
  }
  this->wheel_.advance(5000, this->record());
  EXPECT_EQ(this->expired_.size(), 1U);
}

TYPED_TEST(PooledWheelTest, RescheduledToEarlierExpiresOnceAndThen) {
  const WheelHandle handle = this->wheel_.schedule(90'000, 1);
  EXPECT_EQ(this->wheel_.next_deadline(), Tick{90'000});
  ASSERT_TRUE(this->wheel_.reschedule(handle, 300));
  EXPECT_EQ(this->wheel_.next_deadline(), Tick{300});
  ASSERT_TRUE(this->wheel_.reschedule(handle, 0));
  EXPECT_EQ(this->wheel_.next_deadline(), Tick{1});
  this->wheel_.advance(100'000, this->record());
  EXPECT_EQ(this->expired_, (Expiries{{1, 1}}));
}

TYPED_TEST(PooledWheelTest, BudgetStopsInTheMiddleOfATickAndGoesOn) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(this->wheel_.schedule(20, i));
  }
  EXPECT_EQ(this->wheel_.advance(50, this->record(), 4), (AdvanceResult{4, true}));
  EXPECT_EQ(this->wheel_.now(), 20U);
  EXPECT_EQ(this->wheel_.next_deadline(), Tick{20});
  // Due at the tick after, not in the middle of what is due.
  ASSERT_TRUE(this->wheel_.schedule(20, 10));
  EXPECT_EQ(this->wheel_.advance(50, this->record(), 6), (AdvanceResult{6, true}));
  EXPECT_EQ(this->wheel_.advance(50, this->record(), 6), (AdvanceResult{1, false}));
  EXPECT_EQ(this->expired_.back(), (std::pair{Tick{21}, 10}));
}

TYPED_TEST(PooledWheelTest, SinkCancelsItsSlotMatesAndItself) {
  std::vector<WheelHandle> handles;
  for (int i = 0; i < 5; ++i) {
    handles.push_back(this->wheel_.schedule(9, i));
  }
  int cancelled = 0;
  const AdvanceResult result = this->wheel_.advance(100, [&](auto&&) {
    for (const WheelHandle handle : handles) {
      cancelled += this->wheel_.cancel(handle) ? 1 : 0;
    }
  });
  EXPECT_EQ(result.expired, 1U);
  EXPECT_EQ(cancelled, 4);
  EXPECT_EQ(this->wheel_.size(), 0U);
}

TYPED_TEST(PooledWheelTest, SinkPutsOffItsSlotMates) {
  std::vector<WheelHandle> handles;
  for (int i = 0; i < 3; ++i) {
    handles.push_back(this->wheel_.schedule(9, i));
  }
  this->wheel_.advance(100, [&](auto&& expired) {
    this->expired_.emplace_back(this->wheel_.now(), expired.payload);
    if (expired.payload == 0) {
      EXPECT_TRUE(this->wheel_.reschedule(handles[1], 40));
      EXPECT_TRUE(this->wheel_.reschedule(handles[2], 3));
    }
  });
  EXPECT_EQ(this->expired_, (Expiries{{9, 0}, {10, 2}, {40, 1}}));
}

TYPED_TEST(PooledWheelTest, SelfReArmingTimerExpiresOnTimeAfterFullTurns) {
  ASSERT_TRUE(this->wheel_.schedule(10'000, 0));
  this->wheel_.advance(123'000, [&](auto&& expired) {
    this->expired_.emplace_back(this->wheel_.now(), expired.payload);
    ASSERT_TRUE(this->wheel_.schedule(this->wheel_.now() + 10'000, expired.payload + 1));
  });
  ASSERT_EQ(this->expired_.size(), 12U);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(this->expired_[static_cast<std::size_t>(i)], (std::pair{Tick{10'000} * (i + 1), i}));
  }
}

TYPED_TEST(PooledWheelTest, ThrowingSinkLosesNothingElse) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(this->wheel_.schedule(7, i));
  }
  const auto throwing = [&](auto&& expired) {
    this->expired_.emplace_back(this->wheel_.now(), expired.payload);
    throw std::runtime_error("sink");
  };
  for (int i = 0; i < 4; ++i) {
    EXPECT_THROW(this->wheel_.advance(8, throwing), std::runtime_error);
  }
  EXPECT_EQ(this->expired_, (Expiries{{7, 0}, {7, 1}, {7, 2}, {7, 3}}));
  EXPECT_EQ(this->wheel_.advance(8, throwing), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.now(), 8U);
}

TYPED_TEST(PooledWheelTest, SinkAdvancesTheWheel) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(this->wheel_.schedule(7 + static_cast<Tick>(i / 2), i));
  }
  this->wheel_.advance(20, [&](auto&& expired) {
    this->expired_.emplace_back(this->wheel_.now(), expired.payload);
    this->wheel_.advance(30, this->record());
  });
  EXPECT_EQ(this->expired_, (Expiries{{7, 0}, {7, 1}, {8, 2}, {8, 3}}));
  EXPECT_EQ(this->wheel_.now(), 30U);
}

TYPED_TEST(PooledWheelTest, SinkClearsTheWheel) {
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(this->wheel_.schedule(7 + static_cast<Tick>(i % 2), i));
  }
  const AdvanceResult result = this->wheel_.advance(20, [&](auto&&) { this->wheel_.clear(); });
  EXPECT_EQ(result, (AdvanceResult{1, false}));
  EXPECT_TRUE(this->wheel_.empty());
  EXPECT_EQ(this->wheel_.next_deadline(), std::nullopt);
  ASSERT_TRUE(this->wheel_.schedule(25, 1));
  EXPECT_EQ(this->wheel_.advance(25, this->record()).expired, 1U);
}

TYPED_TEST(PooledWheelTest, SinkDestroysTheWheelInANestedAdvance) {
  auto wheel = std::make_unique<BasicPooledWheel<int, TypeParam>>();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(wheel->schedule(7, i));
  }
  int seen = 0;
  wheel->advance(20, [&](auto&&) {
    ++seen;
    wheel->advance(20, [&](auto&&) {
      ++seen;
      wheel.reset();
    });
  });
  EXPECT_EQ(seen, 2);
}

TYPED_TEST(PooledWheelTest, TimeDoesNotGoBack) {
  ASSERT_TRUE(this->wheel_.schedule(50, 1));
  this->wheel_.advance(40, this->record());
  EXPECT_EQ(this->wheel_.advance(10, this->record()), (AdvanceResult{0, false}));
  EXPECT_EQ(this->wheel_.now(), 40U);
}

TYPED_TEST(PooledWheelTest, ForEachAndSnapshotShowEveryTimerOnce) {
  std::vector<WheelHandle> handles;
  for (int i = 0; i < 100; ++i) {
    handles.push_back(this->wheel_.schedule(1 + static_cast<Tick>(i) * 37, i));
  }
  for (std::size_t i = 0; i < 100; i += 3) {
    this->wheel_.cancel(handles[i]);
  }
  std::vector<int> seen(100);
  this->wheel_.for_each([&](WheelHandle handle, Tick deadline, const int& payload) {
    EXPECT_EQ(handle, handles[static_cast<std::size_t>(payload)]);
    EXPECT_EQ(deadline, 1 + static_cast<Tick>(payload) * 37);
    ++seen[static_cast<std::size_t>(payload)];
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], i % 3 == 0 ? 0 : 1) << i;
  }
  const WheelSnapshot snapshot = this->wheel_.snapshot();
  std::size_t sum = 0;
  for (const auto& level : snapshot.levels) {
    for (const std::size_t count : level.counts) {
      sum += count;
    }
  }
  EXPECT_EQ(sum, this->wheel_.size());
}

// Many, so that memory grows while others wait, and every payload is where its timer is.
TEST(PooledWheel, ManyTimersWithLargePayloadsExpireWithTheirOwn) {
  struct Large {
    std::size_t number;
    std::size_t more[6];
  };
  constexpr std::size_t kTimers = 120'000;
  PooledWheel<Large> wheel;
  Random random(3);
  std::vector<Tick> deadlines;
  for (std::size_t i = 0; i < kTimers; ++i) {
    deadlines.push_back(1 + random.below(1'000'000));
    ASSERT_TRUE(wheel.schedule(deadlines.back(), Large{i, {i, i, i, i, i, ~i}}));
  }
  std::size_t expired = 0;
  wheel.advance(1'000'000, [&](PooledWheel<Large>::Expired&& timer) {
    ++expired;
    ASSERT_EQ(timer.deadline, deadlines[timer.payload.number]);
    ASSERT_EQ(timer.payload.more[5], ~timer.payload.number);
  });
  EXPECT_EQ(expired, kTimers);
}

}  // namespace
}  // namespace carillon
