// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/carillon_c.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "carillon/timer/timer.h"

struct carillon_timer {
  explicit carillon_timer(carillon::TimerOptions options) : timer(std::move(options)) {}
  carillon::Timer timer;
};

namespace carillon {
namespace {

static_assert(sizeof(TimerHandle) == sizeof(carillon_handle));
static_assert(std::is_trivially_copyable_v<TimerHandle>);

TimerHandle handle_of(const carillon_handle& handle) {
  TimerHandle timer;
  std::memcpy(static_cast<void*>(&timer), &handle, sizeof(timer));
  return timer;
}
void put(const TimerHandle& timer, carillon_handle* handle) {
  if (handle != nullptr) {
    std::memcpy(handle, &timer, sizeof(timer));
  }
}

// Owns the argument: 24 bytes, so it lies inside of the TimerCallback.
class Call {
 public:
  Call(carillon_callback callback, carillon_callback release, void* argument) noexcept
      : callback_(callback), release_(release), argument_(argument) {}
  Call(Call&& other) noexcept
      : callback_(other.callback_),
        release_(std::exchange(other.release_, nullptr)),
        argument_(other.argument_) {}
  Call& operator=(Call&&) = delete;
  ~Call() {
    if (release_ != nullptr) {
      release_(argument_);
    }
  }
  void operator()() { callback_(argument_); }

 private:
  carillon_callback callback_;
  carillon_callback release_;
  void* argument_;
};
static_assert(TimerCallback::kFits<Call>);

carillon_status status_of(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNone: return CARILLON_OK;
    case Refusal::kLimit: return CARILLON_LIMIT;
    case Refusal::kStopped: return CARILLON_STOPPED;
    case Refusal::kCancelled:
    case Refusal::kNoCalendar: break;
  }
  return CARILLON_INVALID;
}

// What is thrown on the way means that there is no memory, or no thread.
template <class F>
carillon_status guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    return CARILLON_NO_MEMORY;
  }
}

template <class Schedule>
carillon_status schedule(carillon_timer* timer, carillon_callback callback,
                         carillon_callback release, void* argument, carillon_handle* handle,
                         Schedule&& how) noexcept {
  put(TimerHandle(), handle);
  // From here on the argument is released in every case.
  Call call(callback, release, argument);
  if (timer == nullptr || callback == nullptr) {
    return CARILLON_INVALID;
  }
  return guarded([&] {
    const TimerHandle made = how(timer->timer, TimerCallback(std::move(call)));
    put(made, handle);
    return status_of(made.refusal());
  });
}

// The options of a caller that may be older than this library, or newer.
template <class T>
bool read_sized(const T* from, T& to) {
  if (from->size < sizeof(from->size) || from->size > sizeof(T)) {
    return false;
  }
  std::memcpy(&to, from, from->size);
  return true;
}

bool convert(const carillon_options& from, TimerOptions& to) {
  if (from.tick_ns < 0 || from.cpu < 0 ||
      (from.clock != CARILLON_CLOCK_STEADY && from.clock != CARILLON_CLOCK_BOOT) ||
      (from.executor != CARILLON_EXECUTOR_POOL && from.executor != CARILLON_EXECUTOR_INLINE)) {
    return false;
  }
  if (from.tick_ns != 0) {
    to.tick = Span(from.tick_ns);
  }
  to.clock = from.clock == CARILLON_CLOCK_BOOT ? ClockKind::kBoot : ClockKind::kSteady;
  if (from.executor == CARILLON_EXECUTOR_INLINE) {
    to.executor = inline_executor();
  }
  if (from.threads != 0) {
    to.pool.threads = from.threads;
  }
  if (from.queue != 0) {
    to.pool.capacity = from.queue;
  }
  to.max_pending = from.max_pending;
  to.shards = from.shards;
  if (from.thread_name != nullptr) {
    to.thread_name = from.thread_name;
  }
  to.cpu = from.bind_to_cpu != 0 ? from.cpu : -1;
  return true;
}

bool convert(carillon_repeat from, Repeat& to) {
  switch (from) {
    case CARILLON_REPEAT_SKIP: to = Repeat::kSkip; return true;
    case CARILLON_REPEAT_BURST: to = Repeat::kBurst; return true;
    case CARILLON_REPEAT_DELAY: to = Repeat::kDelay; return true;
    case CARILLON_REPEAT_FIXED_DELAY: to = Repeat::kFixedDelay; return true;
  }
  return false;
}

template <class End>
carillon_status end(carillon_timer* timer, size_t* count, End&& how) noexcept {
  if (count != nullptr) {
    *count = 0;
  }
  if (timer == nullptr) {
    return CARILLON_INVALID;
  }
  return guarded([&] {
    const std::vector<UnfiredTimer> unfired = how(timer->timer);
    if (count != nullptr) {
      *count = unfired.size();
    }
    return CARILLON_OK;
  });
}

}  // namespace
}  // namespace carillon

using carillon::CancelResult;
using carillon::Instant;
using carillon::RescheduleResult;
using carillon::Span;
using carillon::Timer;
using carillon::TimerCallback;
using carillon::TimerState;

const char* carillon_status_text(carillon_status status) {
  switch (status) {
    case CARILLON_OK: return "ok";
    case CARILLON_INVALID: return "invalid argument";
    case CARILLON_NO_MEMORY: return "out of memory or threads";
    case CARILLON_LIMIT: return "max_pending timers are pending";
    case CARILLON_STOPPED: return "the timer is stopped";
    case CARILLON_RUNNING: return "the callback is running";
    case CARILLON_NOT_FOUND: return "no such timer";
  }
  return "unknown status";
}

