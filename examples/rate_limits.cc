// SPDX-License-Identifier: Apache-2.0
// A client that asks ten times in half a second, at three limiters that each allow five a second.
// Time is simulated.

#include <cstdio>

#include "carillon/base/clock.h"
#include "carillon/blocks/leaky_bucket.h"
#include "carillon/blocks/sliding_window_limiter.h"
#include "carillon/blocks/token_bucket.h"

using namespace std::chrono_literals;

namespace {

int in_ms(carillon::Span span) { return static_cast<int>(span / 1ms); }

}  // namespace

int main() {
  carillon::ManualClock clock;
  const carillon::LimiterOptions common{.clock = &clock};
  carillon::SlidingWindowLimiter<> window({.limit = 5, .window = 1s, .common = common});
  carillon::TokenBucket<> bucket({.rate = {5, 1s}, .burst = 3, .common = common});
  carillon::LeakyBucket<> queue({.rate = {5, 1s}, .most_waiting = 2, .common = common});

  std::printf("  ms   window           bucket           queue\n");
  for (int call = 0; call < 10; ++call, clock.advance(50ms)) {
    std::printf("%4d", in_ms(clock.now().time_since_epoch()));
    for (const auto& admission : {window.try_acquire("bob"), bucket.try_acquire("bob")}) {
      if (admission) {
        std::printf("   ok, %d left    ", static_cast<int>(admission.remaining));
      } else {
        std::printf("   retry in %3d ms", in_ms(admission.retry_after));  // 429, Retry-After
      }
    }
    if (const carillon::Turn turn = queue.try_acquire("bob")) {
      std::printf("   go in %3d ms\n", in_ms(turn.delay));
    } else {
      std::printf("   retry in %3d ms\n", in_ms(turn.retry_after));
    }
  }

  clock.advance(1min);  // bob has gone
  std::printf("a minute later: %zu keys forgotten\n",
              window.sweep() + bucket.sweep() + queue.sweep());
}
