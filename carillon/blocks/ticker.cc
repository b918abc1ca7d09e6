// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/internal/ticker.h"

#include <algorithm>
#include <thread>

#include "carillon/base/check.h"
#include "carillon/base/mutex.h"

namespace carillon::internal {

struct Ticker::State : std::enable_shared_from_this<State> {
  State(Timer& its_timer, Work its_work) : timer(its_timer), work(std::move(its_work)) {}

  void run();
  void schedule(Instant at) CARILLON_REQUIRES(mutex);

  Timer& timer;
  Work work;
  std::atomic<Span::rep> due{Span::max().count()};

  Mutex mutex;
  CondVar idle;
  TimerHandle handle CARILLON_GUARDED_BY(mutex);
  bool running CARILLON_GUARDED_BY(mutex) = false;
  bool stopped CARILLON_GUARDED_BY(mutex) = false;
  // Which run is awaited: one that was replaced may come nevertheless.
  std::uint64_t awaited CARILLON_GUARDED_BY(mutex) = 0;
  // What wakes meanwhile have asked for.
  Instant asked CARILLON_GUARDED_BY(mutex) = Instant::max();
  std::thread::id runner CARILLON_GUARDED_BY(mutex);
};

void Ticker::State::schedule(Instant at) {
  handle.cancel();
  due.store(at.time_since_epoch().count(), std::memory_order_seq_cst);
  const std::uint64_t number = ++awaited;
  handle = timer.at(at, [self = shared_from_this(), number] {
    {
      const MutexLock lock(self->mutex);
      if (self->stopped || self->running || number != self->awaited) {
        return;
      }
      self->running = true;
      self->runner = std::this_thread::get_id();
      self->asked = Instant::max();
      // From here on a wake is heard again: what was there before it, the work will see.
      self->due.store(Span::max().count(), std::memory_order_seq_cst);
    }
    self->run();
  });
  if (!handle) {
    due.store(Span::max().count(),
              std::memory_order_seq_cst);  // Refused: the next wake tries again.
  }
}

void Ticker::State::run() {
  std::optional<Span> again;
  struct Finish {
    State& state;
    std::optional<Span>& next;
    // In a destructor, as the work may throw: what a user's callback throws is the Timer's.
    ~Finish() {
      const MutexLock lock(state.mutex);
      state.running = false;
      state.runner = {};
      Instant at = state.asked;
      if (next) {
        at = std::min(at, saturating_add(state.timer.now(), *next));
      }
      if (!state.stopped && at != Instant::max()) {
        state.schedule(at);
      }
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
  TimerHandle handle;
  {
    const MutexLock lock(state_->mutex);
    state_->stopped = true;
    CARILLON_CHECK(!state_->running || state_->runner != std::this_thread::get_id(),
                   "destroyed in a callback of its own");
    while (state_->running) {
      state_->idle.wait(state_->mutex);
    }
    handle = state_->handle;
  }
  handle.cancel();
}

void Ticker::wake_at(Instant due) {
  const MutexLock lock(state_->mutex);
  if (state_->stopped) {
    return;
  }
  if (state_->running) {
    state_->asked = std::min(state_->asked, due);
  } else if (due.time_since_epoch().count() < state_->due.load(std::memory_order_relaxed)) {
    state_->schedule(due);
  }
}

}  // namespace carillon::internal
