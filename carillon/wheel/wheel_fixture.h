// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: a timer with a number, a sink that writes down what expires when, and checks that
/// every wheel keeps what it told when the timer was scheduled.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "carillon/wheel/wheel_kinds.h"

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

using ExactWheels = ExactWheelsIn<::testing::Types>;
using AllWheels = AllWheelsIn<::testing::Types>;

/// A wheel and its timers. The deadlines that a test schedules for are kept to the tick by an exact
/// wheel; where others may be later, a test asks told().
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

  bool schedule(int number, Tick deadline) { return schedule(timer(number), deadline); }
  bool schedule(WheelHook& hook, Tick deadline) {
    return checked(hook, deadline, wheel_.schedule(hook, deadline));
  }
  bool reschedule(int number, Tick deadline) {
    return checked(timer(number), deadline, wheel_.reschedule(timer(number), deadline));
  }
  bool postpone(int number, Tick deadline) {
    return checked(timer(number), deadline, wheel_.postpone(timer(number), deadline));
  }
  bool cancel(int number) { return wheel_.cancel(timer(number)); }

  /// When the wheel will give the timer out.
  Tick told(int number) { return timer(number).deadline(); }

  auto record() {
    return [this](WheelHook& hook) {
      EXPECT_EQ(hook.deadline(), wheel_.now()) << "timer " << number_of(hook);
      EXPECT_FALSE(hook.scheduled());
      expired_.emplace_back(wheel_.now(), number_of(hook));
    };
  }

  /// Have these expired, in this order, and at these ticks? From a wheel that rounds, as late as
  /// that may be if they were scheduled at tick 0.
  [[nodiscard]] ::testing::AssertionResult expired_are(const Expiries& wanted) const {
    const auto fits = [](const auto& got, const auto& want) {
      return got.second == want.second && got.first >= want.first &&
             got.first <= latest<Wheel>(0, want.first);
    };
    if (std::equal(expired_.begin(), expired_.end(), wanted.begin(), wanted.end(), fits)) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << ::testing::PrintToString(expired_) << ", not " << ::testing::PrintToString(wanted);
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
  bool checked(const WheelHook& hook, Tick deadline, bool said) {
    const Tick now = wheel_.now();
    deadline = std::max(deadline, now == kLastTick ? now : now + 1);
    EXPECT_GE(hook.deadline(), deadline) << "early";
    EXPECT_LE(hook.deadline(), latest<Wheel>(now, deadline)) << "late";
    return said;
  }

  std::deque<NumberedTimer> timers_;

 protected:
  // After the timers: it is destroyed first, and lets go of them.
  Wheel wheel_;
  Expiries expired_;
};

}  // namespace carillon
