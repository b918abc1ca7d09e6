// SPDX-License-Identifier: Apache-2.0
// The invariants, all of them, checked from the outside in: what a container says of a job, and
// what the job says of itself.

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kAfterAll;
using internal::kNil;

void Broker::State::check_invariants() const {
  CARILLON_CHECK(
      tubes_to_serve_.empty() && sessions_to_retry_.empty() && sessions_timed_out_.empty(),
      "a call left work behind");
  check_jobs();
  std::uint64_t in_tubes = 0;
  std::uint64_t far = 0;
  std::size_t tubes = 0;
  std::uint32_t before = kNil;
  for (std::uint32_t i = first_tube_; i != kNil; i = tubes_[i].next) {
    const Tube& tube = tubes_[i];
    CARILLON_CHECK(tube.prev == before && tube.index == i, "the list of tubes is broken at ", i);
    check_tube(tube);
    in_tubes += tube.job_count() - tube.far_count();
    far += tube.far_count();
    ++tubes;
    before = i;
  }
  CARILLON_CHECK(before == last_tube_ && tubes == tubes_.size(), tubes, " of ", tubes_.size(),
                 " tubes are in the list");
  CARILLON_CHECK(tube_by_name_.size() == tubes && tube_by_number_.size() == tubes,
                 "names or numbers of tubes are lost");
  CARILLON_CHECK(in_tubes == jobs_.size(), in_tubes, " jobs in tubes, ", jobs_.size(), " in all");
  CARILLON_CHECK(far == far_count_, far, " far jobs in tubes, ", far_count_, " in all");
  check_extras();
  check_read_ahead();
  check_schedules();

  std::size_t held = 0;
  std::size_t watched = 0;
  sessions_.for_each([&](std::uint32_t index, const Session& s) {
    CARILLON_CHECK(s.index == index && session_by_id_.at(s.id) == index, "session ", s.id);
    check_session(s);
    held += s.reserved.count;
    watched += s.watches.size();
  });
  CARILLON_CHECK(session_by_id_.size() == sessions_.size(), "sessions are lost");
  CARILLON_CHECK(held == counts_.reserved, held, " jobs held, ", counts_.reserved, " reserved");
  CARILLON_CHECK(watched == watches_.size(), "watches are lost");
  CARILLON_CHECK(available_ || (jobs_.size() == 0 && far_count_ == 0) || !filling_->empty() ||
                     fetches_.empty(),
                 "something is pending in a recovery");
  CARILLON_CHECK(durable_ < filling_->seq, "the batch being filled is durable already");
}

void Broker::State::check_jobs() const {
  JobCounts counts;
  std::uint64_t bytes = 0;
  jobs_.for_each([&](const Job& job) {
    CARILLON_CHECK(tubes_.contains(job.tube), "job ", job.id, " is in no tube");
    CARILLON_CHECK(job.id < next_id_, "job ", job.id, " has an id that was not given out yet");
    const bool timed = job.state == JobState::kDelayed || job.state == JobState::kReserved;
    CARILLON_CHECK(job.scheduled() == timed, "job ", job.id, " in state ",
                   static_cast<int>(job.state), timed ? " has no deadline" : " has a deadline");
    CARILLON_CHECK((job.holder != kNil) == (job.state == JobState::kReserved), "job ", job.id,
                   " is held and not reserved, or the other way");
    CARILLON_CHECK(job.place != Place::kFar, "job ", job.id, " is in memory and far");
    CARILLON_CHECK(!job.body || job.body.size() == job.body_size, "job ", job.id, " has a body of ",
                   job.body.size(), " bytes, not ", job.body_size);
    CARILLON_CHECK(job.body || options_.store_keeps_bodies || options_.store_keeps_far_jobs, "job ",
                   job.id, " has lost its body");
    CARILLON_CHECK(job.state != JobState::kReady || !job.stored_waits, "job ", job.id,
                   " is ready and would not be after a restart");
    CARILLON_CHECK(tubes_[job.tube].stored, "tube ", tubes_[job.tube].name,
                   " holds a job and is not stored");
    bytes += job.body.size();
    switch (job.state) {
      case JobState::kReady: ++counts.ready; break;
      case JobState::kDelayed: ++counts.delayed; break;
      case JobState::kBuried: ++counts.buried; break;
      case JobState::kReserved: ++counts.reserved; break;
    }
  });
  CARILLON_CHECK(bytes == body_bytes_, bytes, " bytes of bodies, not ", body_bytes_);
  CARILLON_CHECK(counts.ready == counts_.ready && counts.delayed == counts_.delayed &&
                     counts.buried == counts_.buried && counts.reserved == counts_.reserved,
                 "the counts by state are wrong");
}

