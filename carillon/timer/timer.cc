// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/timer.h"

#include <utility>

#include "carillon/timer/internal/core.h"
#include "carillon/timer/poll_timer.h"

namespace carillon {

Timer::Timer(TimerOptions options) : core_(&internal::Core::open(std::move(options))) {
  if (core_->life->options.start_now) {
    try {
      core_->ensure_started();
    } catch (...) {
      core_->stop();
      core_->release();
      throw;
    }
  }
}

Timer::~Timer() {
  core_->stop();
  core_->release();
}

TimerHandle Timer::schedule_after(Span delay, TimerCallback&& callback) {
  return core_->home_shard().schedule(delay, nullptr, std::move(callback));
}

TimerHandle Timer::at(Instant deadline, TimerCallback callback) {
  return core_->home_shard().schedule(Span::zero(), &deadline, std::move(callback));
}

Instant Timer::now() const noexcept { return core_->now(); }

Span Timer::tick() const noexcept { return Span(static_cast<Span::rep>(core_->tick_ns)); }

std::size_t Timer::pending() const noexcept {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < core_->shard_count; ++i) {
    sum += core_->shards[i].pending();
  }
  return sum;
}

TimerStats Timer::stats() const {
  TimerStats stats;
  for (std::size_t i = 0; i < core_->shard_count; ++i) {
    core_->shards[i].add_to(stats);
  }
  stats.wakeups = core_->wakeups.load(std::memory_order_relaxed);
  stats.executor_full = core_->executor_full.load(std::memory_order_relaxed);
  return stats;
}

std::vector<UnfiredTimer> Timer::stop() { return core_->stop(); }

// ------------------------------------------------------------------------------ the handle

CancelResult TimerHandle::cancel() const noexcept {
  return timer_ ? shard_->cancel(life_, kind_, timer_) : CancelResult::kNotFound;
}

RescheduleResult TimerHandle::reschedule_after(Span delay) const {
  return timer_ ? shard_->reschedule(life_, kind_, timer_, delay, nullptr)
                : RescheduleResult::kNotFound;
}

RescheduleResult TimerHandle::reschedule_at(Instant deadline) const {
  return timer_ ? shard_->reschedule(life_, kind_, timer_, Span::zero(), &deadline)
                : RescheduleResult::kNotFound;
}

TimerState TimerHandle::state() const noexcept {
  return timer_ ? shard_->state(life_, kind_, timer_) : TimerState::kNotFound;
}

// ------------------------------------------------------------------------------ without a thread

namespace {

TimerOptions without_thread(TimerOptions options) {
  static const SteadyClock kSteadyClock;
  static const BootClock kBootClock;
  if (options.custom_clock == nullptr) {
    options.custom_clock = options.clock == ClockKind::kSteady
                               ? static_cast<const Clock*>(&kSteadyClock)
                               : &kBootClock;
  }
  return options;
}

}  // namespace

PollTimer::PollTimer(TimerOptions options) : Timer(without_thread(std::move(options))) {}

void PollTimer::poll(Instant now) { core_->poll(now); }

std::optional<Instant> PollTimer::next_deadline() {
  std::optional<Tick> first;
  for (std::size_t i = 0; i < core_->shard_count; ++i) {
    const std::optional<Tick> next = core_->shards[i].next_deadline(0);
    if (next && (!first || *next < *first)) {
      first = next;
    }
  }
  return first ? std::optional(core_->begin_of(*first)) : std::nullopt;
}

}  // namespace carillon
