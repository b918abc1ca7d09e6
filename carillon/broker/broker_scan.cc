// SPDX-License-Identifier: Apache-2.0
// Lists, clears and the wheel: commands that look at all jobs, in steps, so that nobody else waits
// for longer than a step.

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"
#include "carillon/wheel/levels.h"

namespace carillon::broker {

using internal::DueKey;
using internal::kNeverMs;
using internal::kNil;
using internal::ListRun;
using internal::Scan;

namespace {

// Places of the table of jobs looked at in a turn: some 50 us.
constexpr std::uint32_t kPlacesATurn = 4'096;
// A state of a tube with no more jobs than this is walked over in one step, by its own container.
constexpr std::size_t kSmall = 2'000;
// Far jobs read at once by a clear; by a list at least, since some may not fit its filter.
constexpr std::size_t kFarChunk = 1'000;
constexpr std::size_t kLeastFarChunk = 128;
// A clear waits for the batch being filled to be handed over when it has so much in it.
constexpr std::size_t kFullBatch = 10'000;

using Levels = PowerOfTwoLevels<6>;

bool has_state(JobStates states, JobState state) { return (states & bit_of(state)) != 0; }

bool fits(const ListQuery& list, const JobExtras* extras, std::int64_t due_at_ms) {
  if (!list.key_prefix.empty() &&
      (extras == nullptr || !std::string_view(extras->key).starts_with(list.key_prefix))) {
    return false;
  }
  return list.state != JobState::kDelayed ||
         (due_at_ms >= list.due_from_ms && due_at_ms < list.due_until_ms);
}

DueKey after(const ListCursor& cursor) { return {cursor.due_ms, cursor.id + 1}; }

}  // namespace

void Broker::State::begin_scan(const Command& command, Session& s) {
  auto scan = std::make_unique<Scan>();
  scan->number = ++last_scan_;
  scan->session = s.index;
  scan->ticket = command.ticket;
  scan->verb = command.verb;
  scan->below = next_id_;
  scan->after = filling_->seq;
  Tube* tube = nullptr;
  bool far = false;
  if (command.verb != Verb::kWheel && !command.tube.empty()) {
    tube = find_tube(command.tube);
    if (tube == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
    scan->tube = tube->number;
  }
  switch (command.verb) {
    case Verb::kList:
      if (command.options) scan->list = command.options->list;
      scan->list.limit = std::clamp<std::size_t>(scan->list.limit, 1, ListQuery::kMaxPage);
      if (scan->list.state != JobState::kDelayed) scan->list.after.due_ms = 0;
      far = scan->list.state == JobState::kDelayed;
      scan->far_from = {scan->list.after.due_ms, scan->list.after.id + 1};
      break;
    case Verb::kClear:
      if (tube == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
      scan->states = command.states & static_cast<JobStates>(~bit_of(JobState::kReserved));
      far = has_state(scan->states, JobState::kDelayed);
      ++tube->pins;
      break;
    default: begin_wheel(*scan); break;
  }
  if (far && tube != nullptr && tube->far_count() > 0) scan->far_tubes.push_back(tube->number);
  if (far && tube == nullptr && far_count_ > 0) {
    for (std::uint32_t i = first_tube_; i != kNil; i = tubes_[i].next) {
      if (tubes_[i].far_count() > 0) scan->far_tubes.push_back(tubes_[i].number);
    }
  }
  s.blocked = Blocked::kScan;
  s.ticket = command.ticket;
  scans_.push_back(std::move(scan));
  // What is small is done at once.
  std::uint32_t places = kPlacesATurn;
  if (scans_.size() == 1 && step(*scans_.front(), places)) end_scan(0);
}

/// Whether the scan can do nothing but wait.
bool Broker::State::waits(const Scan& scan) const {
  if (scan.reading) return true;
  if (!scan.far_tubes.empty() && scan.after == filling_->seq && !filling_->empty()) return true;
  return scan.verb == Verb::kClear && filling_->mutations.size() >= kFullBatch;
}

bool Broker::State::scanning() const {
  return std::any_of(scans_.begin(), scans_.end(),
                     [this](const auto& scan) { return !waits(*scan); });
}

/// Each scan in turn does a bit. Returns whether there is more that can be done.
bool Broker::State::turn_scans() {
  std::uint32_t places = kPlacesATurn;
  for (std::size_t i = scans_.size(); i > 0 && places > 0; --i) {
    if (step(*scans_.front(), places)) {
      end_scan(0);
    } else {
      scans_.push_back(std::move(scans_.front()));
      scans_.pop_front();
    }
  }
  return scanning();
}

/// Goes on with `scan` for at most `places` places of the table. Returns whether it is done.
bool Broker::State::step(Scan& scan, std::uint32_t& places) {
  if (waits(scan)) return false;
  if (read_far_of(scan)) return false;
  if (walk_container(scan) || take_from_run(scan)) return true;
  while (scan.next_index < jobs_.index_limit() && places > 0) {
    --places;
    const std::uint32_t index = scan.next_index++;
    if (jobs_.contains_index(index)) visit(scan, jobs_[index]);
  }
  if (scan.next_index < jobs_.index_limit()) return false;
  return scan.verb != Verb::kList || end_walk(scan);
}

/// Takes the page from what an earlier page's walk has found, if that is enough of it. Returns
/// whether it is. O(page), but for what has changed since.
bool Broker::State::take_from_run(Scan& scan) {
  if (scan.verb != Verb::kList || scan.next_index > 0) return false;
  scan.run = {};
  scan.run.tube = scan.tube;
  scan.run.list = scan.list;
  scan.run.from = after(scan.list.after);
  if (scan.list.after.id == 0) return false;  // It begins.
  const ListRun* run = list_runs_.find(scan.tube, scan.list, scan.run.from, now_ms_);
  if (run == nullptr) return false;
  const std::vector<ListRun::Entry> page = run->page(jobs_, scan.run.from, scan.list.limit + 1);
  if (page.size() <= scan.list.limit && run->bound != internal::kAfterAll) return false;
  for (const ListRun::Entry& entry : page) {
    if (scan.wants(entry.key)) scan.add({entry.key, entry.job, {}});
  }
  return true;
}

/// All jobs have been walked over: what is for this page is taken, and the rest is kept if it was
/// much work. False: nearly all that was kept has changed meanwhile, so it walks again.
bool Broker::State::end_walk(Scan& scan) {
  scan.run.sort();
  const std::vector<ListRun::Entry> page = scan.run.page(jobs_, scan.run.from, scan.list.limit + 1);
  if (page.size() <= scan.list.limit && scan.run.bound != internal::kAfterAll) {
    scan.next_index = 0;
    return false;
  }
  for (const ListRun::Entry& entry : page) {
    if (scan.wants(entry.key)) scan.add({entry.key, entry.job, {}});
  }
  if (scan.run.entries.size() > kSmall) list_runs_.keep(std::move(scan.run), now_ms_);
  return true;
}

/// A job that was far when lists were walked has come near.
void Broker::State::show_in_lists(const Job& job) {
  if ((list_runs_.empty() && scans_.empty()) || job.state != JobState::kDelayed) return;
  const DueKey key = internal::due_key(job);
  const JobExtras* extras = extras_.of(job);
  const std::int64_t due_at_ms = date_of(extras).value_or(on_calendar(key.due_ms));
  const auto is_for = [&](const ListRun& run) {
    return run.list.state == JobState::kDelayed &&
           (run.tube == 0 || run.tube == tubes_[job.tube].number) &&
           fits(run.list, extras, due_at_ms);
  };
  list_runs_.for_each([&](ListRun& run) {
    if (is_for(run)) run.add(key, job.index);
  });
  for (const auto& scan : scans_) {
    if (scan->verb != Verb::kList || scan->next_index == 0 || key < scan->run.from) continue;
    if (is_for(scan->run)) scan->run.collect(key, job.index);
  }
}

/// Asks for the next far jobs, if there are more to be read.
bool Broker::State::read_far_of(Scan& scan) {
  while (!scan.far_tubes.empty()) {
    const TubeNumber number = scan.far_tubes.back();
    const auto found = tube_by_number_.find(number);
    const Tube* tube = found == tube_by_number_.end() ? nullptr : &tubes_[found->second];
    std::int64_t until_ms = kNeverMs;
    std::size_t limit = kFarChunk;
    if (tube != nullptr && tube->far_count() > 0) {
      DueKey from{scan.far_from.due_ms, scan.far_from.id};
      from = std::max(from, tube->far->low);
      if (scan.verb == Verb::kList) {
        limit = std::max(kLeastFarChunk, scan.list.limit + 1);
        if (scan.found.size() > scan.list.limit) until_ms = scan.found.front().key.due_ms;
        until_ms = std::min(until_ms, far_until_ms(scan.list, *tube->far));
      }
      if (from.due_ms <= until_ms) {
        for (const auto& [id, owner] : erased_from_afar_) {
          if (owner == tube->index) scan.gone.insert(id);
        }
        for (const auto& [id, move] : far_moves_) {
          if (move.tube == tube->index) scan.gone.insert(id);
        }
        scan.reading = true;
        effects_.read_far(scan.number, number, {from.due_ms, from.id}, until_ms, limit);
        return true;
      }
    }
    next_far_tube(scan);
  }
  return false;
}

void Broker::State::next_far_tube(Scan& scan) {
  scan.far_tubes.pop_back();
  scan.far_from = {scan.list.after.due_ms, scan.list.after.id + 1};
}

/// Far jobs that lie behind this are due too late for the list.
std::int64_t Broker::State::far_until_ms(const ListQuery& list, const FarJobs& far) const {
  if (list.due_until_ms == kNeverMs) return kNeverMs;
  const WallTime until = saturating_add(
      WallTime(saturating_span<std::chrono::milliseconds>(list.due_until_ms)), -calendar_ahead_);
  return ceil_ms(until) + far_shift_ms(far);
}

void Broker::State::on_far_read(std::uint64_t number, FarChunk chunk, WallTime now) {
  enter(now);
  const std::size_t position = position_of(number);
  // Its session has closed meanwhile.
  if (position == scans_.size()) return;
  Scan& scan = *scans_[position];
  scan.reading = false;
  const auto found = tube_by_number_.find(scan.far_tubes.back());
  if (found != tube_by_number_.end()) {
    Tube& tube = tubes_[found->second];
    for (const StoredJob& stored : chunk.jobs) {
      const JobId id = stored.record.id;
      if (jobs_.find(id) == nullptr && !scan.gone.contains(id)) visit_far(scan, stored, tube);
    }
  }
  if (chunk.more && !chunk.jobs.empty()) {
    const JobRecord& last = chunk.jobs.back().record;
    scan.far_from = {last.due_ms, last.id + 1};
  } else {
    next_far_tube(scan);
  }
  settle_waiters();
}

void Broker::State::visit_far(Scan& scan, const StoredJob& stored, Tube& tube) {
  const JobRecord& record = stored.record;
  if (scan.verb == Verb::kClear) {
    if (record.id >= scan.below) return;
    erase_far(tube, record, stored.updated);
    ++scan.cleared;
    return;
  }
  const DueKey key{record.due_ms, record.id};
  if (key < after(scan.list.after) || !scan.wants(key)) return;
  const std::int64_t due_at_ms = date_of(record.extras).value_or(on_calendar(record.due_ms));
  if (fits(scan.list, record.extras.get(), due_at_ms)) scan.add({key, kNil, record});
}

void Broker::State::on_far_read_failed(std::uint64_t number, WallTime now) {
  enter(now);
  const std::size_t position = position_of(number);
  if (position == scans_.size()) return;
  const Ticket ticket = scans_[position]->ticket;
  drop_scan(position);
  reply(ticket, Answer::kInternalError, 0);
  settle_waiters();
}

/// Visits the jobs of a tube by its own containers, if those are small. Returns whether it did.
bool Broker::State::walk_container(Scan& scan) {
  if (scan.tube == 0 || scan.next_index > 0) return false;
  const auto found = tube_by_number_.find(scan.tube);
  if (found == tube_by_number_.end()) return true;
  const Tube& tube = tubes_[found->second];
  const JobStates states = scan.verb == Verb::kClear ? scan.states : bit_of(scan.list.state);
  if (has_state(states, JobState::kReserved)) return tube.reserved_count == 0;
  std::size_t jobs = 0;
  if (has_state(states, JobState::kReady)) jobs += tube.ready.size();
  if (has_state(states, JobState::kDelayed)) jobs += tube.delayed.count;
  if (has_state(states, JobState::kBuried)) jobs += tube.buried.count;
  if (jobs > kSmall) return false;
  std::vector<std::uint32_t> indexes;
  indexes.reserve(jobs);
  const auto add_list = [&](const internal::JobList& list) {
    for (std::uint32_t i = list.first; i != kNil; i = jobs_[i].next) indexes.push_back(i);
  };
  if (has_state(states, JobState::kReady)) {
    tube.ready.for_each([&](std::uint32_t index) { indexes.push_back(index); });
  }
  if (has_state(states, JobState::kDelayed)) add_list(tube.delayed);
  if (has_state(states, JobState::kBuried)) add_list(tube.buried);
  for (const std::uint32_t index : indexes) visit(scan, jobs_[index]);
  return true;
}

void Broker::State::visit(Scan& scan, Job& job) {
  if (scan.verb == Verb::kWheel) return visit_for_wheel(scan.wheel, job);
  if (scan.tube != 0 && tubes_[job.tube].number != scan.tube) return;
  if (scan.verb == Verb::kClear) {
    if (!has_state(scan.states, job.state) || job.id >= scan.below) return;
    erase(job);
    ++scan.cleared;
    return;
  }
  if (job.state != scan.list.state) return;
  const bool delayed = job.state == JobState::kDelayed;
  const DueKey key{delayed ? job.deadline_ms() : 0, job.id};
  if (key < after(scan.list.after)) return;
  const JobExtras* extras = extras_.of(job);
  std::int64_t due_at_ms = 0;
  if (delayed) {
    due_at_ms = date_of(extras).value_or(on_calendar(key.due_ms));
  }
  if (!fits(scan.list, extras, due_at_ms)) return;
  if (scan.next_index > 0) return scan.run.collect(key, job.index);
  if (scan.wants(key)) scan.add({key, std::uint32_t{job.index}, {}});
}

void Broker::State::begin_wheel(Scan& scan) const {
  scan.wheel.now_ms = now_ms_;
  const Tick now = tick(now_ms_);
  for (int level = 0; level < Levels::kLevels; ++level) {
    WheelView::Level& info = scan.wheel.levels.emplace_back();
    info.slot_ms = static_cast<std::int64_t>(Levels::start(level, 1));
    info.hand = static_cast<std::uint32_t>(Levels::index(level, Levels::number(level, now)));
    info.counts.resize(static_cast<std::size_t>(Levels::slots(level)));
  }
}

/// Counts the job where the wheel had it at the beginning of the walk: a walk over the wheel itself
/// could not be broken off, since it turns on.
void Broker::State::visit_for_wheel(WheelView& wheel, const Job& job) const {
  if (!job.scheduled()) return;
  const Tick now = tick(wheel.now_ms);
  // Due meanwhile, or put since: in the present slot.
  const Tick deadline = std::max(job.deadline(), now);
  const int level = Levels::level_of(now, deadline);
  const int slot = Levels::index(level, Levels::number(level, deadline));
  ++wheel.levels[static_cast<std::size_t>(level)].counts[static_cast<std::size_t>(slot)];
  if (job.state != JobState::kDelayed) return;
  const auto left_ms = static_cast<std::int64_t>(deadline - now);
  const auto bound =
      std::upper_bound(WheelView::kBoundsMs.begin(), WheelView::kBoundsMs.end(), left_ms);
  ++wheel.delayed[static_cast<std::size_t>(bound - WheelView::kBoundsMs.begin())];
}

std::size_t Broker::State::position_of(std::uint64_t number) const {
  const auto found = std::find_if(scans_.begin(), scans_.end(),
                                  [number](const auto& scan) { return scan->number == number; });
  return static_cast<std::size_t>(found - scans_.begin());
}

/// Answers the scan and forgets it.
void Broker::State::end_scan(std::size_t position) {
  Scan& scan = *scans_[position];
  Reply answer;
  switch (scan.verb) {
    case Verb::kList:
      answer.answer = Answer::kListed;
      answer.detail = std::make_unique<Detail>(make_page(scan));
      break;
    case Verb::kClear:
      answer.answer = Answer::kCleared;
      answer.count = scan.cleared;
      break;
    default: {
      answer.answer = Answer::kStats;
      scan.wheel.far = far_count_;
      std::vector<WheelView::Level>& levels = scan.wheel.levels;
      const auto is_empty = [](const WheelView::Level& level) {
        return std::all_of(level.counts.begin(), level.counts.end(),
                           [](std::uint64_t count) { return count == 0; });
      };
      constexpr std::size_t kShown = 4;
      while (levels.size() > kShown && is_empty(levels.back())) levels.pop_back();
      answer.detail = std::make_unique<Detail>(std::move(scan.wheel));
      break;
    }
  }
  const Ticket ticket = scan.ticket;
  drop_scan(position);
  effects_.reply(ticket, std::move(answer), needs_all());
}

/// What a list has found, but for what has changed since it was.
JobPage Broker::State::make_page(Scan& scan) {
  JobPage page;
  std::vector<Scan::Found>& found = scan.found;
  std::sort_heap(found.begin(), found.end());
  if (found.size() > scan.list.limit) {
    const DueKey last = found[scan.list.limit - 1].key;
    page.next = ListCursor{last.due_ms, last.id};
    found.resize(scan.list.limit);
  }
  page.jobs.reserve(found.size());
  JobId before = 0;
  for (const Scan::Found& one : found) {
    // One that came near is met twice: far, and near behind that.
    if (one.key.id == before) continue;
    const Job* job =
        one.job != kNil && jobs_.contains_index(one.job) ? &jobs_[one.job] : jobs_.find(one.key.id);
    if (job != nullptr) {
      const bool delayed = job->state == JobState::kDelayed;
      const DueKey key{delayed ? job->deadline_ms() : 0, job->id};
      if (job->state != scan.list.state || key != one.key) continue;
      page.jobs.push_back(job_view(*job));
    } else {
      if (one.job != kNil || scan.gone.contains(one.key.id)) continue;
      const auto tube = tube_by_number_.find(one.record.tube);
      if (tube == tube_by_number_.end()) continue;
      page.jobs.push_back(far_job_view(one.record, tubes_[tube->second]));
    }
    before = one.key.id;
  }
  return page;
}

/// Forgets the scan; its session goes on.
void Broker::State::drop_scan(std::size_t position) {
  const std::unique_ptr<Scan> scan = std::move(scans_[position]);
  scans_.erase(scans_.begin() + static_cast<std::ptrdiff_t>(position));
  sessions_[scan->session].blocked = Blocked::kNo;
  if (scan->verb != Verb::kClear) return;
  Tube& tube = tubes_[tube_by_number_.at(scan->tube)];
  --tube.pins;
  remove_if_unused(tube);
}

}  // namespace carillon::broker
