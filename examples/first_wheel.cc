// SPDX-License-Identifier: Apache-2.0
// Idle timeouts of connections, in a wheel that is told the time: no thread, no clock, no
// allocation. The README quotes this program.

#include <cinttypes>
#include <cstdio>

#include "carillon/wheel/hierarchical_wheel.h"

struct Connection : carillon::WheelHook {  // 32 bytes; the wheel links through them
  explicit Connection(const char* peer_name) : peer(peer_name) {}
  const char* peer;
};

int main() {
  carillon::HierarchicalWheel wheel;  // a tick is what you say it is: here a millisecond
  Connection alice("alice");
  Connection bob("bob");
  wheel.schedule(alice, 30'000);
  wheel.schedule(bob, 30'000);

  wheel.advance(15'000, [](carillon::WheelHook&) {});  // nobody is due
  wheel.postpone(alice, wheel.now() + 30'000);         // a packet from alice

  wheel.advance(30'000, [&](carillon::WheelHook& hook) {
    std::printf("%s was idle at %" PRIu64 "\n", static_cast<Connection&>(hook).peer, wheel.now());
  });
  std::printf("sleep until %" PRIu64 "\n", wheel.next_deadline().value());  // alice: 45000
}
