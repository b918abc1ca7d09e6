// SPDX-License-Identifier: Apache-2.0
// A cache of pages that holds three, each for ten minutes: what goes when it is full, and what goes
// because it is old. Time is simulated.

#include <cstdio>
#include <string>

#include "carillon/blocks/expiring_map.h"
#include "carillon/timer/manual_driver.h"

using namespace std::chrono_literals;

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  const carillon::Instant start = time.now();
  const auto say = [&](const std::string& path, const char* what) {
    std::printf("%2d min: %-7s %s\n", static_cast<int>((time.now() - start) / 1min), path.c_str(),
                what);
  };

  carillon::ExpiringMap<std::string, std::string> pages(
      timer, {.ttl = 10min,
              .max_size = 3,
              .on_removed = [&](const std::string& path, std::string&, carillon::Removal why) {
                say(path,
                    why == carillon::Removal::kEvicted ? "evicted: the cache is full" : "expired");
              }});
  const auto read = [&](const std::string& path) {
    if (pages.get(path)) return say(path, "from the cache");
    say(path, "rendered");
    pages.put(path, "<html>" + path + "</html>");
  };

  read("/home");
  read("/news");
  read("/about");
  time.advance(4min);
  read("/home");
  read("/about");
  read("/shop");  // makes /news go, which nobody has read since it came
  time.advance(2min);
  read("/about");
  time.advance(1h);
  std::printf("%2d min: %zu pages left\n", static_cast<int>((time.now() - start) / 1min),
              pages.size());
}