carillon_status carillon_timer_create(const carillon_options* options, carillon_timer** timer) {
  if (timer == nullptr) {
    return CARILLON_INVALID;
  }
  *timer = nullptr;
  return carillon::guarded([&] {
    carillon_options given = CARILLON_OPTIONS_INIT;
    carillon::TimerOptions chosen;
    if ((options != nullptr && !carillon::read_sized(options, given)) ||
        !carillon::convert(given, chosen)) {
      return CARILLON_INVALID;
    }
    *timer = new carillon_timer(std::move(chosen));
    return CARILLON_OK;
  });
}

void carillon_timer_destroy(carillon_timer* timer) { delete timer; }

carillon_status carillon_after(carillon_timer* timer, int64_t delay_ns, carillon_callback callback,
                               carillon_callback release, void* argument, carillon_handle* handle) {
  return carillon::schedule(timer, callback, release, argument, handle,
                            [delay_ns](Timer& on, TimerCallback&& call) {
                              return on.after(Span(delay_ns), std::move(call));
                            });
}

carillon_status carillon_at(carillon_timer* timer, int64_t deadline_ns, carillon_callback callback,
                            carillon_callback release, void* argument, carillon_handle* handle) {
  return carillon::schedule(timer, callback, release, argument, handle,
                            [deadline_ns](Timer& on, TimerCallback&& call) {
                              return on.at(Instant(Span(deadline_ns)), std::move(call));
                            });
}

carillon_status carillon_every(carillon_timer* timer, int64_t period_ns, carillon_repeat repeat,
                               carillon_callback callback, carillon_callback release,
                               void* argument, carillon_handle* handle) {
  carillon::Repeat how = carillon::Repeat::kSkip;
  const bool valid = carillon::convert(repeat, how);
  return carillon::schedule(valid ? timer : nullptr, callback, release, argument, handle,
                            [period_ns, how](Timer& on, TimerCallback&& call) {
                              return on.every(Span(period_ns), std::move(call), how);
                            });
}

carillon_status carillon_cancel(const carillon_handle* handle) {
  if (handle == nullptr) {
    return CARILLON_INVALID;
  }
  switch (carillon::handle_of(*handle).cancel()) {
    case CancelResult::kCancelled: return CARILLON_OK;
    case CancelResult::kRunning: return CARILLON_RUNNING;
    case CancelResult::kNotFound: break;
  }
  return CARILLON_NOT_FOUND;
}

carillon_status carillon_reschedule(const carillon_handle* handle, int64_t delay_ns) {
  if (handle == nullptr) {
    return CARILLON_INVALID;
  }
  return carillon::guarded([&] {
    switch (carillon::handle_of(*handle).reschedule(Span(delay_ns))) {
      case RescheduleResult::kRescheduled: return CARILLON_OK;
      case RescheduleResult::kRunning: return CARILLON_RUNNING;
      case RescheduleResult::kNotFound: break;
    }
    return CARILLON_NOT_FOUND;
  });
}

carillon_status carillon_state(const carillon_handle* handle) {
  if (handle == nullptr) {
    return CARILLON_INVALID;
  }
  switch (carillon::handle_of(*handle).state()) {
    case TimerState::kPending: return CARILLON_OK;
    case TimerState::kRunning: return CARILLON_RUNNING;
    case TimerState::kNotFound: break;
  }
  return CARILLON_NOT_FOUND;
}

int64_t carillon_now(const carillon_timer* timer) {
  return timer == nullptr ? 0 : timer->timer.now().time_since_epoch().count();
}

carillon_status carillon_get_stats(const carillon_timer* timer, carillon_stats* stats) {
  if (timer == nullptr || stats == nullptr || stats->size < sizeof(stats->size)) {
    return CARILLON_INVALID;
  }
  return carillon::guarded([&] {
    const carillon::TimerStats from = timer->timer.stats();
    carillon_stats all{};
    all.size = stats->size;
    all.pending = from.pending;
    all.scheduled = from.scheduled;
    all.cancelled = from.cancelled;
    all.fired = from.fired;
    all.rejected = from.rejected;
    all.dropped = from.dropped;
    all.slow = from.slow;
    all.missed = from.missed;
    all.wakeups = from.wakeups;
    all.executor_full = from.executor_full;
    all.memory_bytes = from.memory_bytes;
    all.lateness_p50_ns = from.lateness.quantile(0.5).count();
    all.lateness_p99_ns = from.lateness.quantile(0.99).count();
    all.callback_p50_ns = from.callback_time.quantile(0.5).count();
    all.callback_p99_ns = from.callback_time.quantile(0.99).count();
    std::memcpy(stats, &all, std::min(stats->size, sizeof(all)));
    return CARILLON_OK;
  });
}

carillon_status carillon_stop(carillon_timer* timer, size_t* unfired) {
  return carillon::end(timer, unfired, [](Timer& on) { return on.stop(); });
}

carillon_status carillon_drain(carillon_timer* timer, int64_t at_most_ns, size_t* unfired) {
  return carillon::end(timer, unfired,
                       [at_most_ns](Timer& on) { return on.drain(Span(at_most_ns)); });
}

carillon_status carillon_pause(carillon_timer* timer) {
  if (timer == nullptr) {
    return CARILLON_INVALID;
  }
  timer->timer.pause();
  return CARILLON_OK;
}

carillon_status carillon_resume(carillon_timer* timer) {
  if (timer == nullptr) {
    return CARILLON_INVALID;
  }
  timer->timer.resume();
  return CARILLON_OK;
}
