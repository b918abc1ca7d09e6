// SPDX-License-Identifier: Apache-2.0
// Periodic timers, and those with a key.

#include <algorithm>
#include <utility>

#include "carillon/timer/internal/core.h"

namespace carillon::internal {

// ------------------------------------------------------------------------------ periodic

TimerHandle Shard::schedule_every(Span period, TimerCallback&& callback, Repeat repeat) {
  period = std::max(period, Span(static_cast<Span::rep>(core->tick_ns)));
  for (;;) {
    {
      SpinLockHold hold(mutex);
      if (!open) {
        ++rejected;
        return Core::refuse(Refusal::kStopped);
      }
      if (wheel && (!core->limited || credit != 0)) {
        if (free_periodics.empty()) {
          free_periodics.reserve(periodics.size() + 1);
          periodics.push_back(std::make_unique<PeriodicTimer>());
          periodics.back()->name = {static_cast<std::uint32_t>(periodics.size() - 1), 1};
          free_periodics.push_back(periodics.back()->name.index);
        }
        PeriodicTimer& periodic = *periodics[free_periodics.back()];
        const Instant due = saturating_add(core->now_or_later(), period);
        const Tick deadline = core->tick_of(due);
        const WheelHandle entry = wheel->schedule(deadline, PeriodicRef{periodic.name.index});
        if (!entry) {
          ++rejected;
          return Core::refuse(Refusal::kLimit);
        }
        free_periodics.pop_back();
        periodic.callback = std::move(callback);
        periodic.entry = entry;
        periodic.due = due;
        periodic.period = period;
        periodic.repeat = repeat;
        periodic.ending = false;
        ++scheduled;
        credit -= core->limited ? 1 : 0;
        const TimerHandle handle = Core::make_handle(*this, life, Kind::kPeriodic, periodic.name);
        hold.release();
        core->note_deadline(deadline);
        return handle;
      }
    }
    begin();
    if (!take_credit()) {
      return Core::refuse(Refusal::kLimit);
    }
  }
}

PeriodicTimer* Shard::find_periodic(WheelHandle timer) const noexcept {
  if (timer.index >= periodics.size()) {
    return nullptr;
  }
  PeriodicTimer* const periodic = periodics[timer.index].get();
  return periodic->name == timer ? periodic : nullptr;
}

void Shard::retire_periodic(PeriodicTimer& periodic) noexcept {
  periodic.record = nullptr;
  periodic.entry = {};
  if (++periodic.name.generation != 0) {
    free_periodics.push_back(periodic.name.index);  // Reserved.
  }
}

CancelResult Shard::cancel_periodic(WheelHandle timer, TimerCallback& doomed) noexcept {
  PeriodicTimer* const periodic = find_periodic(timer);
  if (periodic == nullptr) {
    return CancelResult::kNotFound;
  }
  if (periodic->record == nullptr) {
    wheel->cancel(periodic->entry);
    doomed = std::move(periodic->callback);
  } else if (!take_back(*periodic->record, doomed)) {
    periodic->ending = true;
    return CancelResult::kRunning;
  }
  note_cancelled(doomed, timer);
  retire_periodic(*periodic);
  return CancelResult::kCancelled;
}

RescheduleResult Shard::reschedule_periodic(WheelHandle timer, Instant due, Tick deadline) {
  PeriodicTimer* const periodic = find_periodic(timer);
  if (periodic == nullptr) {
    return RescheduleResult::kNotFound;
  }
  if (periodic->record == nullptr) {
    wheel->reschedule(periodic->entry, deadline);
  } else {
    const WheelHandle entry = wheel->schedule(deadline, PeriodicRef{timer.index});
    if (!take_back(*periodic->record, periodic->callback)) {
      wheel->cancel(entry);
      return RescheduleResult::kRunning;
    }
    periodic->record = nullptr;
    periodic->entry = entry;
  }
  periodic->due = due;
  return RescheduleResult::kRescheduled;
}

bool Shard::finish(FiringRecord& record) noexcept {
  TimerCallback doomed;
  Tick deadline = kLastTick;
  {
    const SpinLockHold hold(mutex);
    PeriodicTimer* const periodic = record.periodic;
    if (periodic == nullptr) {
      doomed = std::move(record.callback);
      if (const KeyedRef* keyed = doomed.target<KeyedRef>()) {
        forget_key(keyed->node->key, record.timer);
      }
    } else if (periodic->ending || !wheel) {
      doomed = std::move(record.callback);
      retire_periodic(*periodic);
      give_credit();
    } else {
      const Instant present = core->now();
      const Instant next = saturating_add(periodic->due, periodic->period);
      const bool late = next <= present;
      Instant due = next;
      if (periodic->repeat == Repeat::kFixedDelay || (late && periodic->repeat == Repeat::kDelay)) {
        due = saturating_add(present, periodic->period);
      } else if (late && periodic->repeat == Repeat::kSkip) {
        const Span::rep left_out = (present - next) / periodic->period + 1;
        due = saturating_add(next, periodic->period * left_out);
        missed += static_cast<std::uint64_t>(left_out);
      }
      periodic->due = due;
      ++scheduled;
      if (late && periodic->repeat == Repeat::kBurst) {
        record.deadline = core->tick_of(due);
        return true;
      }
      deadline = core->tick_of(due);
      periodic->callback = std::move(record.callback);
      periodic->record = nullptr;
      // There is room: it has left a moment ago. If there is none all the same, the program stops.
      periodic->entry = wheel->schedule(deadline, PeriodicRef{periodic->name.index});
    }
    if (!doomed) {
      // Under the lock, so that whoever finds it in the wheel does not find it running.
      record.state.store(FiringState::kDone);
    }
  }
  doomed.reset();
  record.state.store(FiringState::kDone);  // See has_begun().
  core->note_deadline(deadline);
  return false;
}

// ------------------------------------------------------------------------------ with a key

void Shard::forget_key(const std::string& key, WheelHandle timer) noexcept {
  const auto found = keys.find(key);
  if (found != keys.end() && found->second.timer == timer) {
    found->second.timer = {};
    if (found->second.tickets == 0) {
      keys.erase(found);
    }
  }
}

TimerHandle Shard::schedule_keyed(const std::string& key, Span delay, const Instant* at,
                                  TimerCallback&& callback, const std::uint64_t* generation) {
  const Tick deadline = at == nullptr ? core->tick_after(delay) : core->tick_of(*at);
  auto node = std::make_unique<KeyedNode>(KeyedNode{std::move(callback), key});
  TimerCallback replaced;  // Destroyed when the lock is not held.
  for (;;) {
    {
      SpinLockHold hold(mutex);
      if (!open) {
        ++rejected;
        return Core::refuse(Refusal::kStopped);
      }
      // What replaces another needs no more room than that had.
      const auto before_it = keys.find(key);
      const bool in_its_place =
          wheel && before_it != keys.end() &&
          state_locked(Kind::kOnce, before_it->second.timer) == TimerState::kPending;
      if (wheel && (!core->limited || credit != 0 || in_its_place)) {
        const auto [place, is_new] = keys.try_emplace(key);
        KeyEntry& entry = place->second;
        if (generation != nullptr && entry.generation != *generation) {
          ++rejected;
          return Core::refuse(Refusal::kCancelled);
        }
        WheelHandle timer;
        try {
          timer = wheel->schedule(deadline, KeyedRef{std::move(node)});
        } catch (...) {
          if (is_new) {
            keys.erase(place);
          }
          throw;
        }
        const WheelHandle before = std::exchange(entry.timer, timer);
        // Below zero for the moment, if it has no room but that of the one before.
        const bool on_credit = core->limited && credit == 0;
        credit -= core->limited ? 1 : 0;
        if (before) {
          // The entry says that it is the new one's; so forget_key() leaves it.
          if (TimerCallback* found = wheel->payload(before)) {
            replaced = std::move(*found);
            wheel->cancel(before);
            note_cancelled(replaced, before);
          } else {
            cancel_elsewhere(Kind::kOnce, before, replaced);
          }
        }
        if (on_credit && !replaced) {
          // It has begun a moment ago: so there is room, or will be at once, but not in this shard.
          ++credit;
          entry.timer = before;
          node = std::move(wheel->payload(timer)->target<KeyedRef>()->node);
          wheel->cancel(timer);
          continue;
        }
        ++scheduled;
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

CancelResult Shard::cancel_key(const std::string& key) noexcept {
  TimerCallback doomed;
  const SpinLockHold hold(mutex);
  const auto found = keys.find(key);
  if (found == keys.end()) {
    return CancelResult::kNotFound;
  }
  ++found->second.generation;
  const WheelHandle timer = found->second.timer;
  if (!timer || !wheel) {
    return CancelResult::kNotFound;
  }
  if (TimerCallback* callback = wheel->payload(timer)) {
    doomed = std::move(*callback);
    wheel->cancel(timer);
    note_cancelled(doomed, timer);
    return CancelResult::kCancelled;
  }
  return cancel_elsewhere(Kind::kOnce, timer, doomed);
}

TimerState Shard::key_state(const std::string& key) noexcept {
  const SpinLockHold hold(mutex);
  const auto found = keys.find(key);
  return found == keys.end() || !found->second.timer
             ? TimerState::kNotFound
             : state_locked(Kind::kOnce, found->second.timer);
}

std::uint64_t Shard::draw_ticket(const std::string& key) {
  const SpinLockHold hold(mutex);
  KeyEntry& entry = keys[key];
  ++entry.tickets;
  return entry.generation;
}

void Shard::return_ticket(const std::string& key) noexcept {
  const SpinLockHold hold(mutex);
  const auto found = keys.find(key);
  if (found != keys.end() && --found->second.tickets == 0 && !found->second.timer) {
    keys.erase(found);
  }
}

}  // namespace carillon::internal