void Broker::State::check_extras() const {
  std::size_t extras = 0;
  std::size_t keys = 0;
  std::size_t dates = 0;
  jobs_.for_each([&](const Job& job) {
    if (!job.has_extras) return;
    const JobExtras& own = *extras_.of(job);
    CARILLON_CHECK(!own.empty(), "job ", job.id, " has extras with nothing in them");
    ++extras;
    if (own.date()) {
      ++dates;
      CARILLON_CHECK(extras_.by_calendar().contains(job.index), "job ", job.id);
    }
    if (own.key.empty()) return;
    ++keys;
    CARILLON_CHECK(extras_.find(job.tube, own.key) == job.index, "job ", job.id,
                   " is not found by its key ", own.key);
  });
  CARILLON_CHECK(
      extras == extras_.size() && keys == extras_.keys() && dates == extras_.by_calendar().size(),
      "extras of no job");
}

void Broker::State::check_tube(const Tube& tube) const {
  CARILLON_CHECK(tube_by_name_.at(tube.name) == tube.index, "tube ", tube.name);
  CARILLON_CHECK(tube_by_number_.at(tube.number) == tube.index, "tube ", tube.name);
  CARILLON_CHECK(!tube.to_be_served, "tube ", tube.name, " was left unserved");
  tube.ready.check(jobs_);
  CARILLON_CHECK(tube.ready_ages.count() == tube.ready.size(), "tube ", tube.name,
                 " does not know the ages of its ready jobs");
  tube.front.check(jobs_, tube.delayed);
  const auto check_list = [&](const internal::JobList& list, JobState state) {
    std::uint32_t before = kNil;
    std::uint32_t count = 0;
    for (std::uint32_t i = list.first; i != kNil; i = jobs_[i].next) {
      const Job& job = jobs_[i];
      CARILLON_CHECK(job.prev == before && job.state == state && job.tube == tube.index, "job ",
                     job.id, " is in a list where it does not belong");
      before = i;
      ++count;
    }
    CARILLON_CHECK(before == list.last && count == list.count, "a list of tube ", tube.name,
                   " has ", count, " jobs, not ", list.count);
  };
  check_list(tube.delayed, JobState::kDelayed);
  check_list(tube.buried, JobState::kBuried);

  std::uint32_t waiting = 0;
  std::uint32_t before = kNil;
  for (std::uint32_t w = tube.first_waiting; w != kNil; w = watches_[w].next) {
    CARILLON_CHECK(watches_[w].tube == tube.index && watches_[w].prev == before, "watch ", w);
    CARILLON_CHECK(sessions_[watches_[w].session].blocked == Blocked::kWaiting, "watch ", w,
                   " waits and its session does not");
    before = w;
    ++waiting;
  }
  CARILLON_CHECK(before == tube.last_waiting && waiting == tube.waiting_count, "tube ", tube.name,
                 " has ", waiting, " waiting, not ", tube.waiting_count);
  CARILLON_CHECK(!available_ || waiting == 0 || tube.paused || tube.ready.empty(), "tube ",
                 tube.name, " has ready jobs and sessions that wait for them");
  CARILLON_CHECK(!available_ || tube.pause.scheduled() == tube.paused, "tube ", tube.name,
                 " is paused for ever");
  const bool asked = tube.far && !tube.far->questions.empty();
  CARILLON_CHECK(!available_ || is_default(tube) || tube.job_count() > 0 || asked ||
                     tube.settings || tube.pins > 0 || tube.using_count + tube.watching_count > 0,
                 "tube ", tube.name, " has outlived its use");
  if (!tube.far) return;
  const FarJobs& far = *tube.far;
  CARILLON_CHECK(far.count > 0 || far.scanning || !far.questions.empty(), "tube ", tube.name,
                 " keeps the memory of far jobs it does not have");
  CARILLON_CHECK(far.count > 0 || far.low == kAfterAll, "tube ", tube.name);
  CARILLON_CHECK(far.count == 0 || tube.stored, "tube ", tube.name);
  CARILLON_CHECK(far.questions.empty() || far.scanning, "tube ", tube.name,
                 " does not answer a question about far jobs");
  CARILLON_CHECK(!available_ || far.count == 0 || far.scanning || far.load.scheduled(), "tube ",
                 tube.name, " will never load its far jobs");
  for (const FarQuestion& question : far.questions) {
    const Session& s = sessions_[question.session];
    CARILLON_CHECK(s.blocked == Blocked::kFar && s.blocked_tube == tube.index, "session ", s.id);
  }
}

