// SPDX-License-Identifier: Apache-2.0
// Two workers and a lock that is lent for 30 seconds. The first keeps it over a failed renewal,
// then loses the network; the second takes over. Time is simulated, and so is the lock.

#include <cstdio>
#include <string>

#include "carillon/blocks/lease_keeper.h"
#include "carillon/timer/manual_driver.h"

using namespace std::chrono_literals;

namespace {

// As SET NX PX, and scripts that extend and delete it if the token is right.
class Lock {
 public:
  explicit Lock(const carillon::Clock& clock) : clock_(clock) {}
  bool acquire(const std::string& token, carillon::Span life) {
    if (clock_.now() < until_) return false;
    owner_ = token;
    until_ = clock_.now() + life;
    return true;
  }
  bool extend(const std::string& token, carillon::Span life) {
    if (owner_ != token || clock_.now() >= until_) return false;
    until_ = clock_.now() + life;
    return true;
  }

 private:
  const carillon::Clock& clock_;
  std::string owner_;
  carillon::Instant until_;
};

}  // namespace

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  carillon::LeaseKeeper keeper(timer, {.life = 30s});
  Lock lock(time.clock());
  const carillon::Instant start = time.now();
  const auto say = [&](const char* who, const char* what) {
    std::printf("%3d s: %s %s\n", static_cast<int>((time.now() - start) / 1s), who, what);
  };

  bool network = true;
  const auto take = [&](const char* who, carillon::Lease& lease) {
    lease = keeper.claim();  // before the lock is asked for: its life counts from here
    if (!lock.acquire(who, 30s)) return say(who, "does not get the lock");
    const bool held = lease.hold(
        [&, who](carillon::RenewReply reply) {
          if (!network) {
            reply.failed();  // it will be asked to try again
          } else if (lock.extend(who, 30s)) {
            reply.renewed();
          } else {
            reply.refused();
          }
        },
        [&, who](carillon::LeaseLoss) { say(who, "has lost the lock, and stops"); });
    say(who, held ? "has the lock" : "got the lock too late");
  };

  carillon::Lease first;
  carillon::Lease second;
  take("first", first);
  time.advance(9s);
  network = false;  // for three seconds: the renewal at 10 s fails, the one at 12 s does not
  time.advance(2s);
  network = true;
  time.advance(60s);
  take("second", second);
  network = false;
  time.advance(30s);
  network = true;
  take("second", second);
  std::printf("held: first %s, second %s\n", first.held() ? "yes" : "no",
              second.held() ? "yes" : "no");
}
