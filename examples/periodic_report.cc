// SPDX-License-Identifier: Apache-2.0
// A report every ten minutes, and what becomes of the ones that are missed while the third takes
// 25 minutes. (A fourth policy, a fixed delay, counts from the end of the run before.)

#include <chrono>
#include <cstdio>

#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer.h"

using namespace std::chrono_literals;

namespace {

void show(const char* name, carillon::Repeat repeat) {
  carillon::ManualDriver time;
  const carillon::Instant begin = time.now();
  carillon::Timer timer(time.options());
  std::printf("%-6s", name);
  carillon::Span busy{};  // how long after its beginning a report is
  int reports = 0;
  timer.every(
      10min,
      [&] {
        const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time.now() - begin);
        std::printf(" %3d", static_cast<int>(minutes.count()));
        if (++reports == 3) busy = 25min;
      },
      repeat);
  // The machine is busy with the third report: nothing can run, and then time has passed.
  while (time.now() - begin < 90min) {
    if (busy > busy.zero()) {
      timer.pause();
      time.advance(busy);
      timer.resume();
      busy = {};
    }
    time.advance(1min);
  }
  std::printf("   missed %u\n", static_cast<unsigned>(timer.stats().missed));
}

}  // namespace

int main() {
  std::puts("begun at minute, if the machine is busy from minute 30 to 55:");
  show("skip", carillon::Repeat::kSkip);
  show("burst", carillon::Repeat::kBurst);
  show("delay", carillon::Repeat::kDelay);
}
