// SPDX-License-Identifier: Apache-2.0
// A shard as producers see it: schedule, cancel, reschedule, ask.

#include <algorithm>
#include <new>
#include <utility>

#include "carillon/timer/internal/core.h"

namespace carillon::internal {

TimerHandle Shard::schedule(Span delay, const Instant* at, TimerCallback&& callback) {
  const Tick deadline = at == nullptr ? core->tick_after(delay) : core->tick_of(*at);
  for (;;) {
    {
      SpinLockHold hold(mutex);
      if (!open) [[unlikely]] {
        ++rejected;
        return Core::refuse(Refusal::kStopped);
      }
      if (wheel && (!core->limited || credit != 0)) [[likely]] {
        const WheelHandle timer = wheel->schedule(deadline, std::move(callback));
        if (!timer) [[unlikely]] {
          ++rejected;
          return Core::refuse(Refusal::kLimit);
        }
        ++scheduled;
        if (core->limited) [[unlikely]] {
          --credit;
        }
        const std::uint32_t in_life = life;
        hold.release();
        core->note_deadline(deadline);
        return Core::make_handle(*this, in_life, Kind::kOnce, timer);
      }
    }
    begin();
    if (!take_credit()) {
      return Core::refuse(Refusal::kLimit);
    }
  }
}

void Shard::begin() {
  core->ensure_started();
  const SpinLockHold hold(mutex);
  if (open && !wheel) {
    wheel = std::make_unique<TimerWheel>(core->reached(core->now()));
  }
}

// Has this shard some credit, if that is needed; counts a rejection if there is none. Shards keep
// credit that they do not need; only when all of them have none the limit is reached.
bool Shard::take_credit() {
  if (!core->limited) {
    return true;
  }
  std::size_t got = core->take_credit();
  for (std::size_t i = 0; i < core->all_shards && got == 0; ++i) {
    Shard& other = core->shards[i];
    const SpinLockHold hold(other.mutex);
    got = (other.credit + 1) / 2;
    other.credit -= got;
  }
  const SpinLockHold hold(mutex);
  credit += got;
  rejected += credit == 0 ? 1 : 0;
  return credit != 0;
}

// A timer is pending no more.
void Shard::give_credit() noexcept {
  if (!core->limited) {
    return;
  }
  constexpr std::size_t kEnough = 128;
  if (++credit > kEnough) {
    core->credit.fetch_add(kEnough / 2, std::memory_order_relaxed);
    credit -= kEnough / 2;
  }
}

bool Shard::take_back(FiringRecord& record, TimerCallback& callback) noexcept {
  FiringState expected = FiringState::kQueued;
  if (!record.state.compare_exchange_strong(expected, FiringState::kCancelled,
                                            std::memory_order_acq_rel)) {
    return false;
  }
  callback = std::move(record.callback);
  flight.fetch_sub(kOneQueued, std::memory_order_acq_rel);
  firings.hide(record);
  return true;
}

void Shard::note_cancelled(const TimerCallback& callback, WheelHandle timer) noexcept {
  ++cancelled;
  give_credit();
  if (const KeyedRef* keyed = callback.target<KeyedRef>()) [[unlikely]] {
    forget_key(keyed->node->key, timer);
  }
}

CancelResult Shard::cancel(std::uint32_t in_life, Kind kind, WheelHandle timer) noexcept {
  TimerCallback doomed;  // Destroyed when the lock is not held: it may do anything.
  const SpinLockHold hold(mutex);
  if (life != in_life) [[unlikely]] {
    return CancelResult::kNotFound;
  }
  if (wheel && kind == Kind::kOnce) [[likely]] {
    if (TimerCallback* callback = wheel->payload(timer)) [[likely]] {
      doomed = std::move(*callback);
      wheel->cancel(timer);
      note_cancelled(doomed, timer);
      return CancelResult::kCancelled;
    }
  }
  return cancel_elsewhere(kind, timer, doomed);
}

CancelResult Shard::cancel_elsewhere(Kind kind, WheelHandle timer, TimerCallback& doomed) noexcept {
  if (kind == Kind::kPeriodic) {
    return cancel_periodic(timer, doomed);
  }
  if (FiringRecord* record = firings.find(kind, timer)) {
    if (take_back(*record, doomed)) {
      note_cancelled(doomed, timer);
      return CancelResult::kCancelled;
    }
    return record->state.load(std::memory_order_acquire) == FiringState::kBegun
               ? CancelResult::kRunning
               : CancelResult::kNotFound;
  }
  if (const auto found = parked.find(timer); found != parked.end()) {
    wheel->cancel(found->second.entry);
    doomed = std::move(found->second.callback);
    parked.erase(found);
    note_cancelled(doomed, timer);
    return CancelResult::kCancelled;
  }
  return CancelResult::kNotFound;
}

RescheduleResult Shard::reschedule(std::uint32_t in_life, Kind kind, WheelHandle timer, Span delay,
                                   const Instant* at) {
  // With the lock held to the end: a Timer that is destroyed meanwhile lets go of this memory only
  // when it has had it.
  const SpinLockHold hold(mutex);
  if (life != in_life || !wheel) {
    return RescheduleResult::kNotFound;
  }
  const Tick tick = at == nullptr ? core->tick_after(delay) : core->tick_of(*at);
  RescheduleResult result = RescheduleResult::kRescheduled;
  if (kind == Kind::kPeriodic) [[unlikely]] {
    const Instant due =
        at == nullptr ? saturating_add(core->now(), std::max(delay, Span::zero())) : *at;
    result = reschedule_periodic(timer, due, tick);
  } else if (!wheel->reschedule(timer, tick)) [[unlikely]] {
    result = reschedule_elsewhere(timer, tick);
  }
  if (result == RescheduleResult::kRescheduled) {
    core->note_deadline(tick);
  }
  return result;
}

RescheduleResult Shard::reschedule_elsewhere(WheelHandle timer, Tick deadline) {
  if (const auto found = parked.find(timer); found != parked.end()) {
    wheel->reschedule(found->second.entry, deadline);
    return RescheduleResult::kRescheduled;
  }
  FiringRecord* const record = firings.find(Kind::kOnce, timer);
  if (record == nullptr || record->state.load(std::memory_order_acquire) == FiringState::kDone) {
    return RescheduleResult::kNotFound;
  }
  // What may throw comes first.
  const auto place = parked.try_emplace(timer).first;
  try {
    place->second.entry = wheel->schedule(deadline, ParkedRef{timer});
    if (!place->second.entry) {
      throw std::bad_alloc();
    }
  } catch (...) {
    parked.erase(place);
    throw;
  }
  if (take_back(*record, place->second.callback)) {
    return RescheduleResult::kRescheduled;
  }
  wheel->cancel(place->second.entry);
  parked.erase(place);
  return record->state.load(std::memory_order_acquire) == FiringState::kDone
             ? RescheduleResult::kNotFound
             : RescheduleResult::kRunning;
}

TimerState Shard::state(std::uint32_t in_life, Kind kind, WheelHandle timer) noexcept {
  const SpinLockHold hold(mutex);
  return life == in_life ? state_locked(kind, timer) : TimerState::kNotFound;
}

TimerState Shard::state_locked(Kind kind, WheelHandle timer) noexcept {
  if (kind == Kind::kPeriodic) {
    const PeriodicTimer* periodic = find_periodic(timer);
    if (periodic == nullptr) {
      return TimerState::kNotFound;
    }
    return periodic->record != nullptr && periodic->record->state.load() == FiringState::kBegun
               ? TimerState::kRunning
               : TimerState::kPending;
  }
  if ((wheel && wheel->contains(timer)) || parked.contains(timer)) {
    return TimerState::kPending;
  }
  if (const FiringRecord* record = firings.find(kind, timer)) {
    switch (record->state.load(std::memory_order_acquire)) {
      case FiringState::kQueued: return TimerState::kPending;
      case FiringState::kBegun: return TimerState::kRunning;
      default: break;
    }
  }
  return TimerState::kNotFound;
}

std::size_t Shard::pending() noexcept {
  const SpinLockHold hold(mutex);
  return pending_locked();
}

std::size_t Shard::unfinished() noexcept {
  const SpinLockHold hold(mutex);
  give_back_finished();
  std::size_t count = wheel ? wheel->size() : 0;
  firings.for_each([&](const FiringRecord& record) {
    const FiringState state = record.state.load();
    count += state == FiringState::kQueued || state == FiringState::kBegun ? 1 : 0;
  });
  return count - (periodics.size() - free_periodics.size());
}

void Shard::add_to(TimerStats& stats) noexcept {
  const SpinLockHold hold(mutex);
  const std::size_t waiting = pending_locked();
  stats.pending += waiting;
  stats.scheduled += scheduled;
  stats.cancelled += cancelled;
  stats.fired += scheduled - cancelled - waiting;
  stats.rejected += rejected;
  stats.dropped += dropped;
  stats.missed += missed;
  stats.exceptions += exceptions.load(std::memory_order_relaxed);
  stats.slow += slow.load(std::memory_order_relaxed);
  if (wheel) {
    stats.memory_bytes += wheel->memory_bytes();
  }
}

void Shard::add_to(std::vector<std::size_t>& levels) {
  const SpinLockHold hold(mutex);
  if (!wheel) {
    return;
  }
  const WheelSnapshot snapshot = wheel->snapshot();
  levels.resize(std::max(levels.size(), snapshot.levels.size()));
  for (std::size_t i = 0; i < snapshot.levels.size(); ++i) {
    for (const auto count : snapshot.levels[i].counts) {
      levels[i] += count;
    }
  }
  levels[0] += snapshot.due;
}

}  // namespace carillon::internal