void Broker::State::check_session(const Session& s) const {
  std::uint32_t count = 0;
  std::uint32_t before = kNil;
  std::int64_t soonest_ms = internal::kNeverMs;
  for (std::uint32_t i = s.reserved.first; i != kNil; i = jobs_[i].next) {
    CARILLON_CHECK(jobs_[i].holder == s.index && jobs_[i].prev == before, "job ", jobs_[i].id);
    soonest_ms = std::min(soonest_ms, jobs_[i].deadline_ms());
    before = i;
    ++count;
  }
  CARILLON_CHECK(count == s.reserved.count && before == s.reserved.last, "session ", s.id);
  CARILLON_CHECK(s.soonest == kNil || jobs_[s.soonest].deadline_ms() == soonest_ms, "session ",
                 s.id, " does not know which reservation ends first");
  for (const std::uint32_t w : s.watches) {
    CARILLON_CHECK(watches_[w].session == s.index && tubes_.contains(watches_[w].tube), "watch ",
                   w);
  }
  CARILLON_CHECK(s.used == kNil || tubes_.contains(s.used), "session ", s.id);
  CARILLON_CHECK(!s.scheduled() || s.blocked == Blocked::kWaiting, "session ", s.id,
                 " has a deadline and does not wait");
  const auto waits_for_fetch = [&] {
    const auto fetch = fetches_.find(s.blocked_id);
    if (fetch == fetches_.end()) return false;
    const auto& waiters = fetch->second.waiters;
    return std::any_of(waiters.begin(), waiters.end(),
                       [&](const FetchWaiter& waiter) { return waiter.session == s.index; });
  };
  switch (s.blocked) {
    case Blocked::kNo: break;
    case Blocked::kWaiting: {
      const std::int64_t deadline = std::min(s.give_up_ms, soonest_ms - 1'001);
      CARILLON_CHECK(!available_ || s.scheduled() || (deadline > internal::kNeverMs - 2'000),
                     "session ", s.id, " waits for ever");
      break;
    }
    case Blocked::kBody:
    case Blocked::kFetch:
      CARILLON_CHECK(waits_for_fetch(), "session ", s.id, " waits for a job nobody reads");
      break;
    case Blocked::kKey: {
      const bool waits = std::any_of(lookups_.begin(), lookups_.end(), [&](const auto& lookup) {
        const auto& waiters = lookup.second.waiters;
        return std::any_of(waiters.begin(), waiters.end(),
                           [&](const KeyWaiter& waiter) { return waiter.session == s.index; });
      });
      CARILLON_CHECK(waits, "session ", s.id, " waits for a key nobody looks up");
      break;
    }
    case Blocked::kScan:
      CARILLON_CHECK(std::any_of(scans_.begin(), scans_.end(),
                                 [&](const auto& scan) { return scan->session == s.index; }),
                     "session ", s.id, " waits for a scan nobody makes");
      break;
    case Blocked::kFar:
      CARILLON_CHECK(tubes_.contains(s.blocked_tube) && tubes_[s.blocked_tube].far, "session ",
                     s.id, " waits for far jobs of a tube without");
      break;
  }
}

}  // namespace carillon::broker
