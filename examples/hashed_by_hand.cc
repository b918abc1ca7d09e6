// SPDX-License-Identifier: Apache-2.0
// A hashed timing wheel (Varghese & Lauck, scheme 6) by hand, in forty lines, to see that there is
// no more to it: a ring of lists, a hand, and for each timer how often the hand must still go
// round. carillon/wheel/hashed_wheel.h is what one uses: it jumps over gaps, cancels in constant
// time, does not visit what is rounds away, and lets callbacks do anything.

#include <array>
#include <cstddef>
#include <cstdio>
#include <list>
#include <string>
#include <utility>

class HandmadeWheel {
 public:
  // Due in `delay` ticks; at once means at the next.
  void schedule(std::string name, std::size_t delay) {
    if (delay == 0) delay = 1;
    const std::size_t slot = (hand_ + delay) % kSlots;
    slots_[slot].push_back({std::move(name), (delay - 1) / kSlots});
  }

  // One tick: the hand moves on, and what is in its slot is due or has gone round once more.
  template <class Sink>
  void tick(const Sink& sink) {
    hand_ = (hand_ + 1) % kSlots;
    std::list<Timer> met = std::exchange(slots_[hand_], {});
    while (!met.empty()) {
      if (met.front().rounds == 0) {
        sink(met.front().name);
        met.pop_front();
      } else {
        --met.front().rounds;
        slots_[hand_].splice(slots_[hand_].end(), met, met.begin());
      }
    }
  }

 private:
  static constexpr std::size_t kSlots = 8;
  struct Timer {
    std::string name;
    std::size_t rounds;
  };
  std::array<std::list<Timer>, kSlots> slots_;
  std::size_t hand_ = 0;
};

int main() {
  HandmadeWheel wheel;
  wheel.schedule("A", 5);
  wheel.schedule("B", 3);
  wheel.schedule("C", 11);  // the slot of B, once round
  wheel.schedule("D", 8);   // a whole turn: the slot that the hand is in
  for (int tick = 1; tick <= 16; ++tick) {
    wheel.tick([&](const std::string& name) { std::printf("tick %2d: %s\n", tick, name.c_str()); });
  }
}
