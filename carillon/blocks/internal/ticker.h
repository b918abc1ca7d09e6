// SPDX-License-Identifier: Apache-2.0
#pragma once

// Work that a block has a Timer do now and then: when it said so, or earlier when asked.

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
  // reading. A load, if it will anyway.
  void wake_within(Instant now, Span delay) {
    const Instant due = saturating_add(now, delay);
    if (due.time_since_epoch().count() < due_.load(std::memory_order_seq_cst)) {
      wake_at(due);
    }
  }

 private:
  struct State;
  void wake_at(Instant due);

  std::shared_ptr<State> state_;
  // When it will run; the end of time if it will not, or is running. Of State.
  std::atomic<Span::rep>& due_;
};

}  // namespace carillon::internal
