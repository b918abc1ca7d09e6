// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Jobs that are put at given times and awaited: when each was put, acknowledged and reserved.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/server/load.h"

namespace carillon::bench {

inline constexpr int kSchedulePutters = 8;

/// Writes the number of a job into its body, and reads it.
void stamp_body(std::string& body, std::uint64_t sequence);
/// Throws BenchError if it is none below `jobs`.
[[nodiscard]] std::uint64_t sequence_of(std::string_view body, std::uint64_t jobs);

/// The plan of one run and what became of it, by the number of the job.
class Schedule final : public ReservationLog {
 public:
  /// Of `jobs` jobs, put evenly over `spread`, each with a delay of `delay_s`.
  Schedule(std::uint64_t jobs, Span spread, std::uint32_t delay_s);

  void begin_at(Instant instant) { begins_at_ = instant; }
  [[nodiscard]] std::uint64_t jobs() const { return jobs_; }
  [[nodiscard]] std::uint32_t delay_s() const { return delay_s_; }
  [[nodiscard]] Span delay() const { return std::chrono::seconds(delay_s_); }
  [[nodiscard]] Instant put_at(std::uint64_t sequence) const {
    return begins_at_ + interval_ * static_cast<Span::rep>(sequence);
  }

  void on_sent(std::uint64_t sequence, Instant now) { sent_at_[sequence] = now; }
  void on_acknowledged(std::uint64_t sequence, Instant now) { acknowledged_at_[sequence] = now; }
  void on_reserved(std::string_view body, Instant read_at) override;

  /// From when the put was sent, and from when it was acknowledged, in ns and ascending. The server
  /// took the job between the two, so the first is what the client sees and an upper bound.
  [[nodiscard]] std::vector<std::int64_t> lateness_from_sent() const {
    return lateness_from(sent_at_);
  }
  [[nodiscard]] std::vector<std::int64_t> lateness_from_acknowledged() const {
    return lateness_from(acknowledged_at_);
  }
  [[nodiscard]] Instant first_due() const;
  [[nodiscard]] Instant last_reserved() const;
  [[nodiscard]] std::uint64_t duplicates() const { return duplicates_; }

 private:
  [[nodiscard]] std::vector<std::int64_t> lateness_from(const std::vector<Instant>& since) const;

  std::uint64_t jobs_;
  Span interval_;
  std::uint32_t delay_s_;
  Instant begins_at_;
  std::uint64_t duplicates_ = 0;
  std::vector<Instant> sent_at_;
  std::vector<Instant> acknowledged_at_;
  std::vector<Instant> reserved_at_;
};

/// A connection that puts every kSchedulePutters-th job of a schedule, from `first` on, at its
/// time; where several go into one request, those that have come up while the last was unanswered.
[[nodiscard]] std::unique_ptr<Conversation> make_paced_putter(std::string_view peer,
                                                              Schedule& schedule,
                                                              std::uint64_t first);

/// Puts the whole schedule while `workers` wait, and runs until every job has been worked on.
LoadOutcome run_schedule(Schedule& schedule, int workers, std::string_view peer,
                         const ServerProcess& server);

}  // namespace carillon::bench
