// SPDX-License-Identifier: Apache-2.0
// An order is sent by a coroutine, again until it is accepted: a loop, a Backoff for the waits, a
// stop token for the user who goes. Time is simulated.

#include <chrono>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <stop_token>

#include "carillon/blocks/backoff.h"
#include "carillon/timer/manual_driver.h"
#include "carillon/timer/sleep.h"

using namespace std::chrono_literals;

namespace {

// The plainest coroutine: begins at once, and nobody waits for it.
struct Detached {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

class Shop {
 public:
  Shop(carillon::ManualDriver& time, carillon::Span opens) : time_(time), opens_(opens) {}
  [[nodiscard]] bool accepts() const { return elapsed() >= opens_; }
  void say(const char* what) const {
    std::printf("%6d ms: %s\n", static_cast<int>(elapsed() / 1ms), what);
  }

 private:
  [[nodiscard]] carillon::Span elapsed() const { return time_.now() - begin_; }

  carillon::ManualDriver& time_;
  carillon::Span opens_;
  carillon::Instant begin_ = time_.now();
};

Detached send(carillon::Timer& timer, const Shop& shop, std::stop_token user_goes) {
  carillon::Backoff backoff({.first = 1s, .max_attempts = 5, .at_most = 1min, .seed = 2},
                            timer.now());
  for (;;) {
    shop.say("send");
    if (shop.accepts()) break;
    const auto wait = backoff.failed(timer.now());
    if (!wait) {
      shop.say("given up");
      co_return;
    }
    const carillon::SleepResult slept = co_await timer.sleep_for(*wait, user_goes);
    if (slept != carillon::SleepResult::kElapsed) {
      shop.say("the user has gone");
      co_return;
    }
  }
  backoff.succeeded();
  shop.say("accepted");
}

}  // namespace

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  {
    std::puts("a shop that opens after three seconds:");
    const Shop shop(time, 3s);
    send(timer, shop, {});
    time.advance(1h);
  }
  {
    std::puts("one that does not, and a user who waits for two:");
    const Shop shop(time, 24h);
    std::stop_source user;
    send(timer, shop, user.get_token());
    time.advance(2s);
    user.request_stop();
    time.advance(1h);
  }
  std::puts("one that does not, and a user who waits:");
  const Shop shop(time, 24h);
  send(timer, shop, {});
  time.advance(1h);
}
