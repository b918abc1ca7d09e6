// SPDX-License-Identifier: Apache-2.0
// Time: what happens when a deadline comes.

#include <algorithm>
#include <memory>
#include <optional>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::HookKind;

bool Broker::State::advance(WallTime now, std::size_t budget) {
  enter(now);
  bool more = turn_wheel(budget);
  if (!scans_.empty()) more |= turn_scans();
  settle_waiters();
  return more;
}

bool Broker::State::turn_wheel(std::size_t budget) {
  const auto sink = [this](WheelHook& hook) {
    on_expired(static_cast<internal::BrokerHook&>(hook));
  };
  return wheel_.advance(tick(now_ms_), sink, budget).more;
}

std::optional<WallTime> Broker::State::next_deadline() const {
  if (scanning()) return now_;
  const std::optional<Tick> deadline = wheel_.next_deadline();
  if (!deadline) return std::nullopt;
  return WallTime(saturating_span<std::chrono::milliseconds>(static_cast<std::int64_t>(*deadline)));
}

void Broker::State::on_expired(internal::BrokerHook& hook) {
  switch (static_cast<HookKind>(hook.kind)) {
    case HookKind::kJob: {
      Job& job = static_cast<Job&>(hook);
      if (job.state == JobState::kDelayed) {
        on_due(job);
      } else {
        on_ttr_over(job);
      }
      return;
    }
    case HookKind::kSession: sessions_timed_out_.push_back(static_cast<Session&>(hook).id); return;
    case HookKind::kPause: unpause(tubes_[hook.index]); return;
    case HookKind::kLoad: load(tubes_[hook.index]); return;
    case HookKind::kSchedule: attend(static_cast<internal::Schedule&>(hook)); return;
  }
}

void Broker::State::note_fired(Tube& tube, std::int64_t due_ms) {
  const std::int64_t now_us =
      std::chrono::duration_cast<std::chrono::microseconds>(now_.time_since_epoch()).count();
  const std::int64_t late_us = std::max<std::int64_t>(0, now_us - due_ms * 1'000);
  ++lateness_.count;
  lateness_.total_us += late_us;
  lateness_.max_us = std::max(lateness_.max_us, late_us);
  lateness_us_.add(static_cast<std::uint64_t>(late_us));
  ++tube.fired_count;
  if (!tube.lateness_us) tube.lateness_us = std::make_unique<Histogram>();
  tube.lateness_us->add(static_cast<std::uint64_t>(late_us));
}

/// Never early: the wheel rounds up, and a tick has come only when all of it has.
void Broker::State::on_due(Job& job) {
  const std::int64_t due_ms = job.deadline_ms();
  CARILLON_CHECK(due_ms <= now_ms_, "job ", job.id, " due at ", due_ms, " came at ", now_ms_);
  if (job.has_extras) {
    const std::optional<std::int64_t> date = extras_.of(job)->date();
    if (date && !date_has_come(*date)) {
      // The calendar has been set back.
      wheel_.schedule(job, tick(due_on_timeline(*date)));
      tubes_[job.tube].front.note(jobs_, job);
      show_in_lists(job);
      return;
    }
  }
  note_fired(tubes_[job.tube], due_ms);
  leave(job);
  // Nothing to write: the stored record says delayed, until a time that has passed.
  job.stored_waits = false;
  enter_ready(job);
}

void Broker::State::on_ttr_over(Job& job) {
  CARILLON_CHECK(job.state == JobState::kReserved, "job ", job.id, " has a deadline in state ",
                 static_cast<int>(job.state));
  Session& holder = sessions_[job.holder];
  if (holder.blocked == Blocked::kBody && holder.blocked_id == job.id) {
    // The client does not have it yet: its time begins when the body is there.
    restart_ttr(job, holder, holder.ttr_ms);
    return;
  }
  ++jobs_.mutable_history(job).timeouts;
  ++timeouts_;
  end_attempt(job);
}

}  // namespace carillon::broker
