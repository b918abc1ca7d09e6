// SPDX-License-Identifier: Apache-2.0
// Callbacks after a delay, from any thread: an order that is paid in time, and a heartbeat.

#include <chrono>
#include <cstdio>
#include <latch>
#include <string>

#include "carillon/timer/timer.h"

using namespace std::chrono_literals;

int main() {
  std::latch three_beats(3);
  carillon::Timer timer;  // 1 ms ticks; one driver thread, asleep when nothing is due

  const std::string order = "order 17";
  auto unpaid = timer.after(30min, [order] { std::printf("%s is cancelled\n", order.c_str()); });
  if (unpaid.cancel() == carillon::CancelResult::kCancelled) {  // from any thread
    std::printf("%s is paid\n", order.c_str());
  }

  auto heartbeat = timer.every(5ms, [&, beats = 0]() mutable {  // never runs beside itself
    if (beats < 3) {
      std::printf("beat %d\n", ++beats);
      three_beats.count_down();
    }
  });
  three_beats.wait();
  heartbeat.cancel();

  timer.after(1h, [] { std::puts("never"); });
  std::printf("%zu had not fired\n", timer.stop().size());
}
