// SPDX-License-Identifier: Apache-2.0
// Two processes and a lock in a real Redis. The first is killed and cannot give it back; the second
// gets it when the lease of the first is over, and not before.
//
//     redis_lock                    the story, on a redis-server of its own
//     redis_lock hold SOCKET NAME   one of the two: until its input ends

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "carillon/base/clock.h"
#include "carillon/blocks/lease_keeper.h"
#include "processes.h"
#include "redis_lock.h"

using namespace std::chrono_literals;

namespace carillon::redis_lock {
namespace {

constexpr const char* kKey = "lock:report";

void say(const std::string& who, const char* what) {
  std::printf("%s %s\n", who.c_str(), what);
  std::fflush(stdout);
}

bool input_ends_within(std::chrono::milliseconds time) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char ignored = 0;
  return ::poll(&input, 1, static_cast<int>(time.count())) > 0 &&
         ::read(STDIN_FILENO, &ignored, 1) <= 0;
}

int hold(const std::string& unix_socket, const std::string& name) {
  Timer timer({.clock = ClockKind::kBoot});  // Redis goes on while this machine is suspended
  LeaseKeeper keeper(timer, {.life = 3s});
  RedisLock lock(keeper, unix_socket, kKey);
  const auto on_lost = [&](LeaseLoss loss) {
    say(name, loss == LeaseLoss::kRefused ? "has lost the lock" : "could not renew the lock");
  };
  for (bool waits = false; !lock.try_lock(on_lost); waits = true) {
    if (!waits) say(name, "waits");
    if (input_ends_within(50ms)) return 0;
  }
  say(name, "has the lock");
  while (lock.held() && !input_ends_within(50ms)) {
  }
  if (lock.unlock()) say(name, "gives the lock back");
  return 0;
}

void show_next_line(Child& child) {
  std::printf("%s\n", child.line(30s).value_or("(nothing)").c_str());
}

int tell_story(const std::string& program) {
  RedisServer server;
  server.start();
  RedisConnection redis(server.unix_socket(), 1s);

  Child first({program, "hold", server.unix_socket(), "first"});
  show_next_line(first);
  Child second({program, "hold", server.unix_socket(), "second"});
  show_next_line(second);

  first.kill();
  std::printf("first is killed\n");
  const Instant asked = SteadyClock().now();
  const Span left = std::chrono::milliseconds(redis.ask({"PTTL", kKey}).number);
  show_next_line(second);
  const Span taken_over = SteadyClock().now() - asked;
  std::printf("that was when the lease was over, not before: %s\n",
              left > 0ms && taken_over > left - 2ms ? "yes" : "no");  // both are rounded

  second.end_input();
  show_next_line(second);
  std::printf("keys in Redis: %d\n", static_cast<int>(redis.ask({"DBSIZE"}).number));
  return 0;
}

}  // namespace
}  // namespace carillon::redis_lock

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  try {
    constexpr int kHold = 4;
    if (argc == kHold && std::string_view(argv[1]) == "hold") {
      return carillon::redis_lock::hold(argv[2], argv[3]);
    }
    return carillon::redis_lock::tell_story("/proc/self/exe");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "redis_lock: %s\n", error.what());
    return 1;
  }
}
