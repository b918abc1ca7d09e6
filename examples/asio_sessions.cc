// SPDX-License-Identifier: Apache-2.0
// A Timer under Boost.Asio: wheel_timer where steady_timer was, and coroutines that sleep, and that
// give up waiting.

#include <cstdio>

#include "carillon/timer/asio.h"

using namespace std::chrono_literals;
namespace asio = boost::asio;

// A session that ends when nothing has come for a while.
class Session {
 public:
  Session(carillon::Timer& timer, asio::io_context& io) : idle_(timer, io) { touch(); }

  void touch() {
    idle_.expires_after(20ms);  // what waited ends with operation_aborted
    idle_.async_wait([](boost::system::error_code error) {
      if (!error) std::puts("idle: closed");
    });
  }

 private:
  carillon::asio::wheel_timer idle_;
};

asio::awaitable<int> ask(carillon::Timer& timer, std::stop_token stop) {
  // Stands for a request; a real one hands its token on.
  const auto slept = co_await carillon::asio::sleep_for(timer, 10s, stop);
  co_return slept == carillon::SleepResult::kElapsed ? 42 : -1;
}

asio::awaitable<void> talk(carillon::Timer& timer, Session& session) {
  for (int i = 1; i <= 3; ++i) {
    if (co_await carillon::asio::sleep_for(timer, 5ms) != carillon::SleepResult::kElapsed) {
      co_return;
    }
    std::printf("packet %d\n", i);
    session.touch();
  }
  auto answer = co_await carillon::asio::with_timeout(
      timer, 10ms, [&](std::stop_token stop) { return ask(timer, stop); });
  std::puts(answer ? "answered" : "no answer in time");
}

int main() {
  carillon::Timer timer;  // one for all contexts of the program
  asio::io_context io;
  Session session(timer, io);
  asio::co_spawn(io, talk(timer, session), asio::detached);
  io.run();  // returns when no wait is pending
}
