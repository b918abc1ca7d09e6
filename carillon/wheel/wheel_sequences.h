// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: all sequences of up to six operations on a tiny wheel and the model in lockstep.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "carillon/wheel/wheel_model.h"

namespace carillon {

/// The starts from which rings wrap, and time ends.
inline constexpr std::array<Tick, 5> kSequenceStarts = {0, 3, 14, 61, kLastTick - 18};

template <class Wheel>
using WheelOperation = void (*)(WheelLockstep<Wheel>&);

// Delays are chosen for rings of four slots: the same slot, the next one, the next level or round,
// the one after. Two timers, since order and neighbours need two; what needs more is for the random
// tests.
template <class Wheel>
inline constexpr std::array<WheelOperation<Wheel>, 10> kWheelOperations = {
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

/// Runs them all from `start`; fails at the first of which wheel and model disagree. Shorter ones
/// are the beginnings of longer ones: every step is compared. Each begins by scheduling: what comes
/// before that only moves the start.
template <class Wheel>
void run_all_sequences(Tick start) {
  constexpr int kLength = 6;
  // The first so many operations schedule.
  constexpr std::size_t kScheduling = 4;
  constexpr auto kCount = kWheelOperations<Wheel>.size();
  std::array<std::size_t, kLength> sequence{};
  for (;;) {
    // Near the end of time now + 17 wraps, and is a deadline long past, for wheel and model.
    WheelLockstep<Wheel> wheels(start, 2);
    int step = 0;
    try {
      for (; step < kLength; ++step) {
        kWheelOperations<Wheel>[sequence[static_cast<std::size_t>(step)]](wheels);
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

}  // namespace carillon
