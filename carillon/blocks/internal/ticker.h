// SPDX-License-Identifier: Apache-2.0
#pragma once

// Work that a block has a Timer do now and then: when it said so, or earlier when asked.
//
// From when it is first woken until the work says that it need not be woken again it has two timers
// in the Timer: periodic ones, as these keep their place while they run. One is for the next run.
// The other is put off for ever; it is for the run after that, since a timer that runs cannot be
// put off. So a Timer that is full (TimerOptions::max_pending) does not end work that has begun.

#include <atomic>
#include <memory>
#include <optional>

#include "carillon/base/time.h"
#include "carillon/timer/timer.h"
#include "carillon/timer/unique_function.h"

namespace carillon::internal {

// Threads:  wake_within() from any. The work never runs beside itself.
// Lifetime: the destructor waits for work that is running, and then none runs. To destroy it in its
//           own work is a bug and stops the program. The Timer must outlive it, or be stopped.
class Ticker {
 public:
  // Answers in how long it wants to run again; nothing: not until it is woken.
  using Work = UniqueFunction<std::optional<Span>()>;

  Ticker(Timer& timer, Work work);
  ~Ticker();
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

  // Has the work run `delay` from now at the latest, by the Timer's clock, of which `now` is a
  // reading. A load, if it will anyway. False if the Timer has refused: it is full, or stopped.
  // What the Timer throws passes through; it can be tried again then.
  bool wake_within(Instant now, Span delay) {
    const Instant due = saturating_add(now, delay);
    const Instant known(Span(due_.load(std::memory_order_seq_cst)));
    return (due >= known && !is_overdue(known, now)) || wake_at(now, due);
  }
  // Will the work run, as far as is known now? False also while it runs.
  [[nodiscard]] bool will_run() const noexcept {
    return due_.load(std::memory_order_relaxed) != Span::max().count();
  }

 private:
  struct State;
  bool wake_at(Instant now, Instant due);
  // Then the Timer may have been stopped.
  [[nodiscard]] static bool is_overdue(Instant due, Instant now) noexcept {
    return now > saturating_add(due, std::chrono::seconds(1));
  }

  std::shared_ptr<State> state_;
  // When it will run; the end of time if it will not, or is running. Of State.
  std::atomic<Span::rep>& due_;
};

}  // namespace carillon::internal
