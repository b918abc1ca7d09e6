// SPDX-License-Identifier: Apache-2.0
// A shard as the driver sees it, and its end.

#include <algorithm>
#include <new>
#include <utility>

#include "carillon/timer/internal/core.h"

namespace carillon::internal {

void Shard::give_back_finished() noexcept {
  if (finished.load(std::memory_order_relaxed) == nullptr) {
    return;
  }
  FiringRecord* record = finished.exchange(nullptr, std::memory_order_acquire);
  while (record != nullptr) {
    FiringRecord* const next = record->next_free;
    firings.hide(*record);
    firings.give_back(*record);
    record = next;
  }
}

std::optional<Tick> Shard::next_deadline(Tick now) {
  const SpinLockHold hold(mutex);
  give_back_finished();
  if (!wheel) {
    return std::nullopt;
  }
  const std::optional<Tick> next = wheel->next_deadline();
  if ((!next || *next > now) && now > wheel->now()) {
    wheel->advance(now, [](TimerWheel::Expired&&) {});  // Nothing is due.
  }
  return next;
}

bool Shard::take_due(Tick target, std::size_t most, std::vector<Firing>& out) {
  const SpinLockHold hold(mutex);
  give_back_finished();
  if (!wheel) {
    return false;
  }
  // Before the first is out of the wheel: then nothing can fail any more.
  firings.reserve(most);
  out.reserve(out.size() + most);
  const std::size_t before = out.size();
  const AdvanceResult result = wheel->advance(
      target,
      [&](TimerWheel::Expired&& expired) CARILLON_THREAD_ANNOTATION(no_thread_safety_analysis) {
        expire(std::move(expired), out);
      },
      most);
  // Under the lock: whoever sees the wheel without them sees them here.
  flight.fetch_add((out.size() - before) * (kOneQueued + kOneHeld), std::memory_order_acq_rel);
  return result.more;
}

void Shard::expire(TimerWheel::Expired&& expired, std::vector<Firing>& out) {
  Kind kind = Kind::kOnce;
  WheelHandle name = expired.handle;
  TimerCallback callback = std::move(expired.payload);
  PeriodicTimer* periodic = nullptr;
  if (const ParkedRef* parked_ref = callback.target<ParkedRef>()) {
    name = parked_ref->name;
    const auto found = parked.find(name);
    callback = std::move(found->second.callback);
    parked.erase(found);
  } else if (const PeriodicRef* ref = callback.target<PeriodicRef>()) {
    kind = Kind::kPeriodic;
    periodic = periodics[ref->id].get();
    name = periodic->name;
    periodic->entry = {};
    callback = std::move(periodic->callback);
  }
  if (callback.target<CalendarRef>() != nullptr && put_back(name, callback)) {
    return;
  }
  FiringRecord& record = firings.add(kind, name);
  record.callback = std::move(callback);
  record.shard = this;
  record.deadline = expired.deadline;
  record.periodic = periodic;
  if (periodic != nullptr) {
    periodic->record = &record;
  }
  record.state.store(FiringState::kQueued, std::memory_order_release);
  out.push_back(Core::make_firing(record));
}

// ------------------------------------------------------------------------------ the calendar

TimerHandle Shard::schedule_at(WallTime at, TimerCallback&& callback) {
  auto node = std::make_unique<CalendarNode>(CalendarNode{std::move(callback), at});
  for (;;) {
    {
      SpinLockHold hold(mutex);
      if (!open) {
        ++rejected;
        return Core::refuse(Refusal::kStopped);
      }
      if (wheel && (!core->limited || credit != 0)) {
        // With the lock held, as in follow_calendar(): if that does not see this timer, this sees
        // the calendar as it has been set.
        const Tick deadline = core->tick_of(core->instant_of(at));
        const WheelHandle timer = wheel->schedule(deadline, CalendarRef{std::move(node)});
        ++scheduled;
        credit -= core->limited ? 1 : 0;
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

void Shard::follow_calendar() {
  const SpinLockHold hold(mutex);
  if (!wheel) {
    return;
  }
  std::vector<std::pair<WheelHandle, Tick>> moves;
  moves.reserve(wheel->size());
  wheel->for_each([&](WheelHandle timer, Tick, const TimerCallback& callback)
                      CARILLON_THREAD_ANNOTATION(no_thread_safety_analysis) {
                        const TimerCallback* own = &callback;
                        if (const ParkedRef* ref = callback.target<ParkedRef>()) {
                          own = &parked.find(ref->name)->second.callback;
                        }
                        if (const CalendarRef* calendar = own->target<CalendarRef>()) {
                          moves.emplace_back(timer,
                                             core->tick_of(core->instant_of(calendar->node->at)));
                        }
                      });
  for (const auto& [timer, deadline] : moves) {
    wheel->reschedule(timer, deadline);
  }
}

bool Shard::put_back(WheelHandle name, TimerCallback& callback) {
  const WallTime at = callback.target<CalendarRef>()->node->at;
  if (core->wall_now() >= at) {
    return false;
  }
  const Tick deadline = std::max(core->tick_of(core->instant_of(at)), wheel->now() + 1);
  const auto place = parked.try_emplace(name).first;
  place->second.entry = wheel->schedule(deadline, ParkedRef{name});
  place->second.callback = std::move(callback);
  return true;
}

// ------------------------------------------------------------------------------ the end

void Shard::refuse_all() noexcept {
  const SpinLockHold hold(mutex);
  open = false;
}

void Shard::close(std::vector<UnfiredTimer>& out) {
  std::unique_ptr<TimerWheel> gone;
  const SpinLockHold hold(mutex);
  open = false;
  give_back_finished();
  // What is queued is due before what is in the wheel.
  firings.for_each([&](FiringRecord& record) CARILLON_THREAD_ANNOTATION(no_thread_safety_analysis) {
    TimerCallback callback;
    const Tick deadline = record.deadline;
    PeriodicTimer* const periodic = record.periodic;
    if (take_back(record, callback)) {
      out.push_back({core->begin_of(deadline), std::move(callback)});
      ++cancelled;
      if (periodic != nullptr) {
        retire_periodic(*periodic);
      }
    }
  });
  if (!wheel) {
    return;
  }
  out.reserve(out.size() + wheel->size());
  wheel->advance(kLastTick, [&](TimerWheel::Expired&& expired) CARILLON_THREAD_ANNOTATION(
                                no_thread_safety_analysis) {
    TimerCallback callback = std::move(expired.payload);
    if (const ParkedRef* parked_ref = callback.target<ParkedRef>()) {
      callback = std::move(parked.find(parked_ref->name)->second.callback);
    } else if (const PeriodicRef* ref = callback.target<PeriodicRef>()) {
      PeriodicTimer& periodic = *periodics[ref->id];
      callback = std::move(periodic.callback);
      retire_periodic(periodic);
    }
    out.push_back({core->begin_of(expired.deadline), std::move(callback)});
    ++cancelled;
  });
  parked.clear();
  gone = std::move(wheel);
}

bool Shard::has_begun() noexcept {
  const SpinLockHold hold(mutex);
  give_back_finished();
  bool begun = false;
  firings.for_each([&](const FiringRecord& record) {
    // Sequentially consistent, as in Core::run(): either that sees that it is awaited, or this sees
    // that it is done.
    begun |= record.state.load() == FiringState::kBegun;
  });
  return begun;
}

void Shard::clear() noexcept {
  const SpinLockHold hold(mutex);
  finished.store(nullptr);
  firings.clear();
  periodics.clear();
  free_periodics.clear();
  keys.clear();
}

}  // namespace carillon::internal
