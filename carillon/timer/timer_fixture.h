// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of Timer share: a timer on a clock that moves when told.

#include <chrono>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/timer/poll_timer.h"

namespace carillon::testing {

// Moves `clock` to `target`, over every deadline of `timer` on the way, so that each callback sees
// the time at which it is due.
inline void run_until(ManualClock& clock, PollTimer& timer, Instant target) {
  for (;;) {
    const auto next = timer.next_deadline();
    if (!next || *next > target) {
      break;
    }
    if (*next > clock.now()) {
      clock.advance_to(*next);
    }
    timer.poll();
  }
  clock.advance_to(target);
  timer.poll();
}

// Pre: `options` names no clock.
struct FakeTimer {
  explicit FakeTimer(TimerOptions options = {}) : timer(on(clock, std::move(options))) {}

  static TimerOptions on(const ManualClock& clock, TimerOptions options) {
    options.custom_clock = &clock;
    return options;
  }
  void advance(Span span) { run_until(clock, timer, saturating_add(clock.now(), span)); }
  [[nodiscard]] Span elapsed() const { return clock.now() - kStart; }

  static constexpr Instant kStart{std::chrono::hours(1)};
  ManualClock clock{kStart};
  PollTimer timer;
};

// Keeps what it is given, until it is told to run it.
class QueueExecutor final : public Executor {
 public:
  explicit QueueExecutor(std::size_t capacity = ~std::size_t{0}) : capacity_(capacity) {}

  [[nodiscard]] std::size_t try_execute(std::span<Firing> firings,
                                        RoomListener& listener) override {
    std::size_t count = 0;
    while (count < firings.size() && queue_.size() < capacity_) {
      queue_.push_back(std::move(firings[count++]));
    }
    if (count < firings.size()) {
      listener_ = &listener;
    }
    return count;
  }
  [[nodiscard]] std::size_t size() const { return queue_.size(); }
  // Runs what waits, and what that adds.
  void run() {
    while (!queue_.empty()) {
      Firing first = std::move(queue_.front());
      queue_.erase(queue_.begin());
      first();
    }
    if (listener_ != nullptr) {
      std::exchange(listener_, nullptr)->on_room();
    }
  }
  void drop() { queue_.clear(); }

 private:
  const std::size_t capacity_;
  std::vector<Firing> queue_;
  RoomListener* listener_ = nullptr;
};

}  // namespace carillon::testing
