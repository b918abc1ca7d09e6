// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/leaky_bucket.h"

#include <gtest/gtest.h>

#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/random.h"
#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{hours(1)};

TEST(LeakyBucket, MakesABurstAnEvenFlow) {
  LeakyBucket<> bucket({{10, seconds(1)}, 4});
  for (int i = 0; i < 5; ++i) {
    const Turn turn = bucket.try_acquire("a", 1, kStart);
    EXPECT_TRUE(turn);
    EXPECT_EQ(turn.delay, milliseconds(100) * i);
  }
  const Turn refused = bucket.try_acquire("a", 1, kStart);
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.retry_after, milliseconds(100));
  EXPECT_FALSE(bucket.try_acquire("a", 1, kStart + milliseconds(100) - Span(1)));
  EXPECT_EQ(bucket.try_acquire("a", 1, kStart + milliseconds(100)).delay, milliseconds(400));
}

TEST(LeakyBucket, WithNobodyWaitingTheNextGoesAtOnceOrNotAtAll) {
  LeakyBucket<int> bucket({{1, seconds(1)}, 0});
  EXPECT_EQ(bucket.try_acquire(1, 1, kStart).delay, Span::zero());
  EXPECT_EQ(bucket.try_acquire(1, 1, kStart).retry_after, seconds(1));
  EXPECT_EQ(bucket.try_acquire(1, 1, kStart + seconds(1)).delay, Span::zero());
  EXPECT_EQ(bucket.try_acquire(1, 2, kStart).retry_after, kForever);
}

TEST(LeakyBucket, SeveralTurnsAtOnce) {
  LeakyBucket<int> bucket({{1, seconds(1)}, 9});
  EXPECT_EQ(bucket.try_acquire(1, 4, kStart).delay, seconds(0));
  EXPECT_EQ(bucket.try_acquire(1, 4, kStart).delay, seconds(4));
  EXPECT_EQ(bucket.try_acquire(1, 0, kStart).delay, seconds(8)) << "a question";
  EXPECT_EQ(bucket.try_acquire(1, 4, kStart).retry_after, seconds(2));
  EXPECT_EQ(bucket.try_acquire(1, 4, kStart + seconds(2)).delay, seconds(6));
}

// Turns that a Timer waits for, at a rate that is no whole number of nanoseconds.
TEST(LeakyBucket, TurnsOnATimerAreEvenAndNoneIsEarly) {
  ManualDriver time;
  Timer timer(time.options());
  LeakyBucket<int> bucket({{3, seconds(1)}, 299, {.clock = &time.clock()}});
  std::vector<Span> gone;
  const Instant start = time.now();
  for (int i = 0; i < 300; ++i) {
    const Turn turn = bucket.try_acquire(7);
    ASSERT_TRUE(turn);
    timer.after(turn.delay, [&] { gone.push_back(time.now() - start); });
  }
  time.advance(seconds(101));
  ASSERT_EQ(gone.size(), 300U);
  for (std::size_t i = 0; i < gone.size(); ++i) {
    const Span turn = Span(seconds(i)) / 3;
    EXPECT_GE(gone[i], turn);
    EXPECT_LE(gone[i], turn + milliseconds(1));
  }
}

// Turns of one key are an interval apart at least, whatever the calls are.
TEST(LeakyBucketProperty, TurnsNeverComeFasterThanTheRate) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Rate rate{1 + random.below(20), Span(1 + random.between(0, 10'000))};
    const std::uint64_t most_waiting = random.below(20);
    LeakyBucket<int> bucket({rate, most_waiting});
    Instant now = kStart;
    __extension__ using Wide = __int128;
    Wide free_scaled = 0;
    for (int step = 0; step < 1000; ++step) {
      now += Span(random.between(0, random.one_in(30) ? 20'000 : 300));
      const std::uint64_t n = 1 + (random.one_in(5) ? random.below(most_waiting + 1) : 0);
      const Turn turn = bucket.try_acquire(1, n, now);
      const Wide now_scaled = static_cast<Wide>((now - kStart).count()) * rate.permits;
      const Wide backlog = std::max<Wide>(0, free_scaled - now_scaled);
      const Wide room = static_cast<Wide>(most_waiting + 1 - n) * rate.per.count();
      ASSERT_EQ(turn.granted, backlog <= room);
      if (turn) {
        const Wide delay = static_cast<Wide>(turn.delay.count()) * rate.permits;
        ASSERT_GE(delay, backlog);
        ASSERT_LT(delay - static_cast<Wide>(rate.permits), backlog);
        free_scaled = std::max(free_scaled, now_scaled) + static_cast<Wide>(n) * rate.per.count();
      } else {
        const Wide wait = turn.retry_after.count();
        ASSERT_LE(backlog - wait * rate.permits, room);
        ASSERT_GT(backlog - (wait - 1) * rate.permits, room);
      }
    }
  }
}

}  // namespace
}  // namespace carillon
