// SPDX-License-Identifier: Apache-2.0
// The calendar: jobs with a date wait in the same wheel as all others, by where the calendar stands
// to the timeline now; when that changes they are moved.
//
//     near   moved at once, if it has changed by more than kTolerance; and whoever comes up before
//            the calendar is there waits on, so a smaller change makes nobody early, and late by
//            kTolerance at most
//     far    lie where they were due when they were put. Of each tube the least is known that the
//            calendar was ahead of the timeline then; as much as it is more ahead now, so much
//            earlier its far jobs are loaded. Loaded too early they wait near.

#include <algorithm>
#include <utility>
#include <vector>

#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

namespace {

// A clock that is slewed changes by half a millisecond a second; that should not move all jobs each
// time.
constexpr Span kTolerance = std::chrono::milliseconds(5);

WallTime date(std::int64_t due_at_ms) {
  return WallTime(saturating_span<std::chrono::milliseconds>(due_at_ms));
}

}  // namespace

/// For showing. What was shown once is shown again as long as the calendar has not moved by a
/// millisecond: two clocks are never read at quite the same moment.
std::int64_t Broker::State::on_calendar(std::int64_t timeline_ms) const {
  return floor_ms(saturating_add(date(timeline_ms), shown_ahead_));
}

bool Broker::State::date_has_come(std::int64_t due_at_ms) const {
  return calendar() >= date(due_at_ms);
}

std::int64_t Broker::State::due_on_timeline(std::int64_t due_at_ms) const {
  return std::max<std::int64_t>(0, ceil_ms(saturating_add(date(due_at_ms), -calendar_ahead_)));
}

/// By how much far jobs may be due earlier than it was thought when they were put.
std::int64_t Broker::State::far_shift_ms(const FarJobs& far) const {
  if (!far.calendar_ms) return 0;
  return std::max<std::int64_t>(0, ceil_ms(WallTime(calendar_ahead_)) - *far.calendar_ms);
}

/// No far job is due before this.
internal::DueKey Broker::State::far_low(const FarJobs& far) const {
  const std::int64_t shift_ms = far_shift_ms(far);
  if (shift_ms == 0 || far.count == 0) return far.low;
  return {far.low.due_ms - shift_ms, 0};
}

void Broker::State::set_calendar(WallTime calendar, WallTime now) {
  enter(now);
  // Kept within what adding it to any time can bear.
  constexpr Span kMost = std::chrono::hours(24 * 365 * 140);
  calendar_ahead_ = std::clamp(calendar - now_, -kMost, kMost);
  const Span unseen = calendar_ahead_ - shown_ahead_;
  constexpr Span kShown = std::chrono::milliseconds(1);
  if (unseen >= kShown || unseen <= -kShown) shown_ahead_ = calendar_ahead_;
  if (!available_) return;
  const Span change = calendar_ahead_ - followed_ahead_;
  if (change < kTolerance && change > -kTolerance) return;
  follow_calendar();
  settle_waiters();
}

bool Broker::State::follows_calendar() const {
  return far_dates_ || !extras_.by_calendar().empty() || !schedules_.empty();
}

/// Moves what waits for a date to where that lies now.
void Broker::State::follow_calendar() {
  followed_ahead_ = calendar_ahead_;
  std::vector<std::uint32_t> dated(extras_.by_calendar().begin(), extras_.by_calendar().end());
  // Whoever is due at the same moment keeps the order of the ids, whatever the table's order is.
  std::sort(dated.begin(), dated.end(),
            [this](std::uint32_t a, std::uint32_t b) { return jobs_[a].id < jobs_[b].id; });
  for (const std::uint32_t index : dated) {
    Job& job = jobs_[index];
    if (job.state != JobState::kDelayed) continue;
    const std::int64_t due_at_ms = *extras_.of(job)->date();
    leave(job);
    if (date_has_come(due_at_ms)) {
      job.stored_waits = false;
      note_fired(tubes_[job.tube], now_ms_);
      enter_ready(job);
    } else {
      enter_delayed(job, due_on_timeline(due_at_ms));
    }
  }
  if (!dated.empty()) list_runs_.clear();  // They have them where they were.
  for (std::uint32_t i = first_tube_; i != kNil; i = tubes_[i].next) {
    Tube& tube = tubes_[i];
    if (!tube.far || !tube.far->calendar_ms) continue;
    schedule_load(tube);
    // Not a tick later, as the wheel would.
    if (tube.far->load.scheduled() && load_at_ms(*tube.far) <= now_ms_) load(tube);
  }
  follow_schedules();
}

}  // namespace carillon::broker
