// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/timer.h"

#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/timer/internal/core.h"
#include "carillon/timer/poll_timer.h"

namespace carillon {

Timer::Timer() : Timer(TimerOptions{}) {}

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

namespace {

// Here, where the one who is wrong can be seen in a stack trace.
void check(const TimerCallback& callback) {
  CARILLON_CHECK(static_cast<bool>(callback), "an empty callback was scheduled");
}

}  // namespace

TimerHandle Timer::schedule_after(Span delay, TimerCallback&& callback) {
  check(callback);
  return core_->home_shard().schedule(delay, nullptr, std::move(callback));
}

TimerHandle Timer::at(Instant deadline, TimerCallback callback) {
  check(callback);
  return core_->home_shard().schedule(Span::zero(), &deadline, std::move(callback));
}

TimerHandle Timer::at(std::chrono::steady_clock::time_point deadline, TimerCallback callback) {
  return at(core_->instant_of_steady(Instant(deadline.time_since_epoch())), std::move(callback));
}

TimerHandle Timer::at(WallTime deadline, TimerCallback callback) {
  check(callback);
  if (core_->clock_kind != ClockKind::kWall) {
    core_->home_shard().note_rejected();
    return internal::Core::refuse(Refusal::kNoCalendar);
  }
  return core_->shards[core_->shard_count].schedule_at(deadline, std::move(callback));
}

TimerHandle Timer::schedule_every(Span period, TimerCallback&& callback, Repeat repeat) {
  check(callback);
  return core_->home_shard().schedule_every(period, std::move(callback), repeat);
}

Instant Timer::now() const noexcept { return core_->now(); }

Span Timer::tick() const noexcept { return Span(static_cast<Span::rep>(core_->tick_ns)); }

std::size_t Timer::pending() const noexcept {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < core_->all_shards; ++i) {
    sum += core_->shards[i].pending();
  }
  return sum;
}

TimerStats Timer::stats() const {
  TimerStats stats;
  for (std::size_t i = 0; i < core_->all_shards; ++i) {
    core_->shards[i].add_to(stats);
  }
  stats.wakeups = core_->wakeups.load(std::memory_order_relaxed);
  stats.executor_full = core_->executor_full.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < internal::TimerLife::kStripes; ++i) {
    core_->life->lateness[i].add_to(stats.lateness);
    core_->life->callback_time[i].add_to(stats.callback_time);
  }
  core_->life->driver_work.add_to(stats.driver_work);
  return stats;
}

std::vector<std::size_t> Timer::level_population() const {
  std::vector<std::size_t> levels;
  for (std::size_t i = 0; i < core_->all_shards; ++i) {
    core_->shards[i].add_to(levels);
  }
  return levels;
}

void Timer::pause() noexcept { core_->paused.store(true); }

void Timer::resume() noexcept {
  core_->paused.store(false);
  core_->wake();
}

std::vector<UnfiredTimer> Timer::drain(Span at_most) { return core_->drain(at_most); }

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

// ------------------------------------------------------------------------------ with a key

namespace {

// The first character tells a number from a text.
std::string key_of(std::uint64_t number) {
  std::string key(1 + sizeof(number), 'n');
  std::memcpy(key.data() + 1, &number, sizeof(number));
  return key;
}

std::string key_of(std::string_view text) {
  std::string key(1, 't');
  key.append(text);
  return key;
}

}  // namespace

KeyedTimer Timer::keyed(std::uint64_t key) { return keyed_as(key_of(key)); }
KeyedTimer Timer::keyed(std::string_view key) { return keyed_as(key_of(key)); }

KeyedTimer Timer::keyed_as(std::string key) {
  const std::size_t hash = std::hash<std::string>{}(key);
  return {&core_->shards[hash & (core_->shard_count - 1)], std::move(key)};
}

TimerHandle KeyedTimer::schedule(Span delay, const Instant* at, TimerCallback&& callback,
                                 const std::uint64_t* generation) {
  check(callback);
  return shard_->schedule_keyed(key_, delay, at, std::move(callback), generation);
}

CancelResult KeyedTimer::cancel() noexcept { return shard_->cancel_key(key_); }
TimerState KeyedTimer::state() const noexcept { return shard_->key_state(key_); }

KeyTicket KeyedTimer::ticket() const {
  KeyedTimer copy = *this;
  return {std::move(copy), shard_->draw_ticket(key_)};
}

KeyTicket::~KeyTicket() {
  if (drawn_) {
    timer_.shard_->return_ticket(timer_.key_);
  }
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

PollTimer::PollTimer() : PollTimer(TimerOptions{}) {}
PollTimer::PollTimer(TimerOptions options) : Timer(without_thread(std::move(options))) {}

void PollTimer::poll(Instant now) { core_->poll(now); }

std::optional<Instant> PollTimer::next_deadline() {
  const std::optional<Tick> first = core_->first_due();
  return first ? std::optional(core_->begin_of(*first)) : std::nullopt;
}

int PollTimer::fd() { return core_->poll_fd(); }

}  // namespace carillon
