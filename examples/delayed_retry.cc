// SPDX-License-Identifier: Apache-2.0
// A queue of messages to three servers: one accepts, one is down for seven seconds, one for ever.
// What fails is delivered again later, and holds up no other. Time is simulated.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "carillon/blocks/retry.h"
#include "carillon/timer/manual_driver.h"

using namespace std::chrono_literals;

namespace {

struct Server {
  const char* name;
  carillon::Span up_after;
};

class RetryQueue {
 public:
  RetryQueue(carillon::ManualDriver& time, carillon::Timer& timer) : time_(time), timer_(timer) {}

  void deliver(const Server& server, std::string message) {
    carillon::retry(
        timer_,
        {.first = 1s, .jitter = carillon::Jitter::kHalf, .max_attempts = 6, .seed = ++seed_},
        [this, &server](carillon::Attempt attempt) {
          const bool accepted = elapsed() >= server.up_after;
          say(server, accepted ? "accepts" : "is down");
          accepted ? attempt.succeed() : attempt.fail();
        },
        [this, &server, message = std::move(message)](const carillon::RetryOutcome& outcome) {
          if (outcome.succeeded()) return;
          say(server, "is given up");
          dead_letters_.push_back(message);
        });
  }
  [[nodiscard]] const std::vector<std::string>& dead_letters() const { return dead_letters_; }

 private:
  [[nodiscard]] carillon::Span elapsed() const { return time_.now() - begin_; }
  void say(const Server& server, const char* what) const {
    std::printf("%6d ms: %s %s\n", static_cast<int>(elapsed() / 1ms), server.name, what);
  }

  carillon::ManualDriver& time_;
  carillon::Timer& timer_;
  const carillon::Instant begin_ = time_.now();
  std::vector<std::string> dead_letters_;
  std::uint64_t seed_ = 0;  // given, so that this prints the same each time
};

}  // namespace

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  RetryQueue queue(time, timer);
  const Server alpha{"alpha", 0s};
  const Server beta{"beta", 7s};
  const Server gamma{"gamma", carillon::kForever};
  queue.deliver(gamma, "hello gamma");
  queue.deliver(beta, "hello beta");
  queue.deliver(alpha, "hello alpha");
  time.advance(1h);
  std::printf("dead letters: %zu, \"%s\"\n", queue.dead_letters().size(),
              queue.dead_letters().front().c_str());
}
