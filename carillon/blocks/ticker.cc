// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/internal/ticker.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <thread>

#include "carillon/base/check.h"
#include "carillon/base/mutex.h"

namespace carillon::internal {

struct Ticker::State : std::enable_shared_from_this<State> {
  State(Timer& its_timer, Work its_work) : timer(its_timer), work(std::move(its_work)) {}

  void begin();
  void run();
  // False, and there are no timers, if the Timer has refused; so also if it throws.
  bool schedule(Instant at) CARILLON_REQUIRES(mutex);
  TimerHandle make_timer();
  void drop_timers() noexcept CARILLON_REQUIRES(mutex);

  Timer& timer;
  Work work;
  std::atomic<Span::rep> due{Span::max().count()};

  Mutex mutex;
  CondVar idle;
  // Both or none.
  std::array<TimerHandle, 2> timers CARILLON_GUARDED_BY(mutex);
  // Whose run is the next, or the one that is running.
  std::size_t turn CARILLON_GUARDED_BY(mutex) = 0;
  bool running CARILLON_GUARDED_BY(mutex) = false;
  bool stopped CARILLON_GUARDED_BY(mutex) = false;
  // What wakes meanwhile have asked for.
  Instant asked CARILLON_GUARDED_BY(mutex) = Instant::max();
  std::thread::id runner CARILLON_GUARDED_BY(mutex);
};

TimerHandle Ticker::State::make_timer() {
  return timer.every(kForever, [self = shared_from_this()] { self->begin(); }, Repeat::kFixedDelay);
}

void Ticker::State::drop_timers() noexcept {
  due.store(Span::max().count(), std::memory_order_seq_cst);
  for (TimerHandle& handle : timers) {
    handle.cancel();
    handle = {};
  }
}

bool Ticker::State::schedule(Instant at) {
  due.store(at.time_since_epoch().count(), std::memory_order_seq_cst);
  try {
    RescheduleResult result = timers[turn].reschedule_at(at);
    if (result == RescheduleResult::kRunning && running) {
      // It has run before this run, and has not got to its end: it is held up.
      timers[turn].cancel();
      timers[turn] = make_timer();
      result = timers[turn].reschedule_at(at);
    } else if (result == RescheduleResult::kNotFound) {
      drop_timers();
      timers = {make_timer(), make_timer()};
      due.store(at.time_since_epoch().count(), std::memory_order_seq_cst);
      result = timers[turn ^ 1] ? timers[turn].reschedule_at(at) : result;
    }
    // Otherwise, if it is running: it has begun, and comes for the lock.
    if (result != RescheduleResult::kNotFound) {
      return true;
    }
  } catch (...) {
    drop_timers();
    throw;
  }
  drop_timers();
  return false;
}

void Ticker::State::begin() {
  {
    const MutexLock lock(mutex);
    if (stopped || running) {
      return;
    }
    running = true;
    runner = std::this_thread::get_id();
    asked = Instant::max();
    // From here on a wake is heard again: what was there before it, the work will see.
    due.store(Span::max().count(), std::memory_order_seq_cst);
  }
  run();
}

void Ticker::State::run() {
  std::optional<Span> again;
  struct Finish {
    State& state;
    std::optional<Span>& next;
    // In a destructor, as the work may throw: what a user's callback throws is the Timer's.
    ~Finish() {
      const MutexLock lock(state.mutex);
      Instant at = state.asked;
      if (next) {
        at = std::min(at, saturating_add(state.timer.now(), *next));
      }
      state.turn ^= 1;
      if (state.stopped || at == Instant::max()) {
        state.drop_timers();
      } else {
        try {
          state.schedule(at);
        } catch (...) {  // No memory: as if refused, the next wake tries again.
        }
      }
      state.running = false;
      state.runner = {};
      state.idle.notify_all();
    }
  };
  // Until told otherwise: an exception has left something undone.
  again = Span::zero();
  const Finish finish{*this, again};
  again = work();
}

Ticker::Ticker(Timer& timer, Work work)
    : state_(std::make_shared<State>(timer, std::move(work))), due_(state_->due) {}

Ticker::~Ticker() {
  {
    const MutexLock lock(state_->mutex);
    state_->stopped = true;
    CARILLON_CHECK(!state_->running || state_->runner != std::this_thread::get_id(),
                   "destroyed in a callback of its own");
    while (state_->running) {
      state_->idle.wait(state_->mutex);
    }
    state_->drop_timers();
  }
}

bool Ticker::wake_at(Instant now, Instant due) {
  const MutexLock lock(state_->mutex);
  if (state_->stopped) {
    return false;
  }
  if (state_->running) {
    state_->asked = std::min(state_->asked, due);
    return true;
  }
  const Instant known(Span(state_->due.load(std::memory_order_relaxed)));
  if (due < known) {
    return state_->schedule(due);
  }
  if (is_overdue(known, now) && state_->timers[state_->turn].state() == TimerState::kNotFound) {
    state_->drop_timers();
    return false;
  }
  return true;
}

}  // namespace carillon::internal
