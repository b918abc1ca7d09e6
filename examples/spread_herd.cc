// SPDX-License-Identifier: Apache-2.0
// Six hundred jobs that are due on the same minute, without and with a spread: what each second
// of the minute has to do. Time is simulated, so this takes no time.

#include <cstddef>
#include <cstdio>
#include <vector>

#include "carillon/blocks/spread.h"
#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer.h"

using namespace std::chrono_literals;

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  const std::size_t jobs = 600;

  std::vector<int> herd(61);
  std::vector<int> spread_out(61);
  const carillon::Instant minute = time.now() + 1min;
  const auto second = [&] { return static_cast<std::size_t>((time.now() - minute) / 1s); };

  const carillon::Spread spread(jobs, 60s, /*seed=*/42);
  for (std::size_t i = 0; i < jobs; ++i) {
    timer.at(minute, [&] { ++herd[second()]; });
    timer.at(minute + spread.offset(i), [&] { ++spread_out[second()]; });
  }
  time.advance(3min);

  std::printf("second   herd   spread\n");
  for (const std::size_t s : {0, 1, 2, 30, 59}) {
    std::printf("%6zu %6d %8d\n", s, herd[s], spread_out[s]);
  }
}
