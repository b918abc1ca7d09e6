// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/lease_keeper.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/base/mutex.h"
#include "carillon/timer/internal/spin_lock.h"

namespace carillon {
namespace internal {

enum class LeasePhase : std::uint8_t { kClaimed, kHeld, kOver };

struct LeaseState : std::enable_shared_from_this<LeaseState> {
  LeaseState(Timer& its_timer, const LeaseKeeperOptions& its_options, std::uint64_t number)
      : timer(its_timer), options(its_options), generation(number), begun(its_timer.now()) {}

  // What is left when it is over: destroyed by whoever has ended it, without the lock.
  struct Remains {
    Lease::Renew renew;
    Lease::OnLost on_lost;
  };

  bool hold(Lease::Renew its_renew, Lease::OnLost its_on_lost);
  bool release() noexcept;
  void end(Remains& remains) CARILLON_REQUIRES(mutex);
  // Counts the life from `at` on; false if the Timer has refused.
  bool count_from(Instant at) CARILLON_REQUIRES(mutex);
  bool renew_at(Instant at) CARILLON_REQUIRES(mutex);
  void on_renew_time();
  void on_end_time();
  void answer(Instant renewal_begun, LeaseLoss* loss, bool success);
  void lose(LeaseLoss loss);

  // Constant after construction.
  Timer& timer;
  const LeaseKeeperOptions options;
  const std::uint64_t generation;

