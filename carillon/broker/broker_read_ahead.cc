// SPDX-License-Identifier: Apache-2.0
// Reading ahead: the bodies of ready jobs that are wanted next.
//
// When a reserve finds that the body of its job must be read, the bodies of the jobs behind it are
// read with it: a few at first, twice as many each time that those were wanted. A job towards the
// end of them is marked (read_more); when it is granted the next are read, so that whoever works
// through a backlog does not wait for the store again. Without it each session waits for a read of
// its own for each job, which takes two hand-overs between threads.

#include <algorithm>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

namespace {

// A body that nobody has wanted for so long makes room for others.
constexpr std::int64_t kKeepMs = 1'000;
constexpr std::size_t kFirstJobs = 32;

}  // namespace

/// Reads what is ready in `tube` and wanted next, as far as it is not in memory. `goes_on`: what
/// was read before has been wanted.
void Broker::State::read_ahead(Tube& tube, bool goes_on) {
  if (!options_.store_keeps_bodies || options_.read_ahead_jobs == 0) return;
  const std::size_t jobs =
      std::min(goes_on ? std::size_t{2} * tube.read_ahead : kFirstJobs, options_.read_ahead_jobs);
  tube.read_ahead = static_cast<std::uint32_t>(jobs);
  std::size_t bytes = 0;
  bool any = false;
  ahead_seen_.clear();
  tube.ready.in_order(ahead_scratch_, [&](std::uint32_t index) {
    Job& job = jobs_[index];
    bytes += job.body_size;
    if (bytes > options_.read_ahead_bytes && !ahead_seen_.empty()) return false;
    if (!job.body && !job.read_ahead) {
      if (!make_room_ahead(job.body_size)) return false;
      job.read_ahead = true;
      ++ahead_jobs_;
      ahead_bytes_ += job.body_size;
      ahead_.push_back({job.id, index, now_ms_});
      any = true;
      // Somebody may be reading it already, for a peek.
      const auto [fetch, asked] = fetches_.try_emplace(job.id);
      fetch->second.known = true;
      if (asked) effects_.fetch(wanted(job.id));
    }
    ahead_seen_.push_back(index);
    return ahead_seen_.size() < jobs;
  });
  if (any) jobs_[ahead_seen_[ahead_seen_.size() * 3 / 4]].read_more = true;
}

/// The job is not ready any more: its body is wanted now, or not soon.
void Broker::State::end_read_ahead(Job& job) {
  job.read_ahead = false;
  --ahead_jobs_;
  ahead_bytes_ -= job.body_size;
}

/// Whether a body of so many bytes may be read ahead; lets go of old ones for it.
bool Broker::State::make_room_ahead(std::uint32_t bytes) {
  const auto is_stale = [this](const ReadAhead& entry) {
    return !jobs_.contains_index(entry.job) || jobs_[entry.job].id != entry.id ||
           !jobs_[entry.job].read_ahead;
  };
  constexpr std::size_t kFewEntries = 1'024;
  if (ahead_.size() > 2 * ahead_jobs_ + kFewEntries) std::erase_if(ahead_, is_stale);
  while (!ahead_.empty()) {
    const ReadAhead& oldest = ahead_.front();
    if (!is_stale(oldest)) {
      if (ahead_bytes_ + bytes <= options_.read_ahead_budget_bytes) break;
      if (now_ms_ - oldest.asked_ms < kKeepMs) return false;
      Job& job = jobs_[oldest.job];
      end_read_ahead(job);
      if (job.body && body_bytes_ > options_.body_budget_bytes) drop_body(job);
    }
    ahead_.pop_front();
  }
  return ahead_bytes_ + bytes <= options_.read_ahead_budget_bytes;
}

void Broker::State::check_read_ahead() const {
  std::size_t jobs = 0;
  std::size_t bytes = 0;
  jobs_.for_each([&](const Job& job) {
    if (!job.read_ahead) return;
    CARILLON_CHECK(job.state == JobState::kReady, "job ", job.id, " is read ahead and not ready");
    CARILLON_CHECK(job.body || fetches_.contains(job.id), "job ", job.id,
                   " is read ahead by nobody");
    ++jobs;
    bytes += job.body_size;
  });
  CARILLON_CHECK(jobs == ahead_jobs_ && bytes == ahead_bytes_, "read ahead: ", jobs, " jobs of ",
                 bytes, " bytes, not ", ahead_jobs_, " of ", ahead_bytes_);
  CARILLON_CHECK(bytes <= options_.read_ahead_budget_bytes, bytes, " bytes are read ahead");
  CARILLON_CHECK(ahead_.size() >= jobs, "read ahead: ", ahead_.size(), " entries for ", jobs);
}

}  // namespace carillon::broker
