// SPDX-License-Identifier: Apache-2.0
#include "bench/common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "carillon/base/clock.h"

namespace carillon::bench {

void show_progress(std::string_view what) {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  static const Instant began = SteadyClock().now();
  if (!terminal) return;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(SteadyClock().now() - began).count();
  if (what.empty()) {
    fmt::print(stderr, "\r\033[K");
  } else {
    fmt::print(stderr, "\r\033[K[{:3} s] {}", seconds, what);
  }
  std::fflush(stderr);
}

}  // namespace carillon::bench
