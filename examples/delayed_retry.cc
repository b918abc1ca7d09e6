// SPDX-License-Identifier: Apache-2.0
// A message that cannot be delivered for the first seven seconds. Time is simulated.

#include <chrono>
#include <cstdio>

#include "carillon/blocks/retry.h"
#include "carillon/timer/manual_driver.h"

using namespace std::chrono_literals;

namespace {

// Is down until seven seconds have passed.
class Server {
 public:
  explicit Server(const carillon::ManualDriver& time) : time_(time), begin_(time.now()) {}
  [[nodiscard]] carillon::Span uptime() const { return time_.now() - begin_; }
  [[nodiscard]] bool accepts() const { return uptime() >= 7s; }

 private:
  const carillon::ManualDriver& time_;
  carillon::Instant begin_;
};

}  // namespace

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  const Server server(time);
  const auto print = [&](const char* what) {
    std::printf("%6d ms: %s\n", static_cast<int>(server.uptime() / 1ms), what);
  };

  carillon::retry(
      timer, {.first = 1s, .jitter = carillon::Jitter::kHalf, .max_attempts = 6, .seed = 1},
      [&](carillon::Attempt attempt) {
        print("deliver");
        server.accepts() ? attempt.succeed() : attempt.fail();
      },
      [&](const carillon::RetryOutcome& outcome) {
        print(outcome.succeeded() ? "delivered" : "given up");
      });
  time.advance(1h);
}
