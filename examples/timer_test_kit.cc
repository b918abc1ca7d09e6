// SPDX-License-Identifier: Apache-2.0
// How a program that uses a Timer is tested: hours go by in a microsecond, and nothing sleeps.

#include <chrono>
#include <cstdio>

#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer.h"

using namespace std::chrono_literals;

// A session that ends when it was idle for half a minute.
class Session {
 public:
  explicit Session(carillon::Timer& timer) : idle_(timer.after(30s, [this] { open_ = false; })) {}

  void touch() { idle_->reschedule(30s); }
  [[nodiscard]] bool open() const { return open_; }

 private:
  bool open_ = true;            // callbacks run on this thread here; otherwise std::atomic<bool>
  carillon::ScopedTimer idle_;  // cancelled with its owner; the last member, so the first to go
};

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  Session session(timer);
  for (int i = 0; i < 120; ++i) {
    time.advance(29s);
    session.touch();
  }
  std::printf("after 58 minutes: %s\n", session.open() ? "open" : "closed");
  time.advance(30s);
  std::printf("30 seconds later: %s\n", session.open() ? "open" : "closed");
}
