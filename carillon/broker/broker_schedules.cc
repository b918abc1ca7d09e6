// SPDX-License-Identifier: Apache-2.0
// Schedules: when the next period is, and putting its instance. The rules are in schedule.h.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/blocks/spread.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::Schedule;

namespace {

// An instance that cannot be put now, since a limit is reached, is tried again so much later.
constexpr Span kTryAgainAfter = std::chrono::seconds(1);
// Of one gap, so many missed periods are counted.
constexpr std::uint64_t kMostCounted = 1'000;

constexpr std::int64_t whole_ms(Span span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

std::size_t bytes_of(const ScheduleSettings& settings) {
  return settings.name.size() + settings.tube.size() + settings.spec.size() + settings.body.size() +
         (settings.extras ? settings.extras->content_type.size() : 0);
}

}  // namespace

std::int64_t schedule_offset_ms(const ScheduleSettings& settings) {
  return whole_ms(
      offset_of_key(settings.name, saturating_span<std::chrono::milliseconds>(settings.jitter_ms)));
}

std::optional<std::int64_t> Broker::State::next_period(const Schedule& schedule,
                                                       std::int64_t after_ms) const {
  if (!options_.next_period) return std::nullopt;
  return options_.next_period(schedule.record.settings.spec, after_ms);
}

internal::Schedule* Broker::State::find_schedule(std::string_view name) {
  const auto found = schedules_.find(name);
  return found == schedules_.end() ? nullptr : found->second.get();
}

ScheduleView Broker::State::schedule_view(const Schedule& schedule) {
  ScheduleView view{schedule.record, std::nullopt};
  const auto& due_ms = schedule.record.progress.due_ms;
  if (due_ms) view.next_at_ms = *due_ms + schedule.offset_ms;
  return view;
}

void Broker::State::set_schedule(const Command& command) {
  CARILLON_CHECK(command.options && !command.options->schedule.name.empty(), "a nameless schedule");
  const ScheduleSettings& settings = command.options->schedule;
  Schedule* known = find_schedule(settings.name);
  if (known != nullptr && known->record.settings.tube != settings.tube) {
    return reply(command.ticket, Answer::kConflict, needs_all());
  }
  const std::size_t bytes = bytes_of(settings);
  const std::size_t others = schedule_bytes_ - (known != nullptr ? known->bytes : 0);
  if (known == nullptr && schedules_.size() >= options_.max_schedules) {
    return refuse(command.ticket, Shortage::kSchedules);
  }
  if (others + bytes > options_.max_schedule_bytes) {
    return refuse(command.ticket, Shortage::kScheduleBytes);
  }
  // Set again as it was, it stays as far as it is: nothing is put twice, or put off.
  ScheduleProgress progress;
  if (known != nullptr) progress = known->record.progress;
  if (known == nullptr || known->record.settings.spec != settings.spec) {
    progress.as_of_ms = floor_ms(calendar());
    if (options_.next_period) {
      progress.due_ms = options_.next_period(settings.spec, progress.as_of_ms);
    }
    if (!progress.due_ms) return reply(command.ticket, Answer::kNeverDue, 0);
  }
  const bool created = known == nullptr;
  if (created) {
    auto& place = schedules_[settings.name];
    place = std::make_unique<Schedule>();
    known = place.get();
  }
  known->record = {settings, progress};
  known->offset_ms = schedule_offset_ms(settings);
  known->bytes = bytes;
  schedule_bytes_ = others + bytes;
  write_schedule(*known, Mutation::Kind::kSchedule);
  arm(*known);
  Reply answer;
  answer.answer = Answer::kScheduleSet;
  answer.count = created ? 1 : 0;
  answer.detail = std::make_unique<Detail>(schedule_view(*known));
  effects_.reply(command.ticket, std::move(answer), needs_all());
}

void Broker::State::get_schedule(const Command& command) {
  const Schedule* schedule = find_schedule(command.options->schedule.name);
  if (schedule == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  Reply answer;
  answer.answer = Answer::kFound;
  answer.detail = std::make_unique<Detail>(schedule_view(*schedule));
  effects_.reply(command.ticket, std::move(answer), needs_all());
}

void Broker::State::list_schedules(const Command& command) {
  SchedulePage page;
  const std::size_t limit =
      static_cast<std::size_t>(std::clamp<std::uint64_t>(command.count, 1, SchedulePage::kMaxPage));
  auto at =
      command.options ? schedules_.upper_bound(command.options->schedule.name) : schedules_.begin();
  for (; at != schedules_.end() && page.schedules.size() < limit; ++at) {
    page.schedules.push_back(schedule_view(*at->second));
  }
  page.more = at != schedules_.end();
  Reply answer;
  answer.answer = Answer::kListed;
  answer.detail = std::make_unique<Detail>(std::move(page));
  effects_.reply(command.ticket, std::move(answer), needs_all());
}

void Broker::State::delete_schedule(const Command& command) {
  Schedule* schedule = find_schedule(command.options->schedule.name);
  if (schedule == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  write_schedule(*schedule, Mutation::Kind::kEraseSchedule);
  wheel_.cancel(*schedule);
  schedule_bytes_ -= schedule->bytes;
  schedules_.erase(schedules_.find(command.options->schedule.name));
  reply(command.ticket, Answer::kDeleted, needs_all());
}

void Broker::State::run_schedule(const Command& command) {
  Schedule* schedule = find_schedule(command.options->schedule.name);
  if (schedule == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  if (schedule->record.settings.overlap != Overlap::kAllow && last_lives(*schedule)) {
    return reply_id(command.ticket, Answer::kConflict, schedule->record.progress.last_job,
                    needs_all());
  }
  if (const auto refused = put_instance(*schedule, floor_ms(calendar()))) {
    return refuse(command.ticket, *refused);
  }
  write_schedule(*schedule, Mutation::Kind::kScheduleProgress);
  reply_id(command.ticket, Answer::kInserted, schedule->record.progress.last_job, needs_all());
}

/// Whether the last instance has not ended. It is in memory as long as it lives: it was put near,
/// and nothing moves a near job afar.
bool Broker::State::last_lives(const Schedule& schedule) {
  const JobId id = schedule.record.progress.last_job;
  const Job* job = id == 0 ? nullptr : jobs_.find(id);
  return job != nullptr && job->state != JobState::kBuried;
}

/// Returns why it cannot, if so. The progress is not written.
std::optional<Broker::State::Refusal> Broker::State::put_instance(Schedule& schedule,
                                                                  std::int64_t period_ms) {
  const ScheduleSettings& settings = schedule.record.settings;
  auto extras = settings.extras ? std::make_shared<JobExtras>(*settings.extras)
                                : std::make_shared<JobExtras>();
  extras->schedule = settings.name;
  extras->due_at_ms = period_ms;
  Command put;
  put.verb = Verb::kPut;
  put.tube = settings.tube;
  put.priority = settings.priority;
  put.ttr = saturating_span<std::chrono::milliseconds>(settings.ttr_ms);
  put.body = settings.body;
  put.extras = std::move(extras);
  if (const auto refused = refusal(put, find_tube(put.tube))) return refused;
  if (const Shortage shortage = effects_.shortage_for_puts(); shortage != Shortage::kNone) {
    return Refusal{Answer::kOutOfMemory, shortage};
  }
  ScheduleProgress& progress = schedule.record.progress;
  progress.last_job = insert_job(put, *find_or_make_tube(put.tube));
  progress.last_ms = period_ms;
  ++progress.runs;
  return std::nullopt;
}

/// The schedule's hook has expired: puts what is to be put.
void Broker::State::attend(Schedule& schedule) {
  ScheduleProgress& progress = schedule.record.progress;
  const ScheduleProgress before = progress;
  bool refused = false;
  const std::int64_t now_ms = floor_ms(calendar()) - schedule.offset_ms;
  // (The calendar may have been set back since it was queued.)
  if (progress.queued_ms && *progress.queued_ms <= now_ms && !last_lives(schedule)) {
    refused = put_instance(schedule, *progress.queued_ms).has_value();
    if (!refused) progress.queued_ms.reset();
  }
  if (!refused && progress.due_ms && *progress.due_ms <= now_ms) {
    const ScheduleProgress not_yet = progress;
    const std::int64_t period_ms = last_period(schedule, now_ms);
    const bool late = now_ms - period_ms > whole_ms(kMissedAfter);
    if (late && schedule.record.settings.missed == Missed::kSkip) {
      ++progress.missed;
    } else {
      refused = !meet(schedule, period_ms);
    }
    if (refused) {
      progress = not_yet;
    } else {
      progress.due_ms = next_period(schedule, period_ms);
      progress.as_of_ms = floor_ms(calendar());
    }
  }
  if (progress != before) write_schedule(schedule, Mutation::Kind::kScheduleProgress);
  if (!refused) return arm(schedule);
  wheel_.reschedule(schedule, tick(due_after(kTryAgainAfter)));
}

/// The last period that has begun. Counts those before it as missed. Pre: one has begun.
std::int64_t Broker::State::last_period(Schedule& schedule, std::int64_t now_ms) {
  ScheduleProgress& progress = schedule.record.progress;
  std::int64_t period_ms = *progress.due_ms;
  const auto walk = [&](std::uint64_t most) {
    for (std::uint64_t i = 0; i < most; ++i) {
      const auto next = next_period(schedule, period_ms);
      if (!next || *next > now_ms) return true;
      period_ms = *next;
      if (most == kMostCounted) ++progress.missed;
    }
    return false;
  };
  if (walk(kMostCounted)) return period_ms;
  // Too many to walk over: the last lies in the smallest window before now that has any.
  for (std::int64_t window_ms = 1'000; window_ms < now_ms - period_ms; window_ms *= 2) {
    const auto first = next_period(schedule, now_ms - window_ms);
    if (first && *first <= now_ms) {
      period_ms = *first;
      break;
    }
  }
  while (!walk(kMostCounted - 1)) {
  }
  return period_ms;
}

/// A period has come: puts its instance, unless that overlaps. False: a limit is reached.
bool Broker::State::meet(Schedule& schedule, std::int64_t period_ms) {
  ScheduleProgress& progress = schedule.record.progress;
  const Overlap overlap = schedule.record.settings.overlap;
  if (overlap == Overlap::kAllow || !last_lives(schedule)) {
    return !put_instance(schedule, period_ms);
  }
  if (overlap == Overlap::kQueue && !progress.queued_ms) {
    progress.queued_ms = period_ms;
  } else {
    ++progress.skipped;
  }
  return true;
}

/// Has the hook wait for what comes next.
void Broker::State::arm(Schedule& schedule) {
  const ScheduleProgress& progress = schedule.record.progress;
  // What is queued has begun; but the calendar may have been set back since, and the next period
  // may be of another spec, and come first.
  std::optional<std::int64_t> next_ms = progress.due_ms;
  if (progress.queued_ms && !last_lives(schedule)) {
    next_ms = std::min(next_ms.value_or(*progress.queued_ms), *progress.queued_ms);
  }
  if (!next_ms) {
    wheel_.cancel(schedule);
    return;
  }
  const std::int64_t at_ms = due_on_timeline(*next_ms + schedule.offset_ms);
  wheel_.reschedule(schedule, tick(std::max(now_ms_, at_ms)));
}

/// The calendar stands elsewhere, or may, after a start.
void Broker::State::follow_schedules() {
  const std::int64_t calendar_ms = floor_ms(calendar());
  for (const auto& [name, schedule] : schedules_) {
    ScheduleProgress& progress = schedule->record.progress;
    if (calendar_ms < progress.as_of_ms - whole_ms(kSetBack)) {
      progress.due_ms = next_period(*schedule, calendar_ms);
      progress.as_of_ms = calendar_ms;
      if (progress.queued_ms) ++progress.skipped;
      progress.queued_ms.reset();
      write_schedule(*schedule, Mutation::Kind::kScheduleProgress);
    }
    arm(*schedule);
  }
}

/// A job with extras is deleted or buried: a period may have waited for that.
void Broker::State::note_ended_instance(const Job& job) {
  const JobExtras* extras = extras_.of(job);
  if (extras == nullptr || extras->schedule.empty()) return;
  Schedule* schedule = find_schedule(extras->schedule);
  if (schedule == nullptr || schedule->record.progress.last_job != job.id) return;
  if (schedule->record.progress.queued_ms) wheel_.reschedule(*schedule, tick(now_ms_));
}

void Broker::State::write_schedule(const Schedule& schedule, Mutation::Kind kind) {
  Mutation& mutation = append(kind, Place::kNear);
  mutation.detail = static_cast<std::uint32_t>(filling_->schedules.size());
  ScheduleRecord& record = filling_->schedules.emplace_back();
  if (kind == Mutation::Kind::kSchedule) {
    record = schedule.record;
    filling_->bytes += record.settings.body.size();
  } else {
    record.settings.name = schedule.record.settings.name;
    record.progress = schedule.record.progress;
  }
}

void Broker::State::restore_schedule(const ScheduleRecord& record) {
  CARILLON_CHECK(!available_, "restore outside a recovery");
  auto& place = schedules_[record.settings.name];
  CARILLON_CHECK(!place, "schedule ", record.settings.name, " is stored twice");
  place = std::make_unique<Schedule>();
  place->record = record;
  place->offset_ms = schedule_offset_ms(record.settings);
  place->bytes = bytes_of(record.settings);
  schedule_bytes_ += place->bytes;
}

void Broker::State::drop_schedules() {
  for (const auto& [name, schedule] : schedules_) wheel_.cancel(*schedule);
  schedules_.clear();
  schedule_bytes_ = 0;
}

void Broker::State::check_schedules() const {
  std::size_t bytes = 0;
  for (const auto& [name, schedule] : schedules_) {
    const ScheduleProgress& progress = schedule->record.progress;
    CARILLON_CHECK(name == schedule->record.settings.name, name, " is filed as ",
                   schedule->record.settings.name);
    bytes += schedule->bytes;
    if (!available_) continue;
    CARILLON_CHECK(schedule->scheduled() || !progress.due_ms, "schedule ", name,
                   " waits for nothing");
  }
  CARILLON_CHECK(bytes == schedule_bytes_, bytes, " bytes of schedules, not ", schedule_bytes_);
}

}  // namespace carillon::broker
