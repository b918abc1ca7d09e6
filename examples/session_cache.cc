// SPDX-License-Identifier: Apache-2.0
// A cache of sessions: each lives for half an hour after its last request, ten thousand fit.
// Time is simulated.

#include <cstdio>
#include <string>

#include "carillon/blocks/expiring_map.h"
#include "carillon/timer/manual_driver.h"

using namespace std::chrono_literals;

namespace {

struct Session {
  std::string user;
  int requests = 0;
};

}  // namespace

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  const carillon::Instant start = time.now();
  const auto minutes = [&] { return static_cast<int>((time.now() - start) / 1min); };

  carillon::ExpiringMap<std::string, Session> sessions(
      timer, {.ttl = 30min,
              .touch_on_get = true,
              .max_size = 10'000,
              .on_removed = [&](const std::string& cookie, Session& session, carillon::Removal) {
                std::printf("%2d min: %s is logged out, after %d requests of %s\n", minutes(),
                            cookie.c_str(), session.requests, session.user.c_str());
              }});

  sessions.put("c-17", {"alice"});
  sessions.put("c-42", {"bob"});
  for (int i = 0; i < 4; ++i) {
    time.advance(10min);
    // A request of alice: one look-up, which is also the touch.
    sessions.with("c-17", [](Session& session) { ++session.requests; });
  }
  std::printf("%2d min: %zu session left\n", minutes(), sessions.size());
  time.advance(1h);
  std::printf("%2d min: %s\n", minutes(), sessions.get("c-17") ? "there" : "nobody is there");
}
