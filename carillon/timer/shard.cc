// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <utility>

#include "carillon/timer/internal/core.h"

namespace carillon::internal {

// ------------------------------------------------------------------------------ the table

void FiringTable::reserve(std::size_t count) {
  while (free_count_ < count) {
    constexpr std::size_t kBlock = 128;
    blocks_.reserve(blocks_.size() + 1);
    auto block = std::make_unique<FiringRecord[]>(kBlock);
    std::size_t heads = heads_.empty() ? kBlock : heads_.size();
    while (heads < capacity_ + kBlock) {
      heads *= 2;
    }
    if (heads != heads_.size()) {
      std::vector<FiringRecord*> old(heads, nullptr);
      old.swap(heads_);
      for (FiringRecord* record : old) {
        while (record != nullptr) {
          FiringRecord* const next = record->next_in_table;
          FiringRecord*& head = heads_[head_of(record->timer)];
          record->next_in_table = head;
          head = record;
          record = next;
        }
      }
    }
    for (std::size_t i = kBlock; i-- > 0;) {
      give_back(block[i]);
    }
    capacity_ += kBlock;
    blocks_.push_back(std::move(block));
  }
}

FiringRecord& FiringTable::add(WheelHandle timer) noexcept {
  FiringRecord& record = *free_;
  free_ = record.next_free;
  --free_count_;
  record.timer = timer;
  FiringRecord*& head = heads_[head_of(timer)];
  record.next_in_table = head;
  record.in_table = true;
  head = &record;
  return record;
}

FiringRecord* FiringTable::find(WheelHandle timer) const noexcept {
  if (heads_.empty()) {
    return nullptr;
  }
  FiringRecord* record = heads_[head_of(timer)];
  while (record != nullptr && record->timer != timer) {
    record = record->next_in_table;
  }
  return record;
}

void FiringTable::hide(FiringRecord& record) noexcept {
  if (!record.in_table) {
    return;
  }
  FiringRecord** link = &heads_[head_of(record.timer)];
  while (*link != &record) {
    link = &(*link)->next_in_table;
  }
  *link = record.next_in_table;
  record.in_table = false;
}

void FiringTable::clear() noexcept {
  heads_.clear();
  heads_.shrink_to_fit();
  blocks_.clear();
  blocks_.shrink_to_fit();
  capacity_ = 0;
  free_ = nullptr;
  free_count_ = 0;
}

// ------------------------------------------------------------------------------ producers

TimerHandle Shard::schedule(Span delay, const Instant* at, TimerCallback&& callback) {
  const Tick deadline = at == nullptr ? core->tick_after(delay) : core->tick_of(*at);
  for (;;) {
    {
      SpinLockHold hold(mutex);
      if (wheel) [[likely]] {
        const WheelHandle timer = wheel->schedule(deadline, std::move(callback));
        if (!timer) [[unlikely]] {
          ++rejected;
          return Core::refuse(Refusal::kLimit);
        }
        ++scheduled;
        const std::uint32_t in_life = life;
        hold.release();
        core->note_deadline(deadline);
        return Core::make_handle(*this, in_life, Kind::kOnce, timer);
      }
      if (!open) {
        ++rejected;
        return Core::refuse(Refusal::kStopped);
      }
    }
    begin();
  }
}

void Shard::begin() {
  core->ensure_started();
  const SpinLockHold hold(mutex);
  if (open && !wheel) {
    wheel = std::make_unique<TimerWheel>(core->reached(core->now()));
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

CancelResult Shard::cancel(std::uint32_t in_life, Kind /*kind*/, WheelHandle timer) noexcept {
  TimerCallback doomed;  // Destroyed when the lock is not held: it may do anything.
  const SpinLockHold hold(mutex);
  if (life != in_life) [[unlikely]] {
    return CancelResult::kNotFound;
  }
  if (wheel) [[likely]] {
    if (TimerCallback* callback = wheel->payload(timer)) [[likely]] {
      doomed = std::move(*callback);
      wheel->cancel(timer);
      ++cancelled;
      return CancelResult::kCancelled;
    }
  }
  return cancel_elsewhere(timer, doomed);
}

CancelResult Shard::cancel_elsewhere(WheelHandle timer, TimerCallback& doomed) noexcept {
  if (FiringRecord* record = firings.find(timer)) {
    if (take_back(*record, doomed)) {
      ++cancelled;
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
    ++cancelled;
    return CancelResult::kCancelled;
  }
  return CancelResult::kNotFound;
}

RescheduleResult Shard::reschedule(std::uint32_t in_life, Kind /*kind*/, WheelHandle timer,
                                   Span delay, const Instant* deadline) {
  Tick tick = 0;
  {
    const SpinLockHold hold(mutex);
    if (life != in_life || !wheel) {
      return RescheduleResult::kNotFound;
    }
    // Not before, since a core may be given to another Timer meanwhile.
    tick = deadline == nullptr ? core->tick_after(delay) : core->tick_of(*deadline);
    if (!wheel->reschedule(timer, tick)) [[unlikely]] {
      const RescheduleResult result = reschedule_elsewhere(timer, tick);
      if (result != RescheduleResult::kRescheduled) {
        return result;
      }
    }
  }
  core->note_deadline(tick);
  return RescheduleResult::kRescheduled;
}

RescheduleResult Shard::reschedule_elsewhere(WheelHandle timer, Tick deadline) {
  if (const auto found = parked.find(timer); found != parked.end()) {
    wheel->reschedule(found->second.entry, deadline);
    return RescheduleResult::kRescheduled;
  }
  FiringRecord* const record = firings.find(timer);
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

TimerState Shard::state(std::uint32_t in_life, Kind /*kind*/, WheelHandle timer) noexcept {
  const SpinLockHold hold(mutex);
  if (life != in_life) {
    return TimerState::kNotFound;
  }
  if ((wheel && wheel->contains(timer)) || parked.contains(timer)) {
    return TimerState::kPending;
  }
  if (const FiringRecord* record = firings.find(timer)) {
    switch (record->state.load(std::memory_order_acquire)) {
      case FiringState::kQueued: return TimerState::kPending;
      case FiringState::kBegun: return TimerState::kRunning;
      default: break;
    }
  }
  return TimerState::kNotFound;
}

// ------------------------------------------------------------------------------ the driver

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
  if (!wheel) {
    return false;
  }
  firings.reserve(most);
  out.reserve(out.size() + most);
  // With the lock held, as all of this.
  const auto take = [&](TimerWheel::Expired&& expired)
                        CARILLON_THREAD_ANNOTATION(no_thread_safety_analysis) {
                          WheelHandle name = expired.handle;
                          TimerCallback callback = std::move(expired.payload);
                          if (const ParkedRef* ref = callback.target<ParkedRef>()) {
                            name = ref->name;
                            const auto found = parked.find(name);
                            callback = std::move(found->second.callback);
                            parked.erase(found);
                          }
                          FiringRecord& record = firings.add(name);
                          record.callback = std::move(callback);
                          record.shard = this;
                          record.deadline = expired.deadline;
                          record.state.store(FiringState::kQueued, std::memory_order_release);
                          out.push_back(Core::make_firing(record));
                        };
  const AdvanceResult result = wheel->advance(target, take, most);
  // Under the lock: whoever sees the wheel without them sees them here.
  flight.fetch_add(result.expired * (kOneQueued + kOneHeld), std::memory_order_acq_rel);
  return result.more;
}

// ------------------------------------------------------------------------------ the end

void Shard::close(std::vector<UnfiredTimer>& out) {
  std::unique_ptr<TimerWheel> gone;
  const SpinLockHold hold(mutex);
  open = false;
  give_back_finished();
  // What is queued is due before what is in the wheel.
  firings.for_each([&](FiringRecord& record) CARILLON_THREAD_ANNOTATION(no_thread_safety_analysis) {
    TimerCallback callback;
    const Tick deadline = record.deadline;
    if (take_back(record, callback)) {
      out.push_back({core->begin_of(deadline), std::move(callback)});
      ++cancelled;
    }
  });
  if (wheel) {
    out.reserve(out.size() + wheel->size());
    wheel->advance(kLastTick, [&](TimerWheel::Expired&& expired) CARILLON_THREAD_ANNOTATION(
                                  no_thread_safety_analysis) {
      TimerCallback callback = std::move(expired.payload);
      if (const ParkedRef* ref = callback.target<ParkedRef>()) {
        callback = std::move(parked.find(ref->name)->second.callback);
      }
      out.push_back({core->begin_of(expired.deadline), std::move(callback)});
      ++cancelled;
    });
    parked.clear();
    gone = std::move(wheel);
  }
}

bool Shard::has_begun() noexcept {
  const SpinLockHold hold(mutex);
  give_back_finished();
  bool begun = false;
  firings.for_each([&](FiringRecord& record) {
    // Sequentially consistent, as in Core::consume(): either it sees that it is awaited, or this
    // sees that it is done.
    begun |= record.state.load() == FiringState::kBegun;
  });
  return begun;
}

std::size_t Shard::pending() noexcept {
  const SpinLockHold hold(mutex);
  return pending_locked();
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
  stats.exceptions += exceptions.load(std::memory_order_relaxed);
  if (wheel) {
    stats.memory_bytes += wheel->memory_bytes();
  }
}

}  // namespace carillon::internal