  mutable SpinLock mutex;
  LeasePhase phase CARILLON_GUARDED_BY(mutex) = LeasePhase::kClaimed;
  // When what was last granted was asked for.
  Instant begun CARILLON_GUARDED_BY(mutex);
  // When it counts as lost.
  Instant ends CARILLON_GUARDED_BY(mutex) = Instant::min();
  // renew is being called; it is not called by two threads.
  bool renewing CARILLON_GUARDED_BY(mutex) = false;
  Lease::Renew renew CARILLON_GUARDED_BY(mutex);
  Lease::OnLost on_lost CARILLON_GUARDED_BY(mutex);
  TimerHandle renew_timer CARILLON_GUARDED_BY(mutex);
  TimerHandle end_timer CARILLON_GUARDED_BY(mutex);
};

// A timer that waits is put off and not made anew: so it keeps its place in a Timer that is full.
bool LeaseState::renew_at(Instant at) {
  if (renew_timer.reschedule_at(at) != RescheduleResult::kRescheduled) {
    renew_timer = timer.at(at, [self = shared_from_this()] { self->on_renew_time(); });
  }
  return static_cast<bool>(renew_timer);
}

bool LeaseState::count_from(Instant at) {
  begun = at;
  ends = saturating_add(at, options.life - options.margin);
  if (end_timer.reschedule_at(ends) != RescheduleResult::kRescheduled) {
    end_timer = timer.at(ends, [self = shared_from_this()] { self->on_end_time(); });
  }
  return end_timer && renew_at(saturating_add(at, options.renew_after));
}

void LeaseState::end(Remains& remains) {
  phase = LeasePhase::kOver;
  renew_timer.cancel();
  end_timer.cancel();
  // One that is running is put back, and destroyed, when it returns.
  remains.renew = std::move(renew);
  remains.on_lost = std::move(on_lost);
}

bool LeaseState::hold(Lease::Renew its_renew, Lease::OnLost its_on_lost) {
  Remains remains;
  const SpinLockHold lock(mutex);
  if (phase != LeasePhase::kClaimed) {
    return false;
  }
  if (timer.now() >= saturating_add(begun, options.life - options.margin)) {
    end(remains);
    return false;
  }
  renew = std::move(its_renew);
  on_lost = std::move(its_on_lost);
  phase = LeasePhase::kHeld;
  if (!count_from(begun)) {
    end(remains);
    return false;
  }
  return true;
}

bool LeaseState::release() noexcept {
  Remains remains;
  const SpinLockHold lock(mutex);
  const bool was_held = phase == LeasePhase::kHeld && timer.now() < ends;
  if (phase != LeasePhase::kOver) {
    end(remains);
  }
  return was_held;
}

void LeaseState::on_renew_time() {
  Lease::Renew calling;
  Instant renewal_begun;
  {
    const SpinLockHold lock(mutex);
    if (phase != LeasePhase::kHeld || renewing) {
      return;
    }
    renewing = true;
    calling = std::move(renew);
    renewal_begun = timer.now();
    // If no answer comes.
    renew_at(saturating_add(renewal_begun, options.retry_after));
  }
  calling(RenewReply(shared_from_this(), renewal_begun));
  {
    const SpinLockHold lock(mutex);
    renewing = false;
    if (phase == LeasePhase::kHeld) {
      renew = std::move(calling);
      if (renew_timer.state() != TimerState::kPending) {
        // The next time has come while this was being called.
        renew_at(timer.now());
      }
    }
  }
}

void LeaseState::on_end_time() {
  {
    const SpinLockHold lock(mutex);
    if (phase != LeasePhase::kHeld || timer.now() < ends) {
      return;
    }
  }
  lose(LeaseLoss::kExpired);
}

void LeaseState::lose(LeaseLoss loss) {
  Remains remains;
  {
    const SpinLockHold lock(mutex);
    if (phase != LeasePhase::kHeld || (loss == LeaseLoss::kExpired && timer.now() < ends)) {
      return;
    }
    end(remains);
  }
  remains.on_lost(loss);
}

void LeaseState::answer(Instant renewal_begun, LeaseLoss* loss, bool success) {
  {
    const SpinLockHold lock(mutex);
    // One that was begun before the last success says nothing any more.
    if (phase != LeasePhase::kHeld || renewal_begun < begun) {
      return;
    }
    if (success) {
      // Too late is too late: by then the holder has been told, or is about to be.
      if (timer.now() < ends) {
        count_from(renewal_begun);
      }
      return;
    }
    if (loss == nullptr) {
      renew_at(saturating_add(timer.now(), options.retry_after));
      return;
    }
  }
  lose(*loss);
}

}  // namespace internal

namespace {

std::atomic<std::uint64_t> last_generation{0};

Span or_part(Span given, Span life, int part) {
  return given > Span::zero() ? given : std::max(life / part, Span(1));
}

}  // namespace

LeaseKeeper::LeaseKeeper(Timer& timer, LeaseKeeperOptions options)
    : timer_(timer), options_(options) {
  options_.renew_after = or_part(options.renew_after, options.life, 3);
  options_.retry_after = or_part(options.retry_after, options.life, 15);
  options_.margin = or_part(options.margin, options.life, 10);
  CARILLON_CHECK(options_.renew_after < options_.life - options_.margin, "a lease of ",
                 options_.life.count(), " ns is to be renewed after ", options_.renew_after.count(),
                 " ns, and counts as lost ", options_.margin.count(), " ns before its end");
}

Lease LeaseKeeper::claim() {
  return Lease(std::make_shared<internal::LeaseState>(
      timer_, options_, last_generation.fetch_add(1, std::memory_order_relaxed) + 1));
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
  }
  return *this;
}
Lease::~Lease() { release(); }

bool Lease::hold(Renew renew, OnLost on_lost) {
  return state_ != nullptr && state_->hold(std::move(renew), std::move(on_lost));
}
bool Lease::release() noexcept { return state_ != nullptr && state_->release(); }

bool Lease::held() const noexcept {
  if (state_ == nullptr) {
    return false;
  }
  const internal::SpinLockHold lock(state_->mutex);
  return state_->phase == internal::LeasePhase::kHeld && state_->timer.now() < state_->ends;
}

std::uint64_t Lease::generation() const noexcept {
  return state_ == nullptr ? 0 : state_->generation;
}

RenewReply::~RenewReply() {
  if (state_ != nullptr) {
    failed();
  }
}
void RenewReply::renewed() {
  CARILLON_CHECK(state_ != nullptr, "a renewal was answered twice");
  std::exchange(state_, nullptr)->answer(begun_, nullptr, true);
}
void RenewReply::failed() {
  CARILLON_CHECK(state_ != nullptr, "a renewal was answered twice");
  std::exchange(state_, nullptr)->answer(begun_, nullptr, false);
}
void RenewReply::refused() {
  CARILLON_CHECK(state_ != nullptr, "a renewal was answered twice");
  LeaseLoss loss = LeaseLoss::kRefused;
  std::exchange(state_, nullptr)->answer(begun_, &loss, false);
}

}  // namespace carillon
