// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: a timer with a number, a sink that writes down what expires when, and the geometries
/// on which every behaviour is tested.

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "carillon/wheel/hierarchical_wheel_impl.h"

namespace carillon {

struct NumberedTimer : WheelHook {
  explicit NumberedTimer(int n) : number(n) {}
  int number;
};

inline int number_of(const WheelHook& hook) {
  return static_cast<const NumberedTimer&>(hook).number;
}

/// What expired: at which tick, and the timer's number.
using Expiries = std::vector<std::pair<Tick, int>>;

// Four and two slots a level put every test across several levels; where nothing is searched, every
// coarse slot that is asked about is sorted ahead.
struct FourSlots : PowerOfTwoLevels<2> {
  static constexpr int kShortList = 0;
};
struct TwoSlots : PowerOfTwoLevels<1> {
  static constexpr int kShortList = 1;
};

using AllGeometries =
    ::testing::Types<HierarchicalWheel, LinuxWheel, BasicHierarchicalWheel<FourSlots>,
                     BasicHierarchicalWheel<TwoSlots>>;

template <class WheelType>
class WheelFixture : public ::testing::Test {
 protected:
  using Wheel = WheelType;

  /// The timer `number`; made when it is first named.
  NumberedTimer& timer(int number) {
    while (static_cast<int>(timers_.size()) <= number) {
      timers_.emplace_back(static_cast<int>(timers_.size()));
    }
    return timers_[static_cast<std::size_t>(number)];
  }

  /// All timers made so far have numbers below this.
  [[nodiscard]] int timers() const { return static_cast<int>(timers_.size()); }

  auto record() {
    return [this](WheelHook& hook) {
      EXPECT_EQ(hook.deadline(), wheel_.now()) << "timer " << number_of(hook);
      EXPECT_FALSE(hook.scheduled());
      expired_.emplace_back(wheel_.now(), number_of(hook));
    };
  }

  /// Turns the wheel from wake-up to wake-up as a driver does, until nothing is left or `until` is
  /// reached; returns how often it woke.
  int drive(Tick until = kLastTick) {
    int wake_ups = 0;
    for (;;) {
      const auto next = wheel_.next_deadline();
      if (!next || *next > until) {
        wheel_.advance(until, record());
        return wake_ups;
      }
      ++wake_ups;
      EXPECT_GT(wheel_.advance(*next, record()).expired, 0U) << "woke at " << *next << " in vain";
    }
  }

 private:
  std::deque<NumberedTimer> timers_;

 protected:
  // After the timers: it is destroyed first, and lets go of them.
  Wheel wheel_;
  Expiries expired_;
};

}  // namespace carillon
