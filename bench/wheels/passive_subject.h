// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Our wheels and the reference heaps as subjects: hooks, and a time that the caller tells.

#include <cstddef>
#include <optional>

#include "bench/wheels/subject.h"

namespace carillon::bench {

/// Of the exact wheels' names.
struct ExactWheel {
  static constexpr Family kFamily = Family::kWheel;
  static constexpr int kLateShift = 0;
};

/// `Name` has kName, kFamily and kLateShift.
template <class Wheel, class Hook, class Name>
class PassiveSubject : public Name {
 public:
  using Timer = Hook;
  static constexpr bool kEqualTimeouts = false;
  static constexpr bool kDrivesItself = false;
  static constexpr std::size_t kPayloadBytes = 0;

  explicit PassiveSubject(std::size_t capacity) : wheel_(make(capacity)) {}

  void prepare(Timer&) {}
  // So that a hook's destructor finds nothing to do; of heaps, so that no entry points to it.
  void dispose(Timer&) {
    if (wheel_.size() > 0) wheel_.clear();
  }

  void schedule(Timer& timer, Tick deadline) { wheel_.schedule(timer, deadline); }
  void cancel(Timer& timer) { wheel_.cancel(timer); }
  void refresh(Timer& timer, Tick deadline) {
    if constexpr (requires { wheel_.postpone(timer, deadline); }) {
      wheel_.postpone(timer, deadline);
    } else {
      wheel_.reschedule(timer, deadline);
    }
  }
  template <class Sink>
  void advance(Tick now, Sink&& sink) {
    wheel_.advance(now, [&](Timer& timer) { sink(timer, wheel_.now()); });
  }
  [[nodiscard]] std::optional<Tick> next_deadline() const { return wheel_.next_deadline(); }
  [[nodiscard]] Tick now() const { return wheel_.now(); }

 private:
  // Constructed in place: wheels do not move.
  static Wheel make(std::size_t capacity) {
    if constexpr (requires { Name::make(capacity); }) {
      return Name::make(capacity);
    } else {
      return Wheel();
    }
  }

  Wheel wheel_;
};

}  // namespace carillon::bench
