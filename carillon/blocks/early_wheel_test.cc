// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/internal/early_wheel.h"

#include <gtest/gtest.h>

#include "carillon/base/random.h"

namespace carillon::internal {
namespace {

// The claim that the blocks rest on: never late, and early by a sixteenth of the delay at most.
TEST(EarlyWheel, IsNeverLateAndEarlyByASixteenthAtMost) {
  Random random(1);
  for (int round = 0; round < 200'000; ++round) {
    const Tick now = random.below(Tick{1} << (1 + random.below(50)));
    const Tick delay = 1 + random.below(Tick{1} << (1 + random.below(44)));
    CoarseWheel wheel(now);
    WheelHook hook;
    wheel.schedule(hook, early_deadline(now, now + delay));
    ASSERT_LE(hook.deadline(), now + delay) << "from " << now;
    ASSERT_GE(hook.deadline() + (delay + 15) / 16, now + delay) << "from " << now;
    if (delay <= 64) {
      ASSERT_EQ(hook.deadline(), now + delay);
    }
    round += 99;  // A wheel of 30 KiB is made for each.
  }
}

// Half an hour in ticks of 10 ms: how often such a timer is looked at.
TEST(EarlyWheel, FewLooksBringATimerToItsDeadline) {
  CoarseWheel wheel;
  WheelHook hook;
  const Tick deadline = 180'000;
  wheel.schedule(hook, early_deadline(0, deadline));
  int looks = 0;
  Tick last = 0;
  while (hook.scheduled()) {
    wheel.advance(*wheel.next_deadline(), [&](WheelHook& due) {
      ++looks;
      last = wheel.now();
      if (last < deadline) {
        wheel.schedule(due, early_deadline(last, deadline));
      }
    });
  }
  EXPECT_EQ(last, deadline);
  EXPECT_LE(looks, 5);
}

}  // namespace
}  // namespace carillon::internal
