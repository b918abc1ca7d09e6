// SPDX-License-Identifier: Apache-2.0
// All sequences of up to six operations on a tiny wheel, from starts where rings wrap, against the
// model. Shorter sequences are the beginnings of the longer ones: every step is compared. Each
// begins by scheduling: what comes before that only moves the start.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "carillon/wheel/wheel_kinds.h"
#include "carillon/wheel/wheel_model.h"

namespace carillon {
namespace {

constexpr int kLength = 6;
// The first so many operations schedule.
constexpr std::size_t kScheduling = 4;

template <class Wheel>
using Operation = void (*)(WheelLockstep<Wheel>&);

// Delays are chosen for rings of four slots: the same slot, the next one, the next level or round,
// the one after. Two timers, since order and neighbours need two; what needs more is for the random
// tests.
template <class Wheel>
constexpr std::array<Operation<Wheel>, 10> kOperations = {
    [](WheelLockstep<Wheel>& w) { w.schedule(0, w.now() + 1); },
    [](WheelLockstep<Wheel>& w) { w.schedule(0, w.now() + 4); },
    [](WheelLockstep<Wheel>& w) { w.schedule(1, w.now() + 4); },
    [](WheelLockstep<Wheel>& w) { w.schedule(1, w.now() + 17); },
    [](WheelLockstep<Wheel>& w) { w.postpone(1, w.now() + 18); },
    [](WheelLockstep<Wheel>& w) { w.cancel(0); },
    [](WheelLockstep<Wheel>& w) { w.ask(); },
    [](WheelLockstep<Wheel>& w) { w.advance(w.now() + 1); },
    [](WheelLockstep<Wheel>& w) { w.advance(w.now() + 5, 1); },
    // The sink puts off its neighbour and re-arms itself: the three meet in all orders.
    [](WheelLockstep<Wheel>& w) {
      int reactions = 2;
      w.advance(w.now() + 16, kUnlimited, [&](int id) {
        if (reactions-- > 0) {
          w.reschedule(1 - id, w.now() + 3);
          w.schedule(id, w.now() + 3);
        }
      });
    },
};

template <class Wheel>
void run_all_sequences(Tick start) {
  constexpr auto kCount = kOperations<Wheel>.size();
  std::array<std::size_t, kLength> sequence{};
  for (;;) {
    // Near the end of time now + 17 wraps, and is a deadline long past, for wheel and model.
    WheelLockstep<Wheel> wheels(start, 2);
    int step = 0;
    try {
      for (; step < kLength; ++step) {
        kOperations<Wheel>[sequence[static_cast<std::size_t>(step)]](wheels);
      }
      wheels.check_all();
      while (wheels.next_deadline()) {
        wheels.ask();
        wheels.advance(*wheels.next_deadline());
      }
    } catch (const std::logic_error& error) {
      std::string text;
      for (const std::size_t operation : sequence) {
        text += std::to_string(operation) + " ";
      }
      FAIL() << error.what() << " at step " << step << " of " << text << "from " << start;
    }
    // The next sequence, as an odometer.
    std::size_t digit = kLength - 1;
    while (digit > 0 && ++sequence[digit] == kCount) {
      sequence[digit--] = 0;
    }
    if (digit == 0 && ++sequence[0] == kScheduling) {
      return;
    }
  }
}

template <class Wheel>
class WheelExhaustiveTest : public ::testing::Test {};
using TinyWheels = ::testing::Types<TinyHierarchicalWheel, TinyHashedWheel, TinyCoarseWheel>;
TYPED_TEST_SUITE(WheelExhaustiveTest, TinyWheels);

TYPED_TEST(WheelExhaustiveTest, AllSequencesOnAWheelOfFourSlots) {
  for (const Tick start : {Tick{0}, Tick{3}, Tick{14}, Tick{61}, kLastTick - 18}) {
    ASSERT_NO_FATAL_FAILURE(run_all_sequences<TypeParam>(start));
  }
}

}  // namespace
}  // namespace carillon
